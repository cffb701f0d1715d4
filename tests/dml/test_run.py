"""UPDATE, DELETE, MERGE and INSERT … ON CONFLICT with AI calls: budgets, cancel, concurrency, rights, EXPLAIN."""

import asyncio
import re
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from flightllm.access.store import User
from flightllm.config import LimitsConfig
from flightllm.engines.fake.engine import FakeEngine
from flightllm.errors import (
    BudgetExceededError,
    CancelledError,
    FlightLLMError,
    InvalidInputError,
    LimitExceededError,
    PermissionDeniedError,
    SqlError,
    UnknownTableError,
    UnsupportedError,
)
from flightllm.llm.engine import Completion, Request
from flightllm.observe.query_record import CancelToken
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import ask, explained, rows, small_database
from tests.disks import small_disk

MOST_SECONDS = 60


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Return a database of the small tables."""
    database = small_database(tmp_path, {"latency_ms": 5})
    yield database
    database.close()


@pytest.fixture
def session(database: Database) -> Session:
    """Return a session."""
    return database.session()


def _calls(session: Session) -> int:
    """Return how many prompts the last change sent."""
    (row,) = rows(
        session,
        "SELECT calls FROM system.queries WHERE kind IN ('update', 'delete', 'merge') ORDER BY started_at DESC LIMIT 1",
    )
    return int(row["calls"])


def test_cheap_conditions_come_first(session: Session) -> None:
    """A DELETE asks only about the rows that its other conditions leave, once for equal prompts, and never again."""
    notes = rows(session, "SELECT DISTINCT note FROM people WHERE id > 3 AND note IS NOT NULL")
    kept = rows(
        session,
        "SELECT id FROM people WHERE NOT (id > 3 AND coalesce(ai_filter('Is it so?', note), false)) ORDER BY id",
    )
    session.update("TRUNCATE TABLE system.cache")
    session.update("DELETE FROM people WHERE ai_filter('Is it so?', note) AND id > 3")
    assert _calls(session) == len(notes)
    assert rows(session, "SELECT id FROM people ORDER BY id") == kept
    session.update("DELETE FROM people WHERE id > 3 AND ai_filter('Is it so?', note)")
    assert _calls(session) == 0


def test_values_are_those_of_a_select(session: Session) -> None:
    """What UPDATE sets is what SELECT returns; rows of equal prompts share a call."""
    wanted = rows(
        session,
        "SELECT id, CASE WHEN id <> 5 THEN ai_classify(note, ['a', 'b']) ELSE name END AS name FROM people ORDER BY id",
    )
    session.update("TRUNCATE TABLE system.cache")
    assert session.update("UPDATE people SET name = ai_classify(note, ['a', 'b']) WHERE id <> 5") == 8
    assert _calls(session) == 4
    assert rows(session, "SELECT id, name FROM people ORDER BY id") == wanted


def test_calls_in_merge_and_returning(session: Session) -> None:
    """MERGE asks in ON, in conditions and in values, only for the rows that an action is about; so does RETURNING."""
    sql = """MERGE INTO people AS p USING (SELECT DISTINCT person_id, thing FROM likes WHERE person_id <> 1) AS l
        ON p.id = l.person_id AND ai_filter('Known?', p.note)
        WHEN MATCHED AND ai_filter('Delete?', l.thing) THEN DELETE
        WHEN MATCHED THEN UPDATE SET name = ai_gen('Name', p.name)
        WHEN NOT MATCHED AND l.person_id > 10 THEN INSERT (id, name) VALUES (l.person_id, ai_gen('New', l.thing))
        RETURNING merge_action() AS did, id, ai_gen('Say', name) AS said"""
    done = session.update_returning(sql)
    assert done.affected == done.rows.num_rows
    assert {row["id"] for row in done.rows.to_pylist() if row["did"] == "INSERT"} == {12}
    (new,) = rows(session, "SELECT name = ai_gen('New', thing => 'snow') AS same FROM people WHERE id = 12")
    assert new == {"same": True}


def test_budget(session: Session) -> None:
    """A change beyond the budget fails, and changes nothing."""
    before = rows(session, "SELECT * FROM people")
    with pytest.raises(BudgetExceededError):
        session.update("UPDATE people SET name = ai_gen('x', note)", settings={"max_calls": "2"})
    assert rows(session, "SELECT * FROM people") == before


def test_failing_value_changes_nothing(session: Session) -> None:
    """A value that does not fit, a failing RETURNING or a NULL where none may be leaves the table as it was."""
    session.update("CREATE TABLE needed (id INT NOT NULL, n INT)")
    session.update("INSERT INTO needed SELECT id, id FROM people")
    before = rows(session, "SELECT * FROM needed")
    for sql in (
        "UPDATE needed SET n = ai_gen('x', n) WHERE id > 3",
        "UPDATE needed SET id = (SELECT NULL) WHERE id IN (SELECT max(id) FROM needed)",
        "DELETE FROM needed WHERE n > 2 RETURNING CAST('x' || n AS INT)",
        "MERGE INTO needed USING likes ON id = person_id WHEN MATCHED THEN UPDATE SET n = 1",
        "MERGE INTO needed USING people AS p ON p.id = needed.id WHEN MATCHED THEN UPDATE SET id = NULL",
        "MERGE INTO needed USING people AS p ON false WHEN NOT MATCHED THEN INSERT (n) VALUES (p.id)",
    ):
        with pytest.raises(SqlError):
            session.update(sql)
        assert rows(session, "SELECT * FROM needed") == before, sql


def test_cancelled_while_it_asks(database: Database, session: Session) -> None:
    """A change that is cancelled while it asks the model ends, and has changed nothing."""
    session.update("CREATE TABLE numbers AS SELECT value AS n, 'x' AS v FROM generate_series(1, 5000)")
    stop, errors = CancelToken(), list[Exception]()

    def work() -> None:
        try:
            session.update("UPDATE numbers SET v = ai_gen('x', n)", cancelled=stop)
        except CancelledError as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    while not any(record.progress()["calls_done"] for record in database.queries.running()):
        thread.join(0.01)
        assert thread.is_alive()
    stop.set()
    thread.join(MOST_SECONDS)
    assert len(errors) == 1
    assert rows(session, "SELECT count(*) AS n FROM numbers WHERE v = 'x'") == [{"n": 5_000}]


def test_others_change_the_table_meanwhile(
    database: Database, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What others do to a table while a change asks the model is not lost, and the change is about it too."""
    begun, go_on, answer_late = threading.Event(), threading.Event(), FakeEngine._answer_late

    async def halting(self: FakeEngine, chunk: Sequence[Request]) -> list[Completion]:
        if begun.is_set():
            await asyncio.to_thread(go_on.wait, MOST_SECONDS)
        begun.set()
        return await answer_late(self, chunk)

    monkeypatch.setattr(FakeEngine, "_answer_late", halting)
    session.update("CREATE TABLE numbers AS SELECT value AS n, 'x' AS v FROM generate_series(1, 400)")
    thread = threading.Thread(target=session.update, args=("UPDATE numbers SET v = ai_gen('x', n), n = n + 1000",))
    thread.start()
    while not any(record.progress()["calls_done"] for record in database.queries.running()):
        thread.join(0.01)
        assert thread.is_alive()
    other = database.session()
    assert other.update("INSERT INTO numbers VALUES (5000, 'new')") == 1
    assert other.update("DELETE FROM numbers WHERE n = 7") == 1
    go_on.set()
    thread.join(MOST_SECONDS)
    found = rows(
        session, "SELECT count(*) AS c, min(n) AS low, max(n) AS high FROM numbers WHERE v <> 'x' AND v <> 'new'"
    )
    assert found == [{"c": 400, "low": 1001, "high": 6000}]


