"""Each line that an error says to write runs in the dialect that it is written in."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from flightllm.dialect.generator.lines import LINES, line_for
from flightllm.dialect.transpiling import DIALECTS, transpile
from flightllm.errors import FlightLLMError
from flightllm.session.database import Database
from tests.databases import ask, small_database
from tests.dialect.places import EMPTY

_ARGUMENTS = ("a", "a, b", "a, b, c", "", "a, b, c, d", "a, 'YYYY'")


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Return a database with the columns that the lines read."""
    folder: Path = tmp_path_factory.mktemp("lines")
    opened = small_database(folder)
    opened.session().update(
        "CREATE TABLE t AS SELECT 'ab' AS text, 'a' AS pattern, 1 AS value, DATE '2024-03-05' AS day,"
        " TIMESTAMP '2024-03-05 10:11:12' AS t, '{\"name\": 1}' AS json, [1, 3, 2] AS list"
    )
    yield opened
    opened.close()


@cache
def _refusals(name: str, dialect: str) -> list[str]:
    """Return the errors of a function without a counterpart, with each number of arguments."""
    said = []
    for given in _ARGUMENTS:
        try:
            transpile(f"SELECT {name}({given}) AS x FROM t", dialect, EMPTY)
        except FlightLLMError as error:
            said.append(str(error))
    return said


def _run(database: Database, line: str, dialect: str) -> None:
    text = line.removesuffix(", with no format")
    ask(database.session(), text if text.startswith("SELECT") else f"SELECT {text} AS x FROM t", dialect=dialect)


@pytest.mark.parametrize(
    ("dialect", "name"),
    [("snowflake", "ARRAY_SUM"), ("bigquery", "HOUR"), ("databricks", "JSON_OBJECT"), ("spark", "APPROX_TOP_K")],
)
def test_a_line_runs(database: Database, dialect: str, name: str) -> None:
    """The error of a refused function has a line, and the line runs."""
    assert f"{name} of {dialect} has no counterpart here: write {LINES[name]}" in _refusals(name, dialect)
    _run(database, LINES[name], dialect)


@pytest.mark.parametrize("dialect", ["snowflake", "bigquery", "databricks", "spark"])
def test_uuids(database: Database, dialect: str) -> None:
    """Each dialect has a name of its own for a UUID."""
    _run(database, line_for("GEN_RANDOM_UUID", dialect).removeprefix("write "), dialect)


@pytest.mark.slow
@pytest.mark.parametrize("dialect", DIALECTS)
def test_lines_run(database: Database, dialect: str) -> None:
    """Each line runs in each dialect that refuses its function."""
    for name, line in LINES.items():
        if any(said.endswith(f"here: write {line}") for said in _refusals(name, dialect)):
            _run(database, line, dialect)


@pytest.mark.slow
def test_each_line_is_said() -> None:
    """Each line is in the error of some dialect, so that the test above runs it."""
    said = {one for name in LINES for dialect in DIALECTS for one in _refusals(name, dialect)}
    shown = {(name, one.partition("here: write ")[2]) for name in LINES for one in said if one.startswith(f"{name} of")}
    assert set(LINES.items()) <= shown
