"""The catalog: files, uploads, statements and AI views, read through ordinary contexts."""

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datafusion.substrait import Consumer, Producer
from pyarrow import csv, feather

from flightllm.catalog import QUERY_ONLY, Catalog, mapped_error
from flightllm.config import LimitsConfig
from flightllm.errors import (
    ConfigError,
    InvalidInputError,
    LimitExceededError,
    NotFoundError,
    PermissionDeniedError,
    SqlError,
    UnsupportedError,
)
from flightllm.sql.classify import classify
from flightllm.sql.names import TableName
from flightllm.system import QueryLog

ROWS = pa.table({"id": [1, 2, 3], "Review/Text": ["a", "b", None]})
ENCODED = pa.table(
    {
        "large": pa.array(["x", "y"], pa.large_string()),
        "View": pa.array(["x", "y"], pa.string_view()),
        "code": pa.array(["x", "y"]).dictionary_encode(),
    }
)


@pytest.fixture
def catalog() -> Catalog:
    """Return a catalog with system tables and nothing else."""
    return Catalog(LimitsConfig(), QueryLog())


def read(catalog: Catalog, sql: str) -> list[dict[str, Any]]:
    """Return the rows of a query, run as a client's would be."""
    try:
        batches = catalog.context().sql_with_options(sql, QUERY_ONLY).collect()
    except Exception as error:
        raise mapped_error(error) from error
    return [row for batch in batches for row in batch.to_pylist()]


def run(catalog: Catalog, *statements: str) -> int:
    """Run statements that change tables; return what the last one affected."""
    return [catalog.execute(classify(sql)) for sql in statements][-1]


def ingest(catalog: Catalog, name: str, columns: dict[str, Any], mode: Any = "create") -> int:
    """Upload columns as one batch."""
    batch = pa.record_batch(columns)
    return catalog.ingest(name, batch.schema, [batch], mode)


def write(path: Path, table: pa.Table) -> Path:
    """Write a table in the format that the path's suffix asks for."""
    path.parent.mkdir(parents=True, exist_ok=True)
    match path.suffix:
        case ".parquet":
            pq.write_table(table, path)
        case ".csv":
            csv.write_csv(table, path)
        case ".tsv":
            csv.write_csv(table, path, csv.WriteOptions(delimiter="\t"))
        case ".feather":
            feather.write_feather(table, path, compression="uncompressed")
        case ".arrow":
            with pa.ipc.new_stream(path, table.schema) as writer:
                writer.write_table(table)
        case _:
            table.to_pandas().to_json(path, orient="records", lines=True)
    return path


@pytest.mark.parametrize("suffix", ["parquet", "csv", "tsv", "json", "jsonl", "ndjson", "arrow", "feather"])
def test_files_and_folders(catalog: Catalog, tmp_path: Path, suffix: str) -> None:
    """Every format is read from one file and from a folder of files; odd column names survive."""
    write(tmp_path / "parts" / f"one.{suffix}", ROWS)
    write(tmp_path / "parts" / f"two.{suffix}", ROWS)
    catalog.register_file("one", tmp_path / "parts" / f"one.{suffix}")
    catalog.register_file("parts", tmp_path / "parts")
    assert read(catalog, 'SELECT id, "Review/Text" AS t FROM one ORDER BY id')[:2] == [
        {"id": 1, "t": "a"},
        {"id": 2, "t": "b"},
    ]
    assert read(catalog, "SELECT count(*) AS n FROM parts") == [{"n": 6}]
    assert catalog.columns_of("one") == ["id", "Review/Text"]


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "feather"])
def test_encoded_strings_become_plain(catalog: Catalog, tmp_path: Path, suffix: str) -> None:
    """Large, view and dictionary strings are plain Utf8 in the schema, in results and across Substrait."""
    catalog.register_file("t", write(tmp_path / f"t.{suffix}", ENCODED))
    assert set(catalog.table("t").schema.types) == {pa.string()}
    planning, full = catalog.context(planning=True), catalog.context()
    plan = Producer.to_substrait_plan(
        planning.sql("SELECT * FROM t WHERE large = 'x'").optimized_logical_plan(), planning
    )
    batches = full.create_dataframe_from_logical_plan(Consumer.from_substrait_plan(full, plan)).collect()
    assert set(batches[0].schema.types) == {pa.string()}
    assert sum(batch.num_rows for batch in batches) == 1


