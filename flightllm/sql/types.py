"""The types of a statement's expressions, as PostgreSQL gives them and as far as the text and its tables tell them."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import pyarrow as pa

from flightllm.common.names import DUCKDB_JOINED, VALUE_TEXT
from flightllm.functions import jsonb
from flightllm.functions.ages import AGE
from flightllm.functions.interval_parts import JUSTIFIED
from flightllm.functions.json_scalars import JSON_SCALAR
from flightllm.functions.json_texts import JSON_LIST, JSON_OBJECT, JSON_TEXT
from flightllm.functions.percent_times import READ_TIME, WRITTEN_TIME
from flightllm.functions.postgres_formats import NUMBER_BY_FORMAT, TIME_BY_FORMAT
from flightllm.functions.text_parts import ALL_MATCHES, SPLIT, SPLIT_BY_PATTERN
from flightllm.functions.text_places import CAPITALS, PART_OF_TEXT, PLACE_IN_TEXT
from flightllm.functions.typed_texts import JSON_STRING, TYPED_FORMAT, TYPED_JSON
from flightllm.functions.variant_objects import (
    COMPACT,
    DELETED,
    GOT,
    INSERTED,
    KIND,
    OBJECT,
    OBJECT_NAMES,
    PICKED,
    PLAIN,
    RAW,
    SAME,
)
from flightllm.functions.variants import (
    ELEMENTS,
    FLATTENED,
    MEMBERS,
    OF_LIST,
    PARSED_JSON,
    SCALARS,
    VARIANT_JSON,
    VARIANT_TEXT,
)
from flightllm.functions.whole_numbers import ADDED, CHAINED, MULTIPLIED, SUBTRACTED, SUMMED
from flightllm.sql.answer_types import answer_type
from flightllm.sql.nodes import Json, body, kind, name_of
from flightllm.sql.query_columns import Columns, Known, QueryColumns, TableColumns, Type, common_type
from flightllm.sql.tree import written

INTERVAL: Final = pa.month_day_nano_interval()
BETWEEN_TIMES: Final = pa.duration("ns")
"""The type that DataFusion gives the time between two timestamps; in PostgreSQL it is an interval, too."""
TIMESTAMP: Final = pa.timestamp("ns")
ZONED: Final = pa.timestamp("ns", "UTC")
"""`timestamp with time zone`."""
_NUMERIC: Final = pa.decimal128(38, 10)
_LONG: Final = 2**31
_LONGER: Final = 2**63
_TIME: Final = pa.time64("ns")

_SIMPLE: Final[Mapping[str, Type]] = {
    **dict.fromkeys(("SmallInt", "Int2", "TinyInt"), pa.int16()),
    **dict.fromkeys(("Int", "Integer", "Int4"), pa.int32()),
    **dict.fromkeys(("BigInt", "Int8"), pa.int64()),
    **dict.fromkeys(("Real", "Float4", "Float"), pa.float32()),
    **dict.fromkeys(("DoublePrecision", "Double", "Float8", "Float64"), pa.float64()),
    **dict.fromkeys(("Numeric", "Decimal", "Dec"), _NUMERIC),
    **dict.fromkeys(("Text", "String", "Varchar", "CharVarying", "CharacterVarying", "Char", "Character"), pa.string()),
    **dict.fromkeys(("Boolean", "Bool"), pa.bool_()),
    **dict.fromkeys(("Bytea", "Binary", "Varbinary"), pa.binary()),
    "Date": pa.date32(),
    "Time": _TIME,
    "Interval": INTERVAL,
    "Uuid": pa.string(),
}
"""The types of casts by the kind of their node."""
_COMPARED: Final = frozenset(
    {
        *("Eq", "NotEq", "Lt", "LtEq", "Gt", "GtEq", "Spaceship", "And", "Or", "Xor"),
        *("PGRegexMatch", "PGRegexIMatch", "PGRegexNotMatch", "PGRegexNotIMatch", "AtArrow", "ArrowAt"),
    }
)
_PREDICATES: Final = frozenset(
    {
        *("Between", "InList", "InSubquery", "AnyOp", "AllOp", "Exists", "Like", "ILike", "SimilarTo", "RLike"),
        *("IsNull", "IsNotNull", "IsTrue", "IsNotTrue", "IsFalse", "IsNotFalse", "IsUnknown", "IsNotUnknown"),
        *("IsDistinctFrom", "IsNotDistinctFrom"),
    }
)
_LIKE_ARGUMENTS: Final = frozenset(
    {
        *("coalesce", "nvl", "ifnull", "nullif", "greatest", "least", "min", "max", "first_value", "last_value"),
        *("any_value", "lag", "lead", "nth_value", "abs", "ceil", "ceiling", "floor", "mod", "median"),
        *("array_remove", "array_append", "array_sort", "array_distinct", "array_reverse", "array_cat", "sign"),
        "signum",
    }
)
"""Functions whose result has the type of their arguments."""
_LIKE_FIRST: Final = frozenset(
    {
        *("lag", "lead", "nth_value", "nullif"),
        *("array_remove", "array_append", "array_sort", "array_distinct", "array_reverse", "array_cat"),
    }
)
_RETURNED: Final[Mapping[str, Type]] = {
    **dict.fromkeys(("now", "current_timestamp", "statement_timestamp", "transaction_timestamp"), ZONED),
    **dict.fromkeys(("to_timestamp", "make_timestamptz", "__zoned_time"), ZONED),
    **dict.fromkeys(("to_local_time", "localtimestamp", "make_timestamp", "from_unixtime"), TIMESTAMP),
    **dict.fromkeys(("current_date", "today", "make_date", "to_date"), pa.date32()),
    **dict.fromkeys(("current_time", "localtime", "make_time"), _TIME),
    **dict.fromkeys(("__interval_times", "__interval_sum", "__with_days", "__text_interval"), INTERVAL),
    **dict.fromkeys(("age", AGE, JUSTIFIED, "make_interval"), INTERVAL),
    **dict.fromkeys(
        ("count", "row_number", "rank", "dense_rank", "ntile", "approx_distinct", "regr_count"), pa.int64()
    ),
    **dict.fromkeys(("length", "char_length", "character_length", "strpos", "position", "ascii"), pa.int32()),
    **dict.fromkeys(("sqrt", "cbrt", "exp", "ln", "log", "log10", "power", "pow", "random", "pi"), pa.float64()),
    **dict.fromkeys(("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "degrees", "radians"), pa.float64()),
    **dict.fromkeys(("percent_rank", "cume_dist", "date_part", "__half_even", "__interval_epoch"), pa.float64()),
    **dict.fromkeys(("stddev", "stddev_pop", "stddev_samp", "var", "var_pop", "var_samp", "variance"), pa.float64()),
    **dict.fromkeys(("corr", "covar_pop", "covar_samp", "regr_slope", "regr_intercept", "regr_r2"), pa.float64()),
    **dict.fromkeys(("lower", "upper", "concat", "concat_ws", "substr", "substring", "replace", "trim"), pa.string()),
    **dict.fromkeys(("btrim", "ltrim", "rtrim", "lpad", "rpad", "left", "right", "repeat", "reverse"), pa.string()),
    **dict.fromkeys(
        ("split_part", "to_char", NUMBER_BY_FORMAT, TIME_BY_FORMAT, "initcap", "md5", "chr", "string_agg", "translate"),
        pa.string(),
    ),
    **dict.fromkeys(("encode", "regexp_replace", "array_to_string"), pa.string()),
    **dict.fromkeys(("json_extract", "json_extract_string", "json_value"), pa.string()),
    **dict.fromkeys(("string_to_array", "regexp_split_to_array"), pa.list_(pa.string())),
    **dict.fromkeys(("__double_text", "__real_text", "__interval_text", "__array_text"), pa.string()),
    **dict.fromkeys(("__simple_upper", "__simple_lower", "__duckdb_json", "__text_slice"), pa.string()),
    **dict.fromkeys(("__time_text", "__timestamp_text", "__zoned_text"), pa.string()),
    **dict.fromkeys((JSON_TEXT, JSON_OBJECT, JSON_LIST, JSON_STRING, TYPED_JSON, TYPED_FORMAT), pa.string()),
    **dict.fromkeys((WRITTEN_TIME, PART_OF_TEXT, CAPITALS), pa.string()),
    **dict.fromkeys((ALL_MATCHES, SPLIT, SPLIT_BY_PATTERN), pa.list_(pa.string())),
    PLACE_IN_TEXT: pa.int64(),
    **dict.fromkeys((ADDED, CHAINED, MULTIPLIED, SUBTRACTED, SUMMED), pa.int64()),
    READ_TIME: pa.timestamp("us"),
    **dict.fromkeys((VARIANT_TEXT, VARIANT_JSON, OF_LIST, JSON_SCALAR, PARSED_JSON), pa.string()),
    **dict.fromkeys((ELEMENTS, MEMBERS, SCALARS, FLATTENED, OBJECT_NAMES), pa.list_(pa.string())),
    **dict.fromkeys((RAW, KIND, GOT, OBJECT, INSERTED, PICKED, DELETED, COMPACT, SAME, PLAIN), pa.string()),
    VALUE_TEXT: pa.string(),
    **dict.fromkeys(jsonb.NAMES, pa.string()),
    **dict.fromkeys((jsonb.CONTAINS, jsonb.HAS), pa.bool_()),
    **dict.fromkeys(("__split_at_most", "__java_keys"), pa.list_(pa.string())),
    **dict.fromkeys(("__text_bytes", "decode", "sha256", "sha512"), pa.binary()),
    **dict.fromkeys(("bool_and", "bool_or", "every", "starts_with", "isnan"), pa.bool_()),
}
"""The types of functions whose result has one type for all arguments."""


_WITH_OFFSET: Final = re.compile(r'Timestamp\(Nanosecond, Some\("([+-]\d\d:\d\d)"\)\)')
"""The type of a time at an offset from UTC, in the text of arrow_cast."""


class ExpressionTypes:
    """The types of the expressions of one statement: of its own text, and of what passes make of that."""

    def __init__(self, root: Json, columns_of: TableColumns) -> None:
        self._known = dict[int, tuple[Json, Type]]()
        """The type of each expression by its identity; it stays alive, so no other object has its identity."""
        self._parameters = columns_of.parameters if isinstance(columns_of, Known) else {}
        self._columns = QueryColumns(root, columns_of, self.of)
        self._columns.read(root)

    def of(self, expression: Json) -> Type:
        """Return the type of an expression, or None if it is unknown."""
        todo = [expression]
        while todo:  # a chain of 1,000 operators is deeper than Python's recursion limit
            found = todo[-1]
            below = [part for part in _operands(found) if id(part) not in self._known]
            if below and id(found) not in self._known:
                todo += below
                continue
            todo.pop()
            if id(found) not in self._known:
                types = [self._known[id(part)][1] for part in _operands(found)]
                self._known[id(found)] = found, self._type(found, types)
        return self._known[id(expression)][1]

    def columns(self, query: Json) -> Columns:
        """Return the columns of a query's body."""
        return self._columns.of(query)

    def table(self, factor: Json) -> tuple[str, list[str] | None]:
        """Return the name and the columns of a table of a FROM; see `QueryColumns.table`."""
        return self._columns.table(factor)

    def columns_by_name(self, factor: Json) -> dict[str, Type]:
        """Return the types of the columns of a table of a FROM; the result is empty if they are unknown."""
        return {column.name: column.type for column in self._columns.table_columns(factor) or ()}

    def is_interval(self, expression: Json) -> bool:
        """Return whether an expression is surely an interval, and no time between two timestamps."""
        return bool(self.of(expression) == INTERVAL)

    def _type(self, expression: Json, types: Sequence[Type]) -> Type:
        name = kind(expression)
        fields = body(expression) if name else expression
        if name in _PREDICATES:
            return pa.bool_()
        if name in {"Identifier", "CompoundIdentifier"}:
            return self._columns.named(expression)
        if name == "Value" and kind(fields["value"]) == "Placeholder":
            return self._parameters.get(str(body(fields["value"])))
        if name == "Subquery":
            columns = self.columns({"Query": fields})
            return columns[0].type if columns is not None and len(columns) == 1 else None
        typed = _TYPED.get(name)
        return typed(fields, types) if typed is not None else None


