"""The names of columns in an expression, such as that of a stored function."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from flightllm.errors import SqlError
from flightllm.sql.nodes import Json, body, columns, kind, name_of, walk
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.references import outermost_queries
from flightllm.sql.tree import fault, parse

TAKES_NAME: Final = frozenset({"model", "prompt", "proxy"})
"""Options whose value can be the name of a model or a prompt, without quotes."""
_BEFORE, _AFTER = "SELECT (\n", "\n)"


@dataclass(frozen=True, slots=True)
class Name:
    """The name of a column in an expression: its parts, and the offset of its first character."""

    parts: tuple[str, ...]
    start: int


@lru_cache(maxsize=256)
def names_in(sql: str) -> tuple[Name, ...]:
    """Return the names of columns in an expression, in the order of the text.

    Names of functions, types, fields, units, collations, models and prompts are no such names.

    Raises:
        SqlError: the text is not one expression, or has a query.
    """
    text = ParsedText(f"{_BEFORE}{sql}{_AFTER}")
    tree = parse(text)
    if tree is None:
        raise SqlError(f"the expression cannot be read: {fault(text).partition(' at Line')[0]}")
    expression = _expression(tree.root)
    if expression is not None and any(outermost_queries([expression])):
        raise SqlError("the expression of a function cannot have a query")
    if expression is None or kind(expression) != "Nested":
        raise SqlError("the expression of a function is one value")
    options = {id(part) for part in _names_of_options(expression)}
    found = [
        Name(
            tuple(map(name_of, body(node) if kind(node) == "CompoundIdentifier" else [body(node)])),
            min(start for start, _ in tree.spans(node)) - len(_BEFORE),
        )
        for node in columns(expression)
        if id(node) not in options
    ]
    return tuple(sorted(found, key=lambda one: one.start))


def _expression(root: Json) -> Json | None:
    """Return the only value of a SELECT without a FROM, or None for another statement."""
    query = body(root)["body"] if kind(root) == "Query" else None
    if query is None or kind(query) != "Select":
        return None
    select = body(query)
    if select["from"] or select["selection"] or len(select["projection"]) != 1:
        return None
    (item,) = select["projection"]
    return body(item) if kind(item) == "UnnamedExpr" else None


def _names_of_options(expression: Json) -> Collection[Json]:
    """Return the values of options such as `model => small`."""
    named = (body(node) for node in walk(expression) if kind(node) == "Named")
    given = (one["arg"] for one in named if name_of(one["name"]) in TAKES_NAME)
    return [body(one) for one in given if kind(one) == "Expr" and kind(body(one)) == "Identifier"]
