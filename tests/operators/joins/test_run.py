"""Joins by a yes/no call return what a double loop over the model's own answers returns, with a question per pair."""

import json
from collections.abc import Callable, Iterator
from itertools import product

import pytest

from flightllm.errors import AICallError
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import ask, fired, open_database, plan_lines
from tests.simulated import Model, simulated

WORDS = ("ant", "bee", "cow", "dog", "eel")
KIND = {"ant": 6, "bee": 6, "cow": 4, "dog": 4, "eel": 0, "fox": 4}
LEFT = [(i, WORDS[i % 5] if i % 7 else None, i % 3) for i in range(1, 16)]
RIGHT = [(i, (*WORDS, "fox")[i % 6] if i % 5 else None, i % 4) for i in range(1, 19)]
ALIKE = {f"{x} | {y}": KIND[x] == KIND[y] for x, y in product(KIND, KIND)}
INSECT = {x: legs == 6 for x, legs in KIND.items()}
CALL = "ai_filter('Are {x} and {y} alike?', x => a.x, y => b.y%s)"
SHARP = ", strategy => '{}'"


def alike(x: str | None, y: str | None) -> bool:
    """Return what the simulated model answers."""
    return x is not None and y is not None and ALIKE[f"{x} | {y}"]


def _any(left: int, right: int) -> bool:  # noqa: ARG001 - each pair of keys
    return True


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Return a database with two tables that have equal values, NULLs and no pair that is unknown to the model."""
    with simulated({"demo": Model({"alike": ALIKE, "insect": INSECT})}):
        database = open_database(tmp_path_factory.mktemp("joins"))
        session = database.session()
        for name, column, rows in (("a", "x", LEFT), ("b", "y", RIGHT)):
            values = ", ".join(f"({i}, {'NULL' if t is None else repr(t)}, {k})" for i, t, k in rows)
            session.update(f"CREATE TABLE {name} AS SELECT * FROM (VALUES {values}) AS v(id, {column}, k)")
        yield database
        database.close()


@pytest.fixture
def session(database: Database) -> Session:
    """Return a session without kept answers."""
    session = database.session()
    session.update("TRUNCATE system.cache")
    return session


def loop(kind: str, condition: Callable[[int, int], bool] = _any) -> list[tuple[int | None, int | None]]:
    """Return the rows of a join, found by a double loop."""
    pairs = [(i, j) for i, x, k in LEFT for j, y, m in RIGHT if condition(k, m) and alike(x, y)]
    left, right = {i for i, _ in pairs}, {j for _, j in pairs}
    lonely_left = [(i, None) for i, _, _ in LEFT if i not in left]
    lonely_right = [(None, j) for j, _, _ in RIGHT if j not in right]
    rows: dict[str, list[tuple[int | None, int | None]]] = {
        "JOIN": [*pairs],
        "LEFT JOIN": [*pairs, *lonely_left],
        "RIGHT JOIN": [*pairs, *lonely_right],
        "FULL JOIN": [*pairs, *lonely_left, *lonely_right],
        "LEFT SEMI JOIN": [(i, None) for i in left],
        "LEFT ANTI JOIN": [*lonely_left],
    }
    return sorted(rows[kind], key=str)


def found(session: Session, sql: str, **settings: str) -> list[tuple[int | None, int | None]]:
    """Return the rows of a query with the columns i and j."""
    return sorted(((row["i"], row.get("j")) for row in ask(session, sql, **settings).rows), key=str)


@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"])
@pytest.mark.parametrize(
    ("beside", "condition"),
    [
        pytest.param("", _any, id="alone"),
        pytest.param(" AND a.k = b.k", lambda k, m: k == m, id="equality"),
        pytest.param(" AND a.k < b.k", lambda k, m: k < m, id="inequality"),
    ],
)
@pytest.mark.parametrize("options", ["", ", strategy => 'pairs'", ", symmetric => true"])
def test_kinds(session: Session, kind: str, beside: str, condition: Callable[[int, int], bool], options: str) -> None:
    """Each kind of join has the rows of the double loop, with rules and without."""
    columns = "a.id AS i" if "SEMI" in kind or "ANTI" in kind else "a.id AS i, b.id AS j"
    sql = f"SELECT {columns} FROM a {kind} b ON {CALL % options}{beside}"
    assert found(session, sql) == loop(kind, condition)
    assert found(session, sql, rules="off") == loop(kind, condition)
    assert found(session, sql, optimizer="off") == loop(kind, condition)


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT a.id AS i, b.id AS j FROM a, b WHERE {CALL % ''}",
        f"SELECT a.id AS i, b.id AS j FROM a CROSS JOIN b WHERE {CALL % ', symmetric => true'} AND a.k + b.k > 0 - 1",
        f"SELECT i, b.id AS j FROM (SELECT id AS i, x FROM a) AS a JOIN b ON {CALL % ''}",
        f"SELECT sum(a.id) / count(*) AS i, b.id AS j FROM a JOIN b ON {CALL % ''} GROUP BY a.id, b.id",
    ],
)
def test_spellings(session: Session, sql: str) -> None:
    """WHERE over a cross join, comma joins, subqueries and groups find the same pairs."""
    assert "join_by_values" in fired(session, sql)
    assert found(session, sql) == loop("JOIN")


THIRD = "ai_filter('Are {x} and {y} alike?', x => b.y, y => c.y%s)"


@pytest.mark.parametrize("options", ["", ", strategy => 'pairs'", ", symmetric => true"])
@pytest.mark.parametrize(
    ("joins", "holds"),
    [
        pytest.param("{f} JOIN b AS c ON c.id = b.id", lambda _a, b, c: b[0] == c[0], id="right"),
        pytest.param("{f} JOIN b AS c ON c.id = a.id", lambda a, _b, c: a[0] == c[0], id="left"),
        pytest.param(
            "{f} JOIN b AS c ON c.id = a.id AND c.k <> b.k AND c.y <> a.x",
            lambda a, b, c: a[0] == c[0] and c[2] != b[2] and bool(c[1]) and bool(a[1]) and c[1] != a[1],
            id="also others",
        ),
        pytest.param("{f} CROSS JOIN b AS c WHERE c.id = a.id + b.id", lambda a, b, c: c[0] == a[0] + b[0], id="three"),
        pytest.param("{f} CROSS JOIN b AS c WHERE c.id < 3", lambda _a, _b, c: c[0] < 3, id="cross"),
        pytest.param(
            "{f} JOIN b AS c ON {g} AND c.id < 9", lambda _a, b, c: c[0] < 9 and alike(b[1], c[1]), id="calls"
        ),
        pytest.param(
            "{f} AND a.id = b.id JOIN b AS c ON {g}", lambda a, b, c: a[0] == b[0] and alike(b[1], c[1]), id="calls too"
        ),
        pytest.param(
            "{f} JOIN b AS c ON c.id = b.id + 1 WHERE {g}",
            lambda _a, b, c: c[0] == b[0] + 1 and alike(b[1], c[1]),
            id="equality and calls",
        ),
    ],
)
def test_three_tables(session: Session, joins: str, holds: Callable[..., bool], options: str) -> None:
    """A join beside the call's own tables, and a second call, change none of the rows."""
    sql = f"SELECT a.id AS a, b.id AS b, c.id AS c FROM a JOIN b ON {joins.format(f=CALL % options, g=THIRD % options)}"
    wanted = [(a[0], b[0], c[0]) for a, b, c in product(LEFT, RIGHT, RIGHT) if alike(a[1], b[1]) and holds(a, b, c)]
    for rules in ("on", "off"):
        rows = [(row["a"], row["b"], row["c"]) for row in ask(session, sql, optimizer=rules).rows]
        assert sorted(rows) == sorted(wanted)
    assert wanted