def cast_type(data_type: Json) -> Type:
    """Return the type that a cast or a typed literal names."""
    name = data_type if isinstance(data_type, str) else kind(data_type)
    if name == "Timestamp":
        zone = body(data_type)[1] if isinstance(data_type, dict) else ""
        return ZONED if zone in {"Tz", "WithTimeZone"} else TIMESTAMP
    if name == "Array" and isinstance(data_type, dict) and kind(body(data_type)) in {"SquareBracket", "AngleBracket"}:
        inner = body(body(data_type))
        element = cast_type(inner[0] if isinstance(inner, list | tuple) else inner)
        return None if element is None else pa.list_(element)
    if name in {"Numeric", "Decimal", "Dec"} and kind(data_type) and kind(body(data_type)) == "PrecisionAndScale":
        precision, scale = body(body(data_type))
        return pa.decimal128(min(precision, 38), scale) if 0 <= scale <= precision else _NUMERIC
    return _SIMPLE.get(name)


def function_name(function: Json) -> str:
    """Return the name of a function that a node calls, in lower case."""
    last = function["name"][-1]
    return name_of(body(last)) if kind(last) == "Identifier" else ""


def arguments(function: Json) -> list[Json]:
    """Return the expressions among the arguments of a function without names."""
    if kind(function["args"]) != "List":
        return []
    given = (body(one) for one in body(function["args"])["args"] if kind(one) == "Unnamed")
    return [body(one) for one in given if kind(one) == "Expr"]


