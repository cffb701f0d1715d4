"""Unquoted names of tables, columns and fields are found in any case; exact names come first."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from flightllm.access.store import User
from flightllm.common.principal import Principal
from flightllm.config import Config, EngineConfig, StorageConfig
from flightllm.dialect import NameContext, rewrite
from flightllm.dialect.source import Source
from flightllm.dialect.using_spellings import using_spellings
from flightllm.errors import FlightLLMError, InvalidInputError, NotFoundError, PermissionDeniedError, SqlError
from flightllm.session.database import Database
from flightllm.session.session import Session
from flightllm.sql.parsed_text import ParsedText
from tests.counting import steps
from tests.databases import ask

DIALECTS = ("default", "snowflake", "bigquery", "databricks", "duckdb", "postgres", "spark")
TABLES = (
    "CREATE TABLE tags AS SELECT * FROM (VALUES (1, 'crime'), (2, 'horror'), (2, 'space')) AS v(\"MovieID\", \"Tag\")",
    "CREATE TABLE plain AS SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v(movieid, name)",
    'CREATE TABLE twice AS SELECT 1 AS "Name", 2 AS "NAME", 3 AS "Other", 4 AS other',
    "CREATE TABLE boxes AS SELECT named_struct('Inner', named_struct('Size', 7)) AS \"Box\"",
    'CREATE TABLE keyed ("Id" INT PRIMARY KEY, "Val" TEXT)',
    "CREATE VIEW late AS SELECT movieid, TITLE FROM movies WHERE year > 1990",
    "CREATE TABLE ids AS SELECT * FROM (VALUES (1, 'p'), (2, 'q'), (3, 'r')) AS v(id, val)",
    'CREATE TABLE banned AS SELECT 2 AS "Id"',
    'CREATE SCHEMA "My"',
    'CREATE TABLE "My"."Tab" AS SELECT 5 AS "X"',
)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Open a database with a file `Movies.csv` whose header has capitals, and with tables of mixed names."""
    file = tmp_path / "files" / "Movies.csv"
    file.parent.mkdir()
    file.write_text("movieId,Title,Rating,Year\n1,Heat,4.5,1995\n2,Alien,4.0,1979\n3,Up,3.5,2009\n")
    config = Config(
        engine=EngineConfig("fake"),
        data_folder=tmp_path / "data",
        storage=StorageConfig(external_folders=(file.parent,)),
    )
    database = Database.open(config)
    session = database.session()
    session.update(f"CREATE EXTERNAL TABLE \"Movies\" STORED AS CSV LOCATION '{file}'")
    for sql in TABLES:
        session.update(sql)
    yield database
    database.close()


@pytest.fixture
def session(database: Database) -> Session:
    """Return a session."""
    return database.session()


def _found(session: Session, sql: str, dialect: str = "default") -> tuple[list[str], list[tuple[object, ...]]]:
    table = ask(session, sql, dialect=dialect).table
    columns = [column.to_pylist() for column in table.columns]
    return table.column_names, sorted(zip(*columns, strict=True), key=str)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_dialects(session: Session, dialect: str) -> None:
    """All dialects find names in any case, in all clauses, and give the columns their spelling."""
    sql = (
        "WITH q AS (SELECT * FROM MOVIES) SELECT m.MOVIEID, q.title, max(q.YEAR) AS Last FROM movies m"
        " JOIN q ON q.movieid = m.movieId WHERE m.rating > 3 AND EXISTS (SELECT 1 FROM tags WHERE movieid = m.movieid)"
        " GROUP BY m.movieid, q.Title HAVING max(m.year) < 2000 ORDER BY LAST"
    )
    first = "MOVIEID" if dialect in {"bigquery", "databricks", "spark"} else "movieId"
    expected = [first, "Title", "last" if dialect in {"default", "snowflake", "postgres"} else "Last"]
    assert _found(session, sql, dialect) == (expected, [(1, "Heat", 1995), (2, "Alien", 1979)])


