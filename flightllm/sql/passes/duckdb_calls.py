"""Write functions that people know from DuckDB by DataFusion's functions."""

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa

from flightllm.common.interval_texts import interval_of
from flightllm.errors import UnsupportedError
from flightllm.functions.ages import AGE
from flightllm.functions.list_sums import CHECKED_SUM, EXACT_SUM
from flightllm.functions.text_parts import ALL_MATCHES, SPLIT, SPLIT_BY_PATTERN
from flightllm.functions.text_similarity import DAMERAU, HAMMING, JARO, JARO_WINKLER
from flightllm.functions.type_names import TYPE_NAME
from flightllm.sql.literals import text_literal
from flightllm.sql.nodes import Json, Node, body, kind, name_of, text_of_literal
from flightllm.sql.passes.moments import HISTOGRAM
from flightllm.sql.query_columns import TableColumns, own_functions
from flightllm.sql.select_shapes import changes_per_call
from flightllm.sql.tree import Tree, text_of, written
from flightllm.sql.types import ExpressionTypes, arguments, function_name

_RENAMED: Final[Mapping[str, str]] = {
    "first": "first_value",
    "arbitrary": "first_value",
    "approx_quantile": "approx_percentile_cont",
    "last": "last_value",
    "variance": "var_samp",
    "regexp_matches": "regexp_like",
}
"""Functions with the same arguments under another name."""
_OF_ONE: Final[Mapping[str, str]] = {
    "typeof": f"{TYPE_NAME}(arrow_typeof(v))",
    "dayname": "to_char(v, '%A')",
    "monthname": "to_char(v, '%B')",
    "dayofweek": "date_part('dow', v)",
    "weekday": "date_part('dow', v)",
    "isodow": "date_part('isodow', v)",
    "week": "date_part('week', v)",
    "weekofyear": "date_part('week', v)",
    "epoch": "date_part('epoch', v)",
    **dict.fromkeys(("base64", "to_base64"), "encode(v, 'base64pad')"),
    "from_base64": "decode(v, 'base64pad')",
    "age": f"{AGE}(CAST(current_date AS TIMESTAMP(6)), CAST(v AS TIMESTAMP(6)))",
    "last_day": "CAST(date_trunc('month', CAST(v AS DATE)) + INTERVAL '1 month' - INTERVAL '1 day' AS DATE)",
}
"""Functions of one value, which is `v`."""
_OF_TWO: Final[Mapping[str, str]] = {
    "date_add": "(v + w)",
    "age": f"{AGE}(CAST(v AS TIMESTAMP(6)), CAST(w AS TIMESTAMP(6)))",
    "struct_extract": "get_field(v, w)",
    "prefix": "starts_with(v, w)",
    "suffix": "ends_with(v, w)",
    **dict.fromkeys(("string_split", "str_split", "split"), f"{SPLIT}(v, w)"),
    **dict.fromkeys(("string_split_regex", "str_split_regex", "regexp_split_to_array"), f"{SPLIT_BY_PATTERN}(v, w)"),
    "regexp_extract_all": f"{ALL_MATCHES}(v, w, 0)",
    "jaro_similarity": f"{JARO}(v, w)",
    "jaro_winkler_similarity": f"{JARO_WINKLER}(v, w)",
    "damerau_levenshtein": f"{DAMERAU}(v, w)",
    **dict.fromkeys(("hamming", "mismatches"), f"{HAMMING}(v, w)"),
}
"""Functions of two values, which are `v` and `w`."""
_OF_LISTS: Final[Mapping[str, str]] = {
    "sum": "array_sum(l)",
    "avg": "array_avg(l)",
    "min": "array_min(l)",
    "max": "array_max(l)",
    "count": "array_length(array_compact(l))",
    "product": "array_product(l)",
    "histogram": HISTOGRAM,
}
"""The function of a list for each aggregate that `list_aggregate` can name."""
_AGGREGATES: Final = frozenset({"list_aggregate", "list_aggr", "array_aggregate", "array_aggr"})
_SUMS: Final = frozenset({"list_sum", "array_sum"})
_TEXTS: Final = "arrow_cast(l, 'List(Utf8)')"
_LISTS: Final = frozenset({"array_transform", "array_filter"})
"""Functions with a lambda, which return lists."""
_COUNT: Final = "CASE WHEN v IS NULL THEN NULL ELSE CAST(coalesce(array_length(v), 0) AS BIGINT) END"
"""The number of elements. `cardinality` counts those of inner lists too, and PostgreSQL's array_length has no 0."""
_LENGTHS: Final = ("len", "length")
"""The functions that count the elements of a list or the characters of a text; the engine has `length` for texts."""
_BEGIN_OF_MONTH: Final = "date_trunc('month', CAST(v AS TIMESTAMP))"
CALLS: Final = frozenset({"time_bucket", *_RENAMED, *_OF_ONE, *_OF_TWO, *_AGGREGATES, *_SUMS, *_LENGTHS, "struct_pack"})
"""The functions that the pass rewrites."""


