"""Addition of NULLS LAST to ORDER BY … DESC over answers, if the query does not say where NULL goes.

`ORDER BY ai_score('…', text) DESC LIMIT 3`  →  `ORDER BY ai_score('…', text) DESC NULLS LAST LIMIT 3`

By SQL's rule, NULL comes first; other keys keep this rule. An answer is NULL if its row gives no input or if the model
failed, so these rows must not rank best. An alias or a position of a call in the same SELECT counts as the call.
So does a column that a subquery or a WITH query in the FROM of this SELECT takes from a call.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import pyarrow as pa

from flightllm.errors import FlightLLMError
from flightllm.sql.nodes import Json, body, is_query, kind, parts, walk
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.query_columns import QueryColumns, Type
from flightllm.sql.tree import parse
from flightllm.sql.types import function_name

ADDED: Final = " NULLS LAST"
_ANSWER: Final = pa.large_string()
"""Stands for the type of each expression with a call and of its columns; all others are as if they were NULL."""


def ends_of_answers(
    text: ParsedText, is_call: Callable[[str], bool], columns_of: Callable[[str], Sequence[str]]
) -> frozenset[int]:
    """Return the offsets of the ends of each DESC that `ADDED` must follow.

    `is_call` tells whether a name is that of an AI function; `columns_of` returns the columns of a table by its name.
    """
    tree = parse(text)
    if tree is None:
        return frozenset()

    def known(names: Sequence[str]) -> dict[str, pa.DataType]:
        try:
            return dict.fromkeys(columns_of(".".join(names)), pa.null())
        except FlightLLMError:
            return {}

    def type_of(expression: Json) -> pa.DataType:
        if any(kind(node) == "Function" and is_call(function_name(body(node))) for node in walk(expression)):
            return _ANSWER
        is_column = kind(expression) in {"Identifier", "CompoundIdentifier"}
        return (columns.named(expression) if is_column else None) or pa.null()

    columns = QueryColumns(tree.root, known, type_of)
    columns.read(tree.root)
    found = set[int]()
    for key, types in _keys(tree.root, columns):
        number = _number(key["expr"])
        answers = type_of(key["expr"]) if number is None else dict(enumerate(types, 1)).get(number)
        if answers == _ANSWER and key["options"]["nulls_first"] is None and key["options"]["asc"] is False:
            start = min((place for place, _ in tree.spans(key["expr"])), default=len(text.sql))
            ends = [token.end for token in text.tokens if token.start > start and token.is_word("desc")]
            found.update(ends[(inner := _descending(key["expr"])) : inner + 1])
    return frozenset(found)


def _keys(root: Json, columns: QueryColumns) -> Iterator[tuple[Json, Sequence[Type]]]:
    """Yield the keys of each ORDER BY; with those of a query come the types of its columns."""
    todo = [root]
    while todo:
        value = todo.pop()
        if is_query(value) and value["order_by"] and kind(value["order_by"]["kind"]) == "Expressions":
            types = [column.type for column in columns.of(value["body"]) or ()]
            for key in body(value["order_by"]["kind"]):
                yield key, types
                todo.append(key["expr"])
            value = {key: part for key, part in value.items() if key != "order_by"}
        elif isinstance(value, dict) and "asc" in (value.get("options") or ()):
            yield value, ()
        todo.extend(parts(value))


def _number(expression: Json) -> int | None:
    """Return the position that a key of ORDER BY is, or None for another key."""
    value: Json = body(expression)["value"] if kind(expression) == "Value" else None
    digits = str(body(value)[0]) if kind(value) == "Number" else ""
    return int(digits) if digits.isdecimal() else None


def _descending(expression: Json) -> int:
    """Return the number of DESC inside an expression."""
    count, todo = 0, [expression]
    while todo:
        value = todo.pop()
        count += isinstance(value, dict) and value.get("asc") is False
        todo.extend(parts(value))
    return count
