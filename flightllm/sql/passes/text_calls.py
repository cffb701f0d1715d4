"""Write functions of many values of any types, such as `format` and `json_object`, by functions over their texts."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from flightllm.errors import UnsupportedError
from flightllm.functions.json_texts import JSON_LIST, JSON_OBJECT, JSON_TEXT
from flightllm.functions.text_formats import IN_BRACES, IN_PERCENTS
from flightllm.functions.value_hashes import HASH
from flightllm.sql.nodes import Json, Node, body, kind
from flightllm.sql.passes.nested_json import json_form
from flightllm.sql.query_columns import TableColumns, own_functions
from flightllm.sql.select_shapes import changes_per_call
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import ExpressionTypes, arguments, function_name

_Rule = Callable[[Node, Sequence[Json], ExpressionTypes], Json]
_NO_VALUES: Final = "arrow_cast(make_array(), 'List(Utf8)')"
_OF_JSON: Final = frozenset({JSON_TEXT, JSON_OBJECT, JSON_LIST, "json_extract"})
"""Functions whose values are JSON already."""


def text_calls(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `hash(a, b)` as a function of the texts of `a` and `b`; `format` and JSON also take the names of types.

    Raises:
        UnsupportedError: a value calls a model, and its type would call it again; or a name of an object lacks a value.
    """
    own = own_functions(columns_of)
    types = ExpressionTypes(tree.root, columns_of)
    return tree.rebuilt(lambda node: _written(node, own, types))


def _written(node: Node, own: Collection[str], types: ExpressionTypes) -> Json:
    fields = body(node)
    if kind(node) != "Function" or (name := function_name(fields)) not in CALLS or name in own:
        return node
    given = arguments(fields)
    if len(given) != len(_listed(fields)):
        return node
    if name != "hash" and changes_per_call(given, own):
        raise UnsupportedError(f"{name} would compute its values twice: compute them in a subquery")
    return _RULES[name](node, given, types)


def _listed(fields: Json) -> Sequence[Json]:
    args = fields["args"]
    return body(args)["args"] if kind(args) == "List" else []


def _list(form: str, given: Sequence[Json]) -> Json:
    """Return a list of one form for each value."""
    if not given:
        return written(_NO_VALUES)
    names = {f"v{place}": one for place, one in enumerate(given)}
    return written(f"make_array({', '.join(form.format(name) for name in names)})", **names)


def _texts(given: Sequence[Json]) -> Json:
    return _list("CAST({} AS VARCHAR)", given)


def _json(value: Json, types: ExpressionTypes) -> Json:
    if kind(value) == "Function" and function_name(body(value)) in _OF_JSON:
        return value
    return written(json_form("v", types.of(value)), v=value)


def _filled(called: str) -> _Rule:
    def rule(node: Node, given: Sequence[Json], _: ExpressionTypes) -> Json:
        if not given:
            return node
        types = _list("arrow_typeof({})", given[1:])
        return written(f"{called}(t, v, k)", t=given[0], v=_texts(given[1:]), k=types)

    return rule


def _object(_: Node, given: Sequence[Json], types: ExpressionTypes) -> Json:
    if len(given) % 2:
        raise UnsupportedError("json_object takes names and values in turn: write json_object('name', value)")
    return written(
        f"{JSON_OBJECT}(n, v)", n=_texts(given[::2]), v=_list("{}", [_json(one, types) for one in given[1::2]])
    )


def _list_of_json(_: Node, given: Sequence[Json], types: ExpressionTypes) -> Json:
    return written(f"{JSON_LIST}(v)", v=_list("{}", [_json(one, types) for one in given]))


def _one_json(node: Node, given: Sequence[Json], types: ExpressionTypes) -> Json:
    return _json(given[0], types) if len(given) == 1 else node


_RULES: Final[Mapping[str, _Rule]] = {
    "format": _filled(IN_BRACES),
    "printf": _filled(IN_PERCENTS),
    "hash": lambda node, given, _: written(f"{HASH}(v)", v=_texts(given)) if given else node,
    **dict.fromkeys(("json_object", "json_build_object"), _object),
    **dict.fromkeys(("json_array", "json_build_array"), _list_of_json),
    **dict.fromkeys(("to_json", "to_jsonb"), _one_json),
}
CALLS: Final = frozenset(_RULES)
"""The functions that the pass rewrites."""