def other_aggregate(name: str, value: Json, aggregate: Json) -> Json:
    """Return a call of another aggregate of one value over the same rows as a call."""
    fields = body(aggregate)
    listed = {**body(fields["args"]), "args": [{"Unnamed": {"Expr": value}}]}
    return {"Function": {**fields, "name": body(written(f"{name}(v)"))["name"], "args": {"List": listed}}}


def expressions_of(query: Json) -> list[Json]:
    """Return the expression of each column of a query's body; empty if the body has a star."""
    fields = body(query)
    match kind(query):
        case "Select":
            items = fields["projection"]
            found = [_expression(item) for item in items if kind(item) in {"UnnamedExpr", "ExprWithAlias"}]
            return found if len(found) == len(items) else []
        case "SetOperation":
            return expressions_of(fields["left"])
        case "Query":
            return expressions_of(fields["body"])
        case "Values":
            return list(fields["rows"][0])
        case _:
            return []


def _expression(item: Json) -> Json:
    return body(item)["expr"] if kind(item) == "ExprWithAlias" else body(item)


def _operands(expression: Json) -> Sequence[Json]:
    """Return the expressions of which a node's own type follows."""
    name = kind(expression)
    fields: Json = body(expression) if name else None
    match name:
        case "Nested":
            return (fields,)
        case "BinaryOp":
            return (fields["left"], fields["right"])
        case "UnaryOp" | "Collate" | "Ceil" | "Floor":
            return (fields["expr"],)
        case "Case":
            other = () if fields["else_result"] is None else (fields["else_result"],)
            return (*(one["result"] for one in fields["conditions"]), *other)
        case "Function":
            return arguments(fields)
        case "Array":
            return list(fields["elem"])
        case "Dictionary" | "Map":
            entries, ends = (fields["entries"], ("key", "value")) if name == "Map" else (fields, ("value",))
            return [one[end] for end in ends for one in entries]
        case "AtTimeZone":
            return (fields["timestamp"],)
        case "CompoundFieldAccess":
            return (fields["root"],)
        case _:
            return ()


