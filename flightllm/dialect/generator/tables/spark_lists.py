"""Write Spark's functions of lists that take a lambda, and its inserts into lists."""

import re
from typing import Any, Final

from flightllm.dialect.generator.calls import Call, Table, form, no
from flightllm.functions.list_sums import EXACT_SUM
from flightllm.functions.text_parts import SPLIT_BY_PATTERN
from flightllm.sql.literals import text_literal
from flightllm.sql.passes.spark_values import SIZE

_PART: Final = "get_field({}, '{}')"
_PLAIN: Final = re.compile(r"[\w ,;:=&/#@!%<>~-]+")
"""Separators that mean themselves in a pattern."""
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


def _of_entries(call: Call) -> str:
    """Write `transform_values(m, (k, v) -> v + 1)` and its kin over the entries of the map."""
    from sqlglot import exp

    arrow = _arrow(call, 1, 2, f"write {call.name.lower()}(m, (k, v) -> v > 1)")
    # The name of an outer lambda differs from those in its body: it counts them.
    entry = f"__e{sum(1 for _ in arrow.this.find_all(exp.Lambda))}"
    parts = dict(zip((one.name.lower() for one in arrow.expressions), ("key", "value"), strict=True))

    def read(node: Any) -> Any:
        if isinstance(node, exp.Identifier) and node.name.lower() in parts:
            return exp.Var(this=_PART.format(entry, parts[node.name.lower()]))
        return node

    found = call.generator.sql(arrow.this.copy().transform(read))
    given = call.sql(0)
    entries = f"map_entries({given})"
    if call.name == "MAP_FILTER":
        entries = f"array_filter({entries}, {entry} -> {found})"
        keys, values = (
            f"array_transform({entries}, {entry} -> {_PART.format(entry, one)})" for one in ("key", "value")
        )
    else:
        made = f"array_transform({entries}, {entry} -> {found})"
        keys, values = (made, f"map_values({given})") if call.name.endswith("KEYS") else (f"map_keys({given})", made)
    return f"(CASE WHEN {given} IS NOT NULL THEN map({keys}, {values}) END)"


def _joined_maps(call: Call) -> str:
    """Write MAP_CONCAT(a, b); a key in both is an error."""
    given = [call.sql(place) for place in range(len(call.args))]
    if not given:
        call.refuse("write map_concat(a, b)")
    keys, values = (f"array_concat({', '.join(f'map_{one}({each})' for each in given)})" for one in ("keys", "values"))
    return f"(CASE WHEN {' AND '.join(f'{one} IS NOT NULL' for one in given)} THEN map({keys}, {values}) END)"


def _map_of_text(call: Call) -> str:
    """Write STR_TO_MAP(text, ',', ':'); a part without the second sign has no value."""
    signs = [call.text(place) if place < len(call.args) else usual for place, usual in ((1, ","), (2, ":"))]
    if not 1 <= len(call.args) <= 3 or not all(one is not None and _PLAIN.fullmatch(one) for one in signs):
        call.refuse("write str_to_map(text, ',', ':') with two literals without special characters")
    between, after = (text_literal(str(one)) for one in signs)
    parts = f"{SPLIT_BY_PATTERN}({call.sql(0)}, {between})"
    keys = f"array_transform({parts}, __e -> split_part(__e, {after}, 1))"
    rest = f"substr(__e, strpos(__e, {after}) + {len(str(signs[1]))})"
    values = f"array_transform({parts}, __e -> CASE WHEN strpos(__e, {after}) > 0 THEN {rest} END)"
    return f"(CASE WHEN {call.sql(0)} IS NOT NULL THEN map({keys}, {values}) END)"


SPARK_LISTS: Final[Table] = {
    **dict.fromkeys(("EXISTS", "FILTER", "FORALL", "TRANSFORM"), _each),
    **dict.fromkeys(("AGGREGATE", "REDUCE"), _folded),
    "ARRAY_INSERT": _inserted,
    **dict.fromkeys(("CARDINALITY", "SIZE"), form(f"{SIZE}({{0}})")),
    "ARRAYS_ZIP": no("write transform(list, x -> named_struct('x', x)), or one column for each list"),
    "ZIP_WITH": no(_POSITIONS),
    "MAP_CONCAT": _joined_maps,
    **dict.fromkeys(("MAP_FILTER", "TRANSFORM_KEYS", "TRANSFORM_VALUES"), _of_entries),
    "MAP_FROM_ENTRIES": no("write map_from_arrays(array(k), array(v))"),
    "MAP_ZIP_WITH": no(
        "write LATERAL VIEW explode(map_entries(m)) v AS e, and compute with e['key'] and element_at(other, e['key'])"
    ),
    "STR_TO_MAP": _map_of_text,
    "SHUFFLE": no("write the rows of LATERAL VIEW explode(list) v AS x in an order by rand()"),
}
"""Functions of lists and maps."""
