"""Statements that change tables and schemas, and queries that must not."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from flightllm.catalog import Catalog
from flightllm.common.names import TableName
from flightllm.config import LimitsConfig
from flightllm.errors import InvalidInputError, NotFoundError, PermissionDeniedError, SqlError, UnsupportedError
from flightllm.sql.classify import classify
from flightllm.sql.keys import ForeignKey, Key
from flightllm.sql.parsed_text import ParsedText
from tests.catalogs import ROWS, ingest, read, register_file, run, write


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM '/etc/passwd'",
        'SELECT * FROM "/etc/passwd"',
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * INTO t FROM (SELECT 1)",
        "COPY (SELECT 1) TO '/tmp/x.csv'",
        "CREATE EXTERNAL TABLE e STORED AS CSV LOCATION '/etc/passwd'",
        "SET datafusion.runtime.temp_directory = '/tmp'",
        "INSERT INTO m VALUES (1)",
        "DROP TABLE m",
        "EXPLAIN COPY (SELECT 1) TO '/tmp/x.csv'",
    ],
)
def test_queries_reach_no_path_and_change_nothing(catalog: Catalog, sql: str) -> None:
    """Even without the classifier, a client's query reads no path, writes none and changes no table or setting."""
    ingest(catalog, "m", {"a": [1]})
    with pytest.raises(InvalidInputError):
        read(catalog, sql)
    assert read(catalog, "SELECT a FROM m") == [{"a": 1}]


def test_statements_change_tables(catalog: Catalog) -> None:
    """CREATE, INSERT, UPDATE, DELETE and DROP do what they say and count rows."""
    assert run(catalog, "CREATE TABLE t (a INT NOT NULL DEFAULT 7, s VARCHAR)") == -1
    assert run(catalog, "INSERT INTO t (s) VALUES ('x')", "INSERT INTO t SELECT a + 1, s FROM t") == 1
    assert run(catalog, "UPDATE t SET s = 'y' WHERE a = 8") == 1
    assert read(catalog, "SELECT * FROM t") == [{"a": 7, "s": "x"}, {"a": 8, "s": "y"}]
    assert run(catalog, "DELETE FROM t WHERE s = 'x'") == 1
    assert run(catalog, "CREATE TABLE IF NOT EXISTS t (z INT)") == -1
    assert catalog.columns_of("t") == ["a", "s"]
    run(catalog, "CREATE OR REPLACE TABLE t (z INT)", "DROP TABLE t", "DROP TABLE IF EXISTS t")
    with pytest.raises(NotFoundError):
        run(catalog, "DROP TABLE t")


def _names(catalog: Catalog) -> list[str]:
    return sorted(name.display for name in catalog.entries)


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("DROP TABLE t, nothing", NotFoundError),
        ("DROP TABLE t, v", InvalidInputError),
        ("DROP TABLE IF EXISTS nothing, t, v", InvalidInputError),
        ("DROP TABLE t, system.queries", PermissionDeniedError),
        ("DROP VIEW v, t", InvalidInputError),
        ("DROP VIEW v, nothing", NotFoundError),
    ],
)
def test_drop_of_several_is_whole(catalog: Catalog, sql: str, error: type[Exception]) -> None:
    """DROP of several tables or views drops none of them if one cannot be dropped."""
    run(catalog, "CREATE TABLE t (a INT)", "CREATE VIEW v AS SELECT 1 AS a")
    with pytest.raises(error):
        catalog.check(classify(ParsedText(sql)))
    with pytest.raises(error):
        run(catalog, sql)
    assert _names(catalog) == ["t", "v"]


def test_drop_of_several(catalog: Catalog) -> None:
    """DROP takes several names, with schemas too, a name twice, and with IF EXISTS names of missing tables."""
    run(catalog, "CREATE SCHEMA s", *(f"CREATE TABLE {name} (a INT)" for name in ("a", "b", "c", "s.a")))
    run(catalog, "CREATE VIEW v AS SELECT * FROM c", "CREATE VIEW w AS SELECT * FROM v")
    run(catalog, "DROP TABLE a, s.a, public.a")
    assert _names(catalog) == ["b", "c", "v", "w"]
    run(catalog, "DROP TABLE IF EXISTS nothing, b, s.nothing")
    assert _names(catalog) == ["c", "v", "w"]
    run(catalog, "DROP VIEW v, w", "DROP TABLE IF EXISTS a, b")
    assert _names(catalog) == ["c"]


