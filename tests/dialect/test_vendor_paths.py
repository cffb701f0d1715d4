"""Vendors' paths over JSON texts and answers, wherever the value comes from, and typed values of JSON texts."""

from collections.abc import Iterator, Sequence

import pytest

from flightllm.errors import UnsupportedError
from flightllm.session.session import Session
from tests.databases import ask, small_database

_ROWS = """CREATE TABLE items AS SELECT * FROM (VALUES
    (1, '{"brand": "Tonika", "a": {"b": [{"c": "x y"}, 2]}, "labels": ["l1", "l2"], "price": 9.5, "ok": true}'),
    (2, '{"brand": null, "labels": [], "price": 10, "ok": false}'), (3, NULL),
    (4, '{"brand": "Acme", "labels": ["z", null, {"k": 1}], "price": "n/a"}')) AS v(id, d)"""

_ANSWERS = (
    "SELECT id, ai_classify(note, ['a', 'b']) AS j, ai_classify(note, ['a', 'b'], multi => true) AS m,"
    " ai_extract(note, ['city', 'name']) AS e FROM people"
)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Open tables with JSON texts, lists and answers, and a view of answers."""
    database = small_database(tmp_path_factory.mktemp("paths"))
    session = database.session()
    session.update(_ROWS)
    session.update("CREATE TABLE lists AS SELECT * FROM (VALUES (1, ['p', 'q']), (2, [NULL, 'r']), (3, NULL)) v(id, a)")
    session.update(f"CREATE TABLE kept AS {_ANSWERS}")
    session.update(f"CREATE VIEW seen AS {_ANSWERS}")
    yield session
    database.close()


def _values(session: Session, sql: str, dialect: str) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in ask(session, sql, dialect=dialect).rows]


_SOURCES = (
    "FROM items",
    "FROM (SELECT id, d FROM items) q",
    "FROM (SELECT * FROM items) AS items",
)


@pytest.mark.parametrize("dialect", ["snowflake", "databricks", "default"])
@pytest.mark.parametrize("source", _SOURCES)
@pytest.mark.parametrize(
    ("sql", "values"),
    [
        ("d:brand::STRING", ["Tonika", None, None, "Acme"]),
        ("d:a.b[0]:c::STRING", ["x y", None, None, None]),
        ("d:labels[1]::STRING", ["l2", None, None, None]),
        ("upper(d:brand::STRING)", ["TONIKA", None, None, "ACME"]),
        ("d:price::STRING", ["9.5", "10", None, "n/a"]),
        ("'<' || d:brand::STRING || '>'", ["<Tonika>", None, None, "<Acme>"]),
        ("CASE WHEN d:brand::STRING = 'Acme' THEN 1 ELSE 0 END", [0, 0, 0, 1]),
        ("1 = 2 OR d:brand::STRING = 'Acme'", [False, None, None, True]),
    ],
)
def test_paths(session: Session, dialect: str, source: str, sql: str, values: Sequence[object]) -> None:
    """Text has no quotes, null is NULL, and a path works over a column of a table and of a derived table."""
    assert _values(session, f"SELECT {sql} AS x {source} ORDER BY id", dialect) == [(one,) for one in values]


@pytest.mark.parametrize("source", _SOURCES)
@pytest.mark.parametrize(
    ("dialect", "values"),
    [
        ("snowflake", [False, False, True, False]),
        ("databricks", [False, True, True, False]),
        ("default", [False, True, True, False]),
    ],
)
def test_null_of_json(session: Session, dialect: str, source: str, values: Sequence[object]) -> None:
    """Null in a JSON text is a value in Snowflake, and NULL elsewhere."""
    found = _values(session, f"SELECT d:brand IS NULL AS x {source} ORDER BY id", dialect)
    assert found == [(one,) for one in values]


@pytest.mark.parametrize("dialect", ["snowflake", "databricks"])
@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        ("d:brand = 'Tonika'", [1]),
        ("d:brand::STRING IN ('Acme', 'Tonika')", [1, 4]),
        ("d:brand LIKE 'A%'", [4]),
        ("d:price > 9.7", [2]),
        ("d:price BETWEEN 9 AND 9.9", [1]),
        ("d:price * 2 = 20", [2]),
        ("d:ok = TRUE", [1]),
        ("d:ok::BOOLEAN", [1]),
        ("d:labels[0] IS NOT NULL", [1, 4]),
    ],
)
def test_conditions(session: Session, dialect: str, condition: str, ids: Sequence[int]) -> None:
    """A comparison reads a value as text, as a number or as a truth value, by what stands beside it."""
    assert _values(session, f"SELECT id FROM items WHERE {condition} ORDER BY id", dialect) == [(one,) for one in ids]


@pytest.mark.parametrize(
    ("sql", "values"),
    [
        ("SELECT d:brand FROM items ORDER BY id", ['"Tonika"', "null", None, '"Acme"']),
        ("SELECT d['labels'][0]::STRING FROM items ORDER BY id", ["l1", None, None, "z"]),
        ("SELECT i.d:labels[2]:k::INT FROM items i ORDER BY id", [None, None, None, 1]),
        ("SELECT id FROM items WHERE d:price IS NOT NULL ORDER BY d:price DESC", [4, 2, 1]),
        ("SELECT GET_PATH(PARSE_JSON(d), 'a.b[0].c')::STRING FROM items WHERE id = 1", ["x y"]),
        ("SELECT TRY_PARSE_JSON('{a'):a::STRING", [None]),
        ("SELECT d::VARIANT:brand::STRING FROM items WHERE id = 1", ["Tonika"]),
        ("SELECT d:labels::ARRAY FROM items WHERE id = 1", [["l1", "l2"]]),
        ("SELECT ARRAY_SIZE(d:labels) FROM items ORDER BY id", [2, 0, None, 3]),
        ("SELECT SUM(d:price) FROM items WHERE id < 3", [19.5]),
        ("SELECT MAX(d:price::DOUBLE) FROM items WHERE id < 3", [10.0]),
        ("SELECT OBJECT_CONSTRUCT('a', 1):a::INT", [1]),
        ("SELECT b || '!' FROM (SELECT d:brand AS b FROM items WHERE id = 1) q", ["Tonika!"]),
        ("SELECT d:brand AS b FROM items WHERE id < 3 GROUP BY d:brand ORDER BY b NULLS LAST", ["Tonika", None]),
    ],
)
def test_snowflake(session: Session, sql: str, values: Sequence[object]) -> None:
    """Snowflake's values without a type: an item of SELECT shows JSON, and ORDER BY knows numbers."""
    assert _values(session, sql, "snowflake") == [(one,) for one in values]


