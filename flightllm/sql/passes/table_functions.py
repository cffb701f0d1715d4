"""Write `unnest` and `generate_series` in FROM with PostgreSQL's names, and as queries where they read other tables."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from flightllm.sql.nodes import Json, Node, body, columns, kind, name_of, new_identifier
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.passes.subqueries.items import derived, item
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tree import Tree, written, written_query

_SERIES: Final = frozenset({"generate_series", "range"})
FUNCTIONS: Final = frozenset({"unnest", *_SERIES})
"""Functions of FROM whose rows are the elements of a list."""
_OWN_NAME: Final = "value"
"""DataFusion's name for the column of a series: a text that has it means that column."""


class _Call(NamedTuple):
    """A function in FROM. `lists` are the lists whose elements are the rows, side by side."""

    name: str
    lists: Sequence[Json]
    alias: Json
    numbered: bool

    @property
    def names(self) -> list[str]:
        """Return PostgreSQL's names for the columns."""
        single = len(self.lists) == 1 and self.alias is not None
        name = name_of(self.alias["name"]) if single else self.name
        # PostgreSQL gives several lists one name; here a query has different names.
        names = [name, *(f"{name}_{place}" for place in range(2, len(self.lists) + 1))]
        return [*names, "ordinality"] if self.numbered else names


def has_table_function(text: ParsedText) -> bool:
    """Return whether a text can call one of the functions in FROM."""
    return any(
        token.is_word(*FUNCTIONS)
        and text.is_symbol(index + 1, "(")
        and (text.is_symbol(index - 1, ",") or text.tokens[index - 1].is_word("from", "join", "lateral"))
        for index, token in enumerate(text.tokens)
        if index
    )


def table_functions(tree: Tree, _: TableColumns) -> Tree:
    """Rewrite `FROM t, unnest(t.l) u` as `FROM t, LATERAL (SELECT unnest(t.l) AS u) u`.

    A series of constants keeps its function, which computes its rows one batch after another.
    """
    plain = any(_last(node) == _OWN_NAME for node in columns(tree.root))

    def change(node: Node) -> Json:
        call = _call(node)
        if call is None:
            return node
        reads = any(columns(call.lists))
        if call.name in _SERIES and not reads and not call.numbered:
            return _constant(node, call, plain=plain)
        return _query(call, lateral=reads)

    return tree.rebuilt(change)


def _call(node: Node) -> _Call | None:
    """Return the call of a factor of FROM, or None for another node."""
    fields = body(node)
    if kind(node) == "UNNEST":
        lists, numbered = fields["array_exprs"], bool(fields["with_ordinality"])
        return None if fields["with_offset"] else _Call("unnest", lists, fields["alias"], numbered)
    if kind(node) == "Table" and fields["args"]:
        given, numbered = fields["args"]["args"], bool(fields["with_ordinality"])
    elif kind(node) == "Function" and "lateral" in fields:
        given, numbered = fields["args"], False
    else:
        return None
    name = ".".join(name_of(body(part)) for part in fields["name"])
    values = [body(body(one)) for one in given if kind(one) == "Unnamed" and kind(body(one)) == "Expr"]
    if name not in FUNCTIONS or len(values) != len(given):
        return None
    return _Call(name, values if name == "unnest" else [_series(name, values)], fields["alias"], numbered)


def _series(name: str, values: Sequence[Json]) -> Json:
    """Return the list of a series."""
    names = [f"v{place}" for place in range(len(values))]
    return written(f"{name}({', '.join(names)})", **dict(zip(names, values, strict=True)))


def _last(column: Node) -> str:
    return name_of(body(column) if kind(column) == "Identifier" else body(column)[-1])


def _constant(node: Node, call: _Call, *, plain: bool) -> Json:
    """Return a series of constants as a table, whose column has the name of its alias."""
    fields = body(node)
    if plain and kind(node) == "Table":
        return node
    alias = call.alias or {"explicit": True, "name": new_identifier(call.name), "columns": []}
    if not alias["columns"] and not plain:
        alias = {**alias, "columns": [{"name": new_identifier(name), "data_type": None} for name in call.names]}
    if kind(node) == "Table":
        return {"Table": {**fields, "alias": alias}}
    table = body(body(written_query("SELECT 0 FROM f()")["body"])["from"][0]["relation"])
    return {
        "Table": {**table, "name": fields["name"], "args": {**table["args"], "args": fields["args"]}, "alias": alias}
    }


def _query(call: _Call, *, lateral: bool) -> Json:
    """Return a call as a query of the elements of its lists."""
    items = [written("unnest(l)", l=one) for one in call.lists]
    if call.numbered:
        lengths = [written("array_length(l)", l=one) for one in call.lists]
        names = [f"n{place}" for place in range(len(lengths))]
        most = written(f"greatest({', '.join(names)})", **dict(zip(names, lengths, strict=True)))
        items.append(written("unnest(generate_series(1, n))", n=most if len(lengths) > 1 else lengths[0]))
    query = written_query("SELECT 0")
    select = body(query["body"])
    named = list(map(item, items, call.names))
    table = body(derived({**query, "body": {"Select": {**select, "projection": named}}}, call.name))
    return {"Derived": {**table, "lateral": lateral, "alias": call.alias or table["alias"]}}
