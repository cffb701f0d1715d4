"""Row filters and column masks: whoever they hold for sees the restricted table wherever a query can name it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flightllm.access.store import User
from flightllm.common.names import STORED_SUFFIX
from flightllm.errors import FlightLLMError, InvalidInputError, NotFoundError, PermissionDeniedError, SqlError
from flightllm.execution.plan_texts import without_sizes
from flightllm.session.database import Database
from flightllm.session.session import Session
from flightllm.sql.grants import AccessPolicy
from tests.databases import ask, canonical, explained, open_database, rows
from tests.using_engines import Scripted, using

PATIENTS = {
    "id": [1, 2, 3, 4],
    "region": ["eu", "us", "eu", None],
    "note": ["calm", "ill", "well", "new"],
    "age": [30, 40, 50, 60],
}
SEEN = "SELECT id, region, concat('secret of ', note) AS note, age / 10 * 10 AS age FROM {table} WHERE region = 'eu'"


@contextmanager
def _opened(tmp_path: Path) -> Iterator[Database]:
    """Open a database with the same patients in a Parquet file, a CSV file, a table, and views of them."""
    table = pa.table(PATIENTS)
    pq.write_table(table, tmp_path / "patients.parquet")
    stored = table.set_column(3, "age", table["age"].cast(pa.int32())).set_column(
        2, "note", table["note"].dictionary_encode()
    )
    pq.write_table(stored, tmp_path / "stored.parquet")
    lines = ["id,region,note,age", *(f"{i},{r or ''},{n},{a}" for i, r, n, a in zip(*PATIENTS.values(), strict=True))]
    (tmp_path / "patients.csv").write_text("\n".join(lines))
    files = {"parquet": "patients.parquet", "stored": "stored.parquet", "csv": "patients.csv"}
    database = open_database(tmp_path / "data", tables={name: tmp_path / file for name, file in files.items()})
    admin = database.session()
    admin.update("CREATE TABLE managed AS SELECT * FROM parquet")
    admin.update("CREATE VIEW plain AS SELECT * FROM parquet WHERE id > 0")
    admin.update("CREATE VIEW stacked AS SELECT * FROM plain WHERE id < 100")
    admin.update("CREATE VIEW asking AS SELECT *, ai_gen('Who?', note) AS answer FROM parquet")
    store = database.access.store
    store.add_user(User("alice", "user", frozenset({"eu"})))
    store.add_user(User("root", "admin"))
    admin.update("GRANT ALL ON SCHEMA public TO alice")
    for name in (*files, "managed"):
        admin.update(f"CREATE ROW FILTER ON {name} TO eu AS region = 'eu' -- of Europe")
        admin.update(f"CREATE COLUMN MASK ON {name}(note) TO eu AS concat('secret of ', note)")
        admin.update(f"CREATE COLUMN MASK ON {name}(age) TO alice AS age / 10 * 10")
    yield database
    database.close()


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Open a database; see `_opened`."""
    with _opened(tmp_path) as database:
        yield database