def test_increments_at_once(database: Database, session: Session) -> None:
    """Changes of one table at the same time each take effect once, with AI calls or without."""
    session.update("CREATE TABLE counts AS SELECT 1 AS id, 0 AS n")
    texts = [
        "UPDATE counts SET n = n + 1 WHERE ai_gen('x', id) IS NOT NULL",
        "UPDATE counts SET n = n + 1 FROM nothing2",
    ]
    session.update("CREATE TABLE nothing2 AS SELECT 1 AS one")
    errors = list[Exception]()

    def work(text: str) -> None:
        try:
            for _ in range(3):
                database.session().update(text)
        except FlightLLMError as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(text,)) for text in texts * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(MOST_SECONDS)
    assert not errors
    assert rows(session, "SELECT n FROM counts") == [{"n": 18}]


def test_rights(database: Database, session: Session) -> None:
    """Each action needs its privilege; other tables are seen as their user sees them; a part of one is not enough."""
    ann = User("ann", "user")
    database.access.store.add_user(ann)
    for grant in ("SELECT ON TABLE people", "UPDATE ON TABLE people", "SELECT ON TABLE likes"):
        session.update(f"GRANT {grant} TO ann")
    session.update("CREATE ROW FILTER ON likes TO ann AS thing = 'tea'")
    there = database.session(ann.principal)
    assert there.update("UPDATE people SET note = thing FROM likes WHERE person_id = id") == 2
    for sql, privilege in (
        ("DELETE FROM people WHERE id IN (SELECT 1)", "DELETE"),
        ("MERGE INTO people USING likes ON person_id = id WHEN NOT MATCHED THEN INSERT (id) VALUES (1)", "INSERT"),
        ("MERGE INTO people USING likes ON person_id = id WHEN MATCHED THEN DELETE", "DELETE"),
        ("INSERT INTO people (id) VALUES (1) RETURNING *", "INSERT"),
    ):
        session.update("CREATE OR REPLACE TABLE hidden AS SELECT 1 AS one")
        with pytest.raises(PermissionDeniedError, match=privilege):
            there.update(sql)
        with pytest.raises(PermissionDeniedError, match=privilege):
            there.describe(sql)
    for change in (there.update, there.describe):
        with pytest.raises(UnknownTableError, match="hidden' not found, or not granted to you"):
            change("UPDATE people SET note = (SELECT max(one) FROM hidden)")
    session.update("GRANT ALL ON TABLE likes TO ann")
    with pytest.raises(PermissionDeniedError, match="a part of 'likes'"):
        there.update("DELETE FROM likes WHERE person_id IN (SELECT id FROM people)")


