"""Write BigQuery's functions."""

from typing import Final

from flightllm.common.names import JSON_STYLE
from flightllm.dialect.generator.calls import Call, Rule, Table, form
from flightllm.dialect.generator.forms import groups_of, joined, known, match, substring, text_of
from flightllm.dialect.generator.tables.bigquery_times import TIMES, zoned_text
from flightllm.dialect.generator.tables.bigquery_values import VALUES
from flightllm.dialect.generator.tables.shared import NUMBERS, TEXTS
from flightllm.functions.json_scalars import JSON_SCALAR
from flightllm.functions.text_parts import ALL_MATCHES
from flightllm.functions.text_places import CAPITALS, PLACE_IN_TEXT
from flightllm.functions.variant_objects import COMPACT
from flightllm.functions.variants import MEMBERS, SCALARS
from flightllm.sql.literals import text_literal

_DELIMITERS: Final = ' \t\n\r\f\v[](){}/|<>!?@"^#$&~_,.:;*%+-'
"""The letters after which INITCAP writes a capital."""
_VALUE: Final = f"{COMPACT}(nullif(json_extract({{0}}, {{1}}), 'null'))"
"""The JSON value at a path. The null of a JSON text is NULL."""
_BLANKS: Final = "".join(
    letter for letter in map(chr, range(0x3001)) if letter.isspace() and letter not in "\x1c\x1d\x1e\x1f"
)
"""The letters that TRIM removes: Unicode's white space."""


def _extract(call: Call) -> str:
    counts = [call.number(place) if len(call.args) > place else 1 for place in (2, 3)]
    start, occurrence = counts
    if start is None or occurrence is None:
        call.refuse("write the position and the occurrence as numbers")
    return match(call, call.sql(0), start=start, occurrence=occurrence)


def _all(call: Call) -> str:
    groups = groups_of(call.text(1))
    if groups is None or groups > 1:
        call.refuse("write the pattern as a text literal with at most one group")
    return f"{ALL_MATCHES}({call.sql(0)}, {call.sql(1)}, {groups})"


def _capitals(call: Call) -> str:
    between = call.sql(1) if len(call.args) > 1 else text_literal(_DELIMITERS)
    return f"{CAPITALS}({call.sql(0)}, {between})"


def _place(call: Call) -> str:
    start = call.sql(2) if len(call.args) > 2 else "1"
    occurrence = call.sql(3) if len(call.args) > 3 else "1"
    return f"{PLACE_IN_TEXT}({call.sql(0)}, {call.sql(1)}, {start}, {occurrence})"


def _at_path(text: str) -> Rule:
    """Return a rule that reads a JSON text at a path, which is the whole text by default."""

    def rule(call: Call) -> str:
        if not 1 <= len(call.args) <= 2:
            call.refuse(f"write {call.name}(json, '$.name')")
        path = call.text(1)
        if path is not None and not path.startswith("$"):
            call.refuse(f"its path begins with $: write {call.name}(json, {text_literal('$.' + path)})")
        return text.format(call.sql(0), call.sql(1) if len(call.args) > 1 else "'$'")

    return rule


def _of_json(type_: str, written: str) -> Table:
    """Return the rules that read a JSON value as a value of a type: a strict one, a safe one and a lax one."""
    modes = {type_: "strict", f"SAFE.{type_}": "safe", f"LAX_{type_}": "lax", f"SAFE.LAX_{type_}": "lax"}
    return {name: form(f"CAST({JSON_SCALAR}({{0}}, '{type_}', '{mode}') AS {written})") for name, mode in modes.items()}


def _text(call: Call) -> str:
    if len(call.args) == 2:
        return zoned_text(call)
    return text_of(call.sql(0), JSON_STYLE)


