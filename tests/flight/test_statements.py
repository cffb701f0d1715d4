"""A planned query that is fetched, again and again, and cancelled."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from flightllm.common.principal import LOCAL
from flightllm.errors import InvalidInputError
from flightllm.flight.sequence import Sequence
from flightllm.flight.statements import Cancelled, FlightStatement


class _Counted(FlightStatement):
    """A statement that tells how many queries it holds."""

    @property
    def held(self) -> int:
        """Return how many."""
        return len(self._running)


def test_queries_that_ended_are_let_go(database: Any) -> None:
    """A ticket fetched a hundred times holds the queries that run, and cancelling it stops these."""
    session = database.session(LOCAL)
    statement = _Counted(session, "SELECT 1 AS a", None, {})
    statement.plan()
    for _ in range(100):
        result = statement.take()
        list(result.batches)
    assert statement.held == 1
    first, second = statement.take(), statement.take()
    assert statement.held == 2
    assert statement.cancel() is Cancelled.CANCELLING
    assert first.query.stopped
    assert second.query.stopped


def test_a_sequence_is_not_done_between_its_queries(support: Any) -> None:
    """The status of a query for several rows of parameters is `done` after the last of them only."""
    schema = pa.schema([("a", pa.int64())])
    seen: list[str] = []

    def execute(row: pa.RecordBatch) -> Any:
        if seen:
            seen.append(sequence.progress()["status"])
        record = support.Record()

        def batches() -> Iterator[pa.RecordBatch]:
            yield row
            record.closed.set()

        seen.append("planned")
        return support.Result(schema, batches(), record)

    sequence = Sequence(execute, [pa.record_batch({"a": [i]}, schema=schema) for i in range(3)])
    assert len(list(sequence)) == 3
    assert seen == ["planned", "running", "planned", "running", "planned"]
    assert sequence.progress()["status"] == "done"


@pytest.mark.parametrize("names", [(), ("a", "$1 + 1"), ("a", "NULL + 1")], ids=["untold", "numbered", "stand-in"])
@pytest.mark.parametrize(("name", "kind"), [("a", pa.int64()), ("b", pa.int64()), ("a", pa.string())])
def test_a_sequence_has_the_columns_of_its_first_query(
    support: Any, names: tuple[str, ...], name: str, kind: pa.DataType
) -> None:
    """A later row whose columns are others ends it; names that only have another value in them do not."""
    results: list[Any] = []

    def execute(row: pa.RecordBatch) -> Any:
        fields = [("a", pa.int64()) if not results else (name, kind), (f"{row['p'][0]} + 1", pa.int64())]
        empty = pa.RecordBatch.from_pylist([], schema=pa.schema(fields))
        results.append(support.Result(empty.schema, iter([empty]), support.Record()))
        return results[-1]

    sequence = Sequence(execute, [pa.record_batch({"p": [i]}) for i in range(2)], names)
    assert next(sequence).schema == sequence.schema
    if kind == pa.string() or (name == "b" and names):
        with pytest.raises(InvalidInputError, match="run the query again"):
            next(sequence)
    else:
        assert next(sequence).schema.names == [name, "1 + 1"]


class _Million:
    """A million rows of parameters, which are made when they are asked for."""

    num_rows = 1_000_000

    def __init__(self) -> None:
        self.made = 0

    def to_batches(self) -> list["_Million"]:
        """Return itself."""
        return [self]

    def slice(self, start: int, length: int) -> pa.RecordBatch:
        """Return some rows."""
        self.made += length
        return pa.record_batch({"0": range(start, start + length)})


def test_rows_are_taken_when_their_turn_comes(database: Any) -> None:
    """A query for a million rows of parameters holds the next of them, not the million."""
    rows = _Million()
    result = FlightStatement(database.session(LOCAL), "SELECT ? AS a", rows, {}).plan()
    assert [next(result.batches)["a"].to_pylist() for _ in range(3)] == [[0], [1], [2]]
    assert rows.made == 4