def _literal(fields: Json, _: Sequence[Type]) -> Type:
    value = fields["value"]
    match kind(value) or value:
        case "Number":
            digits = str(body(value)[0])
            if not re.fullmatch(r"\d+", digits) or len(digits) > 19 or int(digits) >= _LONGER:
                return _NUMERIC
            return pa.int32() if int(digits) < _LONG else pa.int64()
        case "Boolean":
            return pa.bool_()
        case "Null":
            return pa.null()
        case "HexStringLiteral":
            return pa.binary()
        case "SingleQuotedString" | "NationalStringLiteral" | "EscapedStringLiteral" | "DollarQuotedString":
            return pa.string()
        case _:
            return None


def _operator(fields: Json, types: Sequence[Type]) -> Type:
    left, right = types
    operator = fields["op"]
    if operator in _COMPARED:
        return pa.bool_()
    if operator == "StringConcat":
        lists = [one for one in types if one is not None and pa.types.is_list(one)]
        return lists[0] if lists else (pa.string() if None not in types else None)
    if left is None or right is None:
        return None
    if operator in {"Plus", "Minus"}:
        return _sum(left, right) if operator == "Plus" else _difference(left, right)
    if operator in {"Multiply", "Divide"} and (_is_interval(left) or (operator == "Multiply" and _is_interval(right))):
        return INTERVAL
    return _numeric_result(types) if operator in {"Multiply", "Divide", "Modulo"} else None


