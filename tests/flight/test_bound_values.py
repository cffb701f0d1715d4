"""Values bound to prepared statements share one bound, and who has most of them makes room."""

from typing import Any

import pyarrow as pa
import pytest

from flightllm.common.principal import Principal
from flightllm.errors import BusyError
from flightllm.flight.bound_values import BoundValues
from flightllm.flight.statements import Prepared


@pytest.fixture
def statement(database: Any) -> Any:
    """Return a function that prepares a statement for a user, and keeps it."""
    kept: list[Prepared] = []

    def prepare(user: str) -> Prepared:
        session = database.session(Principal(user, "user"))
        kept.append(Prepared(session, "SELECT ? AS a", session.describe("SELECT ? AS a")))
        return kept[-1]

    return prepare


def _values(size: int) -> pa.Table:
    return pa.table({"0": pa.array(range(size), pa.uint8())})


def test_who_has_most_makes_room(statement: Any) -> None:
    """A user's new values drop the oldest of who has most, which may be their own, and never those of others."""
    bound = BoundValues(100)
    assert bound.bind(b"d1", statement("dave"), _values(20)) == []
    assert bound.bind(b"c1", statement("carol"), _values(40)) == []
    assert bound.bind(b"c2", statement("carol"), _values(30)) == []
    assert bound.bind(b"c3", statement("carol"), _values(70)) == [b"c1", b"c2"]
    assert bound.bind(b"d2", statement("dave"), _values(20)) == [b"c3"]
    assert bound.bind(b"d3", statement("dave"), _values(90)) == [b"d1", b"d2"]


def test_values_that_others_leave_no_room_for(statement: Any) -> None:
    """Who would have most by one statement alone is refused, and keeps what was bound to it before."""
    bound, mine, others = BoundValues(100), statement("carol"), statement("dave")
    bound.bind(b"d1", others, _values(50))
    bound.bind(b"c1", mine, _values(30))
    with pytest.raises(BusyError, match=r"have 60 bytes, and other users hold 50.*\[limits\] upload_bytes = 100"):
        bound.bind(b"c1", mine, _values(60))
    assert mine.parameters.num_rows == 30
    assert bound.bind(b"c2", statement("carol"), _values(20)) == []
    bound.forget(others)
    assert bound.bind(b"c1", mine, _values(80)) == []
    assert bound.bind(b"c1", mine, None) == []
    assert mine.parameters is None
    assert bound.bind(b"c3", statement("carol"), _values(200)) == [b"c2"]
