"""Read the texts of intervals as PostgreSQL does: DataFusion reads no time of the day in them, as in `02:03:04`."""

import re
from typing import Final

import pyarrow as pa

from flightllm.common.interval_texts import interval_of
from flightllm.functions.text_intervals import TEXT_INTERVAL
from flightllm.sql.nodes import NOWHERE, SPAN, Json, Node, body, kind, unnested
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import INTERVAL, ExpressionTypes, cast_type

_PLAIN: Final = re.compile(
    r"\s*(?:[+-]?\d+(?:\.\d+)?\s+(?:year|month|week|day|hour|minute|second|millisecond|microsecond|nanosecond)s?\s*)+",
    re.IGNORECASE,
)
"""Matches a text that DataFusion reads in the same way."""
_TEXT: Final = "SingleQuotedString"


def interval_texts(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `interval '1 day 02:03:04'` as `interval '0 months 1 days 7384000000000 nanoseconds'`; also in a cast.

    A cast of another text calls `__text_interval`.
    """
    types = ExpressionTypes(tree.root, columns_of)

    def change(node: Node) -> Json:
        name, fields = kind(node), body(node)
        if name == "Interval" and fields.get("value") and fields["leading_field"] is None:
            value = _read(fields["value"])
            return node if value is None else {name: {**fields, "value": value}}
        if name != "Cast" or cast_type(fields["data_type"]) != INTERVAL:
            return node
        if (value := _read(fields["expr"])) is not None:
            return {name: {**fields, "expr": value}}
        if types.of(fields["expr"]) != pa.string() or _text(fields["expr"]) is not None:
            return node
        return written(f"{TEXT_INTERVAL}(v)", v=fields["expr"])

    return tree.rebuilt(change)


def _text(value: Json) -> str | None:
    """Return the text of a literal, or None for other values."""
    inner = unnested(value)
    is_text = kind(inner) == "Value" and kind(body(inner)["value"]) == _TEXT
    return str(body(body(inner)["value"])) if is_text else None


def _read(value: Json) -> Json | None:
    """Return the literal that DataFusion reads as PostgreSQL reads another; None if it reads that itself."""
    text = _text(value)
    if text is None or _PLAIN.fullmatch(text):
        return None
    try:
        months, days, nanoseconds = interval_of(text)
    except (ValueError, OverflowError):
        return None  # DataFusion's error says what is wrong
    plain = f"{months} months {days} days {nanoseconds} nanoseconds"
    return {"Value": {"value": {_TEXT: plain}, SPAN: NOWHERE}}