@pytest.mark.parametrize(
    ("sql", "names", "rows"),
    [
        (
            "SELECT Movies.* FROM movies WHERE rating < 4",
            ["movieId", "Title", "Rating", "Year"],
            [(3, "Up", 3.5, 2009)],
        ),
        ("SELECT * EXCLUDE (title, RATING, year) FROM movies", ["movieId"], [(1,), (2,), (3,)]),
        ("SELECT * REPLACE (upper(title) AS title) FROM movies LIMIT 0", ["movieId", "Title", "Rating", "Year"], []),
        ("SELECT movieid, tag FROM movies JOIN tags USING (movieid)", ["movieId", "Tag"], None),
        ("SELECT movieid FROM movies FULL JOIN tags USING (MOVIEID)", ["movieId"], [(1,), (2,), (2,), (3,)]),
        ("SELECT count(*) AS n FROM movies NATURAL JOIN tags", ["n"], [(3,)]),
        ("SELECT count(*) AS n FROM plain NATURAL JOIN tags", ["n"], [(3,)]),
        ("SELECT title FROM movies JOIN plain USING (movieid) JOIN tags USING (movieid)", ["Title"], None),
        ("SELECT a.title, b.year FROM movies a JOIN movies b ON a.movieid = b.movieid - 2", ["Title", "Year"], None),
        ("SELECT title FROM (SELECT * FROM (SELECT * FROM movies) a) b WHERE b.YEAR = 1979", ["Title"], [("Alien",)]),
        ("SELECT TITLE FROM (SELECT title FROM movies) WHERE title LIKE 'U%'", ["Title"], [("Up",)]),
        ("SELECT q.title FROM (SELECT title FROM movies UNION ALL SELECT tag FROM tags) q LIMIT 0", ["Title"], []),
        ("SELECT title FROM movies INTERSECT SELECT 'Up' ORDER BY title", ["Title"], [("Up",)]),
        ('SELECT rating AS "Total" FROM movies ORDER BY total LIMIT 1', ["Total"], [(3.5,)]),
        ("SELECT upper(title) AS title FROM movies ORDER BY title LIMIT 1", ["title"], [("ALIEN",)]),
        (
            "SELECT movieid, row_number() OVER (ORDER BY year) AS n FROM movies QUALIFY n = 1",
            ["movieId", "n"],
            [(2, 1)],
        ),
        ("SELECT sum(rating) OVER w AS s FROM movies WINDOW w AS (PARTITION BY title) LIMIT 0", ["s"], []),
        ("SELECT DISTINCT ON (title) title, year FROM movies ORDER BY title, year LIMIT 1", ["Title", "Year"], None),
        ("SELECT title FROM movies WHERE movieid IN (SELECT movieid FROM tags)", ["Title"], [("Alien",), ("Heat",)]),
        ("SELECT t.tag FROM movies m, LATERAL (SELECT tag FROM tags WHERE movieid = m.movieid) t", ["Tag"], None),
        ("SELECT title FROM late WHERE MOVIEID = 1", ["Title"], [("Heat",)]),
        ("FROM movies |> WHERE rating > 4 |> SELECT title", ["Title"], [("Heat",)]),
        ("UNPIVOT movies ON rating INTO NAME k VALUE v", ["movieId", "Title", "Year", "k", "v"], None),
        ("SELECT box.inner.size AS s, boxes.box.inner.size AS t FROM boxes", ["s", "t"], [(7, 7)]),
        ("SELECT box.inner.size, box.inner FROM boxes GROUP BY box.inner", ["Size", "Inner"], None),
        ("SELECT boxes.box.inner.size, movieid FROM boxes, plain", ["Size", "movieid"], [(7, 1), (7, 2)]),
        ("SELECT box.inner, 1 AS inner FROM boxes", ["Inner", "inner"], None),
        ('SELECT "Box"."Inner"."Size" FROM boxes UNION SELECT 8 ORDER BY 1', ["Size"], [(7,), (8,)]),
        ("SELECT tab.x, my.tab.X, x FROM MY.tab", ["X", "X", "X"], [(5, 5, 5)]),
        ("SELECT tab.* FROM FlightLLM.my.TAB", ["X"], [(5,)]),
        ('SELECT m.Größe, ÄRGER FROM (SELECT 1 AS "größe", 2 AS "Ärger") m', ["größe", "Ärger"], [(1, 2)]),
        ('SELECT q.id FROM (VALUES (1)) AS q("Id")', ["Id"], [(1,)]),
        ("SELECT count(*) AS n FROM \"My\".tab WHERE extract(year FROM DATE '2020-01-02') = 2020", ["n"], [(1,)]),
        ("SELECT DATE '2020-01-02' AS d, date FROM (SELECT 1 AS \"Date\") q WHERE date = 1 LIMIT 0", ["d", "Date"], []),
        ('SELECT CASE WHEN end_ > 0 THEN end_ END AS e FROM (SELECT 1 AS "End", 2 AS "End_") q', ["e"], [(2,)]),
        ("SELECT other FROM twice", ["other"], [(4,)]),
        ('SELECT "NAME", "Name", OTHER FROM twice', ["NAME", "Name", "other"], [(2, 1, 4)]),
    ],
)
def test_queries(session: Session, sql: str, names: list[str], rows: list[tuple[object, ...]] | None) -> None:
    """A query finds names in any case, and a plan tells the same columns as the rows."""
    found = _found(session, sql)
    assert found[0] == names
    assert found[1] == rows or rows is None
    assert list(session.describe(sql).schema.names) == names


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT id FROM ids WHERE id NOT IN (SELECT id FROM banned)", [(1,), (3,)]),
        ("SELECT id FROM ids WHERE id NOT IN (SELECT id FROM read_csv('{file}'))", [(1,), (3,)]),
        ("SELECT id FROM read_csv('{file}') WHERE id IN (SELECT id FROM ids WHERE id = 2)", [(2,)]),
        ("SELECT id FROM ids i WHERE EXISTS (SELECT 1 FROM banned WHERE id = i.id)", [(2,)]),
        ("SELECT id FROM ids WHERE EXISTS (SELECT 1 FROM banned WHERE id + val = ids.id)", None),
        ('SELECT ids.id FROM ids WHERE EXISTS (SELECT 1 FROM (SELECT 2 AS "Ids") q WHERE ids = ids.id)', [(2,)]),
        ("SELECT id FROM ids, (SELECT 1 AS \"Id\") q WHERE val = 'p'", None),
        ("SELECT m.movieid FROM movies m WHERE EXISTS (SELECT 1 FROM unnest([1]) u(x) WHERE m.movieid = x)", [(1,)]),
    ],
)
def test_the_innermost_name_counts(session: Session, tmp_path: Path, sql: str, rows: list[tuple[int]] | None) -> None:
    """A name means a column of the innermost query that has it in any case, also beside an exact name around it."""
    file = tmp_path / "files" / "banned.csv"
    file.write_text("Id\n2\n")
    if rows is None:
        with pytest.raises(SqlError):
            ask(session, sql)
    else:
        assert _found(session, sql.format(file=file))[1] == rows