BIGQUERY: Final[Table] = {
    **{name: rule for name, rule in TEXTS.items() if name not in {"MD5", "SHA2", "SHA2_HEX", "SPACE", "LEN"}},
    **NUMBERS,
    **TIMES,
    **VALUES,
    "BYTE_LENGTH": form("CAST(octet_length({0}) AS BIGINT)"),
    "CONCAT": joined,
    "CONTAINS_SUBSTR": form("contains(lower({0}), lower({1}))"),
    "EDIT_DISTANCE": form("CAST(levenshtein({0}, {1}) AS BIGINT)"),
    "FROM_HEX": form("decode({0}, 'hex')"),
    "GREATEST": known("greatest({*})"),
    "IEEE_DIVIDE": form("(CAST({0} AS DOUBLE) / CAST({1} AS DOUBLE))"),
    "IF": form("(CASE WHEN {0} THEN {1} ELSE {2} END)"),
    "INITCAP": _capitals,
    "INSTR": _place,
    "IS_INF": form("(abs(CAST({0} AS DOUBLE)) = CAST('inf' AS DOUBLE))"),
    "IS_NAN": form("isnan(CAST({0} AS DOUBLE))"),
    "LEAST": known("least({*})"),
    "RAND": form("random()"),
    "GENERATE_UUID": form("uuid()"),
    "REGEXP_CONTAINS": form("regexp_like({0}, {1})"),
    "REGEXP_EXTRACT": _extract,
    "REGEXP_SUBSTR": _extract,
    "REGEXP_EXTRACT_ALL": _all,
    "REGEXP_REPLACE": form("regexp_replace({0}, {1}, {2}, 'g')"),
    "ROUND": form("round({0})", "round({0}, {1})", advice="write ROUND(x, digits): halves round away from zero"),
    "SAFE_DIVIDE": form("(CAST({0} AS DOUBLE) / nullif({1}, 0))"),
    **_of_json("BOOL", "BOOLEAN"),
    **_of_json("FLOAT64", "DOUBLE"),
    **_of_json("INT64", "BIGINT"),
    **_of_json("STRING", "VARCHAR"),
    "STRING": _text,
    **dict.fromkeys(("JSON_VALUE", "JSON_EXTRACT_SCALAR"), _at_path("json_value({0}, {1})")),
    **dict.fromkeys(("JSON_QUERY", "JSON_EXTRACT"), _at_path(_VALUE)),
    **dict.fromkeys(("JSON_VALUE_ARRAY", "JSON_EXTRACT_STRING_ARRAY"), _at_path(f"{SCALARS}({_VALUE})")),
    **dict.fromkeys(("JSON_QUERY_ARRAY", "JSON_EXTRACT_ARRAY"), _at_path(f"{MEMBERS}({_VALUE})")),
    "STRPOS": form("CAST(strpos({0}, {1}) AS BIGINT)"),
    **dict.fromkeys(("SUBSTR", "SUBSTRING"), substring),
    "TO_HEX": form("encode({0}, 'hex')"),
    "MD5": form("decode(md5({0}), 'hex')"),
    "SHA256": form("sha256({0})"),
    "SHA512": form("sha512({0})"),
    "TRIM": form(f"btrim({{0}}, '{_BLANKS}')", "btrim({0}, {1})"),
    "LTRIM": form(f"ltrim({{0}}, '{_BLANKS}')", "ltrim({0}, {1})"),
    "RTRIM": form(f"rtrim({{0}}, '{_BLANKS}')", "rtrim({0}, {1})"),
    "CHR": form("replace(chr({0}), chr(0), '')"),
    "TRUNC": form("trunc({0})", "trunc({0}, {1})"),
    "UNIX_DATE": form("(CAST({0} AS DATE) - DATE '1970-01-01')"),
    "UNIX_SECONDS": form("CAST(floor(date_part('epoch', {0})) AS BIGINT)"),
    "UNIX_MILLIS": form("CAST(floor(date_part('epoch', {0}) * 1000) AS BIGINT)"),
    "UNIX_MICROS": form("CAST(floor(date_part('epoch', {0}) * 1000000) AS BIGINT)"),
    "DATE_FROM_UNIX_DATE": form("(DATE '1970-01-01' + {0})"),
    "TIMESTAMP_SECONDS": form("to_timestamp_seconds({0})"),
    "TIMESTAMP_MILLIS": form("to_timestamp_millis({0})"),
    "TIMESTAMP_MICROS": form("to_timestamp_micros({0})"),
    "LOGICAL_AND": form("bool_and({0})"),
    "LOGICAL_OR": form("bool_or({0})"),
    **dict.fromkeys(("VARIANCE", "VAR_SAMP"), form("var_samp({0})")),
}
"""How each function is written. A class of sqlglot writes a function that the table does not have."""