@pytest.fixture
def alice(database: Database) -> Session:
    """Return a session of the user for whom the policies hold."""
    return database.session(database.access.store.user("alice").principal)


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Open one database for all that only reads or is refused, with what is seen of two tables, and another user."""
    with _opened(tmp_path_factory.mktemp("unchanged")) as database:
        for name in ("managed", "stored"):
            database.session().update(f"CREATE TABLE seen_of_{name} AS {SEEN.format(table=name)}")
        database.access.store.add_user(User("reader", "readonly"))
        yield database


@pytest.fixture
def reading_alice(unchanged: Database) -> Session:
    """Return a session of that user in that database."""
    return unchanged.session(unchanged.access.store.user("alice").principal)


@pytest.mark.parametrize("name", ["parquet", "stored", "csv", "managed", "plain", "stacked"])
def test_what_is_seen_of_a_table(unchanged: Database, reading_alice: Session, name: str) -> None:
    """A file, one whose columns are cast, a table and views over views: only some rows, with values masked, once."""
    expected = ask(unchanged.session(), SEEN.format(table=name)).table
    seen = ask(reading_alice, f"SELECT * FROM {name}").table
    assert canonical(seen) == canonical(expected)
    assert seen.schema.types == ask(unchanged.session(), f"SELECT * FROM {name}").table.schema.types


QUERIES = (
    "SELECT count(*) AS c, sum(age) AS s FROM {t}",
    "SELECT a.id, b.note FROM {t} a JOIN {t} b ON a.id < b.id",
    "SELECT id FROM {t} WHERE note = 'calm' OR region = 'us'",
    "SELECT note FROM {t} UNION ALL SELECT region FROM {t}",
    "WITH x AS (SELECT * FROM {t}) SELECT * FROM x WHERE id IN (SELECT id FROM {t} WHERE age > 10)",
    "SELECT id, ai_gen('Who?', note) AS answer FROM {t}",
    "SELECT id FROM {t} WHERE ai_filter('Fine? {{note}}', note) OR age > 45",
    "SELECT note, ai_gen('Who?', note, region) AS answer FROM {t} WHERE ai_filter('Fine?', region) ORDER BY id LIMIT 2",
    "SELECT ai_score('How old?', t.*) AS score FROM {t} AS t WHERE t.id IN (SELECT max(id) FROM {t})",
)


@pytest.mark.parametrize("optimizer", ["on", "off"])
@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("name", ["managed", "stored"])
def test_queries_on_a_restricted_table(
    unchanged: Database, reading_alice: Session, name: str, query: str, optimizer: str
) -> None:
    """Any query answers as it would on a table that holds no more than what is seen, AI calls included."""
    expected = ask(unchanged.session(), query.format(t=f"seen_of_{name}"), optimizer=optimizer, cache="off").table
    assert canonical(ask(reading_alice, query.format(t=name), optimizer=optimizer, cache="off").table) == canonical(
        expected
    )


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        ("region IS DISTINCT FROM 'eu' AND age > 45", [4]),
        ("now() - (now() - interval '8 days') < interval '1 day'", []),
        ("'a' = 'a' IS NOT DISTINCT FROM (id = 1) AND id < 3", [1]),
    ],
)
def test_conditions_have_the_rows_of_postgresql(
    database: Database, alice: Session, condition: str, ids: list[int]
) -> None:
    """A row filter and a mask read predicates of which DataFusion makes others, as PostgreSQL does."""
    admin = database.session()
    admin.update("DROP ROW FILTER ON managed FROM eu")
    admin.update("DROP COLUMN MASK ON managed(age) FROM alice")
    admin.update(f"CREATE ROW FILTER ON managed TO alice AS {condition}")
    assert rows(alice, "SELECT id FROM managed ORDER BY id") == [{"id": one} for one in ids]
    admin.update("DROP ROW FILTER ON managed FROM alice")
    admin.update(f"CREATE COLUMN MASK ON managed(note) TO alice AS CASE WHEN {condition} THEN note END")
    admin.update("DROP COLUMN MASK ON managed(note) FROM eu")
    assert rows(alice, "SELECT id FROM managed WHERE note IS NOT NULL ORDER BY id") == [{"id": one} for one in ids]


def test_a_view_with_ai_calls(alice: Session) -> None:
    """The view asks about the rows and values that its reader sees."""
    seen = ask(alice, "SELECT id, answer FROM asking")
    assert [row["id"] for row in seen.rows] == [1, 3]
    assert seen.calls == 2


def test_explain_tells_nothing_else(alice: Session) -> None:
    """Its predictions are made on the rows that are seen."""
    text = str(explained(alice, "SELECT ai_gen('Who?', note) FROM managed"))
    assert "calm" not in text
    assert "secret of" in text


@pytest.mark.parametrize(
    "sql",
    [
        'SELECT * FROM "{managed}"',
        'SELECT * FROM flightllm.public."{managed}"',
        "SELECT * FROM `{managed}`",
        "SELECT * FROM '{managed}'",
        "SELECT ai_gen('Who?', note) FROM public.'{managed}'",
        "DESCRIBE '{managed}'",
        'CREATE VIEW leak AS SELECT * FROM "{managed}"',
        'CREATE TABLE leak AS SELECT * FROM "{managed}"',
    ],
)
def test_the_hidden_name_is_refused(reading_alice: Session, sql: str) -> None:
    """The whole table's name in plans opens nothing, even if somebody got to know it."""
    known = sql.format(managed=f"managed{STORED_SUFFIX}")
    with pytest.raises(PermissionDeniedError, match="only the server can use"):
        reading_alice.update(known) if sql.startswith("CREATE") else ask(reading_alice, known)


def test_the_hidden_name_as_a_value(reading_alice: Session) -> None:
    """A value for a parameter, which stands in single quotes where FROM takes it for a name, is refused like it."""
    values = pa.table({"a": [f"managed{STORED_SUFFIX}"]})
    with pytest.raises(PermissionDeniedError, match="only the server can use"):
        reading_alice.update("CREATE TABLE leak AS SELECT * FROM ?", values)
    with pytest.raises(PermissionDeniedError, match="only the server can use"):
        reading_alice.execute("SELECT * FROM ?", values.to_batches()[0])


