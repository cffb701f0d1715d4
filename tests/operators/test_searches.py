"""Searches over the rows of an operator, with a search that notes what it is asked."""

from collections.abc import Sequence
from itertools import chain

import pyarrow as pa
import pytest

from flightllm.errors import CancelledError
from flightllm.functions.call import AICall
from flightllm.llm.engine import Parameters
from flightllm.observe.query_record import CallRecord
from flightllm.operators.call_context import LimitTracker
from flightllm.operators.searches import run_searches
from flightllm.plan.stages import StageCall

FOUND = pa.list_(pa.struct([("row", pa.int64()), ("score", pa.float32())]))


class Lengths:
    """Finds for a text as many rows as it has letters."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    most = 100

    def find(self, queries: pa.Array) -> pa.ListArray:
        """Find them."""
        self.asked.append(queries.to_pylist())
        return pa.array([[(row, 1.0) for row in range(len(text))] for text in queries.to_pylist()], FOUND)

    def values(self, found: pa.ListArray) -> pa.ListArray:
        """Return their numbers."""
        lists = [None if rows is None else [row["row"] for row in rows] for rows in found.to_pylist()]
        return pa.array(lists, pa.list_(pa.int64()))


def run(
    search: Lengths, texts: Sequence[str | None], tracker: LimitTracker, *, when: Sequence[bool | None] | None = None
) -> tuple[list[list[int] | None], CallRecord]:
    """Search for texts, which come in several batches, and return the answers, as many as `tracker` wants."""
    call = AICall(
        stub="s",
        function="vector_search",
        text="",
        instruction="",
        fields=("query",),
        required=frozenset([0]),
        parameters=Parameters(),
        output=pa.list_(pa.int64()),
        parse=str,
        on_error="fail",
    )
    needed = [True] * len(texts) if when is None else list(when)
    rows = pa.RecordBatch.from_arrays([pa.array(texts, pa.string()), pa.array(needed, pa.bool_())], ["text", "needed"])
    batches = [rows.slice(start, 3) for start in range(0, len(rows), 3)]
    schema = rows.schema.append(pa.field("a", call.output))
    record = CallRecord("vector_search", "")
    bound = StageCall(call, (0,), None if when is None else 1)
    answers: list[list[int] | None] = []
    for batch in run_searches([(bound, search, record)], batches, schema, tracker, lambda: False):
        assert batch.schema == schema
        answers += batch.column(2).to_pylist()
        if tracker.limited:
            tracker.add_rows(len(batch))
            if len(answers) >= 4:
                break
    return answers, record


def test_each_query_once() -> None:
    """Equal queries are searched for once, whatever batch they come in; NULL finds NULL; rows keep their order."""
    search = Lengths()
    answers, record = run(search, ["aa", "b", None, "aa", "", "b", "aa", "ccc"], LimitTracker())
    assert answers == [[0, 1], [0], None, [0, 1], [], [0], [0, 1], [0, 1, 2]]
    assert list(chain(*search.asked)) == ["aa", "b", "", "ccc"]
    counts = record.counts()
    assert (counts["rows"], counts["calls"], counts["distinct_prompts"], counts["prompts_expected"]) == (8, 4, 4, 4)


def test_only_rows_that_need_it() -> None:
    """A row whose condition is false or NULL is not searched for."""
    search = Lengths()
    answers, _ = run(search, ["a", "b", "c", "dd"], LimitTracker(), when=[False, True, None, True])
    assert answers == [None, [0], None, [0, 1]]
    assert list(chain(*search.asked)) == ["b", "dd"]


def test_no_more_than_a_limit_needs() -> None:
    """Under a LIMIT few rows are answered at a time."""
    texts = ["a" * number for number in range(5_000)]
    search = Lengths()
    answers, record = run(search, texts, LimitTracker(4))
    assert [len(answer or ()) for answer in answers[:4]] == [0, 1, 2, 3]
    assert record.counts()["rows"] < 100


def test_many_queries() -> None:
    """Queries of more than one search come together again; nothing is answered of no rows."""
    texts = [str(number % 3_000) for number in range(7_000)]
    search = Lengths()
    answers, _ = run(search, texts, LimitTracker())
    assert [len(answer or ()) for answer in answers] == [len(text) for text in texts]
    assert len(list(chain(*search.asked))) == 3_000
    assert run(search, [], LimitTracker())[0] == []


def test_cancelled() -> None:
    """A cancelled query is not searched for."""
    schema = pa.schema([("text", pa.string())])
    rows = pa.RecordBatch.from_arrays([pa.array(["a"])], schema=schema)
    with pytest.raises(CancelledError):
        list(run_searches([], [rows], schema, LimitTracker(), lambda: True))
