"""Columns without an alias are named after what their user wrote, and no query returns other rows for it."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from flightllm.dialect.output_names import output_names
from flightllm.execution.planning import plan
from flightllm.session.session import Session
from flightllm.sql.names import NO_NAMES, Item, OutputNames
from flightllm.sql.parameters import parameter_names
from flightllm.sql.parsed_text import ParsedText
from tests.counting import steps
from tests.databases import ask, small_database


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Open the small tables."""
    database = small_database(tmp_path_factory.mktemp("names"))
    session = database.session()
    session.update("CREATE TABLE one AS SELECT 2 AS x")
    session.update("CREATE TABLE parts AS SELECT {'a': 1, 'b': 'c'} AS s, [1, 2] AS l, 3 AS \"Quoted\"")
    yield session
    database.close()


NAMES = [
    ("SELECT 1, 'a', 1.50, TRUE, -1", ["1", "'a'", "1.50", "true", "-1"]),
    ("SELECT 1, 1", ["1", "1"]),
    ("SELECT id+1, (id  +\n2), UPPER( name ), p.note FROM people p", ["id+1", "(id + 2)", "upper(name)", "note"]),
    ("SELECT COUNT(*), sum(id) AS s, max(id) m FROM people", ["count(*)", "s", "m"]),
    (
        "SELECT count_if(flag), iff(id > 1, 'x', 'y') FROM people GROUP BY ALL",
        ["count_if(flag)", "iff(id > 1, 'x', 'y')"],
    ),
    ("""SELECT '{"a": 1}' -> 'a'""", ["""'{"a": 1}' -> 'a'"""]),
    ("SELECT AI_FILTER(PROMPT('Is it {0}', note)) FROM people", ["ai_filter(prompt('Is it {0}', note))"]),
    ("SELECT ai_filter('Is it tea?', note), id FROM people", ["ai_filter('Is it tea?', note)", "id"]),
    ("SELECT p.*, id + 1, 'x' FROM (SELECT id FROM people) p", ["id", "id + 1", "'x'"]),
    ("SELECT 'x', * EXCLUDE (id), 2 FROM (SELECT id, name FROM people) p", ["'x'", "name", "2"]),
    ("SELECT unnest([1, 2]), 3", ["unnest([1, 2])", "3"]),
    ("FROM people SELECT id * 2", ["id * 2"]),
    ("SELECT TOP 2 id + 1 FROM people", ["id + 1"]),
    ("SELECT DISTINCT id % 2 FROM people ORDER BY 1", ["id % 2"]),
    ("SELECT id % 2, sum(id) FROM people GROUP BY id % 2 ORDER BY id % 2", ["id % 2", "sum(id)"]),
    ("SELECT max(name), upper(name) FROM people GROUP BY name ORDER BY name", ["max(name)", "upper(name)"]),
    ("SELECT string_agg(name, ',' ORDER BY name) FROM people", ["string_agg(name, ',' ORDER BY name)"]),
    ("SELECT 1 + 1 UNION ALL SELECT 3 ORDER BY 1", ["1 + 1"]),
    ("(SELECT 1 + 1) UNION ALL (SELECT 3)", ["1 + 1"]),
    ("WITH q AS (SELECT 1 AS x) SELECT -x FROM q ORDER BY -x", ["-x"]),
    ("SELECT (SELECT 1), CASE WHEN true THEN 2 END", ["(SELECT 1)", "CASE WHEN true THEN 2 END"]),
    ("SELECT (SELECT x FROM one), (SELECT 5 AS x)", ["(SELECT x FROM one)", "(SELECT 5 AS x)"]),
    ("SELECT (SELECT 1) + 1, 2 AS x, (SELECT 2) + 1", ["(SELECT 1) + 1", "x", "(SELECT 2) + 1"]),
    ("SELECT id::text, CAST(score AS INT) FROM people", ["id::text", "CAST(score AS INT)"]),
    ("SELECT INTERVAL '1 day' x, NULL IS NULL", ["x", "NULL IS NULL"]),
    ("SELECT current_user, current_schema()", ["current_user", "current_schema"]),
    ("SELECT sum(id) OVER (ORDER BY id) /* all */ FROM people", ["sum(id) OVER (ORDER BY id)"]),
    ("VALUES (1, 'a')", ["column1", "column2"]),
    ("FROM one WHERE x = (SELECT 1 + 1)", ["x"]),
    ("FROM one ORDER BY (SELECT 1)", ["x"]),
    ("FROM one, (SELECT 5 + 5) b SELECT x", ["x"]),
    ("FROM one JOIN LATERAL (SELECT 1 + 1) l ON true SELECT x", ["x"]),
    ("(VALUES (1)) UNION ALL SELECT 2", ["column1"]),
    ("FROM one UNION ALL SELECT 2 + 2", ["x"]),
    ("WITH q AS (SELECT x AS k FROM one) FROM q WHERE k = (SELECT 0 + 1)", ["k"]),
    ("WITH q AS (SELECT 1 + 1) SELECT 2 * 2 FROM q", ["2 * 2"]),
    ("WITH q(a) AS (SELECT 1), r AS (SELECT 2) (SELECT a + 1 FROM q)", ["a + 1"]),
    ("(FROM one SELECT x + 1)", ["x + 1"]),
    ("SELECT DISTINCT (x), ((x)) AS y FROM one", ["x", "y"]),
    ("SELECT (one.x) FROM one", ["x"]),
    ("SELECT x AS 'lit', x + 1 'plus' FROM one", ["lit", "plus"]),
    ("SELECT LOCALTIMESTAMP, (localtimestamp) AS y, x FROM one", ["localtimestamp", "y", "x"]),
    ("SELECT (localtimestamp), x FROM one", ["localtimestamp", "x"]),
    ("SELECT x + 1 FROM one |> WHERE true", ["x + 1"]),
    ("SELECT x + 1 AS y FROM one |> SELECT y AS z |> EXTEND 1 AS one", ["z", "one"]),
    ("SELECT x + 1 FROM one |> AGGREGATE count(*) AS n", ["n"]),
    ("FROM one |> SELECT x AS y, 2 AS two |> WHERE y > 0", ["y", "two"]),
]