def test_names_fold_as_in_sql(catalog: Catalog, tmp_path: Path) -> None:
    """Unquoted names fold to lower case, quoted ones stay, and a schema is made where one is named."""
    path = write(tmp_path / "t.parquet", ROWS)
    for name in ("Movies", '"Old Movies"', "archive.Movies"):
        catalog.register_file(name, path)
    for table in ("MOVIES", '"Old Movies"', "archive.movies", "flightllm.public.movies"):
        assert read(catalog, f"SELECT count(*) AS n FROM {table}") == [{"n": 3}]
    assert catalog.columns_of("Old Movies") == catalog.columns_of("archive.Movies") == ROWS.column_names


@pytest.mark.parametrize(
    ("files", "path", "message"),
    [
        ({}, "none.parquet", "there is no file or folder"),
        ({"t.txt": "x"}, "t.txt", "format .* is unknown"),
        ({"d/.hidden": ""}, "d", "has no file"),
        ({"d/a.csv": "a\n1", "d/b.json": "{}"}, "d", "mixes .csv, .json"),
        ({"t.parquet": "no parquet"}, "t.parquet", "cannot read .* as parquet"),
        ({"t.csv": ""}, "t.csv", "no columns"),
        ({"t.json": '[{"a": 1}]'}, "t.json", "one object per line"),
    ],
)
def test_bad_files(catalog: Catalog, tmp_path: Path, files: dict[str, str], path: str, message: str) -> None:
    """A file that cannot be a table is refused at start, with the table's name and the reason."""
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=f"table 't': .*{message}"):
        catalog.register_file("t", tmp_path / path)


def test_name_taken_or_malformed(catalog: Catalog, tmp_path: Path) -> None:
    """Two tables cannot share a name, and a name must be one in SQL."""
    path = write(tmp_path / "t.parquet", ROWS)
    catalog.register_file("t", path)
    for name in ("T", "system.t", "my-table"):
        with pytest.raises(ConfigError):
            catalog.register_file(name, path)


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


def test_file_tables_are_read_only(catalog: Catalog, tmp_path: Path) -> None:
    """Clients cannot write to, replace or drop what the administrator registered; the folder stays as it was."""
    write(tmp_path / "d" / "t.parquet", ROWS)
    catalog.register_file("t", tmp_path / "d")
    for sql in (
        "INSERT INTO t SELECT * FROM t",
        "DELETE FROM t",
        "UPDATE t SET id = 1",
        "DROP TABLE t",
        "CREATE OR REPLACE TABLE t (a INT)",
        "CREATE OR REPLACE VIEW t AS SELECT 1",
    ):
        with pytest.raises(PermissionDeniedError):
            run(catalog, sql)
    with pytest.raises(PermissionDeniedError):
        ingest(catalog, "t", {"a": [1]}, "replace")
    assert [file.name for file in (tmp_path / "d").iterdir()] == ["t.parquet"]


def test_ingest_modes(catalog: Catalog) -> None:
    """Create refuses an existing table, append needs one, replace and create_append take both; order is kept."""
    assert ingest(catalog, "t", {"a": [3, 1]}) == 2
    with pytest.raises(InvalidInputError, match="exists"):
        ingest(catalog, "t", {"a": [1]})
    assert ingest(catalog, "t", {"a": [2]}, "append") == 1
    assert ingest(catalog, "t", {"a": [5]}, "create_append") == 1
    assert read(catalog, "SELECT * FROM t") == [{"a": 3}, {"a": 1}, {"a": 2}, {"a": 5}]
    assert ingest(catalog, "t", {"b": ["x"]}, "replace") == 1
    assert read(catalog, "SELECT * FROM t") == [{"b": "x"}]
    assert ingest(catalog, "Exact Name", {"a": [1]}, "create_append") == 1
    assert read(catalog, 'SELECT * FROM "Exact Name"') == [{"a": 1}]
    with pytest.raises(NotFoundError, match="no table 'u'"):
        ingest(catalog, "u", {"a": [1]}, "append")
    with pytest.raises(InvalidInputError, match="unknown mode"):
        ingest(catalog, "t", {"a": [1]}, "upsert")


def test_empty_upload_makes_a_table(catalog: Catalog) -> None:
    """A schema without rows is a table that rows can be added to."""
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False), ("s", pa.large_string())])
    assert catalog.ingest("t", schema, []) == 0
    assert catalog.table("t").schema == pa.schema([pa.field("a", pa.int64(), nullable=False), ("s", pa.string())])
    assert run(catalog, "INSERT INTO t VALUES (1, 'x')") == 1
    with pytest.raises(SqlError, match="non-nullable"):
        run(catalog, "INSERT INTO t VALUES (NULL, 'x')")


