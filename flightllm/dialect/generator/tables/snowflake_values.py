"""Write Snowflake's functions of arrays, objects and variants."""

from typing import Any, Final

from flightllm.dialect.generator.calls import Call, Rule, Table, form, no
from flightllm.functions.variant_objects import (
    COMPACT,
    DELETED,
    INSERTED,
    KIND,
    OBJECT,
    OBJECT_NAMES,
    PICKED,
)
from flightllm.functions.variants import ELEMENTS, VARIANT_TEXT
from flightllm.sql.passes.variants import LISTED, QUOTED, VALUE

_ORDERS: Final = {"true": ("ASC", "false"), "false": ("DESC", "true")}
_NULLS: Final = {"true": "NULLS FIRST", "false": "NULLS LAST"}


def _listed(call: Call, place: int) -> str:
    """Return an argument as a list: a JSON text becomes one."""
    from sqlglot import exp

    value, text = call.args[place], call.sql(place)
    if isinstance(value, exp.ParseJSON):
        return f"{ELEMENTS}({text})"
    return f"{LISTED}({text})" if isinstance(value, exp.Column | exp.Array | exp.Anonymous) else text


def _sortable(call: Call) -> str:
    """Return an argument whose values have one order; the elements of a VARIANT are ordered by their kinds."""
    from sqlglot import exp

    value = call.args[0]
    untyped = isinstance(value, exp.ParseJSON | exp.JSONExtract | exp.GetExtract)
    to_array = isinstance(value, exp.Cast) and value.to.this.name in {"ARRAY", "VARIANT"} and not value.to.expressions
    items = value.expressions if isinstance(value, exp.Array) else []
    texts = {one.is_string for one in items if isinstance(one, exp.Literal)}
    if untyped or to_array or len(texts) > 1 or any(isinstance(one, exp.ParseJSON) for one in items):
        call.refuse(f"values without a type have several orders: write {call.name}(PARSE_JSON(text)::ARRAY(NUMBER))")
    return call.sql(0)


def _lists(text: str, *places: int, count: int) -> Rule:
    """Return a rule that writes a text with some arguments as lists, for a number of arguments."""

    def rule(call: Call) -> str:
        if len(call.args) != count:
            call.refuse(f"write it with {count} arguments, by position")
        args = [_listed(call, place) if place in places else call.sql(place) for place in range(count)]
        return text.format(*args)

    return rule


def _inserted(call: Call) -> str:
    place = call.number(1)
    if place is None or place < 0 or len(call.args) != 3:
        call.refuse("write the place as a number from 0, as in ARRAY_INSERT(a, 0, value)")
    given, value = _listed(call, 0), call.sql(2)
    before = f"array_slice({given}, 1, {place}), " if place else ""
    end = f"CAST(array_length({given}) AS BIGINT)"
    return f"array_concat({before}make_array({value}), array_slice({given}, {place + 1}, {end}))"


def _sliced(call: Call) -> str:
    """Write ARRAY_SLICE(a, first, end): places count from 0, negative ones from the end, and the end is left out."""
    first, end = call.number(1), call.number(2)
    if first is None or end is None:
        call.refuse("write the places as numbers, as in ARRAY_SLICE(a, 0, 2)")
    given = _listed(call, 0)
    if end == 0:
        return f"array_slice({given}, 2, 1)"
    return f"array_slice({given}, {first + 1 if first >= 0 else first}, {end if end > 0 else end - 1})"


def _sorted(call: Call) -> str:
    written = [str(call.generator.sql(one)).lower() for one in call.args[1:]]
    rising, nulls = _ORDERS.get(written[0] if written else "true", (None, ""))
    last = _NULLS.get(written[1] if len(written) > 1 else nulls)
    if rising is None or last is None:
        call.refuse("write the order as TRUE or FALSE, as in ARRAY_SORT(a, FALSE)")
    return f"array_sort({_sortable(call)}, '{rising}', '{last}')"


def _is_distinct(value: Any) -> bool:
    """Return whether an argument surely has no value twice."""
    from sqlglot import exp

    if isinstance(value, exp.Array):
        literals = [one.sql() for one in value.expressions if isinstance(one, exp.Literal)]
        return len(literals) == len(value.expressions) == len(set(literals))
    return str(value.args.get("this")).upper() == "ARRAY_DISTINCT" or isinstance(value, exp.ArrayDistinct)


def _common(name: str, *, either: bool) -> Rule:
    def rule(call: Call) -> str:
        known = [_is_distinct(one) for one in call.args]
        if len(known) != 2 or not (any(known) if either else known[0]):
            call.refuse(f"it counts equal values here: write {call.name}(ARRAY_DISTINCT(a), ARRAY_DISTINCT(b))")
        return f"{name}({_listed(call, 0)}, {_listed(call, 1)})"

    return rule