def test_an_equality_limits_the_questions(session: Session) -> None:
    """A table that an equality binds to one side joins this side before the pairs are asked."""
    sql = f"SELECT a.id AS i FROM a JOIN b ON {CALL % SHARP.format('pairs')} JOIN b AS c ON c.id = b.id AND c.k = 1"
    bound = {y for _, y, k in RIGHT if y and k == 1}
    assert ask(session, sql).calls == len({(x, y) for _, x, _ in LEFT for y in bound if x})


def test_two_calls_of_one_join_are_an_error(session: Session) -> None:
    """Two calls with a strategy about the same two tables are no two joins."""
    both = f"{CALL % SHARP.format('pairs')} AND {CALL.replace('alike', 'insect') % SHARP.format('pairs')}"
    with pytest.raises(AICallError, match="at most one call of the join"):
        ask(session, f"SELECT a.id FROM a JOIN b ON {both}")


def test_one_side_has_a_call_too(session: Session) -> None:
    """A call that reads one side is asked on this side, and limits the pairs."""
    sql = (
        f"SELECT a.id AS i, b.id AS j FROM a JOIN b ON {CALL % ', symmetric => true'}"
        " AND ai_filter('Is {x} an insect?', x => a.x)"
    )
    insects = {i for i, x, _ in LEFT if x and INSECT[x]}
    assert found(session, sql) == [pair for pair in loop("JOIN") if pair[0] in insects]
    titles = {" ".join(title.split()[:2]) for title in plan_lines(session, sql)}
    assert {"ai join", "ai operator"} <= titles
    session.update("TRUNCATE system.cache")
    assert ask(session, sql).calls == len(WORDS) + len({frozenset((x, y)) for x in ("ant", "bee") for y in KIND})


