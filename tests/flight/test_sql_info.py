"""GetSqlInfo answers every id."""

import pyarrow as pa

from flightllm.flight.sql_info import SQL_INFO_SCHEMA, sql_info, sql_info_table

SPECIFIED = [*range(12), 100, 101, *range(500, 577)]


def _rows(ids: list[int]) -> dict[int, object]:
    table = sql_info_table(sql_info(["ai_gen"], statement_bytes=10), ids)
    table.validate(full=True)
    assert table.schema == SQL_INFO_SCHEMA
    return {row["info_name"]: row["value"] for row in table.to_pylist()}


def test_no_id_means_all() -> None:
    """An empty list returns every id of the specification."""
    assert list(_rows([])) == SPECIFIED


def test_values_have_the_specified_kind() -> None:
    """One of each kind, among them those clients cannot do without."""
    rows = _rows([0, 8, 504, 511, 517, 557, 563])
    assert rows == {0: "FlightLLM", 8: 0, 504: '"', 511: ["ai_gen"], 517: [], 557: 10, 563: False}


def test_kinds_are_told_apart_in_the_union() -> None:
    """Limits are 64-bit, enumerations 32-bit."""
    union = sql_info_table(sql_info([], statement_bytes=10), [8, 557])["value"].combine_chunks()
    union = union.chunk(0) if isinstance(union, pa.ChunkedArray) else union
    assert union.type_codes.to_pylist() == [3, 2]


def test_unknown_ids_have_no_row() -> None:
    """An id nobody defined is left out."""
    assert _rows([9_999]) == {}
