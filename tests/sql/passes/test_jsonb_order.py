"""A stored jsonb is compared, grouped and ordered as in PostgreSQL; the rows are those of PostgreSQL 15."""

from collections.abc import Iterator

import pytest

from flightllm.errors import SqlError, UnsupportedError
from flightllm.session.session import Session
from tests.databases import ask, open_database
from tests.postgres import binaries, cluster

SETUP = [
    "CREATE TABLE docs (id INT, j jsonb)",
    """INSERT INTO docs VALUES
        (1, '{"b":1,"a":2}'), (2, '{"a":2.0,"b":1}'), (3, '1.0'), (4, '1'), (5, '"x"'), (6, NULL),
        (7, '[1,2]'), (8, '[]'), (9, 'null'), (10, 'true'), (11, '-5'), (12, '{"a":1}'),
        (13, '{"bb":1,"a":{"c":[1,{"d":null}]}}'), (14, '-0.5e1'), (15, '"É"'), (16, '[[]]'), (17, '{}'),
        (18, '1e2'), (19, '"y"'), (20, 'false'), (21, '[3]'), (22, '-17'), (23, '0'), (24, '0.10')""",
]
CASES: tuple[tuple[str, list[tuple[object, ...]]], ...] = (
    ("SELECT id FROM docs WHERE j = '1' ORDER BY id", [("3",), ("4",)]),
    ('SELECT id FROM docs WHERE j = \'{"b": 1.00, "a": 2}\' ORDER BY id', [("1",), ("2",)]),
    (
        "SELECT id FROM docs WHERE j <> '1' ORDER BY id",
        [
            ("1",),
            ("2",),
            ("5",),
            ("7",),
            ("8",),
            ("9",),
            ("10",),
            ("11",),
            ("12",),
            ("13",),
            ("14",),
            ("15",),
            ("16",),
            ("17",),
            ("18",),
            ("19",),
            ("20",),
            ("21",),
            ("22",),
            ("23",),
            ("24",),
        ],
    ),
    ("SELECT id FROM docs WHERE '1' = j ORDER BY id", [("3",), ("4",)]),
    (
        "SELECT id FROM docs ORDER BY j, id",
        [
            ("8",),
            ("9",),
            ("5",),
            ("19",),
            ("15",),
            ("22",),
            ("11",),
            ("14",),
            ("23",),
            ("24",),
            ("3",),
            ("4",),
            ("18",),
            ("20",),
            ("10",),
            ("21",),
            ("16",),
            ("7",),
            ("17",),
            ("12",),
            ("1",),
            ("2",),
            ("13",),
            ("6",),
        ],
    ),
    (
        "SELECT id, j FROM docs ORDER BY 2 DESC, 1",
        [
            ("6", None),
            ("13", '{"a": {"c": [1, {"d": null}]}, "bb": 1}'),
            ("1", '{"a": 2, "b": 1}'),
            ("2", '{"a": 2.0, "b": 1}'),
            ("12", '{"a": 1}'),
            ("17", "{}"),
            ("7", "[1, 2]"),
            ("16", "[[]]"),
            ("21", "[3]"),
            ("10", "true"),
            ("20", "false"),
            ("18", "100"),
            ("3", "1.0"),
            ("4", "1"),
            ("24", "0.10"),
            ("23", "0"),
            ("11", "-5"),
            ("14", "-5"),
            ("22", "-17"),
            ("15", '"É"'),
            ("19", '"y"'),
            ("5", '"x"'),
            ("9", "null"),
            ("8", "[]"),
        ],
    ),
    (
        "SELECT j, count(*) FROM docs GROUP BY j ORDER BY j",
        [
            ("[]", "1"),
            ("null", "1"),
            ('"x"', "1"),
            ('"y"', "1"),
            ('"É"', "1"),
            ("-17", "1"),
            ("-5", "2"),
            ("0", "1"),
            ("0.10", "1"),
            ("1.0", "2"),
            ("100", "1"),
            ("false", "1"),
            ("true", "1"),
            ("[3]", "1"),
            ("[[]]", "1"),
            ("[1, 2]", "1"),
            ("{}", "1"),
            ('{"a": 1}', "1"),
            ('{"a": 2, "b": 1}', "2"),
            ('{"a": {"c": [1, {"d": null}]}, "bb": 1}', "1"),
            (None, "1"),
        ],
    ),
    (
        "SELECT count(*) AS n, j FROM docs WHERE id < 10 GROUP BY 2 ORDER BY 2",
        [
            ("1", "[]"),
            ("1", "null"),
            ("1", '"x"'),
            ("2", "1.0"),
            ("1", "[1, 2]"),
            ("2", '{"a": 2, "b": 1}'),
            ("1", None),
        ],
    ),
    (
        "SELECT j AS x, count(*) FROM docs GROUP BY x ORDER BY count(*) DESC, x LIMIT 3",
        [("-5", "2"), ("1.0", "2"), ('{"a": 2, "b": 1}', "2")],
    ),
    ("SELECT j FROM docs GROUP BY j HAVING count(*) > 1 ORDER BY j", [("-5",), ("1.0",), ('{"a": 2, "b": 1}',)]),
    (
        "SELECT j -> 'a', count(*) FROM docs GROUP BY j -> 'a' ORDER BY 1",
        [("1", "1"), ("2", "2"), ('{"c": [1, {"d": null}]}', "1"), (None, "20")],
    ),
    (
        "SELECT DISTINCT j FROM docs ORDER BY j",
        [
            ("[]",),
            ("null",),
            ('"x"',),
            ('"y"',),
            ('"É"',),
            ("-17",),
            ("-5",),
            ("0",),
            ("0.10",),
            ("1.0",),
            ("100",),
            ("false",),
            ("true",),
            ("[3]",),
            ("[[]]",),
            ("[1, 2]",),
            ("{}",),
            ('{"a": 1}',),
            ('{"a": 2, "b": 1}',),
            ('{"a": {"c": [1, {"d": null}]}, "bb": 1}',),
            (None,),
        ],
    ),
    ("SELECT count(*) FROM (SELECT DISTINCT j FROM docs) d", [("21",)]),
    ("SELECT DISTINCT j -> 'a' AS a FROM docs ORDER BY a", [("1",), ("2",), ('{"c": [1, {"d": null}]}',), (None,)]),
    ("SELECT count(DISTINCT j) FROM docs", [("20",)]),
    ("SELECT id FROM docs WHERE j IN ('1', '[1, 2]') ORDER BY 1", [("3",), ("4",), ("7",)]),
    (
        "SELECT id FROM docs WHERE j NOT IN ('1', '[1, 2]') ORDER BY 1",
        [
            ("1",),
            ("2",),
            ("5",),
            ("8",),
            ("9",),
            ("10",),
            ("11",),
            ("12",),
            ("13",),
            ("14",),
            ("15",),
            ("16",),
            ("17",),
            ("18",),
            ("19",),
            ("20",),
            ("21",),
            ("22",),
            ("23",),
            ("24",),
        ],
    ),
    (
        "SELECT id FROM docs WHERE j > '1' ORDER BY id",
        [("1",), ("2",), ("7",), ("10",), ("12",), ("13",), ("16",), ("17",), ("18",), ("20",), ("21",)],
    ),
    (
        "SELECT id FROM docs WHERE j <= '{}' ORDER BY id",
        [
            ("3",),
            ("4",),
            ("5",),
            ("7",),
            ("8",),
            ("9",),
            ("10",),
            ("11",),
            ("14",),
            ("15",),
            ("16",),
            ("17",),
            ("18",),
            ("19",),
            ("20",),
            ("21",),
            ("22",),
            ("23",),
            ("24",),
        ],
    ),
    ("SELECT id FROM docs WHERE j BETWEEN '1' AND '2' ORDER BY 1", [("3",), ("4",)]),
    ("SELECT id FROM docs WHERE j -> 'a' = '2' ORDER BY id", [("1",), ("2",)]),
    ("SELECT id FROM docs WHERE j -> 'a' = j -> 'b' ORDER BY id", []),
    ("SELECT id FROM docs WHERE j ->> 'a' = '2.0'", [("2",)]),
    ("SELECT id FROM docs WHERE j #> '{a}' = '2' ORDER BY id", [("1",), ("2",)]),
    (
        "SELECT id FROM docs WHERE j IS DISTINCT FROM '1' ORDER BY id",
        [
            ("1",),
            ("2",),
            ("5",),
            ("6",),
            ("7",),
            ("8",),
            ("9",),
            ("10",),
            ("11",),
            ("12",),
            ("13",),
            ("14",),
            ("15",),
            ("16",),
            ("17",),
            ("18",),
            ("19",),
            ("20",),
            ("21",),
            ("22",),
            ("23",),
            ("24",),
        ],
    ),
    ("SELECT id FROM docs WHERE j IS NOT DISTINCT FROM NULL ORDER BY id", [("6",)]),
    ("WITH c AS (SELECT j AS k, id FROM docs) SELECT id FROM c WHERE k = '1' ORDER BY id", [("3",), ("4",)]),
    ("SELECT id FROM (SELECT j AS k, id FROM docs) c WHERE k = '1' ORDER BY id", [("3",), ("4",)]),
    ("SELECT id FROM docs WHERE j = (SELECT j FROM docs WHERE id = 3) ORDER BY id", [("3",), ("4",)]),
    (
        "SELECT id FROM docs WHERE j IN (SELECT j FROM docs WHERE id IN (1, 3)) ORDER BY id",
        [("1",), ("2",), ("3",), ("4",)],
    ),
    ("SELECT id FROM docs WHERE j = ANY (SELECT j FROM docs WHERE id = 3) ORDER BY id", [("3",), ("4",)]),
    (
        "SELECT id FROM docs t WHERE EXISTS (SELECT 1 FROM docs u WHERE u.j = t.j AND u.id <> t.id) ORDER BY id",
        [("1",), ("2",), ("3",), ("4",), ("11",), ("14",)],
    ),
    (
        "SELECT id, rank() OVER (ORDER BY j) AS r FROM docs ORDER BY id",
        [
            ("1", "21"),
            ("2", "21"),
            ("3", "11"),
            ("4", "11"),
            ("5", "3"),
            ("6", "24"),
            ("7", "18"),
            ("8", "1"),
            ("9", "2"),
            ("10", "15"),
            ("11", "7"),
            ("12", "20"),
            ("13", "23"),
            ("14", "7"),
            ("15", "5"),
            ("16", "17"),
            ("17", "19"),
            ("18", "13"),
            ("19", "4"),
            ("20", "14"),
            ("21", "16"),
            ("22", "6"),
            ("23", "9"),
            ("24", "10"),
        ],
    ),
    (
        "SELECT id, count(*) OVER (PARTITION BY j) AS r FROM docs ORDER BY id",
        [
            ("1", "2"),
            ("2", "2"),
            ("3", "2"),
            ("4", "2"),
            ("5", "1"),
            ("6", "1"),
            ("7", "1"),
            ("8", "1"),
            ("9", "1"),
            ("10", "1"),
            ("11", "2"),
            ("12", "1"),
            ("13", "1"),
            ("14", "2"),
            ("15", "1"),
            ("16", "1"),
            ("17", "1"),
            ("18", "1"),
            ("19", "1"),
            ("20", "1"),
            ("21", "1"),
            ("22", "1"),
            ("23", "1"),
            ("24", "1"),
        ],
    ),
    (
        "SELECT DISTINCT ON (j) id, j FROM docs ORDER BY j, id",
        [
            ("8", "[]"),
            ("9", "null"),
            ("5", '"x"'),
            ("19", '"y"'),
            ("15", '"É"'),
            ("22", "-17"),
            ("11", "-5"),
            ("23", "0"),
            ("24", "0.10"),
            ("3", "1.0"),
            ("18", "100"),
            ("20", "false"),
            ("10", "true"),
            ("21", "[3]"),
            ("16", "[[]]"),
            ("7", "[1, 2]"),
            ("17", "{}"),
            ("12", '{"a": 1}'),
            ("1", '{"a": 2, "b": 1}'),
            ("13", '{"a": {"c": [1, {"d": null}]}, "bb": 1}'),
            ("6", None),
        ],
    ),
    ("SELECT j || '{\"c\": 3}' FROM docs WHERE id = 1", [('{"a": 2, "b": 1, "c": 3}',)]),
    ("SELECT j - 'a' FROM docs WHERE id = 1", [('{"b": 1}',)]),
    (
        "SELECT jsonb_build_object('q', j) FROM docs WHERE id IN (1, 5) ORDER BY id",
        [('{"q": {"a": 2, "b": 1}}',), ('{"q": "x"}',)],
    ),
    ("SELECT jsonb_agg(j ORDER BY id) FROM docs WHERE id IN (1, 5)", [('[{"a": 2, "b": 1}, "x"]',)]),
    ("SELECT to_jsonb(j) FROM docs WHERE id = 5", [('"x"',)]),
    ("SELECT j @> '{\"a\": 2.0}' FROM docs WHERE id = 1", [("t",)]),
    ("SELECT j::text FROM docs WHERE id = 1", [('{"a": 2, "b": 1}',)]),
    ("SELECT id FROM docs WHERE j::text = '1' ORDER BY 1", [("4",)]),
    ("SELECT CASE j WHEN '1' THEN 'one' ELSE 'no' END FROM docs WHERE id = 3", [("one",)]),
    ("SELECT nullif(j, '1') FROM docs WHERE id IN (3,5) ORDER BY id", [(None,), ('"x"',)]),
    ("SELECT coalesce(j, '{}') = '{}' FROM docs WHERE id = 6", [("t",)]),
    ("SELECT greatest(j, '2') FROM docs WHERE id IN (3, 7) ORDER BY id", [("2",), ("[1, 2]",)]),
    ("SELECT j FROM docs UNION ALL SELECT j FROM docs ORDER BY j LIMIT 2", [("[]",), ("[]",)]),
    (
        "SELECT string_agg(j::text, ',' ORDER BY j, id) FROM docs WHERE id < 5",
        [('1.0,1,{"a": 2, "b": 1},{"a": 2.0, "b": 1}',)],
    ),
    (
        "SELECT id, j < '2' AS small FROM docs WHERE id < 6 ORDER BY id",
        [("1", "f"), ("2", "f"), ("3", "t"), ("4", "t"), ("5", "t")],
    ),
    (
        "SELECT jsonb_typeof(j), count(DISTINCT j) FROM docs GROUP BY 1 ORDER BY 1",
        [
            ("array", "4"),
            ("boolean", "2"),
            ("null", "1"),
            ("number", "6"),
            ("object", "4"),
            ("string", "3"),
            (None, "0"),
        ],
    ),
    ("SELECT row_number() OVER (ORDER BY j DESC, id) FROM docs WHERE id < 4 ORDER BY 1", [("1",), ("2",), ("3",)]),
    ("SELECT count(*) FILTER (WHERE j = '1') FROM docs", [("2",)]),
    ("SELECT id FROM docs WHERE (j, id) = ('1', 4)", [("4",)]),
    ("SELECT j = '1' AS b, count(*) FROM docs GROUP BY 1 ORDER BY 1", [("f", "21"), ("t", "2"), (None, "1")]),
    ("SELECT id FROM docs WHERE j = '1'::jsonb ORDER BY id", [("3",), ("4",)]),
    ("SELECT id FROM docs WHERE j IN (SELECT '1'::jsonb) ORDER BY id", [("3",), ("4",)]),
    (
        "SELECT id FROM docs WHERE NOT j = '1' AND j < 'true' ORDER BY id",
        [("5",), ("8",), ("9",), ("11",), ("14",), ("15",), ("18",), ("19",), ("20",), ("22",), ("23",), ("24",)],
    ),
    (
        "SELECT x.k FROM (SELECT DISTINCT j AS k FROM docs WHERE id < 5) x ORDER BY x.k",
        [("1.0",), ('{"a": 2, "b": 1}',)],
    ),
    ("SELECT upper(j::text) FROM docs WHERE id = 5", [('"X"',)]),
    ("SELECT jsonb_set(j, '{a}', '9') FROM docs WHERE id = 1", [('{"a": 9, "b": 1}',)]),
    ("SELECT j #- '{a}' FROM docs WHERE id = 1", [('{"b": 1}',)]),
    ("SELECT id FROM docs WHERE j ? 'a' ORDER BY id", [("1",), ("2",), ("12",), ("13",)]),
    ("SELECT e FROM docs, jsonb_array_elements(j) e WHERE id = 7", [("1",), ("2",)]),
    ("SELECT key, value FROM docs, jsonb_each(j) WHERE id = 1", [("a", "2"), ("b", "1")]),
    (
        "SELECT a.id AS a, b.id AS b FROM docs a JOIN docs b ON a.j = b.j AND a.id < b.id ORDER BY 1",
        [("1", "2"), ("3", "4"), ("11", "14")],
    ),
    ("SELECT docs.j, count(*) FROM docs WHERE id < 6 GROUP BY j ORDER BY 1 LIMIT 2", [('"x"', "1"), ("1.0", "2")]),
    ("SELECT max(id), j FROM docs d GROUP BY d.j ORDER BY d.j LIMIT 2", [("8", "[]"), ("9", "null")]),
    (
        "SELECT id > 2 AS b, j, count(*) AS c FROM docs WHERE id IN (3, 4, 8) GROUP BY ROLLUP (1, 2) ORDER BY 1, 3, 2",
        [("t", "[]", "1"), ("t", "1.0", "2"), ("t", None, "3"), (None, None, "3")],
    ),
    (
        "SELECT j, grouping(j) AS g, count(*) AS c FROM docs WHERE id IN (3, 4, 6) GROUP BY CUBE (j) ORDER BY 2, 3",
        [(None, "0", "1"), ("1.0", "0", "2"), (None, "1", "3")],
    ),
    (
        "SELECT j AS v, count(*) AS c FROM docs WHERE id IN (3, 4) GROUP BY GROUPING SETS ((v), ()) ORDER BY 2, v",
        [("1.0", "2"), (None, "2")],
    ),
    ("SELECT DISTINCT a.* FROM docs a JOIN docs b ON a.j = b.j WHERE b.id = 3 ORDER BY id", [("3", "1.0"), ("4", "1")]),
    (
        "SELECT j AS k, count(*) AS c FROM docs WHERE id < 5 GROUP BY k HAVING j > '1' ORDER BY k",
        [('{"a": 2, "b": 1}', "2")],
    ),
)
REFUSED = (
    ("SELECT id FROM docs WHERE j = 'abc'", SqlError, "is not JSON"),
    ("SELECT id FROM docs WHERE j = 1", SqlError, "write to_jsonb"),
    ("SELECT id FROM docs WHERE j = j::text", SqlError, "write to_jsonb"),
    ("SELECT min(j) FROM docs", SqlError, "write min"),
    ("SELECT id AS j, count(*) FROM docs GROUP BY j", SqlError, "must appear in the GROUP BY clause"),
    ("SELECT count(*) FROM docs NATURAL JOIN (SELECT j FROM docs) AS o", UnsupportedError, "NATURAL JOIN or USING at"),
    ("SELECT j, count(*) FROM docs GROUP BY ALL", UnsupportedError, "GROUP BY ALL at"),
    ("SELECT mode() WITHIN GROUP (ORDER BY j) FROM docs", UnsupportedError, "mode.. WITHIN GROUP at"),
    ("SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY j) FROM docs", UnsupportedError, "WITHIN GROUP at"),
    ("SELECT j FROM docs EXCEPT SELECT j FROM docs", UnsupportedError, "EXISTS"),
    ("SELECT a.id FROM docs a JOIN docs b USING (j)", UnsupportedError, "ON a.j = b.j"),
)


