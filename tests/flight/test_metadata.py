"""Metadata commands and their filters."""

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from flightllm.common.names import TableName
from flightllm.flight.messages import Command, sql_message
from flightllm.flight.metadata import metadata_schema, metadata_table
from flightllm.sql.keys import NO_KEYS, ForeignKey, Key, TableKeys

MOVIES = pa.schema([pa.field("title", pa.string(), nullable=False), ("year", pa.int32())])


KEYS = {
    "movies": TableKeys(
        Key("movies_pkey", ("year", "title")),
        (Key("movies_title_key", ("title",)),),
        (
            ForeignKey("sequel", ("title",), TableName("public", "movies"), ("title",), "SET NULL", "CASCADE"),
            ForeignKey("gone", ("title",), TableName("public", "dropped"), ("title",)),
            ForeignKey("renamed", ("title",), TableName("public", "movies"), ("former",)),
        ),
    ),
}


class Catalog:
    """Three tables."""

    def schemas(self) -> list[str]:
        """Return the schemas."""
        return ["system", "public"]

    def tables(self) -> list[Any]:
        """Return the tables, in no order."""
        named = [("system", "queries", "SYSTEM TABLE"), ("public", "movies", "BASE TABLE"), ("public", "m_1", "VIEW")]
        return [
            SimpleNamespace(name=SimpleNamespace(schema=s, name=n), type=t, schema=MOVIES, keys=KEYS.get(n, NO_KEYS))
            for s, n, t in named
        ]


def _rows(name: str, **fields: object) -> list[dict[str, Any]]:
    command = Command(name, sql_message(name, **fields))
    table = metadata_table(command, Catalog(), {})
    table.validate(full=True)
    assert table.schema == metadata_schema(command)
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def _names(**fields: object) -> list[str]:
    return [row["table_name"] for row in _rows("CommandGetTables", **fields)]


def test_catalogs_and_schemas() -> None:
    """One catalog; its schemas in order."""
    assert _rows("CommandGetCatalogs") == [{"catalog_name": "flightllm"}]
    assert [row["db_schema_name"] for row in _rows("CommandGetDbSchemas")] == ["public", "system"]
    assert _rows("CommandGetDbSchemas", db_schema_filter_pattern="pub%")[0]["db_schema_name"] == "public"
    assert _rows("CommandGetDbSchemas", catalog="other") == []


@pytest.mark.parametrize(
    ("pattern", "names"),
    [("%", ["m_1", "movies", "queries"]), ("m%", ["m_1", "movies"]), ("m_1", ["m_1"]), (r"m\_%", ["m_1"]), ("M%", [])],
)
def test_name_patterns(pattern: str, names: list[str]) -> None:
    """`%`, `_` and the escape work as in LIKE; case counts."""
    assert _names(table_name_filter_pattern=pattern) == names


def test_schema_pattern_and_catalog() -> None:
    """Filters combine; an unknown catalog has nothing."""
    assert _names(db_schema_filter_pattern="public") == ["m_1", "movies"]
    assert _names(catalog="flightllm", db_schema_filter_pattern="sys%") == ["queries"]
    assert _names(catalog="") == []
    assert _names(catalog="%", db_schema_filter_pattern="%") == ["m_1", "movies", "queries"]


@pytest.mark.parametrize("kinds", [["TABLE"], ["BASE TABLE"], ["table"], ["BASE TABLE", "table"]])
def test_table_types(kinds: list[str]) -> None:
    """Clients name plain tables in several ways."""
    assert _rows("CommandGetTables", table_types=kinds) == [
        {"catalog_name": "flightllm", "db_schema_name": "public", "table_name": "movies", "table_type": "TABLE"}
    ]


def test_table_schema() -> None:
    """The schema travels as an IPC message."""
    row = _rows("CommandGetTables", table_name_filter_pattern="movies", include_schema=True)[0]
    assert pa.ipc.read_schema(pa.py_buffer(row["table_schema"])) == MOVIES