@pytest.mark.parametrize("sign", ["=", "<>"])
@pytest.mark.parametrize("beside", ["", " AND a.k = 1"])
def test_answers_are_compared(session: Session, sign: str, beside: str) -> None:
    """Calls about one side each are asked below the join, once for each value, and no pair is made for them."""
    call = "ai_filter('Is {t} an insect?', t => %s)"
    sql = f"SELECT a.id AS i, b.id AS j FROM a JOIN b ON {call % 'a.x'} {sign} {call % 'b.y'}{beside}"
    pairs = [
        (i, j)
        for i, x, k in LEFT
        for j, y, _ in RIGHT
        if x and y and (INSECT[x] == INSECT[y]) == (sign == "=") and (k == 1 or not beside)
    ]
    assert found(session, sql) == sorted(pairs, key=str)
    session.update("TRUNCATE system.cache")
    assert ask(session, sql).calls == len(KIND)
    assert len([title for title in plan_lines(session, sql) if title.startswith("ai operator")]) == 2
    assert found(session, sql, rules="off") == sorted(pairs, key=str)


def test_calls(session: Session) -> None:
    """Each distinct pair of values is asked once; a symmetric pair once in both orders; a known pair never."""
    left, right = ({x for _, x, _ in rows if x} for rows in (LEFT, RIGHT))
    sql = "SELECT a.id FROM a JOIN b ON {}"
    assert ask(session, sql.format(CALL % "")).calls == len(left) * len(right)
    assert ask(session, sql.format(CALL % ", symmetric => true")).calls == 0
    session.update("TRUNCATE system.cache")
    unordered = {frozenset(pair) for pair in product(left, right)}
    assert ask(session, sql.format(CALL % ", symmetric => true")).calls == len(unordered)
    session.update("TRUNCATE system.cache")
    allowed = {(x, y) for _, x, k in LEFT for _, y, m in RIGHT if x and y and k == m}
    assert ask(session, sql.format(CALL % ", strategy => 'pairs'") + " AND a.k = b.k").calls == len(allowed)


def test_a_limit_stops_early(session: Session) -> None:
    """A LIMIT asks about few pairs, and returns pairs that match."""
    ran = ask(session, f"SELECT a.id AS i, b.id AS j FROM a JOIN b ON {CALL % ', symmetric => true'} LIMIT 3")
    assert len(ran.rows) == 3
    assert {(row["i"], row["j"]) for row in ran.rows} <= set(loop("JOIN"))
    assert ran.calls <= 10


def test_the_prediction_is_exact(session: Session) -> None:
    """EXPLAIN predicts the calls of all distinct pairs, and ANALYZE makes them."""
    sql = f"SELECT a.id AS i, b.id AS j FROM a JOIN b ON {CALL % ''}"
    assert "distinct pair of values" in next(v for k, v in plan_lines(session, sql).items() if k.startswith("ai join"))
    (row,) = ask(session, f"EXPLAIN (FORMAT JSON) {sql}").rows
    assert json.loads(row["plan"])["total"]["predicted"]["calls"] == len(WORDS) * 6
    explained = ask(session, f"EXPLAIN ANALYZE {sql}")
    assert explained.calls == len(WORDS) * 6
    table = ask(session, f"SELECT * FROM system.ai_calls WHERE query_id = '{explained.record.query_id}'").rows
    assert [row["calls"] for row in table] == [30]


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("SELECT ai_filter('{x} {y}', x => x, y => k, strategy => 'pairs') FROM a", "a filter that joins two tables"),
        (f"SELECT a.id FROM a JOIN b ON NOT {CALL % ', symmetric => true'}", "a condition of its own"),
        (f"SELECT a.id FROM a JOIN b ON {CALL % SHARP.format('best')}", "strategy must be one of"),
        ("SELECT id FROM a WHERE ai_filter('{x}', x => x, symmetric => true)", "a field of each table"),
        (f"SELECT a.id FROM a JOIN b ON {CALL % (SHARP.format('pairs') + ', recall => 0.9')}", "saves nothing"),
        (f"SELECT a.id FROM a JOIN b ON {CALL % (SHARP.format('pairs') + ', accuracy => 0.9')}", "recall =>"),
        (
            "SELECT a.id FROM a JOIN b ON ai_filter('{x} {y} {z}', x => a.x, y => b.y, z => b.k, symmetric => true)",
            "as many fields",
        ),
    ],
)
def test_errors(session: Session, sql: str, error: str) -> None:
    """A wish that no join can keep gets an error that says what to write."""
    with pytest.raises(AICallError, match=error):
        ask(session, sql)