@pytest.fixture(scope="module")
def docs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Open a table of jsonb."""
    database = open_database(tmp_path_factory.mktemp("jsonb"))
    session = database.session()
    for text in SETUP:
        session.update(text)
    yield session
    database.close()


@pytest.mark.parametrize(("query", "rows"), CASES)
def test_rows(docs: Session, query: str, rows: list[tuple[str | None, ...]]) -> None:
    """Each query has the rows of PostgreSQL."""
    found = ask(docs, query, dialect="postgres").rows
    assert [tuple(map(_cell, row.values())) for row in found] == rows


@pytest.mark.parametrize(("query", "error", "said"), REFUSED)
def test_refused(docs: Session, query: str, error: type[Exception], said: str) -> None:
    """A query that PostgreSQL refuses, or that has no form here, names what to write."""
    with pytest.raises(error, match=said):
        ask(docs, query, dialect="postgres")


def test_views(docs: Session) -> None:
    """A jsonb stays one in a view; without a dialect the values are compared in the same way."""
    docs.update("CREATE OR REPLACE VIEW seen AS SELECT id AS i, j AS k FROM docs")
    docs.update("CREATE OR REPLACE VIEW seen_twice AS SELECT i, k FROM seen")
    assert [row["i"] for row in ask(docs, "SELECT i FROM seen_twice WHERE k = '1.00' ORDER BY i").rows] == [3, 4]


@pytest.mark.parametrize("made", ["OBJECT_CONSTRUCT('q', v)", "OBJECT_INSERT(OBJECT_CONSTRUCT(), 'q', v)"])
def test_variants(docs: Session, made: str) -> None:
    """In snowflake, a stored VARIANT is a part of an object as it is, and no string."""
    docs.update("CREATE OR REPLACE TABLE parts (v VARIANT)")
    docs.update("""INSERT INTO parts VALUES ('{"a":[1]}')""")
    assert ask(docs, f"SELECT {made} AS o FROM parts", dialect="snowflake").rows == [{"o": '{"q":{"a":[1]}}'}]


@pytest.mark.slow
@pytest.mark.skipif(binaries() is None, reason="PostgreSQL is not installed")
def test_reference() -> None:
    """The rows above are those of a real PostgreSQL."""
    with cluster() as server:
        answers = server.answers(SETUP, [[query] for query, _ in CASES])
    assert [[*map(tuple, found.rows)] for (found,) in answers] == [rows for _, rows in CASES]


def _cell(value: object) -> str | None:
    if value is None:
        return None
    return str(value)[0].lower() if isinstance(value, bool) else str(value)