def test_a_change_reads_the_inner_table(session: Session) -> None:
    """A change of rows with a subquery does not compare a column of the changed table with itself."""
    session.update("DELETE FROM ids WHERE id IN (SELECT id FROM banned)")
    assert _found(session, "SELECT id FROM ids")[1] == [(1,), (3,)]


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT keyed.val, ids.val AS o FROM keyed, ids", []),
        ("SELECT id, ids.val FROM ids JOIN banned USING (id)", [(2, "q")]),
        ("SELECT id FROM ids NATURAL JOIN banned", [(2,)]),
        ("SELECT id FROM ids LEFT SEMI JOIN banned ON ids.id = banned.id", [(2,)]),
        ("SELECT i.id FROM ids i JOIN ids j ON i.id = j.id JOIN banned ON i.id = banned.id", [(2,)]),
        ("SELECT 1 AS id FROM ids, banned ORDER BY id LIMIT 1", [(1,)]),
        ("SELECT banned.id FROM ids, banned ORDER BY id LIMIT 1", [(2,)]),
        ('SELECT "Id" FROM ids, banned LIMIT 1', [(2,)]),
        ("SELECT i.val FROM ids i JOIN movies ON id = movieid JOIN banned b ON b.id = movieid", [("q",)]),
    ],
)
def test_one_name_of_several_tables(session: Session, sql: str, rows: list[tuple[object, ...]]) -> None:
    """Tables of one FROM can spell a name in several ways if the text says which one it means."""
    assert _found(session, sql)[1] == rows


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("SELECT id FROM banned UNION SELECT ID FROM ids ORDER BY id", ["Id"]),
        ("SELECT id FROM ids UNION SELECT id FROM banned ORDER BY ID DESC", ["id"]),
        ("(SELECT id FROM banned) UNION (SELECT id FROM ids) ORDER BY id LIMIT 3", ["Id"]),
        ("SELECT * FROM (SELECT id FROM ids EXCEPT SELECT id FROM keyed ORDER BY id) q", ["id"]),
        ("SELECT * FROM banned UNION SELECT id FROM (SELECT * EXCLUDE (val) FROM ids) ORDER BY id", ["Id"]),
        ("WITH q AS (SELECT id FROM banned) SELECT id FROM q UNION SELECT id FROM ids ORDER BY id", ["Id"]),
    ],
)
def test_order_of_set_operations(session: Session, sql: str, columns: list[str]) -> None:
    """ORDER BY after a set operation reads the names of its first query."""
    assert _found(session, sql) == (columns, [(1,), (2,), (3,)])