@pytest.mark.parametrize("sql", ["SELECT * FROM managed", "SELECT ai_gen('Who?', note) FROM managed"])
def test_the_hidden_name_is_not_told(reading_alice: Session, sql: str) -> None:
    """Plans are shown with the names that users know."""
    text = str(explained(reading_alice, sql))
    assert "secret of" in text
    assert STORED_SUFFIX.strip() not in text


@pytest.mark.parametrize("sql", ["DELETE FROM managed", "UPDATE managed SET age = 0 WHERE id = 2"])
def test_rows_not_seen_are_not_changed(unchanged: Database, reading_alice: Session, sql: str) -> None:
    """DELETE and UPDATE would reach them, so they are refused."""
    with pytest.raises(PermissionDeniedError, match="only a part of 'managed'"):
        reading_alice.update(sql)
    assert rows(unchanged.session(), "SELECT sum(age) AS s FROM managed") == [{"s": 180}]


def test_what_is_copied_is_what_is_seen(database: Database, alice: Session) -> None:
    """CREATE TABLE AS and INSERT take no more with them."""
    alice.update("CREATE TABLE mine AS SELECT * FROM managed")
    alice.update("INSERT INTO mine SELECT * FROM stored")
    notes = {row["note"] for row in rows(database.session(), "SELECT note FROM mine")}
    assert notes == {"secret of calm", "secret of well"}


@pytest.mark.parametrize("optimizer", ["on", "off"])
@pytest.mark.parametrize("also", ["", " AND ai_filter('Fine?', n)"])
def test_conditions_never_reach_hidden_rows(database: Database, alice: Session, also: str, optimizer: str) -> None:
    """One that fails on a hidden row's value would tell it in its message."""
    admin = database.session()
    admin.update("CREATE TABLE numbers AS SELECT * FROM (VALUES (1, '1'), (2, 'hidden'), (3, '3')) AS v(id, n)")
    admin.update("CREATE ROW FILTER ON numbers TO alice AS id <> 2")
    found = ask(alice, f"SELECT id FROM numbers WHERE CAST(n AS INT) > 0{also}", optimizer=optimizer)
    assert {row["id"] for row in found.rows} <= {1, 3}


def test_a_policy_that_does_not_fit_any_more(database: Database, alice: Session) -> None:
    """A table made anew with other columns is closed to those whom its filter names, and only that table."""
    admin = database.session()
    admin.update("CREATE OR REPLACE TABLE managed AS SELECT 1 AS other")
    with pytest.raises(PermissionDeniedError, match="the table 'managed' cannot be read: one of"):
        ask(alice, "SELECT * FROM managed")
    assert rows(alice, "SELECT count(*) AS c FROM stored") == [{"c": 2}]
    assert rows(admin, "SELECT * FROM managed") == [{"other": 1}]


def test_the_user_s_name_in_a_policy(database: Database) -> None:
    """`current_user` is whoever asks, a name with quotes included."""
    admin, store = database.session(), database.access.store
    store.add_user(User("o'neil", "readonly"))
    admin.update("CREATE TABLE mail AS SELECT * FROM (VALUES ('o''neil', 1), ('alice', 2)) AS v(owner, n)")
    admin.update("GRANT SELECT ON mail TO readonly")
    admin.update("CREATE ROW FILTER ON mail TO readonly AS owner = current_user")
    assert rows(database.session(store.user("o'neil").principal), "SELECT n FROM mail") == [{"n": 1}]


def test_filters_add_up_and_the_nearest_mask_wins(database: Database, alice: Session) -> None:
    """Every filter that holds must be true; a mask for the user goes before one for its group, then its role."""
    admin = database.session()
    admin.update("CREATE ROW FILTER ON managed TO alice AS id > 1")
    admin.update("CREATE COLUMN MASK ON managed(note) TO user AS 'role'")
    assert rows(alice, "SELECT id, note FROM managed") == [{"id": 3, "note": "secret of well"}]
    admin.update("CREATE COLUMN MASK ON managed(note) TO alice AS 'own'")
    assert rows(alice, "SELECT note FROM managed") == [{"note": "own"}]
    admin.update("DROP COLUMN MASK ON managed(note) FROM alice")
    admin.update("DROP ROW FILTER ON managed FROM alice")
    assert rows(alice, "SELECT note FROM managed WHERE id = 1") == [{"note": "secret of calm"}]


def test_a_policy_holds_at_once(database: Database, alice: Session) -> None:
    """Also for a session that is open, and for one that reads a view."""
    database.session().update("CREATE OR REPLACE ROW FILTER ON parquet TO eu AS false")
    for name in ("parquet", "plain", "stacked", "asking"):
        assert not rows(alice, f"SELECT id FROM {name}")