@pytest.mark.parametrize("dialect", ["snowflake", "default"])
@pytest.mark.parametrize(
    ("path", "plain"),
    [
        ("j:labels[0]::STRING", "j"),
        ("q.j:labels[0]::STRING", "j"),
        ("j:labels[0]::STRING || '!'", "j || '!'"),
        ("m:labels[0]::STRING", "m[1]"),
        ("e:response:city::STRING", "e['city']"),
        ("e:response.name::STRING", "e['name']"),
    ],
)
@pytest.mark.parametrize(
    "source",
    [
        "FROM kept AS q",
        "FROM seen AS q",
        f"FROM ({_ANSWERS}) AS q",
        "FROM (SELECT * FROM kept) AS q",
    ],
    ids=["table", "view", "derived", "star"],
)
def test_paths_over_answers(session: Session, dialect: str, path: str, plain: str, source: str) -> None:
    """A path over an answer leads to the same value as directly after the call, wherever the answer is kept."""
    found = _values(session, f"SELECT id, {path} AS x {source} ORDER BY id", dialect)
    assert found == _values(session, f"SELECT id, {plain} AS x FROM kept AS q ORDER BY id", "default")
    assert any(row[1] is not None for row in found)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("PARSE_JSON('\"x\"')::STRING", "x"),
        ("PARSE_JSON('\"x\"') = 'x'", True),
        ("PARSE_JSON('{\"a\": 1}') = PARSE_JSON('{\"a\":1}')", True),
        ('PARSE_JSON(\'{"a":1,"b":2}\') <> PARSE_JSON(\'{"b":2,"a":1}\')', False),
        ("PARSE_JSON('1.0') = TRY_PARSE_JSON('1')", True),
        ("PARSE_JSON('\"1\"') = PARSE_JSON('1')", False),
        ('PARSE_JSON(\'{"d": {"w": 3}}\'):d = PARSE_JSON(\'{"w":3}\')', True),
        ("PARSE_JSON('{\"a\": 1}')::STRING", '{"a":1}'),
        ("PARSE_JSON('null')::STRING", None),
        ("PARSE_JSON('\"2024-01-02\"')::DATE::STRING", "2024-01-02"),
        ("PARSE_JSON('5') + 1 > PARSE_JSON('5.5')", True),
        ("PARSE_JSON('{\"a\": \"x\"}'):a = 'x'", True),
    ],
)
def test_whole_values(session: Session, expression: str, value: object) -> None:
    """The value of PARSE_JSON is compared and cast as a value, and never as the text that was read."""
    assert _values(session, f"SELECT {expression}", "snowflake") == [(value,)]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT PARSE_JSON(column1) AS j FROM {} GROUP BY 1",
        "SELECT PARSE_JSON(column1) AS j FROM {} GROUP BY PARSE_JSON(column1)",
        "SELECT DISTINCT TRY_PARSE_JSON(column1) AS j FROM {}",
        "SELECT COUNT(DISTINCT PARSE_JSON(column1)) FROM {}",
    ],
)
def test_groups_of_whole_values(session: Session, query: str) -> None:
    """Texts of one JSON value are one group."""
    rows = """VALUES ('{"a": 1, "b": 2}'), ('{"b":2,"a":1.0}')"""
    assert _values(session, query.format(rows), "snowflake") in ([('{"a":1,"b":2}',)], [(1,)])