def test_explain(session: Session) -> None:
    """EXPLAIN shows the query's plan and what it takes, and changes nothing; ANALYZE would have to."""
    before = rows(session, "SELECT * FROM people")
    shown = explained(session, "UPDATE people SET name = ai_gen('x', note) WHERE id > 2")
    assert shown["change"] == "UPDATE of people, which has 9 rows: EXPLAIN changes nothing"
    assert "ai_gen" in "".join(shown.values())
    for sql in (
        "DELETE FROM people WHERE id = 1",
        "MERGE INTO people USING likes ON person_id = id WHEN MATCHED THEN DELETE RETURNING *",
        "INSERT INTO people (id) VALUES (1) RETURNING id",
        "INSERT INTO people (id) SELECT 5",
        "CREATE TABLE made AS SELECT ai_gen('x', note) AS n FROM people",
    ):
        assert "changes nothing" in explained(session, sql)["change"]
        with pytest.raises(UnsupportedError, match="would run"):
            session.execute(f"EXPLAIN ANALYZE {sql}")
    assert rows(session, "SELECT * FROM people") == before
    with pytest.raises(SqlError):
        session.execute("EXPLAIN DELETE FROM people WHERE nope IN (SELECT 1)")


def test_prepared(session: Session) -> None:
    """Parameters of a change are described, and bound with each row of them."""
    sql = "UPDATE people SET name = ? WHERE id IN (SELECT ?) AND ai_gen('x', id) IS NOT NULL RETURNING id, name"
    description = session.describe(sql)
    assert (description.is_update, len(description.parameters), description.schema.names) == (True, 2, ["id", "name"])
    done = session.update_returning(sql, pa.table({"0": ["p", "q"], "1": [1, 2]}))
    assert done.rows.to_pylist() == [{"id": 1, "name": "p"}, {"id": 2, "name": "q"}]