def _numeric_result(types: Sequence[Type]) -> Type:
    found = common_type(types)
    return found if is_number(found) else None


def _sum(left: pa.DataType, right: pa.DataType) -> Type:
    for one, other in ((left, right), (right, left)):
        if pa.types.is_timestamp(one) or pa.types.is_time(one):
            return one if _is_interval(other) else (TIMESTAMP if pa.types.is_date(other) else None)
        if pa.types.is_date(one):
            return TIMESTAMP if _is_interval(other) else (one if pa.types.is_integer(other) else None)
    if left == right == BETWEEN_TIMES:
        return BETWEEN_TIMES
    return INTERVAL if _is_interval(left) or _is_interval(right) else _numeric_result((left, right))


def _difference(left: pa.DataType, right: pa.DataType) -> Type:
    if pa.types.is_date(left) and pa.types.is_date(right):
        return pa.int32()
    dates = [one for one in (left, right) if pa.types.is_date(one) or pa.types.is_timestamp(one)]
    if len(dates) == 2:
        return BETWEEN_TIMES
    if pa.types.is_time(left) and pa.types.is_time(right):
        return INTERVAL
    return None if dates and dates[0] is right else _sum(left, right)


def _item(steps: Sequence[Json], found: Type) -> Type:
    """Return the type after steps such as `[1]` and `[2:3]` from a value of a type; None after others."""
    for step in steps:
        if found is None or kind(step) != "Subscript" or not (pa.types.is_list(found) or pa.types.is_string(found)):
            return None
        if kind(body(step)) == "Index" and pa.types.is_list(found):
            found = found.value_type
    return found


def _function(fields: Json, types: Sequence[Type]) -> Type:
    name = function_name(fields)
    first = types[0] if types else None
    if name in _RETURNED:
        is_list = name == VALUE_TEXT and first is not None and pa.types.is_list(first)
        return first if is_list and DUCKDB_JOINED in str(arguments(fields)[1]) else _RETURNED[name]
    if name in _LIKE_ARGUMENTS:
        found = common_type(types[:1] if name in _LIKE_FIRST else types)
        return common_type(types) if found == pa.string() and name == "nullif" else found
    match name:
        case "sum" | "avg" if first is not None:
            if pa.types.is_integer(first):
                return _NUMERIC if name == "avg" or pa.types.is_int64(first) else pa.int64()
            return INTERVAL if _is_interval(first) else first
        case "date_trunc" | "date_bin" if len(types) > 1:
            return ZONED if types[1] == pa.date32() else types[1]
        case "round" | "trunc" if first is not None:
            return pa.float64() if pa.types.is_integer(first) or pa.types.is_floating(first) else first
        case "array_agg" | "make_array" | "unnest" | "histogram" if first is not None:
            return _of_list(name, first)
        case "generate_series" | "range" if first is not None:
            return _series(types)
        case "timezone" | "map" | "__json_field" | "__variant_mixed" if len(types) == _COUNTS.get(name, len(types)):
            return _of_several(name, types)
        case _:
            return _at_offset(fields) if name == "arrow_cast" else answer_type(name, fields)


def _at_offset(fields: Json) -> Type:
    """Return the type of a time at an offset from UTC; None for another arrow_cast."""
    found = _WITH_OFFSET.search(str(arguments(fields)[1:]))
    return pa.timestamp("ns", found[1]) if found else None


def are_mixed(types: Sequence[Type]) -> bool:
    """Return whether values cannot be elements of one list, as a number and a text cannot; NULL fits to any."""
    kinds = {"number" if is_number(one) else str(one) for one in types if one is not None and not pa.types.is_null(one)}
    return len(kinds) > 1


