"""The values of GetSqlInfo: every id of the specification, because old JDBC drivers fail on a missing id."""

from collections.abc import Iterable, Mapping

import pyarrow as pa

from flightllm import __version__

Value = str | bool | int | list[str] | dict[int, list[int]]
_INT64_IDS = frozenset([503, 505, 507, *range(541, 556), *range(557, 563)])
"""The 64-bit integers: limits, cases of names, the order of NULL, and the isolation. Other integers are 32-bit.

The specification calls the last three 32-bit. Arrow's drivers for JDBC and ODBC fail on that, and its servers send 64.
"""

_UNION = pa.dense_union(
    [
        pa.field("string_value", pa.string(), nullable=False),
        pa.field("bool_value", pa.bool_(), nullable=False),
        pa.field("bigint_value", pa.int64(), nullable=False),
        pa.field("int32_bitmask", pa.int32(), nullable=False),
        pa.field("string_list", pa.list_(pa.string()), nullable=False),
        pa.field("int32_to_int32_list_map", pa.map_(pa.int32(), pa.list_(pa.int32())), nullable=False),
    ]
)
SQL_INFO_SCHEMA = pa.schema(
    [pa.field("info_name", pa.uint32(), nullable=False), pa.field("value", _UNION, nullable=False)]
)

SUBSTRAIT = "0.85.0"
"""The Substrait version of the DataFusion release in use."""

_KEYWORDS = ["EXPLAIN", "ILIKE", "LATERAL", "LIMIT", "OFFSET", "QUALIFY", "UNNEST"]
_NUMERIC = (
    "abs acos asin atan atan2 ceil ceiling cos cot degrees exp floor ln log log10 mod pi power radians rand round sign "
    "signum sin sqrt tan trunc truncate"
)
_STRING = (
    "ascii char char_length concat lcase left length locate lower lpad ltrim position repeat replace right rpad rtrim "
    "space strpos substr substring trim ucase upper"
)
_NUMBERS = (0, 5, 6, 7, 12, 13, 14, 17)
"""BIGINT, DECIMAL, FLOAT, INTEGER, NUMERIC, REAL, SMALLINT and TINYINT in SqlSupportsConvert."""
_BIT, _CHAR, _DATE, _TIME, _TIMESTAMP, _VARCHAR = 2, 3, 4, 15, 16, 19
_CONVERSIONS = {
    **{number: [*_NUMBERS, _CHAR, _VARCHAR] for number in _NUMBERS},
    **{text: [*_NUMBERS, _BIT, _CHAR, _DATE, _TIME, _TIMESTAMP, _VARCHAR] for text in (_CHAR, _VARCHAR)},
    _BIT: [0, 7, 14, 17, _BIT, _CHAR, _VARCHAR],
    _DATE: [_DATE, _TIMESTAMP, _CHAR, _VARCHAR],
    _TIME: [_TIME, _CHAR, _VARCHAR],
    _TIMESTAMP: [_TIMESTAMP, _DATE, _TIME, _CHAR, _VARCHAR],
}
"""The type codes that CAST converts to, by the code that it converts from."""
_DATETIME = (
    "curdate current_date current_time current_timestamp curtime date_part date_trunc dayname dayofmonth dayofweek "
    "dayofyear extract hour minute month monthname now quarter second timestampadd to_timestamp week year"
)


def sql_info(functions: Iterable[str], *, statement_bytes: int) -> dict[int, Value]:
    """Return the value of every id; the AI functions in `functions` are listed as system functions."""
    values: dict[int, Value] = {
        # The server.
        0: "FlightLLM",
        1: __version__,
        2: pa.__version__,
        3: False,  # not read-only
        4: True,  # SQL
        5: True,  # Substrait
        6: SUBSTRAIT,
        7: SUBSTRAIT,
        8: 1,  # transactions; every statement in one commits by itself
        9: True,  # cancels queries
        10: True,  # bulk ingestion
        11: False,  # no ingestion inside a transaction
        100: 3_600_000,
        101: 0,
        # Objects that can be created, and the syntax of names.
        500: False,
        501: True,
        502: True,
        503: 3,  # unquoted names are lowercased
        504: '"',
        505: 1,  # quoted names: as written
        506: True,
        507: 0,  # NULL sorts high
        508: list(_KEYWORDS),
        509: _NUMERIC.split(),
        510: _STRING.split(),
        511: sorted(functions),
        512: _DATETIME.split(),
        513: "\\",
        514: "",
        515: True,
        516: True,
        517: dict(_CONVERSIONS),
        518: True,
        519: False,
        520: True,
        521: True,
        522: 0b11,
        523: True,
        524: True,
        525: 0b11,
        526: 0b11,
        527: False,
        528: 2,  # full outer joins
        529: "schema",
        530: "",
        531: "catalog",
        532: True,
        533: 0,
        534: 0,
        535: 0,
        536: False,
        537: False,
        538: 0b0111,  # in comparisons, EXISTS and IN; not with ANY or ALL
        539: True,
        540: 0b11,
        # Limits; 0 means no limit.
        **dict.fromkeys(_INT64_IDS, 0),
        557: statement_bytes,
        556: True,
        # Transactions, cursors and updates.
        562: 0,
        563: False,
        564: 0b1,
        565: False,
        566: True,
        567: 0b10,  # forward only
        568: 0,
        569: 0b10,  # read only
        570: 0,
        571: 0,
        572: True,
        573: False,
        574: False,
        575: False,
        576: False,
    }
    return dict(sorted(values.items()))


def sql_info_table(values: Mapping[int, Value], ids: Iterable[int]) -> pa.Table:
    """Return the rows of GetSqlInfo for `ids`, or for all ids if `ids` is empty; undefined ids have no row."""
    wanted = list(ids) or list(values)
    chosen = [number for number in wanted if number in values]
    children: list[list[Value]] = [[] for _ in range(_UNION.num_fields)]
    codes, offsets = [], []
    for number in chosen:
        code = _type_code(number, values[number])
        codes.append(code)
        offsets.append(len(children[code]))
        children[code].append(values[number])
    arrays = [pa.array(_entries(items), _UNION.field(i).type) for i, items in enumerate(children)]
    union = pa.UnionArray.from_dense(
        pa.array(codes, pa.int8()), pa.array(offsets, pa.int32()), arrays, [field.name for field in _UNION]
    )
    storage = pa.UnionArray.from_buffers(_UNION, len(union), union.buffers()[:3], children=arrays)
    return pa.table([pa.array(chosen, pa.uint32()), storage], schema=SQL_INFO_SCHEMA)


def _type_code(number: int, value: Value) -> int:
    if isinstance(value, str):
        return 0
    if isinstance(value, bool):
        return 1
    if isinstance(value, int):
        return 2 if number in _INT64_IDS else 3
    return 4 if isinstance(value, list) else 5


def _entries(items: list[Value]) -> list[object]:
    """Return maps as the list of pairs that Arrow builds them from."""
    return [list(item.items()) if isinstance(item, dict) else item for item in items]
