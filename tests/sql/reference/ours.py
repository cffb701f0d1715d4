"""The answers of this database to the texts, and how they compare with those of PostgreSQL."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal

import pyarrow as pa

from flightllm.errors import FlightLLMError
from flightllm.session.session import Session
from tests.databases import open_database
from tests.sql.reference.answers import DIFFERENCES, Given, Same, Text, changed_table, difference, shown, steps
from tests.sql.reference.tables import TABLES
from tests.sql.reference.values import arrow_cells, arrow_family, equal

Outcome = Literal["same", "refused", "wrong", "accepted", "crashed"]
"""`accepted`: PostgreSQL refuses the text, and here it has rows; `crashed`: an error that tells users nothing."""
_CRASHES: Final = ("panicked", "Internal error", "Assertion failed", "(non-executable) plan", "Traceback")


@contextmanager
def our_session() -> Iterator[Session]:
    """Open a database that has the tables of the texts."""
    with TemporaryDirectory() as folder:
        database = open_database(Path(folder))
        session = database.session()
        try:
            for statements in TABLES.values():
                for statement in statements:
                    session.update(statement)
            yield session
        finally:
            database.close()


def outcome(session: Session, wanted: Text, same: Same = equal) -> tuple[Outcome, str]:
    """Run a text; return how its answer compares with the one that is wanted, and in words why."""
    try:
        found = _answer(session, wanted.sql)
    except FlightLLMError as error:
        why = f"{type(error).__name__}: {error}"
        if any(crash in str(error) for crash in _CRASHES):
            return "crashed", why
        return ("same", "") if wanted.given.error else ("refused", why)
    except Exception as error:  # noqa: BLE001 - what is no error of the product is a finding
        return "crashed", f"{type(error).__name__}: {error}"
    if wanted.given.error:
        return "accepted", f"{wanted.given.error}\n found:\n{shown(found)}"
    problem = difference(found, wanted, same)
    return ("wrong", f"{problem}\n wanted:\n{shown(wanted)}\n found:\n{shown(found)}") if problem else ("same", "")


def _answer(session: Session, sql: str) -> Text:
    table = changed_table(sql)
    if table is None:
        return Text(sql, _queried(session, sql))
    changed = True
    try:
        if " RETURNING " in sql:
            done = session.update_returning(sql)
            count, given = done.affected, _given(done.rows)
        else:
            count, given = session.update(sql), Given()
        changed = count != 0 or sql.startswith("TRUNCATE")  # counts no rows
        return Text(sql, given, count, _queried(session, steps(sql)[1]))
    finally:
        if changed:
            session.update(f"DROP TABLE {table}")
            for statement in TABLES[table]:
                session.update(statement)


def _queried(session: Session, sql: str) -> Given:
    result = session.execute(sql)
    return _given(pa.Table.from_batches(list(result.batches), result.schema))


def _given(table: pa.Table) -> Given:
    columns = tuple((field.name, arrow_family(field.type)) for field in table.schema)
    cells = [arrow_cells(column) for column in table.columns]
    return Given(columns, tuple(zip(*cells, strict=True)))


def listed() -> dict[tuple[str, str], str]:
    """Return the listed outcome of each text that differs, by kind of texts and text."""
    lines = (line.split(" | ", 2) for line in DIFFERENCES.read_text(encoding="utf-8").splitlines())
    return {(kind, sql): outcome for outcome, kind, sql in lines}


def written_list(outcomes: Sequence[tuple[str, str, str]]) -> str:
    """Return the list of differences from (outcome, kind of texts, text)."""
    return "".join(f"{' | '.join(one)}\n" for one in outcomes)