def test_primary_keys() -> None:
    """The columns of a primary key come in its order; a table without one has no rows."""
    rows = _rows("CommandGetPrimaryKeys", table="movies", db_schema="public", catalog="flightllm")
    assert [(row["column_name"], row["key_sequence"], row["key_name"]) for row in rows] == [
        ("year", 1, "movies_pkey"),
        ("title", 2, "movies_pkey"),
    ]
    assert _rows("CommandGetPrimaryKeys", table="movies") == rows
    for other in ({"db_schema": "system"}, {"catalog": "other"}, {"table": "queries"}):
        assert _rows("CommandGetPrimaryKeys", **{"table": "movies", **other}) == []


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("CommandGetExportedKeys", {"table": "movies"}),
        ("CommandGetImportedKeys", {"table": "movies", "db_schema": "public"}),
        ("CommandGetCrossReference", {"pk_table": "movies", "fk_table": "movies", "fk_catalog": "flightllm"}),
    ],
)
def test_foreign_keys(name: str, fields: dict[str, str]) -> None:
    """A foreign key is told from both its ends, those to what is not there any more are not."""
    (row,) = _rows(name, **fields)
    assert (row["pk_table_name"], row["pk_column_name"], row["pk_key_name"]) == ("movies", "title", "movies_title_key")
    assert (row["fk_table_name"], row["fk_column_name"], row["fk_key_name"]) == ("movies", "title", "sequel")
    assert (row["update_rule"], row["delete_rule"], row["key_sequence"]) == (2, 0, 1)
    assert _rows(name, **{**fields, min(fields): "other"}) == []


def test_columns_are_described() -> None:
    """A table's schema says of each column what JDBC and ODBC want to know."""
    row = _rows("CommandGetTables", table_name_filter_pattern="queries", include_schema=True)[0]
    title, year = (dict(field.metadata) for field in pa.ipc.read_schema(pa.py_buffer(row["table_schema"])))
    assert {key.decode().removeprefix("ARROW:FLIGHT:SQL:"): value.decode() for key, value in title.items()} == {
        "CATALOG_NAME": "flightllm",
        "DB_SCHEMA_NAME": "system",
        "TABLE_NAME": "queries",
        "TYPE_NAME": "VARCHAR",
        "PRECISION": "2147483647",
        "IS_AUTO_INCREMENT": "0",
        "IS_CASE_SENSITIVE": "1",
        "IS_READ_ONLY": "1",
        "IS_SEARCHABLE": "1",
    }
    assert (year[b"ARROW:FLIGHT:SQL:TYPE_NAME"], year[b"ARROW:FLIGHT:SQL:SCALE"]) == (b"INTEGER", b"0")


def test_type_info() -> None:
    """Every SQL type there is, in the order of their codes; or those of one code."""
    rows = _rows("CommandGetXdbcTypeInfo")
    assert [(row["data_type"], row["type_name"]) for row in rows] == sorted(
        (row["data_type"], row["type_name"]) for row in rows
    )
    assert {"BIGINT UNSIGNED", "TIMESTAMP WITH TIME ZONE", "INTERVAL", "ARRAY"} < {row["type_name"] for row in rows}
    (text,) = _rows("CommandGetXdbcTypeInfo", data_type=12)
    assert (text["type_name"], text["literal_prefix"], text["create_params"]) == ("VARCHAR", "'", ["length"])
    assert (text["case_sensitive"], text["searchable"], text["unsigned_attribute"]) == (True, 3, None)
    (money,) = _rows("CommandGetXdbcTypeInfo", data_type=3)
    assert (money["column_size"], money["maximum_scale"], money["num_prec_radix"]) == (76, 76, 10)
    moments = _rows("CommandGetXdbcTypeInfo", data_type=93)
    assert [(row["sql_data_type"], row["datetime_subcode"]) for row in moments] == [(9, 3), (9, 5)]
    assert _rows("CommandGetXdbcTypeInfo", data_type=77) == []


def test_table_type_list() -> None:
    """The types there are."""
    assert [row["table_type"] for row in _rows("CommandGetTableTypes")] == ["SYSTEM TABLE", "TABLE", "VIEW"]