def test_append_casts_or_names_the_column(catalog: Catalog) -> None:
    """Columns are matched by name and cast without loss; whatever does not fit is refused by name."""
    ingest(catalog, "t", {"a": pa.array([1], pa.int64()), "s": ["x"]})
    assert (
        ingest(catalog, "t", {"s": ENCODED["code"].combine_chunks(), "a": pa.array([2, 3], pa.int8())}, "append") == 2
    )
    for columns, message in (
        ({"a": ["no"], "s": ["x"]}, "column 'a'"),
        ({"a": [1.5], "s": ["x"]}, "column 'a'"),
        ({"a": [1]}, "no column 's'"),
        ({"a": [1], "s": ["x"], "z": [1]}, "no column 'z'"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            ingest(catalog, "t", columns, "append")
    assert read(catalog, "SELECT count(*) AS n FROM t") == [{"n": 3}]


def test_bad_uploads(catalog: Catalog) -> None:
    """Corrupt, oversized and unsupported uploads are refused, and no table appears."""
    run_ends = pa.RunEndEncodedArray.from_arrays([2], pa.array(["x"]))
    with pytest.raises(UnsupportedError, match="column 'r' is of type run_end_encoded"):
        ingest(catalog, "t", {"r": run_ends})
    corrupt = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")])
    with pytest.raises(InvalidInputError, match="corrupt"):
        ingest(catalog, "t", {"s": corrupt})
    twice = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(InvalidInputError, match="'a'"):
        catalog.ingest("t", twice.schema, [twice])
    with pytest.raises(LimitExceededError, match="upload_bytes = 10"):
        ingest(Catalog(LimitsConfig(upload_bytes=10)), "t", {"a": [1, 2, 3]})
    assert catalog.tables()[0].name.schema == "system"


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
    """An alias of the changed table is known to the condition."""
    ingest(catalog, "t", {"a": [1, 2, 3]})
    assert run(catalog, "UPDATE t AS q SET a = 9 WHERE q.a = 1") == 1
    assert run(catalog, "UPDATE t SET a = 8") == 3
    assert run(catalog, "DELETE FROM t") == 3


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


def test_insert_computed_rows(catalog: Catalog) -> None:
    """Rows the session computed go to the named columns by position, duplicate output names included."""
    run(catalog, "CREATE TABLE t (a BIGINT, s VARCHAR)")
    statement = classify("INSERT INTO t (s, a) SELECT 1")
    batch = pa.RecordBatch.from_arrays([pa.array(["x"]), pa.array([2], pa.int8())], names=["q", "q"])
    assert catalog.insert(statement, batch.schema, [batch]) == 1
    assert read(catalog, "SELECT * FROM t") == [{"a": 2, "s": "x"}]
    with pytest.raises(SqlError, match="names 2 columns but gets 1"):
        catalog.insert(statement, pa.schema([("q", pa.int8())]), [])


def test_views_follow_their_tables(catalog: Catalog) -> None:
    """A view sees appended, replaced and re-created tables, and other views; without its table it is an error."""
    run(
        catalog,
        "CREATE TABLE t (a INT)",
        "CREATE VIEW v (b) AS SELECT a + 1 FROM t",
        "CREATE VIEW w AS SELECT b FROM v",
    )
    run(catalog, "INSERT INTO t VALUES (1)")
    assert read(catalog, "SELECT * FROM w") == [{"b": 2}]
    ingest(catalog, "t", {"a": [5]}, "replace")
    assert read(catalog, "SELECT * FROM w") == [{"b": 6}]
    run(catalog, "DROP TABLE t")
    with pytest.raises(SqlError, match=r"public\.v' not found|public\.w' not found"):
        read(catalog, "SELECT * FROM w")
    ingest(catalog, "t", {"a": [8]})
    assert read(catalog, "SELECT * FROM w") == [{"b": 9}]
    with pytest.raises(SqlError, match="cannot read from itself"):
        run(catalog, "CREATE OR REPLACE VIEW v AS SELECT * FROM public.v")
    with pytest.raises(InvalidInputError, match="write DROP VIEW"):
        run(catalog, "DROP TABLE v")


@pytest.mark.parametrize(
    ("sql", "inlined"),
    [
        ("SELECT 1 FROM t", "SELECT 1 FROM t"),
        ("SELECT * FROM v x", "WITH \"v\" AS (SELECT a, f('p', a) AS g FROM t) SELECT * FROM v x"),
        ("SELECT * FROM flightllm.public.V", "WITH \"v\" AS (SELECT a, f('p', a) AS g FROM t) SELECT * FROM V"),
        ("SELECT * FROM other.v", "SELECT * FROM other.v"),
        ("WITH v AS (SELECT 1) SELECT * FROM v", "WITH v AS (SELECT 1) SELECT * FROM v"),
    ],
)
def test_ai_views_are_inlined(catalog: Catalog, sql: str, inlined: str) -> None:
    """A query that names an AI view gets it as a WITH query; qualified names lose their schema; own names win."""
    schema = pa.schema([("a", pa.int64()), ("g", pa.string())])
    catalog.create_ai_view(classify("CREATE VIEW v AS SELECT a, f('p', a) AS g FROM t -- note"), schema)
    assert catalog.inline_views(sql) == inlined


def test_ai_views_of_views_and_with(catalog: Catalog) -> None:
    """Views come in order of need, before the query's own WITH list, RECURSIVE kept."""
    schema = pa.schema([("g", pa.string())])
    catalog.create_ai_view(classify("CREATE VIEW v AS SELECT f(a) AS g FROM t"), schema)
    catalog.create_ai_view(classify("CREATE VIEW w (h) AS SELECT g FROM public.v"), schema)
    both = '"v" AS (SELECT f(a) AS g FROM t), "w" ("h") AS (SELECT g FROM v)'
    assert catalog.inline_views("SELECT * FROM w") == f"WITH {both} SELECT * FROM w"
    assert catalog.inline_views("WITH RECURSIVE q AS (SELECT 1) SELECT * FROM w, q") == (
        f"WITH RECURSIVE {both}, q AS (SELECT 1) SELECT * FROM w, q"
    )
    with pytest.raises(UnsupportedError, match="inner WITH query 'v'"):
        catalog.inline_views("SELECT * FROM w, (WITH v AS (SELECT 1) SELECT * FROM v)")
    assert catalog.table("w").type == "VIEW"
    assert catalog.table("w").schema.names == ["h"]
    run(catalog, "DROP VIEW w")
    assert catalog.inline_views("SELECT * FROM w") == "SELECT * FROM w"


def test_metadata(catalog: Catalog, tmp_path: Path) -> None:
    """All tables are listed with type and schema, the system tables too; SQL's own listing agrees."""
    catalog.register_file("f", write(tmp_path / "f.parquet", ROWS))
    run(catalog, "CREATE TABLE m (a INT)", "CREATE VIEW v AS SELECT * FROM m")
    assert [(str(info.name.display), info.type) for info in catalog.tables()] == [
        ("f", "BASE TABLE"),
        ("m", "BASE TABLE"),
        ("v", "VIEW"),
        ("system.ai_calls", "SYSTEM TABLE"),
        ("system.queries", "SYSTEM TABLE"),
    ]
    listed = read(
        catalog, "SELECT table_name FROM information_schema.tables WHERE table_schema <> 'information_schema'"
    )
    assert sorted(row["table_name"] for row in listed) == sorted(info.name.name for info in catalog.tables())
    assert catalog.table("system.queries").name == TableName("system", "queries")
    with pytest.raises(NotFoundError, match="no table 'nope'; the tables are: f, m, v"):
        catalog.columns_of("nope")


def test_replacing_while_reading(catalog: Catalog) -> None:
    """Readers in other threads always see one whole version of a table that is being replaced."""
    ingest(catalog, "t", {"a": [0] * 10})
    wrong: list[dict[str, Any]] = []

    def read_often() -> None:
        for _ in range(30):
            rows = read(catalog, "SELECT count(*) AS n, count(DISTINCT a) AS versions FROM t")
            if rows != [{"n": 10, "versions": 1}]:
                wrong.extend(rows)

    readers = [threading.Thread(target=read_often) for _ in range(4)]
    for reader in readers:
        reader.start()
    for version in range(30):
        ingest(catalog, "t", {"a": [version] * 10}, "replace")
    for reader in readers:
        reader.join()
    assert wrong == []


def test_planning_context_leaves_filters_in_place(catalog: Catalog) -> None:
    """A planning context keeps a predicate above the join; a full one pushes it below."""
    ingest(catalog, "t", {"a": [1], "b": [1]})
    sql = "SELECT x.a FROM t x JOIN t y ON x.a = y.a WHERE x.b > 5"
    plans = [
        catalog.context(planning=planning).sql(sql).optimized_logical_plan().display_indent()
        for planning in (True, False)
    ]
    assert [plan.index("Filter") < plan.index("Join") for plan in plans] == [True, False]
