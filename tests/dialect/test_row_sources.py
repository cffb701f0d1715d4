"""Lists and JSON texts become rows in FROM and in SELECT, in the words of each dialect.

The expected rows of FLATTEN, UNNEST, explode and json_each are those of the vendors' documentation.
"""

from collections.abc import Iterator, Sequence

import pytest

from flightllm.errors import FlightLLMError, UnsupportedError
from flightllm.session.session import Session
from tests.databases import ask, small_database

_NESTED = """PARSE_JSON('{"a":1, "b":[77,88], "c": {"d":"X"}}')"""
_QUOTED = [(1, '"p"'), (1, '"q"'), (2, None), (2, '"r"')]
_IDS = [(1, "p"), (1, "q"), (2, None), (2, "r")]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Open a table of lists, one with NULL and one empty, and a table of JSON texts."""
    database = small_database(tmp_path_factory.mktemp("rows"))
    session = database.session()
    session.update(
        "CREATE TABLE lists AS SELECT * FROM (VALUES (1, ['p', 'q']), (2, [NULL, 'r']), (3, NULL),"
        " (4, array_remove(['x'], 'x'))) AS v(id, a)"
    )
    session.update(
        """CREATE TABLE texts AS SELECT * FROM (VALUES (1, '{"l": ["l1", {"k": "v"}], "n": null}'), (2, '{"l": []}'),
        (3, NULL), (4, '["z"]')) AS v(id, j)"""
    )
    yield session
    database.close()


def _rows(session: Session, sql: str, dialect: str) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in ask(session, sql, dialect=dialect).rows]


@pytest.mark.parametrize(
    ("dialect", "sql", "rows"),
    [
        ("snowflake", "SELECT f.value FROM TABLE(FLATTEN(INPUT => PARSE_JSON('[1, 77]'))) f", [("1",), ("77",)]),
        (
            "snowflake",
            f"SELECT f.key, f.path, f.index, f.value FROM TABLE(FLATTEN(INPUT => {_NESTED}, RECURSIVE => TRUE)) f",
            [
                ("a", "a", None, "1"),
                ("b", "b", None, "[77,88]"),
                (None, "b[0]", 0, "77"),
                (None, "b[1]", 1, "88"),
                ("c", "c", None, '{"d":"X"}'),
                ("d", "c.d", None, '"X"'),
            ],
        ),
        (
            "snowflake",
            f"SELECT key, path FROM TABLE(FLATTEN(INPUT => {_NESTED}, RECURSIVE => TRUE, MODE => 'OBJECT')) f",
            [("a", "a"), ("b", "b"), ("c", "c"), ("d", "c.d")],
        ),
        (
            "snowflake",
            f"SELECT f.path, f.value, f.this FROM TABLE(FLATTEN(INPUT => {_NESTED}, PATH => 'b')) f",
            [("b[0]", "77", "[77,88]"), ("b[1]", "88", "[77,88]")],
        ),
        ("snowflake", "SELECT * FROM TABLE(FLATTEN(INPUT => PARSE_JSON('[]'))) f", []),
        (
            "snowflake",
            "SELECT * FROM TABLE(FLATTEN(INPUT => PARSE_JSON('[]'), OUTER => TRUE)) f",
            [(None, None, None, None, None)],
        ),
        (
            "snowflake",
            "SELECT id, f.index, f.value::STRING AS v FROM texts, LATERAL FLATTEN(input => j:l) f ORDER BY 1, 2",
            [(1, 0, "l1"), (1, 1, '{"k": "v"}')],
        ),
        (
            "snowflake",
            "SELECT id, f.value:k::STRING FROM texts t, LATERAL FLATTEN(input => t.j:l, outer => true) f ORDER BY 1, 2",
            [(1, "v"), (1, None), (2, None), (3, None), (4, None)],
        ),
        (
            "snowflake",
            "SELECT id, f.key FROM texts LEFT JOIN LATERAL FLATTEN(input => j) f ON TRUE ORDER BY 1, 2",
            [(1, "l"), (1, "n"), (2, "l"), (3, None), (4, None)],
        ),
        ("snowflake", "SELECT id, f.value FROM lists, LATERAL FLATTEN(input => a) f ORDER BY id, index", _QUOTED),
        ("snowflake", "SELECT id, f.value FROM lists, TABLE(FLATTEN(a)) f ORDER BY id, index", _QUOTED),
        (
            "snowflake",
            "SELECT f.value, f.index FROM people, LATERAL FLATTEN(input => SPLIT(note, ' ')) f WHERE id = 1",
            [('"likes"', 0), ('"tea"', 1)],
        ),
        (
            "snowflake",
            "SELECT s.index, s.value FROM people, LATERAL SPLIT_TO_TABLE(note, ' ') s WHERE id = 1",
            [(1, "likes"), (2, "tea")],
        ),
        ("snowflake", "SELECT SEQ4() AS n FROM TABLE(GENERATOR(ROWCOUNT => 3)) v ORDER BY n", [(0,), (1,), (2,)]),
        ("bigquery", "SELECT id, x FROM lists, UNNEST(a) AS x WITH OFFSET o ORDER BY id, o", _IDS),
        ("bigquery", "SELECT id, x FROM lists t CROSS JOIN UNNEST(t.a) AS x WITH OFFSET o ORDER BY id, o", _IDS),
        ("bigquery", "SELECT id, x FROM lists AS t, t.a AS x WHERE x IS NOT NULL ORDER BY id, x", [*_IDS[:2], _IDS[3]]),
        (
            "bigquery",
            "SELECT id, x, o FROM lists LEFT JOIN UNNEST(a) AS x WITH OFFSET AS o ORDER BY id, o",
            [(1, "p", 0), (1, "q", 1), (2, None, 0), (2, "r", 1), (3, None, None), (4, None, None)],
        ),
        (
            "bigquery",
            "SELECT * FROM UNNEST(['foo', 'bar', 'baz']) AS e WITH OFFSET ORDER BY offset",
            [("foo", 0), ("bar", 1), ("baz", 2)],
        ),
        (
            "bigquery",
            "SELECT id, ARRAY(SELECT UPPER(x) FROM UNNEST(a) AS x WHERE x > '' ORDER BY x) FROM lists ORDER BY id",
            [(1, ["P", "Q"]), (2, ["R"]), (3, []), (4, [])],
        ),
        ("bigquery", "SELECT id FROM lists WHERE 'r' IN UNNEST(a) ORDER BY id", [(2,)]),
        ("bigquery", "SELECT id FROM lists WHERE 'z' NOT IN UNNEST(a) ORDER BY id", [(1,), (3,), (4,)]),
        ("bigquery", "SELECT id, x FROM texts, UNNEST(JSON_VALUE_ARRAY(j, '$')) AS x", [(4, "z")]),
        ("bigquery", "SELECT n FROM UNNEST(GENERATE_ARRAY(1, 7, 3)) AS n ORDER BY n", [(1,), (4,), (7,)]),
        (
            "bigquery",
            "SELECT id, (SELECT COUNT(*) FROM UNNEST(a)) AS n FROM lists ORDER BY id",
            [(1, 2), (2, 2), (3, 0), (4, 0)],
        ),
        (
            "bigquery",
            "SELECT id, x, o FROM lists LEFT JOIN UNNEST(a) AS x WITH OFFSET o ON o = 1 AND x > 'q' ORDER BY id",
            [(1, None, None), (2, "r", 1), (3, None, None), (4, None, None)],
        ),
        (
            "bigquery",
            "SELECT id, x, o FROM lists LEFT JOIN UNNEST(['u', 'v']) AS x WITH OFFSET o ON o = id ORDER BY id",
            [(1, "v", 1), (2, None, None), (3, None, None), (4, None, None)],
        ),
        (
            "snowflake",
            "SELECT id, f.value FROM lists LEFT JOIN LATERAL FLATTEN(input => a) f ON f.index = 1 ORDER BY id",
            [(1, '"q"'), (2, '"r"'), (3, None), (4, None)],
        ),
        (
            "snowflake",
            "SELECT s.* FROM people, LATERAL SPLIT_TO_TABLE(note, ' ') s WHERE id = 1 ORDER BY 1",
            [(1, "likes"), (2, "tea")],
        ),
        (
            "databricks",
            "SELECT id, x FROM lists LEFT JOIN LATERAL explode(a) AS t(x) ON x > 'q' ORDER BY id",
            [(1, None), (2, "r"), (3, None), (4, None)],
        ),
        ("databricks", "SELECT id, x FROM lists, LATERAL posexplode(a) AS t(i, x) ORDER BY id, i", _IDS),
        ("databricks", "SELECT id, x FROM lists LATERAL VIEW posexplode(a) v AS i, x ORDER BY id, i", _IDS),
        ("databricks", "SELECT id, x FROM lists LATERAL VIEW explode(a) AS x WHERE x > 'p'", [(1, "q"), (2, "r")]),
        (
            "databricks",
            "SELECT id, v.x FROM lists LATERAL VIEW OUTER explode(a) v AS x ORDER BY id, x NULLS FIRST",
            [*_IDS, (3, None), (4, None)],
        ),
        ("databricks", "SELECT id, col FROM lists LATERAL VIEW explode(a) v WHERE id = 1 ORDER BY col", _IDS[:2]),
        ("databricks", "SELECT posexplode(array(10, 20))", [(0, 10), (1, 20)]),
        ("databricks", "SELECT explode(array(10, 20)) AS x", [(10,), (20,)]),
        (
            "databricks",
            "SELECT id, posexplode(a) AS (i, x) FROM lists WHERE id = 1 ORDER BY i",
            [(1, 0, "p"), (1, 1, "q")],
        ),
        (
            "databricks",
            "SELECT id, explode_outer(a) AS x FROM lists ORDER BY id, x NULLS FIRST",
            [*_IDS, (3, None), (4, None)],
        ),
        (
            "databricks",
            "SELECT a, b FROM (SELECT '{\"a\": 1, \"b\": \"2\"}' AS j) LATERAL VIEW json_tuple(j, 'a', 'b') AS a, b",
            [("1", "2")],
        ),
        (
            "databricks",
            "SELECT id, x FROM texts LATERAL VIEW explode(from_json(j, 'ARRAY<STRING>')) v AS x",
            [(4, "z")],
        ),
        ("databricks", "SELECT id FROM range(3) ORDER BY id", [(0,), (1,), (2,)]),
        ("databricks", "SELECT r.id FROM range(5, 7) AS r ORDER BY 1", [(5,), (6,)]),
        ("databricks", "SELECT x FROM explode(sequence(1, 3)) AS t(x) ORDER BY x", [(1,), (2,), (3,)]),
        ("duckdb", "SELECT id, x FROM lists, UNNEST(a) AS t(x) WHERE id = 1 ORDER BY x", _IDS[:2]),
        ("duckdb", "SELECT range FROM range(1, 3) ORDER BY 1", [(1,), (2,)]),
        ("default", "SELECT i FROM RANGE(1, 3) AS r(i) ORDER BY i", [(1,), (2,)]),
        ("default", "SELECT * FROM GENERATE_SERIES(1, 2) ORDER BY 1", [(1,), (2,)]),
    ],
)
def test_rows(session: Session, dialect: str, sql: str, rows: Sequence[tuple[object, ...]]) -> None:
    """Each spelling gives the vendor's rows, with positions from the vendor's first number, NULLs and empty lists."""
    found = _rows(session, sql, dialect)
    assert (found if "ORDER BY" in sql else sorted(found, key=str)) == (
        list(rows) if "ORDER BY" in sql else sorted(rows, key=str)
    )


@pytest.mark.parametrize("dialect", ["default", "postgres"])
@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT value FROM jsonb_array_elements('[1, \"a\", null]')", [("1",), ('"a"',), ("null",)]),
        ("SELECT e.value FROM texts, jsonb_array_elements(j) AS e WHERE id = 4", [('"z"',)]),
        ("SELECT x FROM texts CROSS JOIN LATERAL jsonb_array_elements_text(j) AS u(x) WHERE id = 4", [("z",)]),
        ("SELECT json_array_elements_text('[1, \"a\", null]') AS x", [("1",), ("a",), (None,)]),
        ('SELECT k.key, k.value FROM jsonb_each(\'{"a": "x", "b": null}\') AS k', [("a", '"x"'), ("b", "null")]),
        ('SELECT key, value FROM json_each_text(\'{"a": "x", "b": null}\')', [("a", "x"), ("b", None)]),
        ("SELECT key FROM texts, jsonb_each(j) WHERE id = 1", [("l",), ("n",)]),
    ],
)
def test_rows_of_postgres(session: Session, dialect: str, sql: str, rows: Sequence[tuple[object, ...]]) -> None:
    """PostgreSQL's functions over JSON give its rows."""
    assert sorted(_rows(session, sql, dialect), key=str) == sorted(rows, key=str)


