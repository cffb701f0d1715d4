"""Statements that store rows, against an endpoint without an answer for some rows: all or nothing, unless told."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from flightllm.errors import AICallError, EngineError
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import explained, rows, small_database
from tests.endpoints import Body, Endpoint, Reply, chat, endpoint_of, refuse

BAD = ("ROW2", "ROW5")
"""The rows without an answer."""
LONG = 9007199254740993
"""A number that a double cannot hold."""
SERIES = "generate_series(1, 6) AS g(v)"
OLD = ["old 1", "old 2", "old 3", "old 4", "old 5", "old 6"]


def _behave(path: str, body: Body, number: int) -> Reply:
    del path, number
    prompt = body["messages"][-1]["content"]
    row = next((f"ROW{n}" for n in range(1, 10) if f"ROW{n}" in prompt), "")
    if row in BAD:
        return refuse(400, f"the prompt of {row} was flagged")
    return chat(json.dumps({"quote": f"said by {row}"}) if "quote" in prompt else f"says {row}")


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Endpoint]:
    """Return an endpoint that refuses two rows."""
    with endpoint_of(_behave) as found:
        yield found


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory, endpoint: Endpoint) -> Iterator[Database]:
    """Return a database with a model at the endpoint."""
    database = small_database(tmp_path_factory.mktemp("failed"), {})
    database.session().update(f"CREATE MODEL m OPTIONS (engine 'openai', model 'any', base_url '{endpoint.url}')")
    yield database
    database.close()


@pytest.fixture
def session(database: Database, endpoint: Endpoint) -> Session:
    """Return a session with fresh tables, of which one has six rows with old values, and no answers."""
    session = database.session()
    for statement in (
        "TRUNCATE system.cache",
        f"CREATE OR REPLACE TABLE u AS SELECT v AS id, 'ROW' || v t, 'old ' || v AS s, v * {LONG} AS n FROM {SERIES}",
        "CREATE OR REPLACE TABLE empty (id BIGINT, s TEXT)",
        "CREATE OR REPLACE TABLE keyed (id BIGINT PRIMARY KEY, s TEXT)",
        "INSERT INTO keyed SELECT id, s FROM u",
        "DROP TABLE IF EXISTS made",
        "CREATE OR REPLACE VIEW viewed AS SELECT id, ai_gen('Say', t, model => 'm') AS said FROM u",
    ):
        session.update(statement)
    endpoint.bodies.clear()
    return session


def _column(session: Session, sql: str) -> list[Any]:
    return [next(iter(row.values())) for row in rows(session, sql)]


def _stored(session: Session) -> Mapping[str, Sequence[Any]]:
    tables = [row["table_name"] for row in rows(session, "SELECT table_name FROM information_schema.tables")]
    shown = [name for name in ("u", "keyed", "empty", "made") if name in tables]
    return {name: rows(session, f"SELECT * FROM {name} ORDER BY id") for name in shown}


CALL = "ai_gen('Say', {}, model => 'm')"
STORING = {
    "update": f"UPDATE u SET s = {CALL.format('t')}",
    "update inside a CASE": f"UPDATE u SET s = CASE WHEN id > 1 THEN upper({CALL.format('t')}) END",
    "update where": "UPDATE u SET s = 'x' WHERE ai_filter('Say so?', t, model => 'm')",
    "update from": f"UPDATE u SET s = {CALL.format('k.s || u.t')} FROM keyed k WHERE k.id = u.id",
    "delete": "DELETE FROM u WHERE ai_filter('Say so?', t, model => 'm')",
    "insert": f"INSERT INTO empty SELECT id, {CALL.format('t')} FROM u",
    "insert values": "INSERT INTO empty VALUES (1, 'a'), (2, ai_gen('Say', 'ROW2', model => 'm'))",
    "insert from a view": "INSERT INTO empty SELECT id, said FROM viewed",
    "create table as": f"CREATE TABLE made AS SELECT id, {CALL.format('t')} AS s FROM u",
    "create or replace": f"CREATE OR REPLACE TABLE empty AS SELECT id, {CALL.format('t')} AS s FROM u",
    "merge": f"MERGE INTO keyed k USING u ON k.id = u.id WHEN MATCHED THEN UPDATE SET s = {CALL.format('u.t')}",
    "merge inserts": "MERGE INTO empty k USING u ON k.id = u.id"
    f" WHEN NOT MATCHED THEN INSERT VALUES (u.id, {CALL.format('u.t')})",
    "on conflict": f"INSERT INTO keyed SELECT id, {CALL.format('t')} FROM u"
    " ON CONFLICT (id) DO UPDATE SET s = excluded.s",
    "do update": "INSERT INTO keyed SELECT id, t FROM u"
    f" ON CONFLICT (id) DO UPDATE SET s = {CALL.format('excluded.s')}",
    "two columns": f"UPDATE u SET s = {CALL.format('t')}, n = length({CALL.format('t')})",
}


@pytest.mark.parametrize("name", STORING)
def test_a_failed_answer_fails_the_statement(session: Session, endpoint: Endpoint, name: str) -> None:
    """Nothing is stored, the error says which answer is missing and what to write, and sending it again asks less."""
    before = _stored(session)
    with pytest.raises(EngineError, match=r"(?s)was flagged.*on_error => 'null'.*nothing was changed") as raised:
        session.update(STORING[name])
    assert ("'keep'" in str(raised.value)) == bool(re.search(r"SET .*ai_gen", STORING[name]))
    assert _stored(session) == before
    asked = len(endpoint.bodies)
    with pytest.raises(EngineError, match="was flagged"):
        session.update(STORING[name])
    assert _stored(session) == before
    assert len(endpoint.bodies) - asked <= asked


def test_a_query_gives_null(session: Session) -> None:
    """SELECT, and EXPLAIN of a change, do not fail."""
    assert _column(session, "SELECT id FROM viewed WHERE said IS NULL ORDER BY id") == [2, 5]
    assert "ai_gen" in explained(session, STORING["update"])["ai operator s0"]


@pytest.mark.parametrize(
    ("sql", "table", "stored"),
    [
        ("UPDATE u SET s = ai_gen('Say', t, model => 'm', on_error => 'null')", "u", [None, None]),
        ("UPDATE u SET s = ai_gen('Say', t, model => 'm', on_error => NULL)", "u", [None, None]),
        (
            "INSERT INTO empty SELECT id, ai_gen('Say', t, model => 'm', on_error => 'null') FROM u",
            "empty",
            [None, None],
        ),
        (
            "CREATE TABLE made AS SELECT id, ai_gen('Say', t, model => 'm', on_error => 'struct') AS s FROM u",
            "made",
            None,
        ),
    ],
)
def test_what_the_call_says_is_stored(session: Session, sql: str, table: str, stored: list[Any] | None) -> None:
    """`null` stores NULL, and `struct` stores the value with its error."""
    assert session.update(sql) == 6
    found = _column(session, f"SELECT s FROM {table} WHERE id IN (2, 5) ORDER BY id")
    if stored is None:
        assert all(one["value"] is None and "was flagged" in one["error"] for one in found)
    else:
        assert found == stored


KEEP = "ai_gen('Say', t, model => 'm', on_error => 'keep')"
TELL = "ai_gen('Tell', t, model => 'm', on_error => 'keep')"
QUOTED = "ai_extract(t, ['quote'], model => 'm', on_error => 'keep')"
QUOTE = f"{QUOTED}['quote']"
OF_SOURCE = "ai_gen('Say', k.t, model => 'm', on_error => 'keep')"
BRANCHES = f"CASE WHEN id < 4 THEN {KEEP} ELSE (upper({KEEP})) END"
MERGE = f"""
MERGE INTO u USING (SELECT id, t FROM u) AS k ON k.id = u.id
WHEN MATCHED AND k.id < 0 THEN DELETE
WHEN MATCHED THEN UPDATE SET s = {OF_SOURCE}"""
KEPT = {
    "dollars": (f"UPDATE u SET s = {KEEP}".replace("'keep'", "$$keep$$"), "says ROW{}"),
    "plain": (f"UPDATE u SET s = {KEEP}", "says ROW{}"),
    "inside of a function": (f"UPDATE u SET s = upper({KEEP})", "SAYS ROW{}"),
    "a field": (f"UPDATE u SET s = {QUOTE} || '!'", "said by ROW{}!"),
    "two calls": (f"UPDATE u SET s = {KEEP} || ' ' || {TELL}", "says ROW{0} says ROW{0}"),
    "branches": (f"UPDATE u SET s = {BRANCHES}", None),
    "a CASE inside of a function": (
        f"UPDATE u SET s = trim(CASE WHEN id < 9 THEN {KEEP} ELSE s END)",
        "says ROW{}",
    ),
    "a condition of CASE": (f"UPDATE u SET s = CASE WHEN {KEEP} LIKE 'x%' THEN 'x' ELSE 'no ' || id END", "no {}"),
    "the operand of CASE": (f"UPDATE u SET s = CASE {KEEP} WHEN 'says ROW9' THEN 'x' ELSE 'no ' || id END", "no {}"),
    "a WHEN of CASE": (
        f"UPDATE u SET s = CASE t WHEN {KEEP} THEN 'x' WHEN 'ROW0' THEN 'y' ELSE 'no ' || id END",
        "no {}",
    ),
    "a field by a dot": (f"UPDATE u SET s = {QUOTED}.quote || '!'", "said by ROW{}!"),
    "a field in parentheses": (f"UPDATE u SET s = ({QUOTED}).quote", "said by ROW{}"),
    "coalesce": (f"UPDATE u SET s = coalesce(nullif(s, s), {KEEP}, 'none')", "says ROW{}"),
    "nvl": (f"UPDATE u SET s = nvl(nullif(s, s), {KEEP})", "says ROW{}"),
    "an alias and FROM": (f"UPDATE u AS x SET s = {OF_SOURCE} FROM u AS k WHERE k.id = x.id", "says ROW{}"),
    "merge": (MERGE, "says ROW{}"),
}


@pytest.mark.parametrize("name", KEPT)
def test_an_old_value_stays(session: Session, endpoint: Endpoint, name: str) -> None:
    """With `keep`, the rows without an answer keep their value, and no call is sent twice, also without dedup."""
    sql, said = KEPT[name]
    assert session.update(sql, settings={"dedup": "on" if name in {"coalesce", "nvl"} else "off"}) == 6
    new = [said.format(n) if said else (f"says ROW{n}" if n < 4 else f"SAYS ROW{n}") for n in range(1, 7)]
    expected = [OLD[n] if f"ROW{n + 1}" in BAD else new[n] for n in range(6)]
    assert _column(session, "SELECT s FROM u ORDER BY id") == expected
    answered = [b for b in endpoint.bodies if not any(bad in b["messages"][-1]["content"] for bad in BAD)]
    assert len(answered) == (8 if name == "two calls" else 4)


@pytest.mark.parametrize("fresh", ["", ", fresh => true"])
def test_a_value_and_its_error_are_of_one_answer(session: Session, endpoint: Endpoint, fresh: str) -> None:
    """Each row is asked once, also without the optimizer and with a new answer for each row."""
    said = KEEP.replace("'keep'", f"'keep'{fresh}")
    assert session.update(f"UPDATE u SET s = {said}", settings={"optimizer": "off"}) == 6
    assert len(endpoint.bodies) == 6


@pytest.mark.parametrize(
    ("value", "asked", "stored"),
    [
        (f"id > 4 AND {KEEP} = 'says ROW6'", [5, 6], [False, False, False, False, True, True]),
        (f"{KEEP} = 'says ROW6' AND (id > 4)", [5, 6], [False, False, False, False, True, True]),
        (f"(id < 5 OR {KEEP} = 'says ROW6') AND id <> 1", [5, 6], [False, True, True, True, True, True]),
        (f"NOT (id < 5 OR {KEEP} = 'says ROW6')", [5, 6], [False, False, False, False, True, False]),
        (f"id > 4 AND {KEEP} = 'x' AND {TELL} = 'x'", [5, 6], [False, False, False, False, True, False]),
        (f"ifnull(nullif(id, 2) > 0, {KEEP} = 'x')", [2], [True] * 6),
        (f"NOT (nullif(id, 2) > 2) AND {KEEP} = 'x'", [1, 2], [False, True, False, False, False, False]),
    ],
)
def test_certain_values_are_stored(
    session: Session, endpoint: Endpoint, value: str, asked: list[int], stored: list[bool]
) -> None:
    """Where other operands decide AND, OR or coalesce, no model is asked and no old value stays."""
    session.update("CREATE OR REPLACE TABLE yes AS SELECT id, t, true AS b FROM u")
    assert session.update(f"UPDATE yes SET b = {value}") == 6
    assert _column(session, "SELECT b FROM yes ORDER BY id") == stored
    prompts = {body["messages"][-1]["content"] for body in endpoint.bodies}
    assert sorted({n for n in range(1, 7) for prompt in prompts if f"ROW{n}" in prompt}) == asked


def test_do_update_keeps_an_old_value(session: Session) -> None:
    """ON CONFLICT … DO UPDATE keeps the values of rows that exist."""
    said = "ai_gen('Say', 'ROW' || keyed.id, model => 'm', on_error => 'keep')"
    session.update(
        f"INSERT INTO keyed VALUES (2, 'new'), (3, 'new'), (9, 'new') ON CONFLICT (id) DO UPDATE SET s = {said}"
    )
    assert _column(session, "SELECT s FROM keyed WHERE id IN (2, 3, 9) ORDER BY id") == ["old 2", "says ROW3", "new"]


def test_an_old_number_keeps_its_digits(session: Session) -> None:
    """The old value does not pass through the type of the answer; the new value is rounded as usual."""
    said = f"length({KEEP}) / 2.0"
    assert session.update(f"UPDATE u SET n = CASE WHEN id > 0 THEN {said} END WHERE id < 3") == 2
    assert _column(session, "SELECT n FROM u WHERE id < 3 ORDER BY id") == [5, 2 * LONG]


def test_a_null_field_is_no_failure(session: Session) -> None:
    """A row that no model is asked about gets NULL, also with `keep`."""
    session.update("UPDATE u SET s = ai_gen('Say', nullif(t, 'ROW1'), model => 'm', on_error => 'keep') WHERE id < 3")
    assert _column(session, "SELECT s FROM u WHERE id < 3 ORDER BY id") == [None, "old 2"]


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("SELECT ai_gen('Say', t, on_error => 'keep') FROM u", "old value of a column"),
        ("INSERT INTO empty SELECT id, ai_gen('Say', t, on_error => 'keep') FROM u", "UPDATE … SET"),
        ("UPDATE u SET s = 'x' WHERE ai_gen('Say', t, on_error => 'keep') = 'x'", "UPDATE … SET"),
        (
            "UPDATE u SET s = (SELECT max(ai_gen('Say', k.s, on_error => 'keep')) FROM keyed k)",
            "not in a subquery",
        ),
    ],
)
def test_places_without_an_old_value(session: Session, sql: str, text: str) -> None:
    """`keep` elsewhere is an error that says where it works."""
    run = session.execute if sql.startswith("SELECT") else session.update
    with pytest.raises(AICallError, match=text):
        run(sql)
    assert _column(session, "SELECT s FROM u ORDER BY id") == OLD