@pytest.mark.parametrize(("sql", "names"), NAMES)
def test_names(session: Session, sql: str, names: list[str]) -> None:
    """A query and its description have the same names."""
    assert ask(session, sql).table.column_names == names
    assert session.describe(sql).schema.names == names


@pytest.mark.parametrize(("sql", "names"), NAMES)
def test_described(session: Session, sql: str, names: list[str]) -> None:
    """DESCRIBE tells of each column of a query under the name that the query shows."""
    if not sql.startswith(("VALUES", "(VALUES")):
        assert ask(session, f"DESCRIBE {sql}").table["column_name"].to_pylist() == names
        assert session.describe(f"DESCRIBE {sql}").schema.names == ["column_name", "data_type", "is_nullable"]


def test_described_with_parameters(session: Session) -> None:
    """The columns of DESCRIBE keep their own names before and after values are known."""
    sql = "DESCRIBE SELECT $1 + 1, x + 1, x * 2 FROM one"
    assert session.describe(sql).schema.names == ["column_name", "data_type", "is_nullable"]
    assert ask(session, sql, pa.record_batch({"1": [2]})).table["column_name"].to_pylist() == [
        "$1 + 1",
        "x + 1",
        "x * 2",
    ]


NOT_MADE = {"WITH q AS (SELECT x AS k FROM one) FROM q WHERE k = (SELECT 0 + 1)"}
"""Queries that stand alone."""
NO_VIEWS = {*NOT_MADE, "SELECT current_user, current_schema()", """SELECT '{"a": 1}' -> 'a'"""}
OTHER_VIEWS = {
    "SELECT p.*, id + 1, 'x' FROM (SELECT id FROM people) p": ["id", "id + 1", 'Utf8("x")'],
    "SELECT 'x', * EXCLUDE (id), 2 FROM (SELECT id, name FROM people) p": ['Utf8("x")', "name", "Int64(2)"],
    "SELECT unnest([1, 2]), 3": ["UNNEST(make_array(Int64(1),Int64(2)))", "Int64(3)"],
}
"""Views that have DataFusion's names: items of their queries are several columns, or can be."""


