"""Order by all columns of a query: DataFusion does not know `ORDER BY ALL`."""

from flightllm.errors import UnsupportedError
from flightllm.sql.nodes import Json, body, is_query, kind, name_of, rebuilt
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.query_columns import QueryColumns, TableColumns
from flightllm.sql.tree import Tree, written


def has_order_by_all(text: ParsedText) -> bool:
    """Return whether a text can have ORDER BY ALL."""
    return any(token.is_word("all") and text.is_word(index - 1, "by") for index, token in enumerate(text.tokens))


def order_by_all(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `SELECT a, b FROM t ORDER BY ALL DESC` as `SELECT a, b FROM t ORDER BY 1 DESC, 2 DESC`.

    Raises:
        UnsupportedError: the columns of the query are unknown.
    """
    columns = QueryColumns(tree.root, columns_of)

    def changed(query: Json) -> Json:
        order = query["order_by"]
        keys = body(order["kind"]) if order and kind(order["kind"]) == "Expressions" else []
        if len(keys) != 1 or not _is_all(keys[0]["expr"]):
            return query
        found = columns.of(query["body"])
        if found is None:
            raise UnsupportedError("ORDER BY ALL needs the columns in SELECT: name them, or write ORDER BY a, b")
        if any(column.name.lower() == "all" for column in found):
            return query
        every = [{**keys[0], "expr": written(str(place))} for place in range(1, len(found) + 1)]
        return {**query, "order_by": {**order, "kind": {"Expressions": every}}}

    root = rebuilt(tree.root, changed, is_query)
    return tree if root is tree.root else Tree(tree.sql, root)


def _is_all(key: Json) -> bool:
    return kind(key) == "Identifier" and not body(key)["quote_style"] and name_of(body(key)).lower() == "all"