def test_order_reads_the_result_first(session: Session) -> None:
    """ORDER BY reads an alias before a column of FROM in another case."""
    assert ask(session, "SELECT -year AS year FROM movies ORDER BY year LIMIT 1").rows == [{"year": -2009}]


def test_files_and_searches(session: Session, tmp_path: Path) -> None:
    """The columns of a file or a search in FROM are found in any case, beside those of tables."""
    file = tmp_path / "files" / "Movies.csv"
    assert _found(session, f"SELECT TITLE FROM read_csv('{file}') WHERE year = 2009") == (["Title"], [("Up",)])
    both = f"SELECT f.title, tag FROM '{file}' f JOIN tags ON tags.movieid = f.movieid WHERE tag = 'space'"
    assert _found(session, both) == (["Title", "Tag"], [("Alien", "space")])
    through = f"WITH q AS (SELECT * FROM read_csv('{file}')) SELECT rating FROM q ORDER BY Rating LIMIT 1"
    assert _found(session, through) == (["Rating"], [(3.5,)])
    session.update('CREATE TABLE docs AS SELECT movieid AS "Doc", title AS "Text" FROM movies')
    session.update("CREATE VECTOR INDEX i ON Docs(TEXT)")
    assert _found(session, "SELECT doc FROM vector_search('i', 'Heat', top_k => 1)") == (["Doc"], [(1,)])


def test_ai_calls(session: Session) -> None:
    """AI calls take columns, stars and fields of answers in any case, and so do the braces of prompts."""
    session.update('CREATE TABLE few AS SELECT title AS "Title" FROM movies WHERE movieid = 1')
    for call in (
        *("ai_gen('About {title}', TITLE)", "ai_gen('About {TITLE}', few.title)", "ai_gen('About {Title}', Few.*)"),
        "ai_extract(title, ['Place']).place",
    ):
        ran = ask(session, f"SELECT {call} AS a FROM few")
        assert (ran.table.column_names, len(ran.rows)) == (["a"], 1)


@pytest.mark.parametrize(
    ("sql", "table", "rows"),
    [
        ("INSERT INTO keyed (id, VAL) VALUES (1, 'a')", "keyed", [(1, "a")]),
        ("INSERT INTO Keyed (id, val) SELECT movieid, title FROM movies WHERE year = 2009", "keyed", [(3, "Up")]),
        ("UPDATE tags SET tag = upper(tag), MOVIEID = 5 WHERE movieid = 1", "tags", None),
        ("UPDATE tags SET tag = m.title FROM movies m WHERE m.movieid = tags.movieid AND m.year > 1990", "tags", None),
        (
            "DELETE FROM tags USING movies WHERE tags.movieid = movies.movieid AND title = 'Alien'",
            "tags",
            [(1, "crime")],
        ),
        (
            "MERGE INTO keyed USING movies ON id = movieid WHEN NOT MATCHED THEN INSERT (id, val) VALUES (1, title)",
            "keyed",
            [(1, "Alien"), (1, "Heat"), (1, "Up")],
        ),
        ("CREATE TABLE Made AS SELECT movieid, title AS Name FROM movies WHERE movieid = 1", "made", [(1, "Heat")]),
    ],
)
def test_changes(session: Session, sql: str, table: str, rows: list[tuple[object, ...]] | None) -> None:
    """Changes of rows find their tables and columns in any case."""
    before = _found(session, f"SELECT * FROM {table}") if table != "made" else None
    session.update(sql)
    found = _found(session, f"SELECT * FROM {table}")
    assert found[1] == rows if rows is not None else found != before


