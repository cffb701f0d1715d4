"""`array_remove` and `array_replace` change all equal elements."""

import pytest

from flightllm.session.session import Session
from tests.databases import rows


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        ("array_remove(make_array(1, 2, 2), 2)", [1]),
        ("array_remove(make_array(1, NULL, 2), NULL)", [1, 2]),
        ("array_remove(make_array(1, NULL, 2), nullif(1, 1))", [1, 2]),
        ("array_remove(make_array(1, NULL, 2), 1 + 1)", [1, None]),
        ("array_replace(make_array(2, 1, 2), 2, 7)", [7, 1, 7]),
        ("array_replace(make_array(NULL, 1, NULL), NULL, 7)", [7, 1, 7]),
    ],
)
def test_values(session: Session, call: str, wanted: list[int | None]) -> None:
    """A value, a NULL, and the result of an expression are removed or replaced everywhere."""
    assert rows(session, f"SELECT {call} AS l") == [{"l": wanted}]