@pytest.mark.parametrize(
    ("path", "listed"),
    [
        ("j:labels::STRING", "'[\"' || j || '\"]'"),
        ("j:labels", "'[\"' || j || '\"]'"),
        ("ARRAY_SIZE(j:labels)", "CASE WHEN j IS NOT NULL THEN 1 END"),
        ("ARRAY_CONTAINS('a'::VARIANT, j:labels)", "j = 'a'"),
        ("ARRAY_TO_STRING(j:labels, ',')", "j"),
        ("j:labels[0]", "j"),
    ],
)
def test_list_of_one_label(session: Session, path: str, listed: str) -> None:
    """The labels of a stored answer with one label are a list of it, as Snowflake returns them."""
    found = _values(session, f"SELECT id, {path} AS x FROM kept ORDER BY id", "snowflake")
    assert found == _values(session, f"SELECT id, {listed} AS x FROM kept ORDER BY id", "default")
    assert any(row[1] is not None for row in found)


def test_rows_of_one_label(session: Session) -> None:
    """FLATTEN makes one row of the labels of each stored answer with one label."""
    sql = "SELECT id, f.value::STRING AS v FROM kept, LATERAL FLATTEN(input => j:labels) f ORDER BY id"
    found = _values(session, sql, "snowflake")
    assert found == _values(session, "SELECT id, j FROM kept WHERE j IS NOT NULL ORDER BY id", "default") != []


@pytest.mark.parametrize(
    "call",
    [
        "CORTEX.CLASSIFY_TEXT('x', [{'label': 'a', 'examples': ['t']}, {'label': 'b'}])",
        "AI_CLASSIFY('x', [{'label': 'a', 'description': 'd'}, {'label': 'b', 'examples': ['t', 'u']}])",
        "AI_CLASSIFY('x', ARRAY_CONSTRUCT({'label': 'a', 'examples': ['t']}, {'label': 'b'}))",
    ],
)
def test_labels_with_several_keys(session: Session, call: str) -> None:
    """Each label can have other keys than the label before it."""
    assert _values(session, f"SELECT {call}", "snowflake")[0][0] in {"a", "b"}


def test_paths_over_cte(session: Session) -> None:
    """A path over a CTE asks nothing twice, and filters by the label."""
    sql = (
        "WITH c AS (SELECT id, AI_CLASSIFY(note, ['a', 'b']) AS j FROM people), d AS (SELECT * FROM c)"
        " SELECT id FROM d WHERE j:labels[0]::STRING = 'a' ORDER BY id"
    )
    plain = _values(session, "SELECT id FROM kept WHERE j = 'a' ORDER BY id", "default")
    assert _values(session, sql, "snowflake") == plain