def test_a_mask_of_a_column_that_is_gone(database: Database, alice: Session) -> None:
    """A table whose masked column has another name now is closed, not shown; so is a view that is in its place."""
    admin = database.session()
    admin.update("CREATE OR REPLACE TABLE managed AS SELECT id, region, note AS remark, age FROM parquet")
    with pytest.raises(PermissionDeniedError, match="no longer fits"):
        ask(alice, "SELECT remark FROM managed")
    database.access.store.set_policy(
        AccessPolicy("eu", "public", "gone", "", "region = 'eu'")
    )  # of a former configuration
    admin.update("CREATE VIEW gone AS SELECT * FROM stored")
    with pytest.raises(PermissionDeniedError, match="no longer fits"):
        ask(alice, "SELECT * FROM gone")


def test_nobody_makes_a_table_under_a_hidden_name(unchanged: Database, reading_alice: Session) -> None:
    """It would be what others see of a restricted table."""
    batch = pa.RecordBatch.from_pydict({"id": [666]})
    for session in (reading_alice, unchanged.session()):
        with pytest.raises(PermissionDeniedError, match="is a reserved name"):
            session.ingest(f"managed{STORED_SUFFIX}", [batch], batch.schema, "create")


def test_predictions_tell_no_answers(database: Database, alice: Session) -> None:
    """No prediction is drawn from answers that the model gave to others, and what one fails with is not shown."""
    admin = database.session()
    admin.update("CREATE TABLE notes AS SELECT value::text AS note FROM generate_series(1, 40)")
    sql = "SELECT ai_gen('Sum up {note}', note) AS g FROM notes"
    answers = [row["g"] for row in ask(admin, sql).rows]
    text = str(explained(alice, "SELECT CAST(ai_gen('Sum up {note}', note) AS INT) FROM managed"))
    assert "there is no prediction" in text
    assert not any(answer in text for answer in answers)
    for session, drawn_from in ((admin, "learned"), (alice, "assumed")):
        asked = "SELECT ai_gen('Sum up {note}', note) FROM (SELECT '!' || value AS note FROM generate_series(1, 40))"
        (line,) = ask(session, f"EXPLAIN (FORMAT json) {asked}").rows
        assert [call["answers"] for call in json.loads(line["plan"])["operators"][0]["calls"]] == [drawn_from]


def test_admins_see_all(database: Database) -> None:
    """No policy holds for them."""
    database.session().update("CREATE ROW FILTER ON managed TO root AS false")
    root = database.session(database.access.store.user("root").principal)
    assert rows(root, "SELECT count(*) AS c FROM managed") == [{"c": 4}]


@pytest.mark.parametrize(
    ("sql", "error", "message"),
    [
        ("CREATE ROW FILTER ON absent TO eu AS true", NotFoundError, "no table 'absent'"),
        ("CREATE ROW FILTER ON plain TO eu AS true", FlightLLMError, "is a view"),
        ("CREATE ROW FILTER ON managed TO alice AS colour = 1", SqlError, "colour"),
        ("CREATE ROW FILTER ON managed TO alice AS ai_filter('Fine?', note)", SqlError, "ai_filter"),
        ("CREATE ROW FILTER ON managed TO nobody AS true", NotFoundError, "no user, group or role 'nobody'"),
        ("CREATE ROW FILTER ON managed TO eu AS true", InvalidInputError, "OR REPLACE"),
        ("CREATE ROW FILTER ON managed TO eu AS", SqlError, "expression"),
        ("CREATE COLUMN MASK ON managed(colour) TO eu AS 1", NotFoundError, "no column 'colour'"),
        ("CREATE COLUMN MASK ON managed(id) TO eu AS 'x'", SqlError, "the mask of the column 'id' has the type string"),
        ("CREATE COLUMN MASK ON csv(id) TO eu AS [1]", SqlError, "CAST"),
        ("CREATE COLUMN MASK ON managed TO eu AS 1", SqlError, "in parentheses"),
        ("DROP ROW FILTER ON managed FROM alice", NotFoundError, "no such row filter"),
        ("GRANT FLY ON managed TO alice", SqlError, "no privilege FLY"),
        ("GRANT SELECT ON MODEL default TO alice", SqlError, "USAGE"),
        ("GRANT SELECT ON managed TO nobody", NotFoundError, "no user, group or role 'nobody'"),
        ("GRANT SELECT ON managed TO alice, nobody", NotFoundError, "no user, group or role 'nobody'"),
        (
            "GRANT INSERT ON managed TO reader",
            InvalidInputError,
            "has the role readonly, which cannot INSERT",
        ),
        ("GRANT SELECT ON managed TO alice,", SqlError, "a user"),
        ("REVOKE SELECT ON managed FROM readonly", NotFoundError, "no such privilege"),
        ("GRANT SELECT managed TO alice", SqlError, "ON was expected: .*; found 'managed'"),
    ],
)
def test_policies_and_grants_that_are_wrong(
    unchanged: Database, sql: str, error: type[FlightLLMError], message: str
) -> None:
    """Each says what is wrong, and nothing is kept of it."""
    before = unchanged.access.store.snapshot()
    with pytest.raises(error, match=message):
        unchanged.session().update(sql)
    assert unchanged.access.store.snapshot() == before