@pytest.mark.parametrize(
    "columns",
    [
        "a INT, CHECK (a > 1)",
        "a INT PRIMARY KEY CHECK (a > 1)",
        "a INT, CONSTRAINT c CHECK (a > 1)",
        "a INT PRIMARY KEY ENFORCED",
        "a INT KEY",
        "s STRUCT<a INT> KEY",
        "a INT, b INT GENERATED ALWAYS AS (a + 1)",
        "a VARCHAR COLLATE nocase",
    ],
)
def test_what_nothing_sees_to_is_refused(catalog: Catalog, columns: str) -> None:
    """A column list that asks for more than types, NOT NULL and defaults makes no table."""
    with pytest.raises(UnsupportedError, match="in CREATE TABLE is not supported"):
        run(catalog, f"CREATE TABLE t ({columns})")
    assert not any(table.name.name == "t" for table in catalog.tables())


def test_keys_are_kept(catalog: Catalog) -> None:
    """Keys of columns and of the table are kept as declared; columns of the primary key take no NULL."""
    columns = "a INT PRIMARY KEY, b VARCHAR(9) DEFAULT 'x' UNIQUE, CONSTRAINT both UNIQUE (b, a)"
    run(catalog, f"CREATE TABLE t ({columns})")
    kept = catalog.entries[TableName("public", "t")].keys
    assert kept.primary == Key("t_pkey", ("a",))
    assert kept.unique == (Key("t_b_key", ("b",)), Key("both", ("b", "a")))
    assert not catalog.table("t").schema.field("a").nullable
    assert run(catalog, "INSERT INTO t (a) VALUES (1)", "INSERT INTO t (a) VALUES (1)") == 1
    assert read(catalog, "SELECT * FROM t") == [{"a": 1, "b": "x"}] * 2
    assert catalog.entries[TableName("public", "t")].keys == kept
    with pytest.raises(InvalidInputError):
        run(catalog, "INSERT INTO t (b) VALUES ('y')")
    run(catalog, "CREATE OR REPLACE TABLE t (a INT)")
    assert not catalog.entries[TableName("public", "t")].keys


def test_foreign_keys_refer_to_what_is_there(catalog: Catalog) -> None:
    """A foreign key without columns refers to the primary key; one to a table of its own is declared as others are."""
    run(catalog, "CREATE TABLE o (x INT, y INT, PRIMARY KEY (x, y))")
    run(catalog, "CREATE TABLE t (a INT, b INT, FOREIGN KEY (a, b) REFERENCES o ON DELETE CASCADE ON UPDATE SET NULL)")
    (key,) = catalog.entries[TableName("public", "t")].keys.foreign
    assert key == ForeignKey("t_a_b_fkey", ("a", "b"), TableName("public", "o"), ("x", "y"), "SET NULL", "CASCADE")
    run(catalog, "CREATE TABLE tree (id INT PRIMARY KEY, parent INT REFERENCES tree)")
    assert catalog.entries[TableName("public", "tree")].keys.foreign[0].references == ("id",)


