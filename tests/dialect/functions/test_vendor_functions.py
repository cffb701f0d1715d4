"""Functions of other vendors over typed columns have their vendors' values."""

import importlib
from collections.abc import Sequence
from typing import Any

import pytest

from flightllm.dialect.transpiling import transpile
from flightllm.errors import FlightLLMError
from flightllm.session.session import Session
from tests.databases import ask
from tests.dialect.functions.snowflake import STATEMENTS
from tests.dialect.functions.tables import is_same
from tests.dialect.places import EMPTY

DIALECTS = ("snowflake", "bigquery", "databricks", "duckdb", "postgres", "spark")
"""The dialects that have a file of functions here."""
_TOGETHER = 40
"""The columns of one query: a plan takes longer than its columns do apart."""


def _cases(dialect: str) -> list[tuple[str, list[tuple[Any, ...]]]]:
    """Return the tables with the cases of a dialect."""
    module = importlib.import_module(f"tests.dialect.functions.{dialect}")
    return [("typed", module.ROWS), ("many", module.AGGREGATES)]


def _found(session: Session, dialect: str, expressions: Sequence[str], table: str) -> list[Any]:
    """Return the values of each expression in all rows, or the error of one that is refused."""
    items = ", ".join(f"{text} AS c{place}" for place, text in enumerate(expressions))
    order = " ORDER BY id NULLS LAST" if table == "typed" else ""
    try:
        rows = ask(session, f"SELECT {items} FROM {table}{order}", dialect=dialect).rows
    except FlightLLMError as error:
        if len(expressions) == 1:
            return [error]
        middle = len(expressions) // 2
        halves = (expressions[:middle], expressions[middle:])
        return [one for half in halves for one in _found(session, dialect, half, table)]
    return [[row[f"c{place}"] for row in rows] for place in range(len(expressions))]


@pytest.mark.parametrize(("sql", "rows"), STATEMENTS)
def test_statements_of_snowflake(session: Session, sql: str, rows: list[tuple[Any, ...]]) -> None:
    """A query in Snowflake's dialect has the rows of its documentation."""
    found = [tuple(row.values()) for row in ask(session, sql, dialect="snowflake").rows]
    assert [list(row) for row in found] == [pytest.approx(list(row)) for row in rows]


def test_databricks_reads_as_spark(session: Session) -> None:
    """Databricks' texts are rewritten as Spark's are; the few others have the same values."""
    for table, cases in _cases("spark"):
        others = [case for case in cases if _rewritten(case[0], "databricks") != _rewritten(case[0], "spark")]
        found = _found(session, "databricks", [case[0] for case in others], table)
        assert all(is_same(values[: len(case) - 1], list(case[1:])) for case, values in zip(others, found, strict=True))
        assert len(others) < 20


def _rewritten(text: str, dialect: str) -> str:
    try:
        return transpile(f"SELECT {text} AS c FROM t", dialect, EMPTY).text
    except FlightLLMError as error:
        return str(error).replace(dialect, "")


@pytest.mark.parametrize(
    ("dialect", "listed"),
    [
        *((one, one) for one in DIALECTS),
        pytest.param("bigquery", "bigquery_odd", marks=pytest.mark.slow),
        pytest.param("databricks", "spark", marks=pytest.mark.slow),
    ],
)
def test_values(session: Session, dialect: str, listed: str) -> None:
    """No value differs from the vendor's, at least 95 of 100 functions run, and others say what to write."""
    wrong, refused, total = list[str](), list[str](), 0
    for table, cases in _cases(listed):
        texts = [case[0] for case in cases]
        found = [
            one
            for start in range(0, len(texts), _TOGETHER)
            for one in _found(session, dialect, texts[start : start + _TOGETHER], table)
        ]
        for (text, *expected), values in zip(cases, found, strict=True):
            total += 1
            wanted = expected if table == "many" else [*expected, None][:2]
            if isinstance(values, FlightLLMError):
                refused.append(f"{text}: {values}")
            elif not is_same(values, wanted):
                wrong.append(f"{text}: {values}, and the vendor has {wanted}")
    assert not wrong, "\n".join(wrong)
    unhelpful = [one for one in refused if "write" not in one]
    assert not unhelpful, "\n".join(unhelpful)
    assert len(refused) <= total * 0.05, "\n".join(refused)
    assert total >= 120 or listed == "databricks"
