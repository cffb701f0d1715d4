"""Write `unnest` and `generate_series` in FROM with PostgreSQL's names, and as queries where they read other tables."""

import pyarrow as pa

from flightllm.sql.element_rows import FUNCTIONS, SERIES, ElementRows, element_rows, names_series_column
from flightllm.sql.nodes import Json, Node, body, columns, kind, new_identifier, rebuilt
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.passes.subqueries.items import derived, item
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tree import Tree, written, written_query
from flightllm.sql.types import ExpressionTypes


def has_table_function(text: ParsedText) -> bool:
    """Return whether a text can call one of the functions in FROM."""
    return any(
        token.is_word(*FUNCTIONS)
        and text.is_symbol(index + 1, "(")
        and (text.is_symbol(index - 1, ",") or text.tokens[index - 1].is_word("from", "join", "lateral"))
        for index, token in enumerate(text.tokens)
        if index
    )


def table_functions(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `FROM t, unnest(t.l) u` as `FROM t, LATERAL (SELECT unnest(t.l) AS u) u`.

    A series of constants keeps its function, which computes its rows one batch after another. The function takes no
    integers of less than 64 bits, as clients bind them.
    """
    plain = names_series_column(tree.root)
    types = ExpressionTypes(tree.root, columns_of)

    def change(node: Node) -> Json:
        call = element_rows(node)
        if call is None:
            return node
        reads = any(columns(call.lists))
        if call.name in SERIES and not reads and not call.numbered:
            given = _whole(body(node), types)
            return _constant(node if given is body(node) else {kind(node): given}, call, plain=plain)
        return _query(call, lateral=reads)

    return tree.rebuilt(change)


def _whole(values: Json, types: ExpressionTypes) -> Json:
    """Return the arguments of a series of constants, with those of a smaller type as BIGINT."""

    def change(argument: Node) -> Json:
        if kind(argument) != "Expr" or _is_number(value := body(argument)):
            return argument
        given = types.of(value)
        small = given is not None and pa.types.is_integer(given) and given != pa.int64()
        return {"Expr": written("CAST(v AS BIGINT)", v=value)} if small else argument

    return rebuilt(values, change)


def _is_number(value: Json) -> bool:
    """Return whether a value is a number's literal, which has 64 bits."""
    value = body(value)["expr"] if kind(value) == "UnaryOp" else value
    return kind(value) == "Value" and kind(body(value)["value"]) == "Number"


def _constant(node: Node, call: ElementRows, *, plain: bool) -> Json:
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


def _query(call: ElementRows, *, lateral: bool) -> Json:
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