def duckdb_calls(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `dayname(day)` as `to_char(day, '%A')`, and similar functions.

    Raises:
        UnsupportedError: an aggregate of a list is not known, or a list calls a model, and its type would call it
            again.
    """
    own = own_functions(columns_of)
    types = ExpressionTypes(tree.root, columns_of)

    def rewritten(node: Node) -> Json:
        if not _is_call(node, own):
            return node
        name, given = function_name(body(node)), arguments(body(node))
        if name in _AGGREGATES | _SUMS and changes_per_call(given, own):
            raise UnsupportedError(f"{name} would compute its list twice: compute it in a subquery")
        return _written(node, types)

    return tree.rebuilt(rewritten)


def _is_call(node: Node, own: frozenset[str]) -> bool:
    if kind(node) != "Function":
        return False
    fields = body(node)
    name = function_name(fields)
    return name in CALLS and len(fields["name"]) == 1 and name not in own


def _written(node: Node, types: ExpressionTypes) -> Json:
    fields = body(node)
    name, given = function_name(fields), arguments(fields)
    if name in _RENAMED:
        return {"Function": {**fields, "name": _name(_RENAMED[name])}}
    if name == "struct_pack":
        return _packed(fields)
    if name == "time_bucket":
        return _bucket(given, types)
    if name in _LENGTHS and len(given) == 1:
        return _length(node, given[0], types)
    if len(given) == 1 and name in _OF_ONE:
        return written(_OF_ONE[name], v=given[0])
    if len(given) == 2 and name in _OF_TWO:
        return written(_OF_TWO[name], v=given[0], w=given[1])
    if len(given) == 3 and name == "regexp_extract_all":
        return written(f"{ALL_MATCHES}(v, w, g)", v=given[0], w=given[1], g=given[2])
    if name in _SUMS and len(given) == 1:
        return _sum(given[0], types)
    if name in _AGGREGATES and len(given) > 1:
        return _aggregated(name, given, types)
    return node


def _bucket(given: Sequence[Json], types: ExpressionTypes) -> Json:
    """Return the begin of a bucket: those of months begin in January 2000, and others on the Monday after.

    Raises:
        UnsupportedError: the width is an expression, the type of the time is unknown, or another value is given.
    """
    found = types.of(given[1]) if len(given) > 1 else None
    day = found is not None and pa.types.is_date(found)
    naive = found is not None and pa.types.is_timestamp(found) and found.tz is None
    if len(given) not in {2, 3} or kind(given[0]) != "Interval" or not (day or naive):
        raise UnsupportedError(
            "time_bucket takes an interval and a date or a timestamp without a zone: write"
            " time_bucket(INTERVAL '1 month', CAST(t AS TIMESTAMP))"
        )
    months = _has_months(given[0])
    origin = written(f"TIMESTAMP '{'2000-01-01' if months else '2000-01-03'}'")
    if len(given) == 3:
        kinds = types.of(given[2])
        if kinds is None or not (pa.types.is_date(kinds) or pa.types.is_timestamp(kinds)):
            raise UnsupportedError("the third argument of time_bucket is a date or a time: write DATE '2000-01-01'")
        day = day and pa.types.is_date(kinds)
        origin = written(_BEGIN_OF_MONTH if months else "CAST(v AS TIMESTAMP)", v=given[2])
    made = written("date_bin(i, CAST(v AS TIMESTAMP), o)", i=given[0], v=given[1], o=origin)
    return written("CAST(v AS DATE)", v=made) if day else made


def _has_months(interval: Json) -> bool:
    """Return whether the width of buckets is months, also in years.

    Raises:
        UnsupportedError: the width has months and days, or another unit.
    """
    fields = body(interval)
    text = text_of_literal(fields["value"]) or text_of(fields["value"])
    text = f"{text} {fields['leading_field'] or ''}"
    try:
        found = interval_of(text)
    except ValueError as error:
        raise UnsupportedError(
            "the width of time_bucket is in months, days or smaller units: write time_bucket(INTERVAL '3 months', t)"
        ) from error
    if found.months and (found.days or found.nanoseconds):
        raise UnsupportedError("time_bucket takes months or days, not both: write time_bucket(INTERVAL '1 month', t)")
    return bool(found.months)


def _packed(fields: Json) -> Json:
    """Return `struct_pack(a := 1)` as `{'a': 1}`."""
    listed = body(fields["args"])["args"] if kind(fields["args"]) == "List" else []
    named = [body(one) for one in listed if kind(one) == "Named" and kind(body(one)["arg"]) == "Expr"]
    if len(named) != len(listed) or not named:
        raise UnsupportedError("struct_pack takes named values: write struct_pack(a := 1, b := 2)")
    texts = [f"{text_literal(name_of(one['name']))}: v{place}" for place, one in enumerate(named)]
    values = {f"v{place}": body(one["arg"]) for place, one in enumerate(named)}
    return written(f"{{{', '.join(texts)}}}", **values)


def _sum(value: Json, types: ExpressionTypes) -> Json:
    """Return the sum of a list: it is exact for whole numbers, where `array_sum` would add doubles."""
    found = types.of(value)
    element = found.value_type if found is not None and pa.types.is_list(found) else None
    if element is not None and pa.types.is_integer(element):
        whole = "BIGINT" if element.bit_width < 64 else "DECIMAL(38, 0)"
        return written(f"CAST({EXACT_SUM}({_TEXTS}) AS {whole})", l=value)
    if element is not None and pa.types.is_floating(element):
        return written("array_sum(l)", l=value)
    return written(f"{CHECKED_SUM}({_TEXTS}, arrow_typeof(l))", l=value)


def _aggregated(name: str, given: Sequence[Json], types: ExpressionTypes) -> Json:
    """Return an aggregate of a list, whose name is a text literal."""
    text = (text_of_literal(given[1]) or "").lower()
    if len(given) > 2 or text not in _OF_LISTS:
        raise UnsupportedError(
            f"{name} accepts {', '.join(_OF_LISTS)}: for others, write the aggregate over FROM unnest(list) AS u(x)"
        )
    return _sum(given[0], types) if text == "sum" else written(_OF_LISTS[text], l=given[0])


def _length(node: Node, value: Json, types: ExpressionTypes) -> Json:
    """Return how many elements a list has, or how many characters a text; a value of an unknown type stays."""
    found = types.of(value)
    if found == pa.string() and function_name(body(node)) == "len":
        return written("length(v)", v=value)
    known = found is not None and pa.types.is_list(found)
    made = kind(value) == "Array" or (kind(value) == "Function" and function_name(body(value)) in _LISTS)
    return written(_COUNT, v=value) if known or made else node


def _name(text: str) -> Json:
    return body(written(f"{text}()"))["name"]