def test_conflicts_and_returning(session: Session) -> None:
    """ON CONFLICT, EXCLUDED and RETURNING find columns in any case."""
    session.update("INSERT INTO keyed VALUES (1, 'a')")
    returned = session.update_returning(
        "INSERT INTO keyed (id, val) VALUES (1, 'b') ON CONFLICT (ID) DO UPDATE SET val = keyed.val || EXCLUDED.VAL"
        " RETURNING id, val"
    )
    assert returned.rows.to_pylist() == [{"Id": 1, "Val": "ab"}]


def test_statements_about_tables(session: Session) -> None:
    """Statements that describe, rename, empty or drop a table find it in any case; a new name folds to lower case."""
    for sql in ("DESCRIBE movies", "SHOW COLUMNS FROM MOVIES", "SUMMARIZE movies"):
        assert [row["column_name"] for row in ask(session, sql).rows][:2] == ["movieId", "Title"]
    for sql in ("DESCRIBE movies", "SHOW COLUMNS FROM movies", "SHOW FULL COLUMNS IN movies"):
        assert [row["data_type"] for row in ask(session, sql).rows] == ["BIGINT", "VARCHAR", "DOUBLE", "BIGINT"]
    assert ask(session, "EXPLAIN SELECT title FROM movies").rows
    session.update("CREATE TABLE T (A INT)")
    assert _found(session, "SELECT * FROM t") == (["a"], [])
    session.update('CREATE TABLE "Old" AS SELECT 1 AS a')
    session.update("ALTER TABLE old RENAME TO New")
    session.update("TRUNCATE TABLE NEW")
    session.update('ALTER TABLE new RENAME TO "New"')
    session.update("DROP TABLE new")
    with pytest.raises(NotFoundError):
        session.update("DROP TABLE new")


def test_parameters(session: Session) -> None:
    """A prepared statement finds names in any case, and so after its table got other columns."""
    one = pa.record_batch({"p": [2009]})
    assert ask(session, "SELECT title FROM movies WHERE year = ?", one).rows == [{"Title": "Up"}]
    session.update('CREATE OR REPLACE TABLE tags AS SELECT 7 AS "TAG"')
    assert ask(session, "SELECT tag FROM tags").rows == [{"TAG": 7}]
    session.update("CREATE OR REPLACE TABLE tags AS SELECT 8 AS tag")
    assert ask(session, "SELECT tag FROM tags").rows == [{"tag": 8}]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT name FROM twice", r"'name' at 1:8 can be \"NAME\" or \"Name\": write the one .* in double quotes"),
        ("SELECT t.nAME FROM Twice t", r"'nAME' at 1:10 can be \"NAME\" or \"Name\""),
        ("SELECT val FROM keyed, ids", r"'val' at 1:8 can be keyed.\"Val\" or ids.val: write the one that is meant$"),
        ("UPDATE ids SET val = 'x' FROM banned b WHERE id = 2", r"'id' at 1:46 can be ids.id or b.\"Id\""),
        ('SELECT "title" FROM movies', 'Did you mean \'"Movies"."Title"\''),
        ('SELECT 1 FROM "movies"', 'Did you mean "Movies"'),
        ("SELECT titel FROM movies", "Valid fields are"),
        ("SELECT 1 FROM movis", 'Did you mean "Movies"'),
    ],
)
def test_errors(session: Session, sql: str, said: str) -> None:
    """An ambiguous name is refused with its spellings, and a quoted name means only itself."""
    with pytest.raises(InvalidInputError, match=said):
        session.update(sql) if sql.startswith("UPDATE") else ask(session, sql)