@pytest.mark.parametrize(("sql", "names"), [one for one in NAMES if len(set(one[1])) == len(one[1])])
def test_names_of_tables(session: Session, sql: str, names: list[str]) -> None:
    """A table that is made of a query has the query's names."""
    if sql not in NOT_MADE:
        session.update(f"CREATE OR REPLACE TABLE made AS {sql}")
        assert ask(session, "SELECT * FROM made").table.column_names == names


@pytest.mark.parametrize(("sql", "names"), [one for one in NAMES if len(set(one[1])) == len(one[1])])
def test_names_of_views(session: Session, sql: str, names: list[str]) -> None:
    """A view has its query's names and rows, but for those of `OTHER_VIEWS`."""
    if sql not in NO_VIEWS:
        session.update(f"CREATE OR REPLACE VIEW shown AS {sql}")
        found = ask(session, "SELECT * FROM shown").table
        assert found.column_names == OTHER_VIEWS.get(sql, names)
        assert found.num_rows == ask(session, sql).table.num_rows


SHAPES = [
    ("SELECT x + 1 FROM one", ["x + 1"]),
    ("SELECT x, x + 1 AS y, -x FROM one", ["", "", "-x"]),
    ('SELECT x + 1 AS "Two Words", x * 2 z FROM one', ["", ""]),
    ("SELECT x + 1 AS 'text' FROM one", [""]),
    ("SELECT x 'text', x + 1 'more' FROM one", ["", ""]),
    ("SELECT (x), ((x)) AS y, (x + 1), ((x + 2)) FROM one", ["", "", "(x + 1)", "((x + 2))"]),
    ("SELECT (SELECT max(x) FROM one), 7", ["(SELECT max(x) FROM one)", "7"]),
    ("SELECT 1 WHERE 2 IN (SELECT 2 * 1)", ["1"]),
    ("SELECT x % 2 FROM one GROUP BY x % 2 HAVING count(*) > (SELECT 0) ORDER BY (SELECT 1)", ["x % 2"]),
    ("SELECT DISTINCT x + 1 FROM one", ["x + 1"]),
    ("SELECT DISTINCT (x), x + 1 FROM one", ["", "x + 1"]),
    ("SELECT DISTINCT ON (x) x + 1, x FROM one", ["x + 1", ""]),
    ("SELECT DISTINCT ON (x % 2, x) (x), 5 FROM one ORDER BY x % 2, x", ["", "5"]),
    ("SELECT ALL x + 1 FROM one", ["x + 1"]),
    ("FROM one", [""]),
    ("FROM one SELECT x + 1", ["x + 1"]),
    ("FROM one SELECT x + 1 WHERE x > (SELECT 0)", ["x + 1"]),
    ("FROM one WHERE x > (SELECT 0)", [""]),
    ("FROM one WHERE EXISTS (SELECT 3 + 3)", [""]),
    ("FROM one WHERE x NOT IN (SELECT 3 + 3)", [""]),
    ("FROM one WHERE x > ANY (SELECT 1 + 0)", [""]),
    ("FROM one a, one b SELECT a.x + b.x", ["a.x + b.x"]),
    ("FROM (SELECT 1 + 1 AS k)", [""]),
    ("FROM (SELECT 1 + 1)", [""]),
    ("FROM (FROM one SELECT x + 1) SELECT 9", ["9"]),
    ("FROM one JOIN (SELECT 2 AS k) b ON x = (SELECT 1 + 1)", ["", ""]),
    ("FROM one UNION ALL SELECT 2 + 2", [""]),
    ("FROM one EXCEPT SELECT 2 + 2", [""]),
    ("FROM one SELECT x + 1 UNION ALL SELECT 4", ["x + 1"]),
    ("(FROM one) UNION ALL (SELECT 3 + 3)", [""]),
    ("SELECT x + 1 FROM one UNION SELECT x + 2 FROM one", ["x + 1"]),
    ("SELECT x + 1 FROM one INTERSECT SELECT 3", ["x + 1"]),
    ("SELECT x + 1 FROM one EXCEPT SELECT 4", ["x + 1"]),
    ("(SELECT x + 1 FROM one LIMIT 1) UNION ALL SELECT 4 ORDER BY 1", ["x + 1"]),
    ("((SELECT 1 + 1) UNION ALL SELECT 2) UNION ALL SELECT 3", ["1 + 1"]),
    ("((SELECT 1 + 1))", ["1 + 1"]),
    ("SELECT 1 + 1 UNION ALL (VALUES (5))", ["1 + 1"]),
    ("SELECT *, x + 1 FROM one UNION ALL BY NAME SELECT 2 AS x, 5 AS z", ["", "x + 1", ""]),
    ("VALUES (1 + 1), (2)", [""]),
    ("(VALUES (1)) UNION ALL SELECT 2 + 2", [""]),
    ("SELECT column1 + 1 FROM (VALUES (1))", ["column1 + 1"]),
    ("WITH q AS (SELECT 1 + 1 AS k) SELECT k + 1 FROM q", ["k + 1"]),
    ("WITH q AS (SELECT 1 + 1) SELECT * FROM q", [""]),
    ("WITH q AS (SELECT 1 + 1), r AS (SELECT 2 + 2 AS k) (SELECT k, k - 1 FROM r)", ["", "k - 1"]),
    ("WITH q(a, b) AS (VALUES (1, 2)) SELECT a + b FROM q", ["a + b"]),
    ("WITH q AS (SELECT x FROM one) FROM q WHERE x > (SELECT 0 + 1)", [""]),
    ("WITH q AS (SELECT x FROM one) FROM q SELECT x + 7", ["x + 7"]),
    ("WITH q AS (WITH r AS (SELECT 1 + 1 AS a) SELECT a FROM r) SELECT -a FROM q", ["-a"]),
    ("WITH RECURSIVE q AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM q WHERE n < 3) SELECT n * 2 FROM q", ["n * 2"]),
    ("SELECT x + 1, l.k FROM one JOIN LATERAL (SELECT 2 + 5 AS k) l ON true", ["x + 1", ""]),
    ("FROM one JOIN LATERAL (SELECT 1 + 1 AS k) l ON true SELECT k + 1", ["k + 1"]),
    ("SELECT sum(x) OVER (PARTITION BY x % 2 ORDER BY x) FROM one", ["sum(x) OVER (PARTITION BY x % 2 ORDER BY x)"]),
    ("SELECT row_number() OVER w FROM one WINDOW w AS (ORDER BY x)", ["row_number() OVER w"]),
    ("SELECT x + 1 FROM one QUALIFY row_number() OVER (ORDER BY x) = 1", ["x + 1"]),
    ("SELECT *, x + 1 FROM one", ["", "x + 1"]),
    ("SELECT x + 1, one.* FROM one", ["x + 1", ""]),
    ("SELECT a.*, b.*, 1 + 1 FROM one a, (SELECT 3 AS y) b", ["", "", "1 + 1"]),
    ("SELECT * EXCLUDE (s), 1 + 1 FROM parts", ["", "", "1 + 1"]),
    ('SELECT * REPLACE (5 AS "Quoted"), 1 + 1 FROM parts', ["", "", "", "1 + 1"]),
    ('SELECT s.a, s[\'b\'], parts.s, "Quoted", "Quoted" + 1 FROM parts', ["a", "s['b']", "", "", '"Quoted" + 1']),
    ("SELECT (l)[1], l[1] + 1 FROM parts", ["(l)[1]", "l[1] + 1"]),
    ("SELECT unnest(l), 2 FROM parts", ["unnest(l)", "2"]),
    ("SELECT unnest(s), 2 FROM parts", ["", "", "2"]),
    ("SELECT *, unnest(s), 2 FROM parts", ["", "", "", "", "", "2"]),
    ("SELECT $1 + 1, $2, x FROM one WHERE x > $1 - 9", ["$1 + 1", "$2", ""]),
    ("SELECT ? + 1, ?", ["$1 + 1", "$2"]),
    ("WITH q AS (SELECT ? AS a) SELECT a, ? FROM q", ["", "$2"]),
    ("SELECT TOP (1) x + 1 FROM one", ["x + 1"]),
    (
        "SELECT CASE WHEN x > 1 THEN 'a' ELSE 'b' END, x IS NULL FROM one",
        ["CASE WHEN x > 1 THEN 'a' ELSE 'b' END", "x IS NULL"],
    ),
    (
        "SELECT DATE '2024-01-02', INTERVAL '1 day', x LIKE 'a' FROM (SELECT 'a' AS x)",
        ["DATE '2024-01-02'", "INTERVAL '1 day'", "x LIKE 'a'"],
    ),
    (
        "SELECT extract(year FROM DATE '2024-01-02'), substring('abc' FROM 2)",
        ["extract(year FROM DATE '2024-01-02')", "substring('abc' FROM 2)"],
    ),
    ("SELECT x + 1 FROM one; -- (SELECT 5)", ["x + 1"]),
    ("PIVOT one ON x IN (2) USING count(*)", [""]),
    ("FROM one PIVOT (count(*) FOR x IN (2)) SELECT 1 + 1", ["1 + 1"]),
    ("SELECT ai_filter('Is it tea?', name) FROM people", ["ai_filter('Is it tea?', name)"]),
]
"""Queries, and for each of their columns the text of its item; nothing for columns with a name but fields."""


