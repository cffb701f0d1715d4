"""Columns that USING and NATURAL merge have the values that the SQL standard says; DuckDB gave the expected rows."""

from collections.abc import Iterator

import pytest

from flightllm.dialect import rewrite
from flightllm.errors import SqlError, UnsupportedError
from flightllm.session.session import Session
from flightllm.sql.parsed_text import ParsedText
from tests.databases import ask, open_database
from tests.dialect.places import EMPTY

TABLES = (
    "CREATE TABLE t AS SELECT * FROM (VALUES (1, 'a', 10), (2, 'b', 20), (3, 'c', 30)) AS v(id, x, k)",
    "CREATE TABLE own AS SELECT * FROM (VALUES ('p', 0, 10), ('q', 3, 30), ('r', 6, 40)) AS v(y, id, k)",
    "CREATE TABLE z AS SELECT * FROM (VALUES (2, 'l'), (6, 'm'), (9, 'n')) AS v(id, w)",
    """CREATE TABLE "Big" AS SELECT * FROM (VALUES (1, 'u'), (7, 'v')) AS v("Id", "Note")""",
    "CREATE VIEW merged AS SELECT * FROM t FULL JOIN z USING (id)",
    "CREATE VIEW said AS SELECT id, ai_gen('say {id}', id) AS w FROM t FULL JOIN z USING (id)",
    "CREATE TABLE made AS SELECT id, w FROM t RIGHT JOIN z USING (id) WHERE id > 2",
)
NINE = [(2,), (6,), (9,)]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Open tables whose keys differ, and views and a table of their joins."""
    database = open_database(tmp_path_factory.mktemp("using"))
    session = database.session()
    for statement in TABLES:
        session.update(statement)
    yield session
    database.close()


def _asked(session: Session, sql: str) -> tuple[list[str], list[tuple[object, ...]]]:
    table = ask(session, sql).table
    return table.schema.names, list(zip(*(column.to_pylist() for column in table.columns), strict=True))


@pytest.mark.parametrize(
    ("sql", "names", "rows"),
    [
        ("SELECT id FROM t RIGHT JOIN z USING (id) ORDER BY id DESC LIMIT 2", ["id"], [(9,), (6,)]),
        ("SELECT count(*), count(id) FROM t FULL JOIN z USING (id)", ["count(*)", "count(id)"], [(5, 5)]),
        ("SELECT * FROM t JOIN own USING (id) WHERE id = 3", ["id", "x", "k", "y", "k"], [(3, "c", 30, "q", 30)]),
        ("SELECT x FROM t JOIN own USING (id) JOIN z USING (id) WHERE id > 0", ["x"], []),
        (
            "SELECT * FROM t RIGHT JOIN z USING (id) ORDER BY id",
            ["id", "x", "k", "w"],
            [(2, "b", 20, "l"), (6, None, None, "m"), (9, None, None, "n")],
        ),
        (
            "SELECT * FROM z LEFT JOIN own USING (id) ORDER BY id",
            ["id", "w", "y", "k"],
            [(2, "l", None, None), (6, "m", "r", 40), (9, "n", None, None)],
        ),
        (
            "SELECT * FROM t FULL JOIN own USING (id, k) ORDER BY id, k",
            ["id", "k", "x", "y"],
            [(0, 10, None, "p"), (1, 10, "a", None), (2, 20, "b", None), (3, 30, "c", "q"), (6, 40, None, "r")],
        ),
        (
            "SELECT id, w, y FROM t FULL JOIN own USING (id) FULL JOIN z USING (id) WHERE id > 1 ORDER BY id",
            ["id", "w", "y"],
            [(2, "l", None), (3, None, "q"), (6, "m", "r"), (9, "n", None)],
        ),
        (
            "SELECT id, x, w FROM t RIGHT JOIN own USING (id) LEFT JOIN z USING (id) ORDER BY id",
            ["id", "x", "w"],
            [(0, None, None), (3, "c", None), (6, None, "m")],
        ),
        (
            "SELECT id, y, w FROM t FULL JOIN (own FULL JOIN z USING (id)) USING (id) WHERE id <> 1 ORDER BY id",
            ["id", "y", "w"],
            [(0, "p", None), (2, None, "l"), (3, "q", None), (6, "r", "m"), (9, None, "n")],
        ),
        ("SELECT a.id, b.id, id FROM t a RIGHT JOIN z AS b USING (id) WHERE id = 9", ["id"] * 3, [(None, 9, 9)]),
        (
            "SELECT *, id FROM t FULL JOIN z USING (id) WHERE id = 9",
            ["id", "x", "k", "w", "id"],
            [(9, None, None, "n", 9)],
        ),
        (
            "SELECT *, t.id FROM t FULL JOIN z USING (id) WHERE id = 1",
            ["id", "x", "k", "w", "id"],
            [(1, "a", 10, None, 1)],
        ),
        ("SELECT * EXCLUDE (k) FROM t FULL JOIN z USING (id) WHERE id = 2", ["id", "x", "w"], [(2, "b", "l")]),
        ("SELECT DISTINCT id FROM t FULL JOIN z USING (id) ORDER BY id LIMIT 2", ["id"], [(1,), (2,)]),
        ("SELECT x AS id FROM t RIGHT JOIN z USING (id) ORDER BY id LIMIT 1", ["id"], [("b",)]),
        ("SELECT id + 1 FROM t FULL JOIN z USING (id) ORDER BY id + 1 DESC LIMIT 1", ["id + 1"], [(10,)]),
        (
            "SELECT id % 2 o, count(id) n FROM t FULL JOIN z USING (id) GROUP BY id % 2 HAVING max(id) > 3 ORDER BY o",
            ["o", "n"],
            [(0, 2), (1, 3)],
        ),
        (
            "SELECT id, count(*) AS n FROM t FULL JOIN z USING (id) GROUP BY id ORDER BY id LIMIT 2",
            ["id", "n"],
            [(1, 1), (2, 1)],
        ),
        (
            "SELECT id FROM t RIGHT JOIN z USING (id) UNION ALL SELECT id FROM own JOIN z USING (id) ORDER BY id DESC",
            ["id"],
            [(9,), (6,), (6,), (2,)],
        ),
        ("SELECT id FROM t FULL JOIN z USING (id) WHERE id IN (SELECT id FROM own) ORDER BY id", ["id"], [(3,), (6,)]),
        (
            "SELECT id FROM t FULL JOIN z USING (id) WHERE EXISTS (SELECT 1 FROM (SELECT 1 AS v) WHERE v + 2 = id)",
            ["id"],
            [(3,)],
        ),
        (
            'SELECT "Id", "Note", w FROM "Big" FULL JOIN (SELECT * FROM z) s("Id", w) USING ("Id") ORDER BY "Id"',
            ["Id", "Note", "w"],
            [(1, "u", None), (2, None, "l"), (6, None, "m"), (7, "v", None), (9, None, "n")],
        ),
        (
            "WITH c AS (SELECT * FROM t), d(id, g) AS (SELECT * FROM z) SELECT id FROM c NATURAL RIGHT JOIN d",
            ["id"],
            [(2,), (6,), (9,)],
        ),
        ("SELECT id, k FROM t NATURAL FULL JOIN own WHERE id > 2 ORDER BY id", ["id", "k"], [(3, 30), (6, 40)]),
        ("SELECT x FROM t NATURAL JOIN own WHERE id = 3", ["x"], [("c",)]),
        (
            """SELECT w FROM t RIGHT JOIN z USING (id) LEFT JOIN "Big" ON "Id" = id + 1 WHERE "Note" = 'v'""",
            ["w"],
            [("m",)],
        ),
        ("SELECT * FROM merged WHERE id > 6", ["id", "x", "k", "w"], [(9, None, None, "n")]),
        ("SELECT id FROM made ORDER BY id", ["id"], [(6,), (9,)]),
        (
            "SELECT 'id' AS a, {'id': id} AS s FROM t RIGHT JOIN z USING (id) WHERE id = 9",
            ["a", "s"],
            [("id", {"id": 9})],
        ),
        ("SELECT id FROM public.t RIGHT JOIN public.z USING (id) WHERE id = 9", ["id"], [(9,)]),
        ("SELECT id FROM (WITH t AS (SELECT 1 AS v) SELECT v FROM t) q, t RIGHT JOIN z USING (id)", ["id"], NINE),
        ("SELECT id FROM ((SELECT 1 AS id) UNION SELECT 2) q RIGHT JOIN z USING (id)", ["id"], NINE),
        ("SELECT id FROM (t) AS q RIGHT JOIN z USING (id)", ["id"], NINE),
        ("SELECT id FROM t RIGHT JOIN z USING (id) LEFT SEMI JOIN own USING (id)", ["id"], [(6,)]),
        ("SELECT id FROM t RIGHT JOIN z USING (id) LEFT ANTI JOIN own ON own.id = z.id", ["id"], [(2,), (9,)]),
        ("FROM t RIGHT JOIN z USING (id) |> WHERE id > 6", ["id", "x", "k", "w"], [(9, None, None, "n")]),
        ("SELECT id FROM t FULL JOIN own USING (id) NATURAL RIGHT JOIN z WHERE w = 'l'", ["id"], [(2,)]),
        ("SELECT w FROM (t RIGHT JOIN z USING (id)) AS q", ["w"], [("l",), ("m",), ("n",)]),
        ("SELECT id FROM (t RIGHT JOIN z USING (id)) q", ["id"], NINE),
        ("SELECT q.w FROM (t RIGHT JOIN z USING (id)) q JOIN own USING (id)", ["w"], [("m",)]),
        ("SELECT q.w FROM own NATURAL JOIN (z LEFT JOIN t USING (id)) q WHERE q.k IS NULL", ["w"], []),
        (
            "SELECT * FROM (t RIGHT JOIN z USING (id)) AS q(a, b, c, d) WHERE a > 2 ORDER BY a",
            ["a", "b", "c", "d"],
            [(6, None, None, "m"), (9, None, None, "n")],
        ),
        ("SELECT id FROM ((t RIGHT JOIN z USING (id)) q FULL JOIN own USING (id)) r WHERE r.y = 'r'", ["id"], [(6,)]),
        ("SELECT q.x FROM (t NATURAL FULL JOIN (VALUES (9)) v(id)) q WHERE id > 2", ["x"], [("c",), (None,)]),
        (
            "SELECT id, v FROM (t CROSS JOIN (SELECT 1 AS v) s) q RIGHT JOIN z USING (id) WHERE id < 9",
            ["id", "v"],
            [(2, 1), (6, None)],
        ),
        ("SELECT w FROM t WITH (NOLOCK) RIGHT JOIN z USING (id)", ["w"], [("l",), ("m",), ("n",)]),
        (
            "SELECT w FROM t WITH (NOLOCK) RIGHT JOIN z USING (id), (VALUES (1)) c(v) NATURAL JOIN (VALUES (1)) d(v)",
            ["w"],
            [("l",), ("m",), ("n",)],
        ),
        (
            "SELECT w, y FROM t WITH (NOLOCK) RIGHT JOIN z USING (id), own JOIN t AS h USING (id)",
            ["w", "y"],
            [("l", "q"), ("m", "q"), ("n", "q")],
        ),
        ("SELECT (id) FROM t FULL JOIN z USING (id) WHERE id > 3", ["id"], [(6,), (9,)]),
        ("SELECT id FROM t WITH (NOLOCK) RIGHT JOIN z USING (id)", ["id"], NINE),
        ("SELECT id FROM t WITH (NOLOCK) NATURAL FULL JOIN z WHERE id < 3", ["id"], [(1,), (2,)]),
        ("SELECT w FROM t WITH (NOLOCK) FULL JOIN z USING (id) WHERE id > 6", ["w"], [("n",)]),
        (
            "SELECT * FROM t WITH (NOLOCK) RIGHT JOIN z USING (id) WHERE id > 6",
            ["id", "x", "k", "w"],
            [(9, None, None, "n")],
        ),
        ("SELECT w FROM t WITH (NOLOCK) RIGHT JOIN z USING (id) JOIN own USING (id)", ["w"], [("m",)]),
        ("SELECT w FROM t WITH (NOLOCK) RIGHT JOIN z USING (id) NATURAL JOIN own", ["w"], []),
        (
            "SELECT made.id FROM z AS y, t WITH (NOLOCK) RIGHT JOIN z USING (id) NATURAL JOIN made WHERE y.id = 2",
            ["id"],
            [(6,), (9,)],
        ),
        ("SELECT w AS id FROM (t RIGHT JOIN z USING (id)) AS q ORDER BY id", ["id"], [("l",), ("m",), ("n",)]),
        ("SELECT q.w FROM (t NATURAL RIGHT JOIN z) AS q WHERE q.w <> 'n'", ["w"], [("l",), ("m",)]),
        ("SELECT x FROM t LEFT JOIN (own JOIN z USING (id)) AS q ON t.id = q.id", ["x"], [("a",), ("b",), ("c",)]),
        (
            "SELECT sum(id) OVER (ORDER BY id) AS s FROM t RIGHT JOIN z USING (id) ORDER BY id",
            ["s"],
            [(2,), (8,), (17,)],
        ),
    ],
)
def test_merged_columns(session: Session, sql: str, names: list[str], rows: list[tuple[object, ...]]) -> None:
    """A key without a qualifier is the merged column in each clause, and stars have the merged columns first."""
    found = _asked(session, sql)
    assert (found[0], found[1] if "ORDER BY" in sql else sorted(found[1], key=repr)) == (names, rows)


def test_calls_have_the_merged_column(session: Session) -> None:
    """An AI call's field keeps the key's name, and its prompts have the merged values."""
    for join in ("RIGHT", "FULL"):
        query = f"SELECT id, ai_gen('say {{id}}', id) AS w FROM t {join} JOIN z USING (id) ORDER BY id"
        key = "coalesce(t.id, z.id)" if join == "FULL" else "z.id"
        plain = (
            f"SELECT {key} AS id, ai_gen('say {{id}}', id => {key}) AS w FROM t {join} JOIN z ON t.id = z.id ORDER BY 1"
        )
        assert _asked(session, query)[1] == _asked(session, plain)[1]
    assert _asked(session, "SELECT * FROM said ORDER BY id")[1] == _asked(session, query)[1]
    filtered = "SELECT id FROM t JOIN z USING (id) WHERE ai_filter('keep {id}', id) OR id = 2"
    assert _asked(session, filtered)[1] == [(2,)]


@pytest.mark.parametrize(
    ("sql", "error", "message"),
    [
        ("SELECT * FROM (SELECT 3 AS id) FULL JOIN z USING (id)", SqlError, "the table at 1:15 has no name.*add AS q"),
        ("SELECT * FROM found(3) NATURAL RIGHT JOIN z", SqlError, "the join at 1:24 is NATURAL.*JOIN … USING"),
        ("SELECT * FROM t JOIN own ON true FULL JOIN z USING (id)", SqlError, "the join at 1:34 merges the column id"),
        ("SELECT * REPLACE (1 AS x) FROM t FULL JOIN z USING (id)", UnsupportedError, "1:8.*REPLACE.*name the columns"),
        (
            "SELECT id FROM t FULL JOIN z USING (id) JOIN own ON true",
            SqlError,
            "Ambiguous reference to unqualified field id",
        ),
        (
            "SELECT k FROM t RIGHT JOIN z USING (k)",
            SqlError,
            "the join at 1:17 merges the column k, which a side.*lacks",
        ),
        (
            "SELECT id FROM t RIGHT JOIN z USING (id) WHERE ai_filter('x', {'a': k} => 1)",
            SqlError,
            "join at 1:18 is RIGHT .*parser.* at Line: 1, Column: 72.*write the join as .SELECT coalesce.a.id, b.id",
        ),
        (
            "SELECT w FROM (t JOIN own ON x < y) q RIGHT JOIN z USING (id)",
            SqlError,
            "the join at 1:39 merges the column id, which one side has twice",
        ),
        ("SELECT id FROM t FULL JOIN z USING (id) WHERE id = 1 AND id >> > 2", SqlError, "Line: 1, Column: 64"),
        ("SELECT id FROM t FULL JOIN z USING (id) WHERE id = 1 AND ai_gne(id)", SqlError, "ai_gne at 1:58"),
    ],
)
def test_errors(session: Session, sql: str, error: type[Exception], message: str) -> None:
    """An error has its place in the sent text and says what to write."""
    with pytest.raises(error, match=message):
        ask(session, sql)


@pytest.mark.parametrize("kind", ["RIGHT", "FULL"])
def test_advice_gives_the_merged_rows(session: Session, kind: str) -> None:
    """The rows are right if one writes what the error says for each join of a text that the server cannot read."""
    first, second = f"t {kind} JOIN own USING (id)", f"{kind} JOIN z USING (id)"
    with pytest.raises(SqlError, match="write the join as") as raised:
        ask(session, f"SELECT id, w FROM {first} {second} WHERE ai_filter('x', {{'a': id}} => 1)")
    advice = str(raised.value).partition("write the join as ")[2]
    assert f"a {kind} JOIN b ON" in advice
    inner = advice.replace(", …", "").replace("a.", "t.").replace("b.", "own.").replace(" a ", " t ")
    inner = inner.replace(" b ", " own ").removesuffix(" AS q")
    outer = advice.replace("…", "w").replace(" a ", f" {inner} AS a ").replace(" b ", " z ").replace("b.", "z.")
    merged = _asked(session, f"SELECT id, w FROM {first} {second}")
    assert sorted(_asked(session, f"SELECT id, w FROM {outer}")[1], key=repr) == sorted(merged[1], key=repr)


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("UPDATE h SET m = w FROM t RIGHT JOIN z USING (id) WHERE n = z.id", [(1, "a"), (6, "m")]),
        (
            "UPDATE h SET m = w FROM t RIGHT JOIN z USING (id), own JOIN t AS c USING (id) WHERE n = z.id",
            [(1, "a"), (6, "m")],
        ),
        ("UPDATE h SET m = q.w FROM (t RIGHT JOIN z USING (id)) q WHERE n = id", [(1, "a"), (6, "m")]),
        ("DELETE FROM h USING (t NATURAL RIGHT JOIN z) AS q WHERE n = q.id", [(1, "a")]),
        ("DELETE FROM h WHERE n IN (SELECT id FROM (t RIGHT JOIN z USING (id)) q)", [(1, "a")]),
        (
            "MERGE INTO h USING (t FULL JOIN z USING (id)) q ON n = q.id WHEN MATCHED THEN UPDATE SET m = q.w",
            [(1, None), (6, "m")],
        ),
        (
            "INSERT INTO h SELECT q.id, w FROM (t RIGHT JOIN z USING (id)) q WHERE id = 9",
            [(1, "a"), (6, "f"), (9, "n")],
        ),
        ("UPDATE h SET m = CAST(id AS VARCHAR) FROM t RIGHT JOIN z USING (id) WHERE n = z.id", None),
        ("UPDATE h SET m = w FROM t RIGHT JOIN z USING (id) WHERE n = id", None),
        ("UPDATE h SET m = w FROM t FULL JOIN z USING (id) JOIN own USING (id) WHERE n = z.id", None),
        ("UPDATE h SET m = w FROM t NATURAL RIGHT JOIN z WHERE n = z.id RETURNING id", None),
        ("DELETE FROM h USING t NATURAL RIGHT JOIN z WHERE n = z.id RETURNING id", None),
        ("DELETE FROM h USING (t RIGHT JOIN z USING (id)) WHERE n = z.id RETURNING id", None),
        ("DELETE FROM h USING t NATURAL RIGHT JOIN z WHERE n = z.id", [(1, "a")]),
        ("DELETE FROM h USING (t NATURAL RIGHT JOIN z) WHERE n = z.id", [(1, "a")]),
        ("DELETE FROM h USING (t NATURAL RIGHT JOIN z) WHERE n = z.id RETURNING id", None),
        ("WITH c AS (SELECT 6 AS i) DELETE FROM h USING c, t RIGHT JOIN z USING (id) WHERE n = i", [(1, "a")]),
        ("WITH c AS (SELECT 6 AS i) DELETE FROM h USING c, t RIGHT JOIN z USING (id) WHERE n = id", None),
        (
            "UPDATE h SET m = CASE WHEN n IS DISTINCT FROM 1 THEN w END FROM t RIGHT JOIN z USING (id) WHERE n = z.id",
            [(1, "a"), (6, "m")],
        ),
        ("UPDATE ONLY h SET (m) = (CAST(id AS VARCHAR)) FROM t RIGHT JOIN z USING (id) WHERE n = z.id", None),
        ("DELETE FROM h USING (SELECT 1 AS id) s NATURAL RIGHT JOIN z WHERE n = z.id", [(1, "a")]),
        ("DELETE FROM h USING (SELECT 1 AS id) s NATURAL RIGHT JOIN z WHERE n = id", None),
        ("DELETE FROM h USING (SELECT 1 AS n) s NATURAL RIGHT JOIN (SELECT 3 AS n) z JOIN t ON n = t.id", None),
    ],
)
def test_changes_of_rows(session: Session, sql: str, rows: list[tuple[object, ...]] | None) -> None:
    """A change of rows reads the merged column of a named join; a bare merged column in its own FROM is an error."""
    session.update("CREATE OR REPLACE TABLE h AS SELECT * FROM (VALUES (1, 'a'), (6, 'f')) AS v(n, m)")
    if rows is None:
        with pytest.raises(SqlError, match=r"is (RIGHT|FULL) and has USING or NATURAL"):
            ask(session, sql) if "RETURNING" in sql else session.update(sql)
    else:
        session.update(sql)
    assert sorted(_asked(session, "SELECT * FROM h")[1]) == (rows or [(1, "a"), (6, "f")])


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a.x FROM a JOIN b USING (id)",
        "SELECT count(*) FROM a JOIN b USING (id) JOIN c USING (id) WHERE x = 1",
        "DELETE FROM a USING b WHERE a.id = b.id",
        "MERGE INTO a USING b ON a.id = b.id WHEN MATCHED THEN DELETE",
        "SELECT id FROM a LEFT SEMI JOIN b USING (id)",
        "SELECT id FROM a NATURAL JOIN b",
        'SELECT "using", "natural" FROM a',
        "SELECT id FROM a JOIN b USING (id, a.b)",
    ],
)
def test_other_texts_stay(sql: str) -> None:
    """Inner joins without a merged column in other clauses stay, and so do joins that the rule cannot read."""
    assert rewrite(ParsedText(sql), EMPTY).text == sql
