"""Calls over sets in an operator: which values a method gets, and which row gets which answer."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa
import pytest

from flightllm.errors import AnswerError, InternalError
from flightllm.functions import AIFunction, Answer, Arguments, Kind, Parameter, SetAnswer, SetQuestion, text_answer
from flightllm.functions.bind import AnyNames, Argument, Expression, bind_call
from flightllm.functions.call import AICall
from flightllm.observe.query_record import CallRecord
from flightllm.operators.call_context import LimitTracker
from flightllm.operators.sets.asker import Asker
from flightllm.operators.sets.base import Failure, SetValues
from flightllm.operators.sets.run import answered_sets, run_set
from flightllm.plan.stages import StageCall

SEEN: list[SetValues] = []
"""The values that the method of the tests got."""


def answers(values: SetValues, asker: Asker) -> Sequence[Any]:
    """Answer with the weight of each value; `bad` fails, and `none` has no answer."""
    del asker
    SEEN.append(values)
    found = zip(values.tuples, values.weights.tolist(), strict=True)
    return [_answer(str(texts[0]), weight) for texts, weight in found]


def _answer(text: str, weight: int) -> Any:
    return Failure("it is bad") if text == "bad" else None if text == "none" else f"{text} {weight}"


@pytest.fixture(autouse=True)
def _method(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the method `test` be the function above."""
    SEEN.clear()
    monkeypatch.setattr("flightllm.operators.sets.run.runner_of", lambda _: answers)


def call(*, whole: bool = True, on_error: str = "null") -> AICall:
    """Return a call over one column."""

    def build(given: Arguments) -> Answer:
        del given
        over = SetAnswer("test", {"one": SetQuestion(text_answer("Say it"), ("text",))}, whole=whole)
        answer = text_answer("unused")
        return Answer(answer.instruction, answer.output, answer.parse, over=over)

    function = AIFunction(
        name="ai_test", summary="", returns="text", parameters=(Parameter("text", Kind.FIELD),), build=build
    )
    names = AnyNames()
    names.on_error = on_error
    return bind_call(function, "ai_test", [Argument((Expression("t"),))], "ai_test(t)", names).call


def record() -> CallRecord:
    """Return the counters of a call."""
    return CallRecord("ai_test", "ai_test(t)")


class Nothing:
    """A query whose method asks nothing."""

    bindings: dict[str, Any] = {}  # noqa: RUF012 - no test changes it
    settings = None

    @staticmethod
    def cancelled() -> bool:
        """Return that the query was not cancelled."""
        return False

    @staticmethod
    def warn(text: str) -> None:
        """Refuse every warning."""
        raise AssertionError(text)

    @staticmethod
    def proxy_counters(operator: str, call: AICall, binding: str) -> CallRecord:
        """Refuse every proxy."""
        raise AssertionError(operator, call, binding)


def run(
    asked: AICall, texts: Sequence[str | None], when: Sequence[bool] | None = None, limit: int | None = None
) -> Iterator[Any]:
    """Return the answers of rows in batches of three."""
    columns = {"t": pa.array(texts, pa.string())}
    if when is not None:
        columns["when"] = pa.array(when)
    table = pa.table(columns)
    schema = table.schema.append(pa.field("a", asked.type))
    stage = StageCall(asked, (0,), None if when is None else 1)
    rows = table.to_batches(max_chunksize=3)
    tracker = LimitTracker(limit)
    for batch in run_set(stage, lambda: rows, schema, Nothing(), record(), tracker):  # type: ignore[arg-type]
        yield from batch.column(len(columns)).to_pylist()
        tracker.add_rows(batch.num_rows)


def test_each_row_has_the_answer_of_its_value() -> None:
    """The method gets each distinct value once with its rows; NULL needs no answer."""
    assert list(run(call(), ["a", "b", "a", None, "b", "a"])) == ["a 3", "b 2", "a 3", None, "b 2", "a 3"]
    (values,) = SEEN
    assert sorted(values.tuples) == [("a",), ("b",)]


def test_the_order_of_rows_decides_nothing() -> None:
    """The method gets the values in the same order, whichever row comes first."""
    texts = [f"text {number}" for number in range(20)]
    list(run(call(), texts))
    list(run(call(), texts[::-1]))
    first, second = SEEN
    assert first.tuples == second.tuples != [(text,) for text in texts]


def test_guards_and_failures() -> None:
    """A row that its guard leaves out has NULL, as a failure has; the method's None is no failure."""
    assert list(run(call(), ["a", "bad", "none", "a"], [False, True, True, True])) == [None, None, None, "a 1"]
    told = list(run(call(on_error="struct"), ["bad", "a", "none"]))
    assert told == [{"value": None, "error": "it is bad"}, {"value": "a 1", "error": None}, None]
    with pytest.raises(AnswerError, match="it is bad"):
        list(run(call(on_error="fail"), ["bad"]))


def test_a_limit_takes_some_sets() -> None:
    """Where each value is a set, a LIMIT takes some at a time; where all rows are one set, it takes all."""
    texts = [f"text {number}" for number in range(60)]
    assert len(list(islice(run(call(whole=False), texts, limit=3), 3))) == 3
    assert sum(len(values.tuples) for values in SEEN) < 30
    SEEN.clear()
    assert len(list(islice(run(call(), texts, limit=3), 3))) == 3
    assert sum(len(values.tuples) for values in SEEN) == 60


def test_no_rows() -> None:
    """Without rows nothing is asked."""
    assert list(run(call(), [])) == []


def test_columns_in_one_piece() -> None:
    """A batch function answers a column; it cannot answer for a set of all rows."""
    column = (pa.array(["b", None, "a", "b"]),)
    found = answered_sets(call(whole=False), column, Nothing(), record())
    assert found.to_pylist() == ["b 2", None, "a 1", "b 2"]
    with pytest.raises(InternalError, match="needs all rows"):
        answered_sets(call(), column, Nothing(), record())