@pytest.mark.parametrize(
    ("sql", "values"),
    [
        ("from_json(d, 'brand STRING, price DOUBLE').price", [9.5, 10.0, None, None]),
        ("from_json(d, 'STRUCT<labels: ARRAY<STRING>>').labels", [["l1", "l2"], [], None, ["z", None, '{"k": 1}']]),
        ("get_json_object(d, '$.brand')", ["Tonika", None, None, "Acme"]),
        ("parse_json(d):brand::string", ["Tonika", None, None, "Acme"]),
        ("from_json('[1, 2]', 'ARRAY<INT>')", [[1, 2]] * 4),
        ("get_json_object(from_json('{\"m\": {\"k\": 2}}', 'm STRING').m, '$.k')", ["2"] * 4),
        ("get_json_object(from_json('[{\"k\": 2}]', 'ARRAY<STRING>')[0], '$.k')", ["2"] * 4),
    ],
)
def test_typed_values(session: Session, sql: str, values: Sequence[object]) -> None:
    """Spark reads a JSON text by a schema; a text that is no JSON gives a struct of NULLs."""
    assert _values(session, f"SELECT {sql} AS x FROM items ORDER BY id", "databricks") == [(one,) for one in values]
    assert _values(session, "SELECT from_json('{a', 'a INT') AS x", "databricks") == [({"a": None},)]


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("JSON_VALUE_ARRAY('{\"f\": [\"a\", 1, null]}', '$.f')", ["a", "1", None]),
        ("JSON_EXTRACT_STRING_ARRAY('[\"a\"]')", ["a"]),
        ('JSON_QUERY_ARRAY(\'{"f": ["a", {"b": 1}]}\', \'$.f\')', ['"a"', '{"b":1}']),
        ("JSON_EXTRACT_ARRAY('[1, 2]', '$')", ["1", "2"]),
        ("JSON_VALUE_ARRAY('{\"f\": 1}', '$.f')", None),
        ("JSON_VALUE_ARRAY('[]')", []),
        ("ARRAY_LENGTH(JSON_EXTRACT_ARRAY('[1, 2]'))", 2),
    ],
)
def test_lists_of_bigquery(session: Session, sql: str, value: object) -> None:
    """BigQuery's functions make lists of JSON lists."""
    assert _values(session, f"SELECT {sql} AS x", "bigquery") == [(value,)]


@pytest.mark.parametrize(
    ("sql", "values"),
    [
        ("concat_ws(',', a)", ["p,q", "r", ""]),
        ("concat_ws('-', id, a, 'z')", ["1-p-q-z", "2-r-z", "3-z"]),
        ("concat_ws(', ', array('x', NULL, 'y'), NULL, 'z')", ["x, y, z"] * 3),
        ("concat_ws(';', split('a b', ' '))", ["a;b"] * 3),
    ],
)
def test_lists_in_concat_ws(session: Session, sql: str, values: Sequence[str]) -> None:
    """Spark's concat_ws joins the elements of lists, without those that are NULL."""
    assert _values(session, f"SELECT {sql} AS x FROM lists ORDER BY id", "databricks") == [(one,) for one in values]


@pytest.mark.parametrize(("dialect", "text"), [("default", "{p,q}"), ("postgres", "{p,q}"), ("duckdb", "[p, q]")])
def test_concat_ws_of_others(session: Session, dialect: str, text: str) -> None:
    """In other dialects a list is one value of concat_ws, written as the dialect writes lists."""
    found = _values(session, "SELECT concat_ws('; ', a, 'z') AS x FROM lists ORDER BY id", dialect)
    assert (found[0], found[2]) == ((f"{text}; z",), ("z",))


def test_texts_of_a_group(session: Session) -> None:
    """The texts of a group go into a prompt joined."""
    sql = "SELECT concat_ws('; ', sort_array(collect_list(name))) AS x FROM people WHERE id < 6"
    assert _values(session, sql, "databricks") == [("Ann; Bob; Dan; Eve",)]


@pytest.mark.parametrize(
    ("dialect", "sql", "said"),
    [
        ("snowflake", "SELECT MAX(d:price) FROM items", "a type after the path"),
        ("databricks", "SELECT d:labels[*].k FROM items", "rows of the list in FROM"),
        ("databricks", "SELECT from_json(d, schema) FROM items", "text literal"),
        ("databricks", "SELECT from_json(d, 'MAP<STRING, ARRAY<INT>>') FROM items", "write MAP<STRING, STRING>"),
        ("snowflake", "SELECT m:labels[0]:x FROM kept", "first element"),
    ],
)
def test_refused(session: Session, dialect: str, sql: str, said: str) -> None:
    """A path or a schema that would not give the vendor's value is an error with what to write."""
    with pytest.raises(UnsupportedError, match=said):
        ask(session, sql, dialect=dialect)
