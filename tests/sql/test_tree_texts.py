"""Each text of the tests means the same after it was parsed to a tree and printed."""

from collections.abc import Iterator, Sequence

import pytest

from flightllm.config.session_settings import Settings
from flightllm.datafusion.errors import panics_mapped
from flightllm.errors import FlightLLMError
from flightllm.execution.bind import extract, frame_of
from flightllm.plan.planner import register_stubs
from flightllm.session.database import Database
from flightllm.sql.calls import Extracted
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.tree import parse
from tests.databases import SAMPLES, small_database
from tests.sql.texts import texts

TABLES = (
    "CREATE TABLE t AS SELECT 1 AS a, 2 AS b, 'x' AS s, 3 AS x, 4 AS i, 5 AS id, 6 AS c, 7 AS k, 'v' AS v, 'n' AS note",
    "CREATE TABLE s AS SELECT 1 AS k, 2 AS j, 'w' AS w, 1 AS id",
    "CREATE TABLE notes AS SELECT 1 AS id, 'x' AS text, 'y' AS body, 'n' AS note",
)
TRIES = 10
"""How often two plans are compared: DataFusion adds the columns that only ORDER BY reads in any order."""
EVERY = 24
"""One text of this number is checked if slow tests are not run."""


class Planner:
    """Plans queries of one database."""

    def __init__(self, database: Database) -> None:
        self._session = database.session()
        self._services = database._services
        self._context = self._services.catalog.context(planning=True)

    def query(self, sql: str) -> str | None:
        """Return the query of a statement as DataFusion reads it; None if the server refuses the statement."""
        try:
            return self._session._reader.statement(sql, Settings()).query
        except FlightLLMError:
            return None

    def plan(self, sql: str) -> str:
        """Return DataFusion's plan of a query, with the name and the type of each column."""
        text = ParsedText(sql)
        called = self._services.functions.may_be_in(sql)
        extracted = extract(text, self._services)[0] if called else Extracted(sql, {})
        register_stubs(self._context, extracted.calls)
        return str(frame_of(self._context, extracted).logical_plan().display_indent_schema())

    def outcome(self, sql: str) -> str | None:
        """Return the plan of a query, or None for a query that cannot be planned."""
        try:
            with panics_mapped():
                return self.plan(sql)
        except FlightLLMError:
            return None


@pytest.fixture(scope="module")
def planner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planner]:
    """Return a planner over samples, the small tables, and tables with columns that many texts name."""
    database = small_database(tmp_path_factory.mktemp("texts"), tables=SAMPLES)
    session = database.session()
    for table in TABLES:
        session.update(table)
    yield Planner(database)
    database.close()


def differing(planner: Planner, chosen: Sequence[str]) -> tuple[int, list[str]]:
    """Return the number of texts that have a plan, and those that have another plan once they are printed."""
    count, found = 0, list[str]()
    for sql in chosen:
        query = planner.query(sql)
        before = None if query is None else planner.outcome(query)
        if query is None or before is None:
            continue
        tree = parse(ParsedText(query))
        if tree is None:
            continue
        count += 1
        printed = tree.printed()
        if not any(planner.outcome(printed) == planner.outcome(query) for _ in range(TRIES)):
            found.append(query)
    return count, found


def test_some_printed_texts_have_the_same_plan(planner: Planner) -> None:
    """One text in 24 keeps its plan, its names and its types."""
    count, found = differing(planner, texts()[::EVERY])
    assert found == []
    assert count > 1_000 / EVERY


@pytest.mark.slow
def test_all_printed_texts_have_the_same_plan(planner: Planner) -> None:
    """All texts of the tests keep their plans, names and types."""
    count, found = differing(planner, texts())
    assert found == []
    assert count > 1_000