def test_grants_to_several(database: Database) -> None:
    """One statement grants to several, and takes back; ALL is for a readonly user what it can use."""
    admin, store = database.session(), database.access.store
    store.add_user(User("reader", "readonly"))
    admin.update("GRANT ALL ON managed TO reader, eu")
    assert {(g.grantee, g.privilege) for g in store.snapshot().grants if g.name == "managed"} == {
        (grantee, privilege) for grantee in ("reader", "eu") for privilege in ("SELECT", "INSERT", "UPDATE", "DELETE")
    }
    admin.update("REVOKE ALL ON managed FROM reader, eu")
    assert not [g for g in store.snapshot().grants if g.name == "managed"]


@pytest.mark.parametrize("form", ["EXPLAIN", "EXPLAIN ANALYZE", "EXPLAIN VERBOSE", "EXPLAIN FORMAT JSON"])
@pytest.mark.parametrize("parts", [1, 4])
def test_no_size_of_the_whole_table(database: Database, alice: Session, form: str, parts: int) -> None:
    """EXPLAIN shows no file, byte range or partition of a table of which the user sees only some rows."""
    for part in range(1, parts):
        database.session().update(f"INSERT INTO managed VALUES ({part}, 'us', 'more', 1)")
    for name in ("parquet", "csv", "managed", "plain"):
        shown = str(ask(alice, f"{form} SELECT count(*) FROM {name}").table.to_pylist())
        assert "file_groups={…}" in shown
        for told in (
            "patients.parquet",
            "rows.parquet",
            "00.parquet",
            "partition_sizes",
            "statistics",
            "input_partitions",
            "group:",
        ):
            assert told not in shown
    whole = str(ask(database.session(), f"{form} SELECT count(*) FROM parquet WHERE id > 1").table.to_pylist())
    assert "patients.parquet" in whole


@pytest.mark.parametrize(
    ("plan", "shown"),
    [
        ("DataSourceExec: file_groups={2 groups: [[a.parquet:0..812], [a.parquet:812..1624]]}, file_type=parquet",
         "DataSourceExec: file_groups={…}, file_type=parquet"),
        ("DataSourceExec: partitions=1, partition_sizes=[7]", "DataSourceExec: "),
        ("FilterExec: a@0 = 1, statistics=[Rows=Exact(7), Bytes=Exact(9), [(Col[0]: )]]", "FilterExec: a@0 = 1"),
    ],
)  # fmt: skip
def test_sizes_in_plans(plan: str, shown: str) -> None:
    """A plan keeps its operators and loses what tells the size of a table."""
    assert without_sizes(plan) == shown


def test_information_schema(unchanged: Database) -> None:
    """A table with row filters is a base table for all, and a view stays a view."""
    session = unchanged.session(unchanged.access.store.user("alice").principal)
    sql = "SELECT table_type AS t FROM information_schema.tables WHERE table_name = '{}'"
    assert [rows(session, sql.format(name)) for name in ("managed", "plain")] == [
        [{"t": "BASE TABLE"}],
        [{"t": "VIEW"}],
    ]
    views = rows(session, "SELECT table_name AS n FROM information_schema.views WHERE table_schema = 'public'")
    assert {row["n"] for row in views} == {"asking", "plain", "stacked"}


def test_an_aggregate_over_a_model(database: Database) -> None:
    """It reads the rows and the values that the user can see, and nothing else reaches the model."""
    engine = Scripted(lambda request: request.fields[0][1])
    session = using(database, engine).session(database.access.store.user("alice").principal)
    (row,) = ask(session, "SELECT ai_agg(note, 'What?', citations => false) AS a FROM managed").rows
    assert row["a"].split("\n---\n") == ["secret of calm", "secret of well"]
    assert len(engine.asked) == 1