@pytest.mark.parametrize(
    ("value", "result"),
    [
        ("count(*)", 9_995),
        ("sum(f.index)", 49_994_990),
        ("max(length(f.path))", 6),
        ("count(f.this)", None),
        ("count(*) FROM (SELECT f.*", None),
    ],
)
def test_long_lists(session: Session, value: str, result: int | None) -> None:
    """A row of FLATTEN has no copy of the list, unless the text reads it: 10,000 copies would need a gigabyte."""
    size = 10_001 if result is not None else 11
    inner = ")" if "(SELECT" in value else ""
    sql = f"SELECT {value} FROM TABLE(FLATTEN(ARRAY_GENERATE_RANGE(1, {size}))) f WHERE f.value > 5{inner}"
    assert _rows(session, sql, "snowflake") == [(result or 5,)]
    sql = "SELECT f.this FROM TABLE(FLATTEN(PARSE_JSON('[1, 2]'))) f WHERE f.index = 0"
    assert _rows(session, sql, "snowflake") == [("[1, 2]",)]


def test_prompts_read_elements(session: Session) -> None:
    """A prompt reads an element of a JSON list without quotes."""
    sql = "SELECT AI_FILTER('Is it good?', f.value::STRING) AS x FROM texts, LATERAL FLATTEN(input => j) f WHERE id = 4"
    direct = ask(session, "SELECT ai_filter('Is it good?', x) AS x FROM (VALUES ('z')) v(x)")
    assert ask(session, sql, dialect="snowflake").rows == direct.rows


