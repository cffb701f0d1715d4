"""GetSqlInfo answers every id."""

import pyarrow as pa
from datafusion import SessionContext

from flightllm.datafusion.contexts import plain_config
from flightllm.dialect.escapes import NAMES as ESCAPED
from flightllm.dialect.functions import NAMES as FUNCTIONS
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
    rows = _rows([0, 8, 504, 511, 557, 563])
    assert rows == {0: "FlightLLM", 8: 1, 504: '"', 511: ["ai_gen"], 557: 10, 563: False}


_NAMES = {
    0: "BIGINT",
    2: "BOOLEAN",
    3: "CHAR(9)",
    4: "DATE",
    5: "DECIMAL(20,2)",
    6: "DOUBLE",
    7: "INTEGER",
    12: "NUMERIC(20,2)",
    13: "REAL",
    14: "SMALLINT",
    15: "TIME",
    16: "TIMESTAMP",
    17: "TINYINT",
    19: "VARCHAR",
}
_TEXTS = {2: "true", 4: "2024-01-02", 15: "01:02:03", 16: "2024-01-02 03:04:05"}


def test_conversions_and_functions_exist() -> None:
    """Every conversion it speaks of can be cast, and every function it names is there or is rewritten."""
    rows, context = _rows([509, 510, 512, 517]), SessionContext(plain_config().with_information_schema(enabled=True))
    conversions: list[tuple[int, list[int]]] = rows[517]  # type: ignore[assignment]
    assert len(conversions) == len(_NAMES)
    for source, targets in conversions:
        for target in targets:
            text = _TEXTS.get(target if source in {3, 19} else source, "1")
            context.sql(f"SELECT CAST(CAST('{text}' AS {_NAMES[source]}) AS {_NAMES[target]})").collect()
    known = context.sql("SELECT routine_name AS name FROM information_schema.routines").to_pydict()["name"]
    named = [name for number in (509, 510, 512) for name in rows[number]]  # type: ignore[attr-defined]
    assert set(named) - set(known) - FUNCTIONS - ESCAPED == {"extract"}  # which is syntax


def test_kinds_are_told_apart_in_the_union() -> None:
    """Limits are 64-bit, enumerations 32-bit."""
    union = sql_info_table(sql_info([], statement_bytes=10), [8, 557])["value"].combine_chunks()
    union = union.chunk(0) if isinstance(union, pa.ChunkedArray) else union
    assert union.type_codes.to_pylist() == [3, 2]


def test_unknown_ids_have_no_row() -> None:
    """An id nobody defined is left out."""
    assert _rows([9_999]) == {}