def _range(call: Call) -> str:
    step = call.sql(2) if len(call.args) > 2 else "1"
    return f"range({call.sql(0)}, {call.sql(1)}, {step})"


def value_of(call: Call, place: int) -> str:
    """Return an argument as JSON: a later step reads its type."""
    from sqlglot import exp

    value = call.args[place]
    if _is_typed(value):
        return f"{QUOTED}({call.generator.sql(value.this)})"
    is_json = isinstance(value, exp.ParseJSON | exp.JSONExtract | exp.GetExtract)
    return call.sql(place) if is_json else f"{VALUE}({call.sql(place)})"


def _is_typed(value: Any) -> bool:
    """Return whether an argument is a typed value that becomes a VARIANT."""
    from sqlglot import exp

    to_variant = isinstance(value, exp.Cast) and value.to.this.name == "VARIANT"
    made = to_variant or isinstance(value, exp.ToVariant)
    return made and not isinstance(value.this, exp.ParseJSON | exp.JSONExtract | exp.GetExtract)


def _json_of(call: Call, place: int) -> str:
    """Return an argument that becomes a part of JSON: a text is a JSON string, and a VARIANT stays."""
    from sqlglot import exp

    value = call.args[place]
    inner = value.this if _is_typed(value) else value
    is_json = isinstance(inner, exp.ParseJSON | exp.JSONExtract | exp.GetExtract)
    return call.sql(place) if is_json else f"{QUOTED}({call.generator.sql(inner)})"


def _kind(call: Call) -> str:
    if len(call.args) != 1:
        call.refuse("write TYPEOF(value)")
    value = call.args[0]
    type_ = "''"
    if _is_typed(value):
        type_ = (
            f"'{zoned}'" if (zoned := _zoned_kind(value.this)) else f"arrow_typeof({call.generator.sql(value.this)})"
        )
    return f"{KIND}({value_of(call, 0)}, {type_})"


def _zoned_kind(value: Any) -> str:
    """Return the kind of a time in a zone that the text makes; empty for another value."""
    from sqlglot import exp

    if isinstance(value, exp.Cast):
        return {"TIMESTAMPTZ": "TIMESTAMP_TZ", "TIMESTAMPLTZ": "TIMESTAMP_LTZ"}.get(value.to.this.name, "")
    if isinstance(value, exp.CurrentTimestamp):
        return "TIMESTAMP_LTZ"
    name = str(value.args.get("this")).upper() if isinstance(value, exp.Func) else ""
    return name.removeprefix("TO_") if name in {"TO_TIMESTAMP_TZ", "TO_TIMESTAMP_LTZ"} else ""


def _is_of(*kinds: str) -> Rule:
    listed = ", ".join(f"'{kind}'" for kind in kinds)
    return lambda call: f"({_kind(call)} IN ({listed}))"


def _as(type_: str, *kinds: str) -> Rule:
    """Return a rule that reads a VARIANT of some kinds as a type; other kinds are NULL."""
    listed = ", ".join(f"'{kind}'" for kind in kinds)

    def rule(call: Call) -> str:
        text = f"{VARIANT_TEXT}({value_of(call, 0)}, '$')"
        value = f"round(CAST({text} AS DOUBLE))" if type_ == "BIGINT" else text
        return f"(CASE WHEN {_kind(call)} IN ({listed}) THEN CAST({value} AS {type_}) END)"

    return rule


def _object(keeps: str) -> Rule:
    def rule(call: Call) -> str:
        if not call.args:
            return "'{}'"
        if len(call.args) % 2:
            call.refuse("write names and values in turn, as in OBJECT_CONSTRUCT('a', a, 'b', b)")
        names = ", ".join(f"CAST({call.sql(place)} AS VARCHAR)" for place in range(0, len(call.args), 2))
        values = ", ".join(_json_of(call, place) for place in range(1, len(call.args), 2))
        return f"{OBJECT}(make_array({names}), make_array({values}), {keeps})"

    return rule


def _object_of_rows(call: Call) -> str:
    if len(call.args) != 2:
        call.refuse("write OBJECT_AGG(name, value)")
    name, value = call.sql(0), call.sql(1)
    known = f"FILTER (WHERE {name} IS NOT NULL AND {value} IS NOT NULL)"
    return f"{OBJECT}(array_agg(CAST({name} AS VARCHAR)) {known}, array_agg({_json_of(call, 1)}) {known}, false)"


