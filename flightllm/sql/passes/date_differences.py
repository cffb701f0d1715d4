"""Count the boundaries of a unit between two times, as `date_diff` of DuckDB does; `datediff` of MySQL counts days."""

from collections.abc import Collection
from typing import Final

from flightllm.errors import UnsupportedError
from flightllm.sql.nodes import Json, Node, body, kind, name_of, text_of_literal
from flightllm.sql.query_columns import TableColumns, own_functions
from flightllm.sql.select_shapes import changes_per_call
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import arguments, function_name

DIFFERENCES: Final = frozenset({"date_diff", "datediff"})
"""The functions that the pass rewrites."""
_DAYS: Final = "(CAST(b AS DATE) - CAST(a AS DATE))"
_MONTHS: Final = "({each} * date_part('year', CAST({day} AS DATE)) + date_part('{unit}', CAST({day} AS DATE)))"
_SECONDS: Final = "to_unixtime(date_trunc('{unit}', CAST({time} AS TIMESTAMP)))"


def _of_months(unit: str, each: int) -> str:
    until, since = (_MONTHS.format(each=each, unit=unit, day=day) for day in "ba")
    return f"CAST({until} - {since} AS BIGINT)"


def _of_seconds(unit: str, seconds: int) -> str:
    until, since = (_SECONDS.format(unit=unit, time=time) for time in "ba")
    return f"(({until} - {since}) / {seconds})"


_UNITS: Final = {
    "year": "CAST(date_part('year', CAST(b AS DATE)) - date_part('year', CAST(a AS DATE)) AS BIGINT)",
    "quarter": _of_months("quarter", 4),
    "month": _of_months("month", 12),
    "week": f"({_DAYS} / 7)",
    "day": _DAYS,
    "hour": _of_seconds("hour", 3600),
    "minute": _of_seconds("minute", 60),
    "second": _of_seconds("second", 1),
}
"""The difference for each unit; `a` is the earlier time. A week is seven days."""


def date_differences(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `date_diff('day', a, b)` as `CAST(b AS DATE) - CAST(a AS DATE)`; the unit can stand without quotes.

    `datediff(b, a)` is the same as `datediff('day', a, b)`.

    Raises:
        UnsupportedError: the unit is unknown, or a time calls a model and must be computed twice.
    """
    own = own_functions(columns_of)
    return tree.rebuilt(lambda node: _written(node, own))


def _written(node: Node, own: Collection[str]) -> Json:
    fields = body(node)
    if kind(node) != "Function" or (name := function_name(fields)) not in DIFFERENCES or name in own:
        return node
    given = arguments(fields)
    if len(given) == 2 and name == "datediff":
        return written(_DAYS, a=given[1], b=given[0])
    if len(given) != 3:
        return node
    unit = _unit(given[0])
    text = _UNITS.get(unit) or _UNITS.get(unit.removesuffix("s"))
    if text is None:
        raise UnsupportedError(
            f"{name} accepts the units {', '.join(_UNITS)}: write one of them, as in {name}('day', a, b)"
        )
    if text.count("a AS") > 1 and changes_per_call(given[1:], own):
        raise UnsupportedError(f"{name} would compute its times twice: compute them in a subquery")
    return written(text, a=given[1], b=given[2])


def _unit(given: Json) -> str:
    if kind(given) == "Identifier":
        return name_of(body(given)).lower()
    return (text_of_literal(given) or "").lower()