@pytest.mark.parametrize(
    ("dialect", "sql", "said"),
    [
        ("snowflake", "SELECT f.seq FROM texts, LATERAL FLATTEN(input => j) f", "row_number"),
        ("snowflake", "SELECT f.key FROM texts, LATERAL FLATTEN(input => j, path => id) f", "text literal"),
        ("snowflake", "SELECT LISTAGG(id, ',') WITHIN GROUP (ORDER BY id) OVER (PARTITION BY id) FROM lists", "OVER"),
        ("databricks", "SELECT k, v FROM lists LATERAL VIEW explode(a) e AS k, v", "map_entries"),
        ("databricks", "SELECT x FROM lists LATERAL VIEW inline(a) e AS x", "LATERAL VIEW explode"),
        ("databricks", "SELECT i FROM lists LATERAL VIEW posexplode(a) e AS i", "posexplode"),
        ("databricks", "SELECT a FROM texts LATERAL VIEW json_tuple(j, 'a') e AS a, b", "as many names"),
    ],
)
def test_refused(session: Session, dialect: str, sql: str, said: str) -> None:
    """A function whose rows differ here is an error in the dialect's words."""
    with pytest.raises(UnsupportedError, match=said) as refused:
        ask(session, sql, dialect=dialect)
    assert isinstance(refused.value, FlightLLMError)
    assert "DuckDB" not in str(refused.value)
