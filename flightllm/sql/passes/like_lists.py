"""Compare a text with several patterns: `x LIKE ANY (ARRAY['a%', 'b%'])`, which DataFusion does not read."""

from collections.abc import Collection
from functools import reduce
from typing import Final

from flightllm.errors import UnsupportedError
from flightllm.sql.nodes import Json, Node, body, kind, unnested
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.query_columns import TableColumns, own_functions
from flightllm.sql.select_shapes import changes_per_call
from flightllm.sql.tree import Tree, written

_LIKES: Final = frozenset({"Like", "ILike"})


def has_like_list(text: ParsedText) -> bool:
    """Return whether a text has LIKE ANY, LIKE SOME or ILIKE ANY."""
    return any(
        token.is_word("like", "ilike") and text.is_word(index + 1, "any", "some")
        for index, token in enumerate(text.tokens)
    )


def like_lists(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `x LIKE ANY (ARRAY[a, b])` as `(x LIKE a OR x LIKE b)`; the list can be `(a, b)` too.

    `x NOT LIKE ANY (…)` is `(x NOT LIKE a OR x NOT LIKE b)`, as in PostgreSQL.

    Raises:
        UnsupportedError: the patterns are not a list, or each pattern would ask a model for the text.
    """
    own = own_functions(columns_of)
    return tree.rebuilt(lambda node: _each(node, own))


def _each(node: Node, own: Collection[str]) -> Json:
    fields = body(node)
    if kind(node) not in _LIKES or not fields["any"]:
        return node
    patterns = _patterns(fields["pattern"])
    if not patterns:
        raise UnsupportedError("the patterns of LIKE ANY must be a list: write x LIKE ANY (ARRAY['a%', 'b%'])")
    if len(patterns) > 1 and changes_per_call(fields["expr"], own):
        raise UnsupportedError("LIKE ANY would compute its text for each pattern: compute the text in a subquery")
    each: list[Json] = [{kind(node): {**fields, "any": False, "pattern": one}} for one in patterns]
    return {"Nested": reduce(lambda left, right: written("a OR b", a=left, b=right), each)}


def _patterns(given: Json) -> list[Json]:
    inner = unnested(given)
    if kind(inner) == "Tuple":
        return list(body(inner))
    if kind(inner) == "Array":
        return list(body(inner)["elem"])
    return [inner] if kind(inner) == "Value" else []