@pytest.mark.parametrize(("sql", "texts"), SHAPES)
def test_names_are_of_their_own_items(session: Session, sql: str, texts: list[str]) -> None:
    """A column has DataFusion's name, the field of its name, or the text of its item; described, it has the same."""
    count = len(parameter_names(ParsedText(sql)))
    row = pa.record_batch({str(at): [7] for at in range(count)}) if count else None
    statement = session._reader.bound(sql, session._settings, row)
    given = plan(statement.parsed_query, session._services, session._settings).schema.names
    names = ask(session, sql, row).table.column_names
    assert len(names) == len(given) == len(texts)
    own = [name in (plain, text) for name, plain, text in zip(names, given, texts, strict=True)]
    assert all(own), (names, given)
    assert session.describe(sql).schema.names == names


def test_parameters_keep_their_names(session: Session) -> None:
    """A column with a parameter has one name before and after the value is known."""
    sql = "SELECT $1 + 1, upper($2)"
    names = ["$1 + 1", "upper($2)"]
    assert session.describe(sql).schema.names == names
    result = session.execute(sql, pa.record_batch({"1": [2], "2": ["a"]}))
    assert pa.Table.from_batches(list(result.batches)).to_pydict() == dict(zip(names, ([3], ["A"]), strict=True))


def test_names_that_differ_stay_so(session: Session) -> None:
    """Two names do not become one: a table could not have both columns."""
    assert ask(session, 'SELECT 1, 2 AS "1", 3').table.column_names == ["Int64(1)", "1", "3"]
    assert ask(session, "SELECT x + 1, x+1, -x FROM one").table.column_names == ["x + 1", "x+1", "-x"]
    assert OutputNames((Item("a"), Item("a"), Item("1"), Item("d"))).shown(["1", "2", "3", "4"]) == ["1", "2", "3", "d"]


