"""Write the functions of Spark and Databricks over texts, JSON texts and maps."""

from typing import Final

from flightllm.dialect.generator.calls import Call, Table, form
from flightllm.dialect.generator.tables.shared import decoded
from flightllm.functions.half_even import HALF_EVEN
from flightllm.functions.java_json import JAVA_JSON, JAVA_KEYS
from flightllm.functions.java_texts import (
    CRC_32,
    GROUPED,
    JAVA_FORMAT,
    OTHER_BASE,
    SHA_1,
    SPLIT_AT_MOST,
    URL_DECODED,
    URL_ENCODED,
    URL_PART,
)
from flightllm.functions.text_parts import SPLIT_BY_PATTERN
from flightllm.sql.passes.spark_values import AS_DIGITS, ITEM, TRIED, TRIED_SUM

_NO_VALUES: Final = "arrow_cast(make_array(), 'List(Utf8)')"


def _filled(call: Call) -> str:
    """Write FORMAT_STRING(template, a, b) by the texts and the types of its values."""
    if not call.args:
        call.refuse("write format_string('%s: %d', text, number)")
    places = range(1, len(call.args))
    texts = ", ".join(f"CAST({call.sql(place)} AS VARCHAR)" for place in places)
    types = ", ".join(f"arrow_typeof({call.sql(place)})" for place in places)
    lists = [f"make_array({one})" if one else _NO_VALUES for one in (texts, types)]
    return f"{JAVA_FORMAT}({call.sql(0)}, {', '.join(lists)})"


def _grouped(call: Call) -> str:
    if call.number(1) is None:
        call.refuse("write the digits after the point as a number: format_number(x, 2)")
    value = call.sql(0)
    return f"{GROUPED}(CAST({value} AS VARCHAR), {call.sql(1)}, arrow_typeof({value}))"


def _map(call: Call) -> str:
    if len(call.args) % 2 or not call.args:
        call.refuse("write keys and values in turn: map('a', 1, 'b', 2)")
    keys, values = (", ".join(call.sql(place) for place in range(at, len(call.args), 2)) for at in (0, 1))
    return f"map(make_array({keys}), make_array({values}))"


def _at_place(call: Call) -> str:
    """Write ELEMENT_AT(list, place) and ELEMENT_AT(map, key)."""
    unchecked = ", 'try'" if call.name.startswith("TRY") else ""
    return f"{ITEM}({call.sql(0)}, {call.sql(1)}{unchecked})"


def _encoded(call: Call) -> str:
    """Write ENCODE(text, 'UTF-8') and DECODE(bytes, 'UTF-8')."""
    if len(call.args) != 2 or (call.text(1) or "").upper() not in {"UTF-8", "UTF8"}:
        call.refuse(f"write {call.name.lower()}(x, 'UTF-8'), the only character set here")
    return f"arrow_cast({call.sql(0)}, '{'Binary' if call.name == 'ENCODE' else 'Utf8'}')"


def _decoded(call: Call) -> str:
    return _encoded(call) if len(call.args) == 2 else decoded(call)


SPARK_TEXTS: Final[Table] = {
    **dict.fromkeys(("ANY", "SOME"), form("bool_or({0})")),
    "BIN": form(f"{OTHER_BASE}(CAST(CAST({{0}} AS BIGINT) AS VARCHAR), 10, 2)"),
    "BIT_COUNT": form(
        f"CAST(length(replace({OTHER_BASE}(CAST(CAST({{0}} AS BIGINT) AS VARCHAR), 10, 2), '0', '')) AS INT)"
    ),
    "CONV": form(f"{OTHER_BASE}(CAST({{0}} AS VARCHAR), {{1}}, {{2}})"),
    "ENCODE": _encoded,
    "CRC32": form(f"{CRC_32}({{0}})"),
    "DECODE": _decoded,
    **dict.fromkeys(("ELEMENT_AT", "TRY_ELEMENT_AT"), _at_place),
    "FORMAT_NUMBER": _grouped,
    **dict.fromkeys(("FORMAT_STRING", "PRINTF"), _filled),
    "GET": form("(CASE WHEN {1} >= 0 THEN array_element({0}, {1} + 1) END)"),
    "GET_JSON_OBJECT": form(f"{JAVA_JSON}({{0}}, {{1}})"),
    "HEX": form(f"{AS_DIGITS}({{0}})"),
    "JSON_OBJECT_KEYS": form(f"{JAVA_KEYS}({{0}})"),
    **dict.fromkeys(("MAP", "CREATE_MAP"), _map),
    "MAP_CONTAINS_KEY": form("array_has(map_keys({0}), {1})"),
    "MAP_ENTRIES": form("map_entries({0})"),
    "MAP_FROM_ARRAYS": form("map({0}, {1})"),
    "MAP_KEYS": form("map_keys({0})"),
    "MAP_VALUES": form("map_values({0})"),
    **dict.fromkeys(
        ("PARSE_URL", "TRY_PARSE_URL"), form(f"{URL_PART}({{0}}, {{1}}, '')", f"{URL_PART}({{0}}, {{1}}, {{2}})")
    ),
    "RINT": form(f"{HALF_EVEN}(CAST({{0}} AS DOUBLE))"),
    **dict.fromkeys(("SHA", "SHA1"), form(f"{SHA_1}({{0}})")),
    "SPLIT": form(f"{SPLIT_BY_PATTERN}({{0}}, {{1}})", f"{SPLIT_AT_MOST}({{0}}, {{1}}, {{2}})"),
    "TRY_ADD": form(f"{TRIED}({{0}}, {{1}}, '+')"),
    "TRY_MULTIPLY": form(f"{TRIED}({{0}}, {{1}}, '*')"),
    "TRY_SUBTRACT": form(f"{TRIED}({{0}}, {{1}}, '-')"),
    "TRY_SUM": form(f"{TRIED_SUM}({{0}})"),
    "TRY_MOD": form("(CASE WHEN {1} <> 0 THEN {0} % {1} END)"),
    "URL_DECODE": form(f"{URL_DECODED}({{0}})"),
    "URL_ENCODE": form(f"{URL_ENCODED}({{0}})"),
}
"""Functions of texts, JSON texts and maps."""