def test_ambiguous_tables(session: Session) -> None:
    """Of several tables that differ in case, the exact one is read; without it, the error lists them."""
    session.update('CREATE TABLE "TAGS" AS SELECT 1 AS a')
    assert _found(session, "SELECT tag FROM Tags LIMIT 0")[0] == ["Tag"]
    session.update("DROP TABLE tags")
    assert _found(session, "SELECT a FROM tags") == (["a"], [(1,)])
    session.update('CREATE TABLE "Tags" AS SELECT 2 AS a')
    with pytest.raises(SqlError, match=r"the table 'tags' at 1:15 can be \"TAGS\" or \"Tags\""):
        ask(session, "SELECT a FROM tags")


def test_rights(database: Database) -> None:
    """A name in another case needs the rights of its table, and tells nothing of a table without a right."""
    admin = database.session()
    database.access.store.add_user(User("ann", "user"))
    ann = database.session(Principal("ann", "user"))
    with pytest.raises(FlightLLMError) as unknown:
        ask(ann, "SELECT 1 FROM movies")
    assert "Movies" not in str(unknown.value)
    with pytest.raises(NotFoundError):
        ann.update("DROP TABLE movies")
    admin.update("GRANT INSERT ON MOVIES TO ann")
    with pytest.raises(PermissionDeniedError):
        ask(ann, "SELECT title FROM movies")
    admin.update("GRANT SELECT ON movies TO ann")
    admin.update("CREATE ROW FILTER ON movies TO ann AS title <> 'Up'")
    admin.update("CREATE COLUMN MASK ON movies (rating) TO ann AS CASE WHEN year > 1990 THEN rating END")
    assert _found(ann, "SELECT title, RATING FROM movies") == (["Title", "Rating"], [("Alien", None), ("Heat", 4.5)])
    admin.update("REVOKE SELECT ON Movies FROM ann")
    with pytest.raises(PermissionDeniedError):
        ask(ann, "SELECT title FROM MOVIES")


def test_a_text_without_capitals_stays() -> None:
    """No rule reads the columns of a text in which no name can mean one with capitals."""

    def read(*_: object) -> dict[str, pa.DataType]:
        raise AssertionError("the columns were read")

    place = NameContext(is_table=lambda _: True, columns_of=read, schemas=lambda: ["public"])
    sql = "SELECT a, t.b FROM t JOIN u ON t.id = u.id WHERE c = 'A' ORDER BY b"
    assert rewrite(ParsedText(sql), place).edits == ()


def test_steps_grow_with_the_text() -> None:
    """Finding names takes steps in proportion to the text, also of many subqueries and a wide table."""
    columns = {f"C{number}": pa.int64() for number in range(100)}
    place = NameContext(
        is_table=lambda _: True, columns_of=lambda _: columns, schemas=lambda: ["public"], names_spelt=lambda _: True
    )

    def taken(count: int) -> int:
        part = "SELECT c1, t.c2 FROM (SELECT * FROM t) t WHERE c3 IN (SELECT c4 FROM u WHERE u.c5 = t.c6)"
        return steps(lambda: rewrite(ParsedText(" UNION ALL ".join([part] * count)), place))

    assert taken(80) < 6 * taken(20)


def _wide(count: int) -> NameContext:
    columns = {f"C{number}": pa.int64() for number in range(count)}
    return NameContext(
        is_table=lambda _: True, columns_of=lambda _: columns, schemas=lambda: ["public"], names_spelt=lambda _: True
    )


@pytest.mark.parametrize("end", ["FROM t", "FROM t, u", "FROM (SELECT * FROM t) q", "FROM t UNION SELECT * FROM t"])
def test_steps_grow_with_the_columns(end: str) -> None:
    """A list of names takes steps in proportion to its length, and not for each column of the table."""

    def taken(count: int) -> int:
        sql = f"SELECT {', '.join(f'c{number}' for number in range(count))} {end}"
        return steps(lambda: rewrite(ParsedText(sql), _wide(count)))

    assert taken(800) < 6 * taken(200)


def test_steps_of_natural_joins() -> None:
    """NATURAL takes steps in proportion to the columns of its sides."""

    def taken(count: int) -> int:
        lower = {f"c{number}": pa.int64() for number in range(count)}
        wide = _wide(count)
        place = replace(wide, columns_of=lambda name: lower if name.name == "u" else wide.columns_of(name))
        source = Source(ParsedText("SELECT 1 FROM t NATURAL JOIN u"), place)
        return steps(lambda: list(using_spellings(source)))

    assert taken(800) < 6 * taken(200)
