"""Count equal rows of INTERSECT ALL and EXCEPT ALL: DataFusion asks only whether the other side has an equal row."""

from itertools import pairwise

from flightllm.common.names import quoted
from flightllm.errors import UnsupportedError
from flightllm.sql.nodes import Json, Node, body, kind, rebuilt
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.query_columns import QueryColumns, TableColumns
from flightllm.sql.tree import Tree, parse_query

_OPERATIONS = ("intersect", "except")


def has_all_rows(text: ParsedText) -> bool:
    """Return whether a text has one of the operations."""
    return any(token.is_word(*_OPERATIONS) and after.is_word("all") for token, after in pairwise(text.tokens))


def set_operations_all(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `SELECT a FROM t EXCEPT ALL SELECT b FROM u`: number equal rows, then compare rows with their numbers.

    The result is `SELECT "column 1" AS "a" FROM (SELECT "column 1", row_number() OVER (PARTITION BY "column 1") AS
    "row" FROM (SELECT a FROM t) AS "rows" ("column 1") EXCEPT …) AS "rows"`.

    Raises:
        UnsupportedError: the names of the columns are unknown.
    """
    columns = QueryColumns(tree.root, columns_of)

    def change(node: Node) -> Json:
        fields = body(node)
        if kind(node) != "SetOperation" or fields["set_quantifier"] != "All" or fields["op"] == "Union":
            return node
        operation = str(fields["op"]).upper()
        found = columns.of(fields["left"])
        if found is None:
            raise UnsupportedError(
                f"{operation} ALL after the query at {tree.position(fields['left'])} needs the names of the query's"
                " columns: write the names in place of *"
            )
        return _counted(operation, fields["left"], fields["right"], [column.name for column in found])

    return tree.rebuilt(change)


def _counted(operation: str, left: Json, right: Json, names: list[str]) -> Json:
    columns = [quoted(f"column {number}") for number in range(1, len(names) + 1)]
    listed = ", ".join(columns)
    shown = ", ".join(f"{column} AS {quoted(name)}" for column, name in zip(columns, names, strict=True))
    number = f'row_number() OVER (PARTITION BY {listed}) AS "row"'
    numbered = f'SELECT {listed}, {number} FROM (SELECT 0) AS "rows" ({listed})'
    query = f'SELECT {shown} FROM ({numbered} {operation} {numbered}) AS "rows"'
    sides = iter((left, right))

    def placed(node: Node) -> Json:
        fields = body(node)
        if kind(node) != "Derived" or not _is_free(fields["subquery"]):
            return node
        side = next(sides)
        inner = body(side) if kind(side) == "Query" else {**fields["subquery"], "body": side}
        return {"Derived": {**fields, "subquery": inner}}

    return rebuilt(parse_query(query), placed)


def _is_free(query: Json) -> bool:
    """Return whether a query is `SELECT 0`, which stands for a side of the operation."""
    return kind(query["body"]) == "Select" and not body(query["body"])["from"]
