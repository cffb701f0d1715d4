"""Sessions note what they plan and run, and let go of what ended well."""

import os
import time
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pyarrow as pa
import pytest

from flightllm.config import Config, EngineConfig
from flightllm.errors import CancelledError, QuarantinedError, SqlError
from flightllm.recovery.journal import Journal, Noted, Phase, create_journal
from flightllm.recovery.quarantine import Quarantine, Refused, digest_of
from flightllm.recovery.watch import Watch
from flightllm.session.database import Database
from tests.databases import SMALL, ask

SELECT = "SELECT count(*) AS n FROM people"


@pytest.fixture
def journal() -> Iterator[Journal]:
    """Make a journal."""
    descriptor = create_journal()
    yield Journal(descriptor)
    os.close(descriptor)


@pytest.fixture
def database(tmp_path: Path, journal: Journal) -> Iterator[Database]:
    """Open a database that notes its statements there, with the small tables."""
    with closing(Database.open(Config(engine=EngineConfig("fake"), data_folder=tmp_path), watch=Watch(journal))) as one:
        for statement in SMALL:
            one.session().update(statement)
        yield one


def test_a_query_is_noted_while_it_runs(database: Database, journal: Journal) -> None:
    """A planned query is in flight from its first row on, under its id, and harmless once it has ended."""
    result = database.session().execute("SELECT id FROM people")
    assert journal.take() == []
    next(result.batches)
    [noted] = journal.take()
    assert (noted.text, noted.query_id) == ("SELECT id FROM people", result.query.query_id)
    assert noted.phase is Phase.RUNNING
    assert not journal.is_harmless(noted.digest)
    assert list(result.batches) == []
    assert journal.is_harmless(noted.digest)
    assert journal.take() == []


def test_changes_are_noted(journal: Journal, database: Database) -> None:
    """What changes tables is harmless once it has ended."""
    assert journal.is_harmless(digest_of(SMALL[0]))
    with pytest.raises(SqlError):
        database.session().update("CREATE TABLE wrong AS SELECT nope FROM people")
    assert not journal.is_harmless(digest_of("CREATE TABLE wrong AS SELECT nope FROM people"))
    assert journal.take() == []


def test_what_does_not_end_well_is_let_go(database: Database, journal: Journal) -> None:
    """A query that is closed, cancelled or wrong is in flight no longer, and not known as harmless."""
    session = database.session()
    closed = session.execute("SELECT name FROM people")
    next(closed.batches)
    closed.batches.close()
    cancelled = session.execute(SELECT)
    cancelled.query.cancel()
    with pytest.raises(CancelledError):
        list(cancelled.batches)
    with pytest.raises(SqlError):
        ask(session, "SELECT nope FROM people")
    with pytest.raises(SqlError):
        session.describe("SELECT nope FROM people WHERE id = ?")
    assert journal.take() == []
    assert not any(journal.is_harmless(digest_of(sql)) for sql in ("SELECT name FROM people", SELECT))


def test_uploads_are_noted(journal: Journal, database: Database) -> None:
    """An upload is in flight while its rows come, and harmless once it has ended."""
    batch, noted = pa.record_batch({"a": [1]}), list[Noted]()

    def rows() -> Iterator[pa.RecordBatch]:
        noted.extend(journal.take())
        yield batch

    database.session().ingest("up", rows(), batch.schema, "create")
    assert [one.text.startswith("INGEST INTO up") for one in noted] == [True]
    assert journal.is_harmless(noted[0].digest)
    assert journal.take() == []


def test_plans_are_refused_where_they_are_described(journal: Journal, tmp_path: Path) -> None:
    """A Substrait plan in quarantine is not even planned, for its schema or for its rows."""
    noted = f"Substrait plan of 1 bytes, {sha256(b'x').hexdigest()}"
    refused = Refused(digest_of(noted), noted, "", time.monotonic() + 60)
    watch = Watch(journal, Quarantine([refused]))
    with closing(Database.open(Config(engine=EngineConfig("fake"), data_folder=tmp_path / "new"), watch=watch)) as one:
        for plan in (one.session().describe_plan, one.session().execute_plan):
            with pytest.raises(QuarantinedError):
                plan(b"x")


def test_a_noted_statement_has_no_secret(journal: Journal) -> None:
    """The journal, which the supervisor reads and logs, holds the text of a statement without its secrets."""
    watch, secret = Watch(journal), "canary-in-a-journal"
    for sql in (f"CREATE MODEL m OPTIONS (api_key '{secret}')", f"SELECT * FROM 'http://me:{secret}@h/{'x' * 900}'"):
        with watch.changing(sql, "1"):
            (noted,) = journal.take()
        assert secret not in noted.text
        assert noted.text.startswith(sql[:12])
        assert noted.digest == digest_of(sql)
