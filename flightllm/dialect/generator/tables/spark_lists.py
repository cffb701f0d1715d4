"""Write Spark's functions of lists that take a lambda, and its inserts into lists."""

from typing import Any, Final

from flightllm.dialect.generator.calls import Call, Table, form, no
from flightllm.functions.list_sums import EXACT_SUM
from flightllm.sql.passes.spark_values import SIZE

_POSITIONS: Final = "write LATERAL VIEW posexplode(list) v AS i, x for the places of elements"
_FOLD: Final = "write aggregate(list, 0, (a, x) -> a + x), or an aggregate over LATERAL VIEW explode(list) v AS x"


def _arrow(call: Call, place: int, parameters: int, advice: str) -> Any:
    """Return the lambda at a place.

    Raises:
        UnsupportedError: the call has no lambda there, or the lambda has another number of parameters.
    """
    from sqlglot import exp

    value = call.args[place] if place < len(call.args) else None
    if not isinstance(value, exp.Lambda) or len(value.expressions) != parameters:
        call.refuse(advice)
    return value


def _each(call: Call) -> str:
    """Write a call with a list and a lambda, which the server reads as in the text."""
    usual = f"write {call.name.lower()}(list, x -> x > 1)"
    if len(call.args) != 2:
        call.refuse(usual)
    value = call.args[1]
    _arrow(call, 1, 1, _POSITIONS if len(value.expressions) > 1 else usual)
    return f"{call.name.lower()}({call.sql(0)}, {call.generator.sql(value)})"


def _folded(call: Call) -> str:
    """Write `aggregate(list, 0, (a, x) -> a + f(x))` as the sum of a transformed list, which is NULL with a NULL in it.

    Raises:
        UnsupportedError: the lambda does not add, the start is not zero, or a third lambda changes the sum.
    """
    from sqlglot import exp

    zero = _zero(call.args[1]) if len(call.args) == 3 else None
    if zero is None:
        call.refuse(_FOLD)
    arrow = _arrow(call, 2, 2, _FOLD)
    start, item = (str(one.name) for one in arrow.expressions)
    added = arrow.this.unnest()
    sides = [added.this, added.expression] if isinstance(added, exp.Add) else []
    rest = next(
        (other for one, other in zip(sides, sides[::-1], strict=True) if _names(one) == [start] and _is_name(one)), None
    )
    if rest is None or start.lower() in map(str.lower, _names(rest)):
        call.refuse(_FOLD)
    values = call.sql(0)
    if not (_is_name(rest) and _names(rest) == [item]):
        values = f"transform({values}, {item} -> {call.generator.sql(rest)})"
    nulls = f"array_length({values}) > coalesce(array_length(array_compact({values})), 0)"
    total = f"{EXACT_SUM}(arrow_cast({values}, 'List(Utf8)'))" if zero == "BIGINT" else f"list_sum({values})"
    return (
        f"(CASE WHEN {nulls} THEN NULL WHEN {values} IS NOT NULL THEN coalesce(CAST({total} AS {zero}),"
        f" CAST(0 AS {zero})) END)"
    )


def _zero(value: Any) -> str | None:
    """Return the type of the number 0 that a sum begins with; None for another value.

    With a whole number, Spark refuses a list of doubles. So does the cast of the sum's text.
    """
    from sqlglot import exp

    inner = value.this if isinstance(value, exp.Cast) else value
    if not isinstance(inner, exp.Literal) or inner.is_string or float(inner.name) != 0:
        return None
    if isinstance(value, exp.Cast):
        name = value.to.this.name
        return "DOUBLE" if name in {"DOUBLE", "FLOAT"} else "BIGINT" if name in {"INT", "BIGINT"} else None
    return "BIGINT" if str(inner.name).isdecimal() else None


def _is_name(value: Any) -> bool:
    from sqlglot import exp

    return isinstance(value, exp.Identifier | exp.Column)


def _names(value: Any) -> list[str]:
    from sqlglot import exp

    return [str(one.name) for one in value.find_all(exp.Identifier)]


def _inserted(call: Call) -> str:
    """Write ARRAY_INSERT(list, place, value), which fills a gap with NULLs."""
    place = call.number(1)
    if len(call.args) != 3 or place is None or place < -1 or place == 0:
        call.refuse("write array_insert(list, 1, value) with the place as a number from 1, or -1 for the end")
    values, value = call.sql(0), call.sql(2)
    if place == -1:
        made = f"array_append({values}, {value})"
    else:
        begin = f"array_resize(array_slice({values}, 1, {place - 1}), {place - 1})" if place > 1 else ""
        parts = [begin, f"make_array({value})", f"array_slice({values}, {place}, 2147483647)"]
        made = f"array_concat({', '.join(one for one in parts if one)})"
    return f"(CASE WHEN {values} IS NOT NULL THEN {made} END)"


SPARK_LISTS: Final[Table] = {
    **dict.fromkeys(("EXISTS", "FILTER", "FORALL", "TRANSFORM"), _each),
    **dict.fromkeys(("AGGREGATE", "REDUCE"), _folded),
    "ARRAY_INSERT": _inserted,
    **dict.fromkeys(("CARDINALITY", "SIZE"), form(f"{SIZE}({{0}})")),
    "ARRAYS_ZIP": no("write transform(list, x -> named_struct('x', x)), or one column for each list"),
    "ZIP_WITH": no(_POSITIONS),
    **dict.fromkeys(
        ("MAP_FILTER", "MAP_ZIP_WITH", "TRANSFORM_KEYS", "TRANSFORM_VALUES"),
        no("write LATERAL VIEW explode(map_entries(m)) v AS e, and compute with e['key'] and e['value']"),
    ),
    **dict.fromkeys(("MAP_CONCAT", "MAP_FROM_ENTRIES", "STR_TO_MAP"), no("write map_from_arrays(array(k), array(v))")),
    "SHUFFLE": no("write the rows of LATERAL VIEW explode(list) v AS x in an order by rand()"),
}
"""Functions of lists and maps."""