def test_many_rows_in_several_files(session: Session) -> None:
    """Rows of several files are found by their place: those and no others change, and the order stays."""
    session.update("CREATE TABLE big AS SELECT value AS n, value % 7 AS m FROM generate_series(0, 149999)")
    for first in (150_000, 300_000):
        session.update(f"INSERT INTO big SELECT value, value % 7 FROM generate_series({first}, {first + 149_999})")
    assert (
        session.update("UPDATE big SET m = -n WHERE n IN (SELECT value * 3 FROM generate_series(0, 149999))") == 150_000
    )
    wrong = "SELECT count(*) AS c FROM big WHERE m <> CASE WHEN n % 3 = 0 THEN -n ELSE n % 7 END"
    assert rows(session, wrong) == [{"c": 0}]
    deleted = session.update_returning("DELETE FROM big WHERE n >= (SELECT max(n) - 9 FROM big) RETURNING n")
    assert sorted(deleted.rows["n"].to_pylist()) == list(range(449_990, 450_000))
    assert rows(session, "SELECT count(*) AS c, max(n) AS m FROM big") == [{"c": 449_990, "m": 449_989}]


def test_the_least_match_wins(session: Session) -> None:
    """Where several rows of FROM match one to update, the least new values win, whatever the order of the rows."""
    for way in ("ASC", "DESC"):
        session.update(f"CREATE OR REPLACE TABLE w AS SELECT * FROM likes ORDER BY weight {way}")
        assert session.update("UPDATE people SET name = thing || weight FROM w WHERE person_id = id") == 4
        assert rows(session, "SELECT name FROM people WHERE id = 7") == [{"name": "cats2"}]
        assert rows(session, "SELECT name FROM people WHERE id = 1") == [{"name": "tea2"}]


def test_any_type(session: Session) -> None:
    """Lists, structs, decimals and times are set as any other value."""
    session.update(
        "CREATE TABLE kinds AS SELECT id, [id, 2] AS l, named_struct('a', name) AS s, CAST(id AS DECIMAL(9, 2)) AS d,"
        " day FROM people"
    )
    sql = "UPDATE kinds SET l = [9], s = named_struct('a', 'z'), d = 1.5, day = '2020-01-02' WHERE id IN (SELECT 4)"
    (row,) = session.update_returning(f"{sql} RETURNING l, s, d, day").rows.to_pylist()
    assert (row["l"], row["s"], str(row["d"]), str(row["day"])) == ([9], {"a": "z"}, "1.50", "2020-01-02")
    assert rows(session, "SELECT count(*) AS n FROM kinds WHERE l = [9]") == [{"n": 1}]


def test_conflicts_ask_the_model(session: Session) -> None:
    """INSERT … ON CONFLICT takes rows with AI calls, and sets what the model says of both rows."""
    session.update("CREATE TABLE k (id BIGINT PRIMARY KEY, name VARCHAR, UNIQUE (name, id))")
    session.update("INSERT INTO k VALUES (1, 'one')")
    sql = """INSERT INTO k SELECT id, ai_gen('x', name) FROM people WHERE id < 3
        ON CONFLICT (id) DO UPDATE SET name = ai_gen('Both', k.name, excluded.name) RETURNING id, name"""
    done = session.update_returning(sql).rows.to_pylist()
    assert [row["id"] for row in done] == [1, 2]
    (row,) = rows(session, "SELECT name FROM k WHERE id = 1")
    assert row["name"] == done[0]["name"] != "one"
    with pytest.raises(InvalidInputError, match="its keys are \\(id\\), \\(name, id\\)"):
        session.update("INSERT INTO k VALUES (1, 'a') ON CONFLICT (name) DO NOTHING")
    assert ask(session, "SELECT count(*) AS n FROM k").rows == [{"n": 2}]


