"""Take parts of times and intervals as PostgreSQL does: DataFusion cuts the fraction of seconds."""

from typing import Final

import pyarrow as pa

from flightllm.functions.interval_parts import INTERVAL_EPOCH
from flightllm.sql.nodes import Json, Node, body, kind
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.passes.interval_arithmetic import with_days
from flightllm.sql.query_columns import TableColumns, Type
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import BETWEEN_TIMES, INTERVAL, ExpressionTypes, arguments, function_name

CALLS: Final = frozenset({"extract", "date_part"})
"""The functions of which a text must call one."""
_PARTS: Final = frozenset({"second", "seconds", "minute", "minutes", "hour", "hours", "day", "days", "epoch"})
_SECONDS: Final = "date_part('microsecond', v) / 1000000.0"
"""The seconds of a time with their fraction: DataFusion counts them among the microseconds."""
_EXACT_SECONDS: Final = f"CAST({_SECONDS} AS DECIMAL(8, 6))"


def has_part(text: ParsedText) -> bool:
    """Return whether a text names a part of a time that PostgreSQL takes in another way."""
    return not _PARTS.isdisjoint(text.mentions)


def time_parts(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `extract(second FROM at)` so that it has the fraction of the second.

    The hours of a time between two timestamps are those beside its days, and a year has 365.25 days in the epoch of an
    interval.
    """
    types = ExpressionTypes(tree.root, columns_of)

    def change(node: Node) -> Json:
        name, fields = kind(node), body(node)
        if name == "Extract" and isinstance(fields["field"], str):
            part, value = fields["field"].lower(), fields["expr"]
        elif name == "Function" and function_name(fields) == "date_part" and len(arguments(fields)) == 2:
            text, value = arguments(fields)
            part = _text(text).lower()
        else:
            return node
        form = _form(part, types.of(value), _EXACT_SECONDS if name == "Extract" else _SECONDS)
        return node if form is None else written(form, v=with_days(value, types.of(value)))

    return tree.rebuilt(change)


def _text(value: Json) -> str:
    is_text = kind(value) == "Value" and kind(body(value)["value"]) == "SingleQuotedString"
    return str(body(body(value)["value"])) if is_text else ""


def _form(part: str, given: Type, seconds: str) -> str | None:
    """Return the expression of a part of a value `v`; None if DataFusion's own is right."""
    if part not in _PARTS or given is None:
        return None
    if part.startswith("second") and (given in {INTERVAL, BETWEEN_TIMES} or pa.types.is_temporal(given)):
        return seconds
    if part == "epoch":
        return f"{INTERVAL_EPOCH}(v)" if given == INTERVAL else None
    return f"date_part('{part}', v)" if given == BETWEEN_TIMES else None
