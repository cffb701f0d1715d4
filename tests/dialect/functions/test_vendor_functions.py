"""Functions of other vendors over typed columns have their vendors' values."""

import importlib
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from flightllm.errors import FlightLLMError
from flightllm.session.session import Session
from tests.databases import ask, small_database
from tests.dialect.functions.snowflake import STATEMENTS
from tests.dialect.functions.tables import CREATE, NUMBERS, is_same

DIALECTS = ("snowflake", "bigquery", "databricks", "duckdb", "postgres", "spark")
"""The dialects that have a file of functions here."""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Open the typed table."""
    database = small_database(tmp_path_factory.mktemp("vendors"))
    session = database.session()
    session.update(CREATE)
    session.update(NUMBERS)
    yield session
    database.close()


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


@pytest.mark.parametrize(
    ("dialect", "listed"),
    [*((one, one) for one in DIALECTS), pytest.param("bigquery", "bigquery_odd", marks=pytest.mark.slow)],
)
def test_values(session: Session, dialect: str, listed: str) -> None:
    """No value differs from the vendor's, at least 95 of 100 functions run, and others say what to write."""
    module = importlib.import_module(f"tests.dialect.functions.{listed}")
    wrong, refused, total = list[str](), list[str](), 0
    for table, cases in (("typed", module.ROWS), ("many", module.AGGREGATES)):
        found = _found(session, dialect, [case[0] for case in cases], table)
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
    assert total >= 120