def _object_inserted(call: Call) -> str:
    updates = call.sql(3) if len(call.args) > 3 else "false"
    return f"{INSERTED}({value_of(call, 0)}, {call.sql(1)}, {_json_of(call, 2)}, {updates})"


def _named(function: str) -> Rule:
    def rule(call: Call) -> str:
        names = ", ".join(call.sql(place) for place in range(1, len(call.args)))
        if not names:
            call.refuse(f"write {call.name}(object, 'name')")
        return f"{function}({value_of(call, 0)}, make_array({names}))"

    return rule


VALUES: Final[Table] = {
    "ARRAY_APPEND": _lists("array_append({0}, {1})", 0, count=2),
    "ARRAY_CAT": _lists("array_concat({0}, {1})", 0, 1, count=2),
    "ARRAY_COMPACT": _lists("array_compact({0})", 0, count=1),
    "ARRAY_CONSTRUCT_COMPACT": form("array_compact(make_array({*}))"),
    "ARRAY_CONTAINS": _lists(
        "coalesce(array_has({1}, {0}), CASE WHEN {0} IS NOT NULL AND {1} IS NOT NULL THEN false"
        " WHEN coalesce(array_length(array_compact({1})), 0) < array_length({1}) THEN true END)",
        1,
        count=2,
    ),
    "ARRAY_DISTINCT": _lists("array_distinct({0})", 0, count=1),
    "ARRAY_EXCEPT": _common("array_except", either=False),
    "ARRAY_FLATTEN": _lists("flatten({0})", 0, count=1),
    "ARRAY_GENERATE_RANGE": _range,
    "ARRAY_INSERT": _inserted,
    "ARRAY_INTERSECTION": _common("array_intersect", either=True),
    "ARRAY_MAX": lambda call: f"array_max({_sortable(call)})",
    "ARRAY_MIN": lambda call: f"array_min({_sortable(call)})",
    "ARRAY_POSITION": _lists("(CAST(array_position({1}, {0}) AS BIGINT) - 1)", 1, count=2),
    "ARRAY_PREPEND": _lists("array_prepend({1}, {0})", 0, count=2),
    "ARRAY_REMOVE": _lists("array_remove_all({0}, {1})", 0, count=2),
    "ARRAY_REVERSE": _lists("array_reverse({0})", 0, count=1),
    "ARRAY_SIZE": _lists("CAST(array_length({0}) AS BIGINT)", 0, count=1),
    "ARRAY_SLICE": _sliced,
    "ARRAY_SORT": _sorted,
    "ARRAY_TO_STRING": _lists("array_to_string({0}, {1}, '')", 0, count=2),
    "AS_ARRAY": lambda call: f"{ELEMENTS}({value_of(call, 0)})",
    "AS_BOOLEAN": _as("BOOLEAN", "BOOLEAN"),
    **dict.fromkeys(("AS_CHAR", "AS_VARCHAR"), _as("VARCHAR", "VARCHAR")),
    **dict.fromkeys(("AS_DOUBLE", "AS_REAL"), _as("DOUBLE", "INTEGER", "DECIMAL", "DOUBLE")),
    "AS_INTEGER": _as("BIGINT", "INTEGER", "DECIMAL"),
    "CHECK_JSON": no("write TRY_PARSE_JSON(text) IS NULL"),
    "IS_ARRAY": _is_of("ARRAY"),
    "IS_BOOLEAN": _is_of("BOOLEAN"),
    **dict.fromkeys(("IS_CHAR", "IS_VARCHAR"), _is_of("VARCHAR")),
    "IS_DATE": _is_of("DATE"),
    "IS_DECIMAL": _is_of("INTEGER", "DECIMAL"),
    **dict.fromkeys(("IS_DOUBLE", "IS_REAL"), _is_of("INTEGER", "DECIMAL", "DOUBLE")),
    "IS_INTEGER": _is_of("INTEGER"),
    "IS_NULL_VALUE": _is_of("NULL_VALUE"),
    "IS_OBJECT": _is_of("OBJECT"),
    "OBJECT_AGG": _object_of_rows,
    "OBJECT_CONSTRUCT": _object("false"),
    "OBJECT_CONSTRUCT_KEEP_NULL": _object("true"),
    "OBJECT_DELETE": _named(DELETED),
    "OBJECT_INSERT": _object_inserted,
    "OBJECT_KEYS": lambda call: f"{OBJECT_NAMES}({value_of(call, 0)})",
    "OBJECT_PICK": _named(PICKED),
    "TO_JSON": lambda call: f"{COMPACT}({value_of(call, 0)})",
    "TYPEOF": _kind,
}
"""How each function of arrays, objects and variants is written."""
