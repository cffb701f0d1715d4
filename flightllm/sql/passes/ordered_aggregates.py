"""Compute `mode` and `percentile_disc` from the sorted values of a group: DataFusion has neither of them."""

from collections.abc import Callable
from typing import Final

import pyarrow as pa

from flightllm.errors import SqlError, UnsupportedError
from flightllm.functions.longest_run import LONGEST_RUN
from flightllm.sql.nodes import Json, Node, body, kind, name_of, unnested
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tree import Tree, text_of, written
from flightllm.sql.types import ExpressionTypes

AGGREGATES: Final = frozenset({"mode", "percentile_disc", "quantile_disc", "percentile_cont"})
"""A text that calls one of the aggregates has one of these words."""
_FORMS: Final = {
    "mode": "mode() WITHIN GROUP (ORDER BY x) or mode(x)",
    "percentile_disc": "percentile_disc(0.5) WITHIN GROUP (ORDER BY x)",
    "quantile_disc": "quantile_disc(x, 0.5)",
    "percentile_cont": "percentile_cont(0.5) WITHIN GROUP (ORDER BY x)",
}


def has_ordered_aggregate(text: ParsedText) -> bool:
    """Return whether a text calls one of the aggregates."""
    return any(token.is_word(*AGGREGATES) and text.is_symbol(at + 1, "(") for at, token in enumerate(text.tokens))


def ordered_aggregates(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `percentile_disc(0.5) WITHIN GROUP (ORDER BY x)` as an element of `array_sort(array_agg(x))`.

    The array has no NULL. If the type of `x` is unknown or an interval, it is `array_agg(x ORDER BY x)`. The element is
    the one at `ceil(0.5 * cardinality(…))`, or the first. `mode` takes the element at which the longest run of equal
    values begins. An array of fractions gives an array of values, also for `percentile_cont`.

    Raises:
        SqlError: an argument is missing, or a fraction is not between 0 and 1.
        UnsupportedError: a fraction is not a literal, the aggregate is a window function, or `mode` is of intervals.
    """
    writer = _Writer(tree, ExpressionTypes(tree.root, columns_of))
    return tree.rebuilt(writer.changed)


class _Writer:
    """Writes the aggregates of one statement."""

    def __init__(self, tree: Tree, types: ExpressionTypes) -> None:
        self._tree = tree
        self._types = types

    def changed(self, node: Node) -> Json:
        """Return a node without the aggregates; the same object for another node."""
        fields = body(node)
        if kind(node) != "Function" or len(fields["name"]) != 1 or kind(fields["args"]) != "List":
            return node
        name = name_of(body(fields["name"][0])) if kind(fields["name"][0]) == "Identifier" else ""
        if name not in AGGREGATES:
            return node
        if name == "percentile_cont":
            return self._continuous(node)
        value, fraction, descends = self._arguments(name, node)
        if fields["over"] is not None:
            raise UnsupportedError(
                f"{name} at {self._tree.position(node)} cannot be a window function: group by its PARTITION BY in a"
                " subquery, and join it"
            )
        values = self._sorted(value, fields["filter"], descends=descends)
        if fraction is not None:
            return self._spread(fraction, values, lambda p: _at(values, p))
        if self._types.is_interval(value):
            raise UnsupportedError(
                f"mode at {self._tree.position(node)} takes no intervals, of which '1 month' and '30 days' are equal:"
                " write mode() WITHIN GROUP (ORDER BY extract(epoch FROM …))"
            )
        return written(f"array_element(l, {LONGEST_RUN}(arrow_cast(l, 'List(Utf8)')))", l=values)

    def _arguments(self, name: str, node: Node) -> tuple[Json, Json | None, bool]:
        """Return the value to aggregate, the fraction or None for `mode`, and whether the order descends."""
        fields = body(node)
        listed = body(fields["args"])
        given = [body(body(one)) for one in listed["args"] if kind(one) == "Unnamed" and kind(body(one)) == "Expr"]
        keys = fields["within_group"]
        wanted = {"mode": len(given) + len(keys) == 1, "quantile_disc": len(given) == 2 and not keys}
        fits = wanted.get(name, len(given) == len(keys) == 1)
        if not fits or len(given) != len(listed["args"]) or listed["clauses"] or listed["duplicate_treatment"]:
            raise SqlError(f"{name} at {self._tree.position(node)} has other arguments: write {_FORMS[name]}")
        if not keys:
            return given[0], given[1] if len(given) > 1 else None, False
        return keys[0]["expr"], given[0] if given else None, keys[0]["options"]["asc"] is False

    def _sorted(self, value: Json, condition: Json, *, descends: bool) -> Json:
        """Return the sorted array of the values of a group that are not NULL."""
        order, type_ = "DESC" if descends else "ASC", self._types.of(value)
        where = "FILTER (WHERE x IS NOT NULL)" if condition is None else "FILTER (WHERE x IS NOT NULL AND (c))"
        # `array_sort` is 30 times as fast as ORDER BY in the aggregate, but knows no order of intervals.
        simple = type_ is not None and not pa.types.is_nested(type_) and not self._types.is_interval(value)
        text = f"array_sort(array_agg(x) {where}, '{order}')" if simple else f"array_agg(x ORDER BY x {order}) {where}"
        return written(text, x=value, c=condition)

    def _continuous(self, node: Node) -> Json:
        """Return `percentile_cont` of each fraction of an array; DataFusion computes that of one fraction."""
        fields = body(node)
        given = body(fields["args"])["args"]
        fraction = unnested(body(body(given[0]))) if len(given) == 1 and kind(given[0]) == "Unnamed" else None
        if fraction is None or kind(fraction) != "Array" or len(fields["within_group"]) != 1:
            return node

        def of_one(one: Json) -> Json:
            argument = [{"Unnamed": {"Expr": one}}]
            arguments = {"List": {**body(fields["args"]), "args": argument}}
            return {"Function": {**fields, "args": arguments}}

        first = of_one(body(fraction)["elem"][0]) if body(fraction)["elem"] else node
        return self._spread(fraction, first, of_one)

    def _spread(self, fraction: Json, found: Json, of_one: Callable[[Json], Json]) -> Json:
        """Return the value at one fraction, or the array of values at an array of fractions, NULL without `found`."""
        fraction = unnested(fraction)
        if kind(fraction) != "Array":
            self._check(fraction)
            return of_one(fraction)
        fractions = body(fraction)["elem"]
        if not fractions:
            raise SqlError(f"the array of fractions at {self._tree.position(fraction)} is empty: write ARRAY[0.5]")
        for one in fractions:
            self._check(one)
        array = {"Array": {**body(fraction), "elem": [of_one(one) for one in fractions]}}
        return written("CASE WHEN found IS NOT NULL THEN a END", found=found, a=array)

    def _check(self, fraction: Json) -> None:
        """Raise an error unless a fraction is a literal between 0 and 1."""
        text = text_of(fraction)
        try:
            fits = 0 <= float(text) <= 1
        except ValueError:
            raise UnsupportedError(
                f"the fraction {text[:40]} at {self._tree.position(fraction)} is not a literal: write a number between"
                " 0 and 1, such as 0.5"
            ) from None
        if not fits:
            raise SqlError(f"the fraction {text} at {self._tree.position(fraction)} is not between 0 and 1")


def _at(values: Json, fraction: Json) -> Json:
    place = "CAST(greatest(ceil(CAST(p AS DOUBLE) * cardinality(l)), 1) AS BIGINT)"
    return written(f"array_element(l, {place})", l=values, p=fraction)