RIGHT_JOIN = "FROM u RIGHT JOIN v ON u.n = v.m WHERE coalesce(u.k, 0) < 3 AND v.y IS NOT NULL AND v.k = t.b"


def joined(session: Session, count: int) -> None:
    """Make a table of `count` rows, of which the right join changes two, and the tables that it joins."""
    session.update("CREATE TABLE u AS SELECT * FROM (VALUES (1, 1), (NULL, 2), (5, 2)) AS t (k, n)")
    session.update("CREATE TABLE v AS SELECT * FROM (VALUES (2, 1, 'q'), (NULL, 2, NULL), (7, 2, 's')) AS t (k, m, y)")
    session.update(f"CREATE TABLE t AS SELECT value AS b, 'old' AS s FROM generate_series(1, {count}) AS g (value)")


@pytest.mark.parametrize("rows_", [3, 20_000])
def test_a_filter_on_one_side_of_a_right_join(session: Session, rows_: int) -> None:
    """A filter on one of two columns of the same name and place drops the rows that it should, and no others."""
    joined(session, rows_ * 3)
    session.update(f"UPDATE t SET s = v.y {RIGHT_JOIN}")
    changed = rows(session, "SELECT b, s FROM t WHERE s <> 'old' ORDER BY b")
    assert changed == [{"b": 2, "s": "q"}, {"b": 7, "s": "s"}]


@pytest.mark.parametrize("optimizer", ["on", "off"])
def test_a_right_join_asks_the_model(session: Session, optimizer: str) -> None:
    """A change by a right join asks the model for the rows that it changes, as EXPLAIN predicts, however it runs."""
    joined(session, 20_000)
    sql = f"UPDATE t SET s = ai_gen('x', v.y) {RIGHT_JOIN}"
    lines = ask(session, f"EXPLAIN {sql}", optimizer=optimizer).rows
    (calls,) = [line["plan"] for line in lines if line["plan_type"].startswith("calls")]
    assert re.search(r"predicted +2 +2 ", calls)
    assert session.update(sql, settings={"optimizer": optimizer}) == 2
    changed = rows(session, "SELECT b, s <> 'old' AS changed FROM t WHERE s <> 'old' ORDER BY b")
    assert changed == [{"b": 2, "changed": True}, {"b": 7, "changed": True}]