@pytest.mark.parametrize(
    ("columns", "error", "said"),
    [
        ("a INT, PRIMARY KEY (b)", NotFoundError, "'t_pkey' names the column 'b', but 't' has no such column"),
        ("a INT PRIMARY KEY, b INT PRIMARY KEY", SqlError, "one PRIMARY KEY"),
        ("a INT, UNIQUE (a, a)", SqlError, "twice"),
        ("a INT, CONSTRAINT k UNIQUE (a), CONSTRAINT k PRIMARY KEY (a)", SqlError, "have the name 'k'"),
        ("a INT REFERENCES nope", NotFoundError, "no table 'nope'"),
        ("a INT REFERENCES o", SqlError, "does not say which columns of 'o'"),
        ("a INT REFERENCES o (z)", NotFoundError, "names the column 'z', but 'o' has no such column"),
        ("a INT, FOREIGN KEY (a) REFERENCES o (x, y)", SqlError, "has 1 columns but refers to 2"),
        ("a INT, FOREIGN KEY (a) REFERENCES o (x) ON DELETE nothing", SqlError, "write UPDATE or DELETE"),
        ("a INT, PRIMARY KEY (a", SqlError, r"'\)'"),
        ("a INT, CONSTRAINT k", SqlError, "after CONSTRAINT write"),
    ],
)
def test_wrong_keys(catalog: Catalog, columns: str, error: type[Exception], said: str) -> None:
    """A key that names what is not there, or is not complete, makes no table and says what is wrong."""
    run(catalog, "CREATE TABLE o (x INT, y INT)")
    with pytest.raises(error, match=said):
        run(catalog, f"CREATE TABLE t ({columns})")
    assert TableName("public", "t") not in catalog.entries


def test_keys_outlive_the_server(tmp_path: Path) -> None:
    """Keys are read back from the folder, and after that written again as they were."""
    catalog = Catalog(LimitsConfig(), folder=tmp_path)
    run(catalog, "CREATE TABLE o (x INT PRIMARY KEY)", "CREATE TABLE t (a INT UNIQUE REFERENCES o ON DELETE SET NULL)")
    kept = [entry.keys for entry in catalog.entries.values()]
    catalog.close()
    for _ in range(2):
        catalog = Catalog(LimitsConfig(), folder=tmp_path)
        assert [entry.keys for entry in catalog.entries.values()] == kept
        run(catalog, "CREATE SCHEMA IF NOT EXISTS s")
        catalog.close()


def test_columns_called_like_what_is_refused(catalog: Catalog) -> None:
    """Such words may be names, quoted or first in their definition, and stand in texts."""
    columns = "a DECIMAL(10, 2) NOT NULL DEFAULT abs(-1), alias VARCHAR DEFAULT 'unique', generated BIGINT[] NULL"
    run(catalog, f'CREATE TABLE t ({columns}, "primary" TIMESTAMP WITH TIME ZONE)')
    assert catalog.columns_of("t") == ["a", "alias", "generated", "primary"]
    run(catalog, "CREATE TABLE u (s STRUCT<key INT, on STRUCT<alias INT>>)")
    assert [field.name for field in catalog.table("u").schema.field("s").type] == ["key", "on"]


CONDITIONS = [
    *(
        "false",
        "NULL",
        "1 = 0",
        "id IS NULL",
        "id = 1 AND id = 2",
        "id = 1 AND 1 = 2",
        "true",
        "id = 1 OR true",
        "id > 9",
    ),
    *("s IS NULL", "NOT (s = 'x')", "s IN ('x', 'z')", "id BETWEEN 2 AND 3", "coalesce(s, 'x') = 'x'", "id % 2 = 0"),
    *("t.id = 2", "public.t.id = 2", "CASE WHEN id = 1 THEN true ELSE false END", "id = 3 AND s IS NULL"),
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_delete_and_update_change_what_their_condition_says(catalog: Catalog, condition: str) -> None:
    """DELETE and UPDATE change just the rows SELECT finds; a condition that folds to false changes none."""
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("s", pa.string())])
    batch = pa.RecordBatch.from_arrays([pa.array([1, 2, 3, 4]), pa.array(["x", "y", None, "z"])], schema=schema)
    catalog.ingest("t", schema, [batch])
    kept = read(catalog, f"SELECT * FROM t WHERE ({condition}) IS NOT TRUE")
    assert run(catalog, f"UPDATE t SET s = 'changed' WHERE {condition}") == 4 - len(kept)
    assert read(catalog, "SELECT * FROM t WHERE s IS DISTINCT FROM 'changed'") == kept
    catalog.ingest("t", schema, [batch], "replace")
    assert run(catalog, f"DELETE FROM t WHERE {condition}") == 4 - len(kept)
    assert read(catalog, "SELECT * FROM t") == kept


