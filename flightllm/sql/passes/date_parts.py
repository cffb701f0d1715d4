"""Take parts of times and intervals as PostgreSQL does.

DataFusion cuts the fraction of a second, counts 360 days for 12 months, and reads the time between two timestamps as
one number: 2 days have the hour 48.
"""

from typing import Final

import pyarrow as pa

from flightllm.functions.interval_parts import INTERVAL_EPOCH
from flightllm.sql.nodes import Json, Node, body, kind, text_of_literal, walk
from flightllm.sql.query_columns import TableColumns, Type
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import BETWEEN_TIMES, INTERVAL, ExpressionTypes, arguments, function_name, is_date

_UNITS: Final = {
    **dict.fromkeys(("epoch", "epochs"), "epoch"),
    **dict.fromkeys(("day", "days", "d"), "day"),
    **dict.fromkeys(("hour", "hours", "hr", "hrs", "h"), "hour"),
    **dict.fromkeys(("minute", "minutes", "min", "mins", "m"), "minute"),
    **dict.fromkeys(("second", "seconds", "sec", "secs", "s"), "second"),
    **dict.fromkeys(("millisecond", "milliseconds", "msec", "msecs", "ms"), "millisecond"),
    **dict.fromkeys(("microsecond", "microseconds", "usec", "usecs", "us"), "microsecond"),
    **{unit: "none" for one in ("month", "quarter", "year") for unit in (one, f"{one}s")},
    **dict.fromkeys(("decade", "decades"), "decade"),
    **dict.fromkeys(("century", "centuries"), "century"),
    **dict.fromkeys(("millennium", "millennia", "millenniums"), "millennium"),
}
"""The units by their names; of months and longer units, a time between two timestamps has 0."""
_MICROS: Final = "CAST(round(date_part('epoch', CAST(v AS INTERVAL)) * 1000000) AS BIGINT)"
_BETWEEN: Final = {
    "epoch": "date_part('epoch', CAST(v AS INTERVAL))",
    "day": f"({_MICROS} / 86400000000)",
    "hour": f"({_MICROS} % 86400000000 / 3600000000)",
    "minute": f"({_MICROS} % 3600000000 / 60000000)",
    "second": f"({_MICROS} % 60000000 / 1000000.0)",
    "millisecond": f"({_MICROS} % 60000000 / 1000.0)",
    "microsecond": f"({_MICROS} % 60000000)",
    **dict.fromkeys(("none", "decade", "century", "millennium"), f"({_MICROS} * 0)"),
}
"""The parts of a time between two timestamps: days, and a time of the same sign."""
_OF_INTERVAL: Final = {
    "epoch": f"{INTERVAL_EPOCH}(CAST(v AS INTERVAL))",
    **{unit: _BETWEEN[unit] for unit in ("second", "millisecond", "microsecond")},
}
"""The parts of an interval that differ: a year has 5.25 days more than DataFusion counts."""
_OF_TIME: Final = {
    "second": "(date_part('microsecond', v) / 1000000.0)",
    "millisecond": "(date_part('microsecond', v) / 1000.0)",
}
"""The parts of a time that differ."""
_YEAR: Final = "date_part('year', v)"
_BEFORE: Final = f"(CAST({_YEAR} AS DOUBLE) - 1)"
_OF_YEARS: Final = {
    "decade": f"CAST(floor({_YEAR} / CAST(10 AS DOUBLE)) AS BIGINT)",
    **{
        # The first century begins with the year 1, and the one before it is -1. A test of the year itself can fail:
        # DataFusion turns the test into one of nanoseconds, which do not reach such years.
        unit: f"CAST(floor({_BEFORE} / {years}) + CASE WHEN floor({_BEFORE} / {years}) >= 0"
        " THEN 1 ELSE 0 END AS BIGINT)"
        for unit, years in (("century", 100), ("millennium", 1000))
    },
}
"""The parts of a date or a time that DataFusion lacks."""
NAMES: Final = frozenset({"extract", "date_part", "datepart"})
"""The functions that take parts."""


def date_parts(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `extract(second FROM t)` as `(date_part('microsecond', t) / 1000000.0)`, and parts of intervals."""
    if not any(_part(node) for node in walk(tree.root)):
        return tree
    types = ExpressionTypes(tree.root, columns_of)

    def change(node: Node) -> Json:
        part = _part(node)
        if part is None:
            return node
        unit, value = part
        text = _written(unit, types.of(value))
        return written(text, v=value) if text else node

    return tree.rebuilt(change)


def _written(unit: str, given: Type) -> str | None:
    if given == BETWEEN_TIMES:
        return _BETWEEN[unit]
    if given == INTERVAL:
        return _OF_INTERVAL.get(unit)
    if unit in _OF_YEARS:
        return _OF_YEARS[unit] if is_date(given) or _is_timestamp(given) else None
    return None if is_date(given) else _OF_TIME.get(unit)


def _is_timestamp(given: Type) -> bool:
    return given is not None and bool(pa.types.is_timestamp(given))


def _part(node: Node) -> tuple[str, Json] | None:
    """Return the unit that a node takes and the value that it takes it from, or None."""
    fields = body(node)
    if kind(node) == "Extract":
        field = fields["field"]
        name = field if isinstance(field, str) else str(body(field).get("value", "")) if kind(field) == "Custom" else ""
        value = fields["expr"]
    elif kind(node) == "Function" and function_name(fields) in NAMES and len(given := arguments(fields)) == 2:
        unit_node, value = given
        name = text_of_literal(unit_node) or ""
    else:
        return None
    unit = _UNITS.get(name.lower())
    return None if unit is None else (unit, value)