@pytest.mark.slow
def test_a_full_disk_fails_the_change_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change by a right join needs room on the disk when it runs, and says so; EXPLAIN of it needs none."""
    with small_disk(tmp_path / "disk", 1 << 20) as disk:
        monkeypatch.setenv("TMPDIR", str(disk))  # as the server's process does
        database = small_database(tmp_path, limits=LimitsConfig(spill_folder=disk))
        session = database.session()
        joined(session, 200_000)
        sql = f"UPDATE t SET s = v.y {RIGHT_JOIN}"
        for change in (sql, sql.replace("v.y", "repeat(v.y, v.k)", 1)):  # the other one runs in a process of its own
            assert "SortMergeJoin" in explained(session, change)["physical_plan"]
        with pytest.raises(LimitExceededError, match=r"disk is full.*\[limits\] spill_folder") as raised:
            session.update(sql)
        assert str(disk) not in str(raised.value)
        assert list(disk.rglob("*.arrow")) == []
        assert rows(session, "SELECT count(*) AS n FROM t WHERE s <> 'old'") == [{"n": 0}]
        database.close()


@pytest.mark.parametrize("many", [False, True])
def test_parameters_of_conflicts(session: Session, many: bool) -> None:
    """ON CONFLICT and RETURNING hold for VALUES with parameters, which they can have too, for one row and for many."""
    session.update("CREATE TABLE k (id BIGINT PRIMARY KEY, n BIGINT, name VARCHAR)")
    session.update("INSERT INTO k VALUES (1, 1, 'one')")
    given = pa.table({"0": [1, 2][: 1 + many], "1": [5, 6][: 1 + many], "2": [10, 10][: 1 + many]})
    changed = session.update(
        "INSERT INTO k (id, n) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET n = k.n + excluded.n + ?", given
    )
    assert changed == 1 + many
    assert rows(session, "SELECT id, n FROM k ORDER BY id") == [{"id": 1, "n": 16}, {"id": 2, "n": 6}][: 1 + many]
    more = pa.table({"0": [1], "1": ["said"]})
    done = session.update_returning("INSERT INTO k (id) VALUES (?) ON CONFLICT DO NOTHING RETURNING ? AS said", more)
    assert (done.affected, done.rows.num_rows) == (0, 0)
    assert rows(session, "SELECT count(*) AS c FROM k WHERE id = 1") == [{"c": 1}]


VALUES: dict[str, list[tuple[object, ...]]] = {
    "(k, v) VALUES (?, ?)": [(1, "a"), (2, "b")],
    "VALUES (?, DEFAULT, ?)": [(1, "a"), (2, "b")],
    "(v, i, k) VALUES (?, DEFAULT, ?)": [("a", 1), ("b", 2)],
}


@pytest.mark.parametrize("text", VALUES)
@pytest.mark.parametrize("tail", ["", " ON CONFLICT (k) DO NOTHING", " RETURNING *"])
def test_defaults_of_many_rows(session: Session, text: str, tail: str) -> None:
    """A row of VALUES can leave values to the defaults, once or for each row of parameters."""
    session.update("CREATE TABLE d (k BIGINT PRIMARY KEY, i BIGINT DEFAULT 7 + 1, v VARCHAR DEFAULT 'none')")
    given = pa.table({str(n): list(column) for n, column in enumerate(zip(*VALUES[text], strict=True))})
    assert session.update(f"INSERT INTO d {text}{tail}", given) == 2
    session.update("INSERT INTO d VALUES (3), (4)")
    session.update("INSERT INTO d (i, k) VALUES (DEFAULT, 5), (5, 6)")
    found = rows(session, "SELECT * FROM d ORDER BY k")
    assert [row["k"] for row in found] == [1, 2, 3, 4, 5, 6]
    assert [row["i"] for row in found] == [8, 8, 8, 8, 8, 5]
    assert [row["v"] for row in found] == ["a", "b", *["none"] * 4]


def test_a_table_named_only(session: Session) -> None:
    """ONLY before a table changes nothing; a table can have this name."""
    session.update("CREATE TABLE only (k BIGINT, v BIGINT)")
    session.update("INSERT INTO only VALUES (1, 1), (2, 2), (3, 3)")
    assert session.update("UPDATE only SET v = 5 WHERE k > 1") == 2
    assert session.update("UPDATE only AS o SET v = 6 WHERE o.k = 3") == 1
    assert session.update("DELETE FROM only USING likes WHERE person_id = k") == 3
    session.update("INSERT INTO only VALUES (1, 1)")
    assert session.update_returning("DELETE FROM only RETURNING v").rows.to_pylist() == [{"v": 1}]
    assert session.update("UPDATE ONLY (people) SET name = 'x' WHERE id = 1") == 1
    assert session.update("DELETE FROM ONLY (public.people) WHERE name = 'x'") == 1


@pytest.mark.parametrize(
    ("value", "year"),
    [
        ("EXTRACT(year FROM DATE '2024-01-02')", 2024),
        ("EXTRACT (year FROM date)", 2020),
        ("to_char(DATE '2024-01-02', '%Y')", 2024),
        ("to_char(date, '%Y')", 2020),
        ("date_part('year', date + INTERVAL '1' year)", 2021),
        ("date_part('year', CAST(text AS date)) + year", 2002),
        ("(SELECT 5) + year", 6),
        ("(SELECT max(year) FROM n WHERE n.k > 7) + year", 4),
    ],
)
def test_words_of_types_are_no_columns(session: Session, value: str, year: int) -> None:
    """MERGE takes a bare name in a value for a column of its source, but no type, no unit and no name of a subquery."""
    for table in ("m", "n"):
        session.update(f"CREATE TABLE {table} (k BIGINT, year BIGINT, date DATE, text VARCHAR)")
    session.update("INSERT INTO n VALUES (7, 1, DATE '2020-05-06', '2001-01-01'), (8, 3, NULL, NULL)")
    session.update("INSERT INTO m VALUES (1, 0, NULL, NULL)")
    insert = f"WHEN NOT MATCHED AND k = 7 THEN INSERT (k, year) VALUES (k, {value})"
    assert session.update(f"MERGE INTO m USING n ON m.k = n.k {insert}") == 1
    assert rows(session, "SELECT k, year FROM m WHERE k > 1") == [{"k": 7, "year": year}]


SUBQUERIES = {
    "(SELECT max(y) FROM u WHERE y = x)": [7, 7],
    "(SELECT max(x) FROM u)": [1000, 1000],
    "(SELECT max(x) FROM u AS x)": [1000, 1000],
    "(SELECT max(sr.x) FROM u AS sr)": [1000, 1000],
    "(SELECT max(u.y) FROM u WHERE u.y = sr.x * 1000)": [1000, 2000],
    "(SELECT max(q.y) FROM (SELECT y FROM u) AS q WHERE q.y = x * 1000)": [1000, 2000],
    "(SELECT max(x) FROM (SELECT y AS x FROM u) AS q)": [2000, 2000],
    "(SELECT max(x) FROM (SELECT y FROM u) AS q (x))": [2000, 2000],
    "(WITH c AS (SELECT y FROM u) SELECT max(c.y) FROM c)": [2000, 2000],
    "(SELECT max(sr.x) FROM sr)": [2, 2],
    "x + (SELECT max(x) FROM sr)": [3, 4],
    "view, x": [1, 2],
    "(WITH x AS (SELECT y FROM u) SELECT max(x.y) FROM x)": [2000, 2000],
}
"""Items of RETURNING and their values for the two rows."""


@pytest.fixture
def shared(session: Session) -> Session:
    """Return a session with tables that share the names of columns."""
    session.update("CREATE TABLE t AS SELECT * FROM (VALUES (1, 10), (2, 20)) AS t (k, v)")
    session.update("CREATE TABLE sr AS SELECT * FROM (VALUES (1, 1, 1), (2, 2, 2)) AS t (k, x, view)")
    session.update("CREATE TABLE u AS SELECT * FROM (VALUES (7, 7), (1000, 1), (2, 2000)) AS t (x, y)")
    session.update("INSERT INTO u VALUES (3, 1000)")
    return session


@pytest.mark.parametrize("item", SUBQUERIES)
def test_names_of_subqueries_in_returning(shared: Session, item: str) -> None:
    """A name in a subquery of RETURNING means a column of the subquery's own tables first."""
    done = shared.update_returning(f"UPDATE t SET v = 0 FROM sr WHERE sr.k = t.k RETURNING t.k, {item} AS found")
    assert [row["found"] for row in sorted(done.rows.to_pylist(), key=lambda row: row["k"])] == SUBQUERIES[item]