def test_delete_and_update_with_alias(catalog: Catalog) -> None:
    """An alias of the changed table is known to the condition, and then hides the table's name."""
    ingest(catalog, "t", {"a": [1, 2, 3, 4], "X": ["x.a", "b", "c", "d"]})
    assert run(catalog, "UPDATE t AS q SET a = 9 WHERE q.a = 1") == 1
    assert run(catalog, "DELETE FROM t AS x WHERE x.a = 9 AND X . \"X\" = 'x.a' -- x.a") == 1
    assert run(catalog, 'DELETE FROM public.t "X" WHERE "X".a = 2 AND "X" = \'b\'') == 1
    for wrong in ("t.a = 3", "y.a = 3", '"X".a = 3'):
        with pytest.raises(SqlError, match="field"):
            run(catalog, f"DELETE FROM t AS x WHERE {wrong}")
    assert run(catalog, "UPDATE t SET a = 8") == 2
    assert run(catalog, "DELETE FROM t AS x") == 2


@pytest.mark.parametrize("assignments", ["a = 1, a = 2", 'a = 1, b = [1, 2], t."a" = 2', "A = coalesce(b, a), a = 1"])
def test_a_column_set_twice(catalog: Catalog, assignments: str) -> None:
    """An UPDATE that gives a column two values changes nothing."""
    ingest(catalog, "t", {"a": [1], "b": [[2]]})
    with pytest.raises(SqlError, match="sets the column 'a' twice"):
        run(catalog, f"UPDATE t SET {assignments}")
    assert run(catalog, "UPDATE t SET b = [a, a, a], a = CASE WHEN a = 1 THEN 2 END WHERE a = 1 AND a = a") == 1


def test_schemas(catalog: Catalog) -> None:
    """Schemas can be made, used and, when empty, dropped."""
    run(catalog, "CREATE SCHEMA Extra", "CREATE TABLE extra.t (a INT)", "CREATE SCHEMA IF NOT EXISTS extra")
    assert catalog.schemas() == ["public", "extra", "system"]
    with pytest.raises(InvalidInputError, match="not empty"):
        run(catalog, "DROP SCHEMA extra")
    run(catalog, "DROP TABLE extra.t", "DROP SCHEMA extra")
    assert catalog.schemas() == ["public", "system"]
    with pytest.raises(NotFoundError, match="no schema 'extra'"):
        run(catalog, "CREATE TABLE extra.t (a INT)")
    with pytest.raises(PermissionDeniedError):
        run(catalog, "CREATE TABLE system.t (a INT)")


def test_rows_for_a_file_are_refused_before_they_are_made(catalog: Catalog, tmp_path: Path) -> None:
    """INSERT with named columns writes to no file, and what does not fit is known before any row is asked for."""
    register_file(catalog, "f", write(tmp_path / "f.parquet", ROWS))
    run(catalog, "CREATE TABLE t (a BIGINT)")
    schema = pa.schema([("q", pa.list_(pa.int64()))])

    def unasked() -> Iterator[pa.RecordBatch]:
        pytest.fail("a row was asked for")
        yield

    for sql, error in (
        ("INSERT INTO f (id) SELECT [1]", PermissionDeniedError),
        ("INSERT INTO t (b) SELECT [1]", SqlError),
        ("INSERT INTO t (a) SELECT [1]", SqlError),
    ):
        with pytest.raises(error):
            catalog.insert(classify(ParsedText(sql)), schema, unasked())
    assert read(catalog, "SELECT count(*) AS n FROM f") == [{"n": 3}]


def test_insert_computed_rows(catalog: Catalog) -> None:
    """Rows the session computed go to the named columns by position, duplicate output names included."""
    run(catalog, "CREATE TABLE t (a BIGINT, s VARCHAR)")
    statement = classify(ParsedText("INSERT INTO t (s, a) SELECT 1"))
    batch = pa.RecordBatch.from_arrays([pa.array(["x"]), pa.array([2], pa.int8())], names=["q", "q"])
    assert catalog.insert(statement, batch.schema, [batch]) == 1
    assert read(catalog, "SELECT * FROM t") == [{"a": 2, "s": "x"}]
    with pytest.raises(SqlError, match="names 2 columns, but each row has 1 values"):
        catalog.insert(statement, pa.schema([("q", pa.int8())]), [])
