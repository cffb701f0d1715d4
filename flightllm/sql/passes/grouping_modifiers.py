"""Write `GROUP BY a, b WITH ROLLUP` as `GROUP BY ROLLUP(a, b)`: DataFusion drops the words after the keys."""

from typing import Final

from flightllm.errors import UnsupportedError
from flightllm.sql.nodes import Json, Node, body, kind
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tree import Tree

MODIFIERS: Final = frozenset({"rollup", "cube", "totals", "grouping"})
_WRITTEN: Final = {"Rollup": "ROLLUP", "Cube": "CUBE"}


def has_grouping_modifier(text: ParsedText) -> bool:
    """Return whether a text has `WITH ROLLUP` or similar words, or GROUPING SETS directly after a key."""
    return any(
        text.is_word(index - 1, "with")
        or (token.is_word("grouping") and not text.is_word(index - 1, "by") and not text.is_symbol(index - 1, ","))
        for index, token in enumerate(text.tokens)
        if token.is_word(*MODIFIERS)
    )


def grouping_modifiers(tree: Tree, _: TableColumns) -> Tree:
    """Rewrite `GROUP BY a, b WITH CUBE` as `GROUP BY CUBE(a, b)`, and `GROUP BY a GROUPING SETS (a)` as its sets.

    Raises:
        UnsupportedError: the words are WITH TOTALS, or the keys are ALL.
    """
    return tree.rebuilt(_as_sets)


def _as_sets(node: Node) -> Json:
    fields = body(node)
    grouped: Json = fields["group_by"] if kind(node) == "Select" else {}
    modifiers = _modifiers(grouped)
    if not modifiers:
        return node
    if kind(grouped) == "All" or len(modifiers) > 1 or modifiers[0] == "Totals":
        raise UnsupportedError(
            "GROUP BY takes one of WITH ROLLUP, WITH CUBE and GROUPING SETS after its columns: write the columns, as in"
            " GROUP BY ROLLUP (a, b)"
        )
    (modifier,) = modifiers
    if isinstance(modifier, str):
        keys = [[meant(key, fields["projection"])] for key in body(grouped)[0]]
        sets: Json = {modifier: keys}
        if any(kind(key) in {"Rollup", "Cube", "GroupingSets"} for (key,) in keys):
            raise UnsupportedError(
                f"WITH {_WRITTEN[modifier]} after another set of groups has no meaning: leave one of them out"
            )
    else:
        sets = body(modifier)
    return {"Select": {**fields, "group_by": {"Expressions": [[sets], []]}}}


def _modifiers(grouped: Json) -> list[Json]:
    if kind(grouped) == "Expressions":
        return list(body(grouped)[1])
    return list(body(grouped) or []) if kind(grouped) == "All" else []


def meant(key: Json, items: list[Json]) -> Json:
    """Return a key, or the item of SELECT whose place a number gives."""
    number = body(key)["value"].get("Number") if kind(key) == "Value" and isinstance(body(key)["value"], dict) else None
    place = int(number[0]) if number and str(number[0]).isdigit() else 0
    item: Json = items[place - 1] if 0 < place <= len(items) else None
    if kind(item) == "ExprWithAlias":
        return body(item)["expr"]
    return body(item) if kind(item) == "UnnamedExpr" else key