def test_a_name_that_two_tables_can_own(shared: Session) -> None:
    """RETURNING refuses a bare name in a subquery if the columns of the subquery's table are unknown."""
    item = "(WITH c AS (SELECT x FROM u) SELECT max(x) FROM c)"
    with pytest.raises(SqlError, match=r"x in a subquery can be a column of c or of another table .*: write c\.x"):
        shared.update(f"UPDATE t SET v = 0 FROM sr WHERE sr.k = t.k RETURNING t.k, {item}")
    assert rows(shared, "SELECT DISTINCT v FROM t ORDER BY v") == [{"v": 10}, {"v": 20}]


def test_a_row_of_defaults(session: Session) -> None:
    """DEFAULT VALUES adds one row, as a plain INSERT and with RETURNING."""
    session.update("CREATE TABLE d (i BIGINT DEFAULT 7, v VARCHAR)")
    assert session.update("INSERT INTO d DEFAULT VALUES") == 1
    done = session.update_returning("INSERT INTO d DEFAULT VALUES RETURNING *")
    assert done.rows.to_pylist() == [{"i": 7, "v": None}]
    assert explained(session, "INSERT INTO d DEFAULT VALUES")["change"]
    assert rows(session, "SELECT count(*) AS c FROM d WHERE i = 7") == [{"c": 2}]