def _of_several(name: str, types: Sequence[Type]) -> Type:
    if name == "__variant_mixed":  # a list, or JSON: see MIXED of the pass over variants
        return pa.string() if are_mixed(types) else _TYPED["Array"](None, types)
    if name == "__json_field":  # a value, a path, and the field as written: see FIELD of the pass over variants
        return types[0] if types[0] == pa.string() else types[2]
    return _other_zone(types[1]) if name == "timezone" else _map_of(types)


def _of_list(name: str, first: pa.DataType) -> Type:
    if name == "histogram":
        return _map([first], [pa.uint64()])
    if name != "unnest":
        return pa.list_(first)
    return first.value_type if pa.types.is_list(first) else None


def _struct(fields: Json, types: Sequence[Type]) -> Type:
    """Return the type of `{'a': 1}`."""
    named = [(name_of(one["key"]), found) for one, found in zip(fields, types, strict=True) if found is not None]
    return pa.struct(named) if len(named) == len(types) else None


def _map_of(lists: Sequence[Type]) -> Type:
    keys, values = ([one.value_type] if one is not None and pa.types.is_list(one) else [None] for one in lists)
    return _map(keys, values)


def _map(keys: Sequence[Type], values: Sequence[Type]) -> Type:
    key, value = common_type(keys), common_type(values)
    return None if key is None or value is None or pa.types.is_null(key) else pa.map_(key, value)


def _series(types: Sequence[Type]) -> Type:
    """Return the type of the list of a series: its items are as long as the longest of its whole numbers."""
    if types[0] is not None and pa.types.is_date(types[0]):
        return pa.list_(ZONED)
    found = types[0] if types[0] is not None and pa.types.is_timestamp(types[0]) else common_type(types)
    return None if found is None else pa.list_(found)


def _other_zone(given: Type) -> Type:
    """Return the type of a value AT TIME ZONE; a date or a text counts as a time in a zone."""
    if given is None:
        return None
    return ZONED if pa.types.is_timestamp(given) and given.tz is None else TIMESTAMP


def is_date(given: Type) -> bool:
    """Return whether a type is known to be a date."""
    return given is not None and bool(pa.types.is_date(given))


def is_double(given: Type) -> bool:
    """Return whether a known type has floating-point numbers."""
    return given is not None and bool(pa.types.is_floating(given))


def is_decimal(given: Type) -> bool:
    """Return whether a type is known to be one of decimals."""
    return given is not None and bool(pa.types.is_decimal(given))


def is_number(given: Type) -> bool:
    """Return whether a type is known to be one of numbers; NULL counts as one."""
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_null)
    return given is not None and any(test(given) for test in tests)


def _is_interval(given: pa.DataType) -> bool:
    return given in {INTERVAL, BETWEEN_TIMES} or bool(pa.types.is_duration(given))


_COUNTS: Final = {"timezone": 2, "map": 2, "__json_field": 3}
"""The number of arguments of functions whose type follows from several."""
_TYPED: Final[Mapping[str, Callable[[Json, Sequence[Type]], Type]]] = {
    "Value": _literal,
    "Nested": lambda _, types: types[0],
    "Collate": lambda _, types: types[0],
    "Ceil": lambda _, types: types[0],
    "Floor": lambda _, types: types[0],
    "Interval": lambda *_: INTERVAL,
    "Cast": lambda fields, _: None if fields["array"] else cast_type(fields["data_type"]),
    "TypedString": lambda fields, _: cast_type(fields["data_type"]),
    "UnaryOp": lambda fields, types: types[0] if fields["op"] in {"Minus", "Plus"} else pa.bool_(),
    "BinaryOp": _operator,
    "Case": lambda _, types: common_type(types),
    "Function": _function,
    "Array": lambda _, types: pa.list_(found) if (found := common_type(types)) is not None else None,
    "Dictionary": _struct,
    "Map": lambda _, types: _map(types[: len(types) // 2], types[len(types) // 2 :]),
    "AtTimeZone": lambda _, types: _other_zone(types[0]),
    "Extract": lambda *_: _NUMERIC,
    "Substring": lambda *_: pa.string(),
    "Trim": lambda *_: pa.string(),
    "Position": lambda *_: pa.int32(),
    "CompoundFieldAccess": lambda fields, types: _item(fields["access_chain"], types[0]),
}
"""The type of each kind of node, from its fields and the types of its operands."""