def test_other_dialects(session: Session) -> None:
    """The name is that of the text as it was sent."""
    session.update("SET flightllm.dialect = 'bigquery'")
    try:
        assert ask(session, "SELECT COUNTIF(flag), `id` + 1 FROM people GROUP BY ALL").table.column_names == [
            "countif(flag)",
            "`id` + 1",
        ]
    finally:
        session.update("RESET flightllm.dialect")


@pytest.mark.parametrize("sql", ["SHOW TABLES", "DESCRIBE t", "VALUES (1)", "SELECT 'a", "DROP TABLE t", ""])
def test_none(sql: str) -> None:
    """Other statements have no such names."""
    assert output_names(ParsedText(sql)) == NO_NAMES


def test_parameters_are_numbered_over_all_of_the_text() -> None:
    """A `?` has the number of its place among all parameters, in whatever brackets and before whatever SELECT."""
    sql = "WITH q AS (SELECT ? AS a) SELECT coalesce(?, (? + a) * (SELECT ?)), upper(?), ? FROM q WHERE a > ?"
    names = [item.name for item in output_names(ParsedText(sql)).items]
    assert names == ["coalesce($2, ($3 + a) * (SELECT $4))", "upper($5)", "$6"]


def test_many_parameters_take_as_many_steps() -> None:
    """Four times as many parameters take about four times as many steps, not sixteen times."""

    def counted(count: int) -> int:
        return steps(lambda: output_names(ParsedText(f"SELECT {', '.join('?' * count)}")))

    counted(1)  # what is imported and kept once
    assert counted(400) < 4.5 * counted(100)