ERRORS = {
    "UPDATE people SET likes.thing = 'x' FROM likes": "UPDATE changes only the columns of people",
    "UPDATE people SET name = thing FROM likes AS people": "two tables named 'people': write UPDATE people AS a",
    "DELETE FROM people USING people WHERE true": "two tables named 'people': write DELETE FROM people AS a",
    "DELETE FROM people RETURNING count(*)": "one row for each changed row",
    "DELETE FROM people RETURNING DISTINCT name": "one row for each changed row",
    "DELETE FROM people RETURNING nope": r"Valid fields are people\.id, .*people\.day\.$",
    "UPDATE people SET name = 'x' FROM likes a JOIN likes b USING (nope)": r"Valid fields are [^.].*[^.]\.$",
    "DELETE FROM people WHERE row_number() OVER () = 1": "compute them in a subquery of FROM",
    "UPDATE people SET name = (SELECT thing FROM likes WHERE person_id = people.id)": "more than one row returned",
    "WITH d AS (DELETE FROM likes RETURNING *) DELETE FROM people USING d": "as a statement of its own",
    "INSERT INTO people VALUES (1, 'a'), (2)": "into 2 columns, but row 2 of VALUES has 1 values",
    "INSERT INTO people (id, name) VALUES (1)": "into 2 columns, but row 1 of VALUES has 1 values",
    "INSERT INTO people (id, id) VALUES (1, 2)": "names the column 'id' twice",
    "INSERT INTO needed VALUES ('x', 1) ON CONFLICT ON CONSTRAINT needed_pkey DO NOTHING": "not a constraint",
    "INSERT INTO needed VALUES ('x', 1) ON CONFLICT (id) WHERE id > 1 DO NOTHING": "or a condition",
    "INSERT INTO needed VALUES ('x', NULL)": "value 2 of a row of VALUES is NULL",
}


@pytest.mark.parametrize("sql", ERRORS)
def test_errors(session: Session, sql: str) -> None:
    """A wrong change says what to write instead, and changes nothing."""
    session.update("CREATE TABLE needed (name VARCHAR, id BIGINT NOT NULL)")
    before = rows(session, "SELECT * FROM people")
    with pytest.raises(FlightLLMError, match=ERRORS[sql]):
        session.update(sql)
    assert rows(session, "SELECT * FROM people") == before


def test_names_of_returning(session: Session) -> None:
    """RETURNING takes one column or expression twice, and keeps the names."""
    items = "id, people.id, upper(name), upper(name), id AS a, id AS a"
    done = session.update_returning(f"UPDATE ONLY people SET id = id WHERE id = 1 RETURNING {items}").rows
    assert [done.column_names[index] for index in (0, 1, 4, 5)] == ["id", "id", "a", "a"]
    assert [column[0].as_py() for column in done.columns] == [1, 1, "ANN", "ANN", 1, 1]
