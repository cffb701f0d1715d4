"""Which AI calls are read as numbers: those that an aggregate of numbers takes."""

import pytest

from flightllm.functions import FunctionRegistry
from flightllm.functions.bind import AnyNames
from flightllm.plan.bounds.functions import AGGREGATES as BOUNDED
from flightllm.sql.aggregates import AGGREGATES
from flightllm.sql.calls import extract_calls
from flightllm.sql.parsed_text import ParsedText

REGISTRY = FunctionRegistry.load()
TABLES: dict[str, list[str]] = {}


@pytest.mark.parametrize(
    ("expression", "types"),
    [
        ("avg(llm('x', a))", ["double"]),
        ("SUM(DISTINCT llm('x', a)) OVER (ORDER BY b)", ["double"]),
        ("median(llm('x', a)) FILTER (WHERE b)", ["double"]),
        ("corr(b, llm('x', a)) + corr(llm('x', a), b)", ["double"]),
        ("avg(CAST(llm('x', a) AS DOUBLE PRECISION))", ["double"]),
        ("avg(llm('x', a)::decimal(10, 2))", ["double"]),
        ("sum(CAST(llm('x', a) AS INT))", ["int64"]),
        ("avg(ai_classify(a, ['1', '2']))", ["double"]),
        ("avg(llm('x', llm('y', a)))", ["string", "double"]),
        ("min(llm('x', a)) || max(llm('x', a)) || count(llm('x', a))", ["string"]),
        ("avg(TRY_CAST(llm('x', a) AS DOUBLE))", ["string"]),
        ("avg(length(llm('x', a)))", ["string"]),
        ("avg(CASE WHEN b THEN llm('x', a) END)", ["string"]),
        ("s.avg(llm('x', a))", ["string"]),
        ("avg(llm('x', a) || '0')", ["string"]),
        ("avg(CAST(llm('x', a) AS TEXT))", ["string"]),
        ("avg(llm('x', a, on_error => 'struct'))", ["struct<value: string, error: string>"]),
        ("avg(ai_score('x', a))", ["double"]),
    ],
)
def test_types(expression: str, types: list[str]) -> None:
    """A text call that is the whole argument, or that a cast makes a number of, is a number; any other stays a text."""
    found = extract_calls(ParsedText(f"SELECT {expression} FROM t"), REGISTRY, TABLES.__getitem__, names=AnyNames())
    assert [str(call.type) for call in found.calls.values()] == types


def test_all_aggregates_are_known() -> None:
    """The aggregates that the dialect tells apart are those whose results have a bound."""
    assert set(BOUNDED) == AGGREGATES
