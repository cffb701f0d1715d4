"""The nodes of a tree: walk them, and replace some of them.

A node is a dict with one key, its kind: `{"BinaryOp": {"left": …, "op": "Plus", "right": …}}`. No step changes a node
in place, so trees share their parts.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import is_
from typing import Any, Final

Json = Any
"""A part of a tree: a node, the fields of a node, a list, or a plain value."""
Node = Mapping[str, Any]
SPAN: Final = "span"
"""The field that tells the place of an identifier or a literal."""
NAMES: Final = frozenset(
    {"name", "alias", "data_type", "field", "over_name", "window_name", "target", "Dot", "collation"}
)
"""Fields whose identifiers name other things than columns: functions, types, fields of structs, targets of changes."""
NOWHERE: Final = {"start": {"line": 0, "column": 0}, "end": {"line": 0, "column": 0}}
"""The place of a part that is not in the client's text."""

_MANY: Final = frozenset({dict, list, tuple})
"""Types that can hold nodes; the parser gives tuples for GROUP BY and WINDOW."""


def kind(value: Json) -> str:
    """Return the kind of a node, or an empty text for another value."""
    if isinstance(value, dict) and len(value) == 1:
        (name,) = value
        return str(name) if name[:1].isupper() else ""
    return ""


def body(node: Node) -> Json:
    """Return the fields of a node."""
    (found,) = node.values()
    return found


def name_of(identifier: Json) -> str:
    """Return the name that an identifier means; an unquoted name is in lower case."""
    value = str(identifier["value"])
    return value if identifier["quote_style"] else value.lower()


def text_of_literal(value: Json) -> str | None:
    """Return the text of a text literal, or None for another value."""
    literal = body(value)["value"] if kind(value) == "Value" else {}
    return str(body(literal)) if kind(literal) == "SingleQuotedString" else None


def new_identifier(name: str) -> Json:
    """Return a quoted identifier that is not in the client's text."""
    return {"value": name, "quote_style": '"', SPAN: NOWHERE}


def walk(value: Json) -> Iterator[Node]:
    """Yield the nodes of a value, each before its parts."""
    todo = [value]
    while todo:
        found = todo.pop()
        if kind(found):
            yield found
        todo.extend(reversed(parts(found)))


def columns(value: Json) -> Iterator[Node]:
    """Yield the names of columns in a value, also in the queries in it, as nodes Identifier and CompoundIdentifier."""
    todo = [value]
    while todo:
        found = todo.pop()
        if kind(found) in {"Identifier", "CompoundIdentifier"}:
            yield found
        elif isinstance(found, dict):
            todo.extend(part for key, part in found.items() if key not in NAMES and type(part) in _MANY)
        elif type(found) in _MANY:
            todo.extend(found)


def rebuilt(value: Json, change: Callable[[Json], Json], has_turn: Callable[[Json], object] | None = None) -> Json:
    """Return a value in which `change` has replaced each node. The parts of a node come before the node.

    `change` returns the same object for a node that stays. Parts without a change stay the same objects, too. With
    `has_turn`, `change` replaces the values for which this is true in place of the nodes, for example queries.
    """
    turn = has_turn or kind
    done: list[Json] = []
    todo: list[tuple[Json, int]] = [(value, -1)]  # a chain of 1,000 operators is deeper than Python's recursion limit
    while todo:
        found, count = todo.pop()
        if count < 0:
            below = parts(found)
            todo.append((found, len(below)))
            todo.extend((part, -1) for part in reversed(below))
            continue
        first = len(done) - count
        after = _with_parts(found, done[first:])
        done[first:] = [change(after) if turn(after) else after]
    return done[0]


def replaced(value: Json, changes: Mapping[int, Json]) -> Json:
    """Return a value in which other parts stand for the objects whose `id` is a key; a part's own parts stay."""
    done: list[Json] = []
    todo: list[tuple[Json, int]] = [(value, -1)]
    while todo:
        found, count = todo.pop()
        if count >= 0:
            first = len(done) - count
            done[first:] = [_with_parts(found, done[first:])]
        elif id(found) in changes:
            done.append(changes[id(found)])
        else:
            below = parts(found)
            todo.append((found, len(below)))
            todo.extend((part, -1) for part in reversed(below))
    return done[0]


def same(one: Json, other: Json) -> bool:
    """Return whether two values are equal; `==` recurses, and a chain of operators is deeper than its limit."""
    todo = [(one, other)]
    while todo:
        left, right = todo.pop()
        if left is right:
            continue
        if type(left) is not type(right) or type(left) not in _MANY:
            if left != right:
                return False
        elif len(left) != len(right) or (type(left) is dict and left.keys() != right.keys()):
            return False
        elif type(left) is dict:
            todo.extend((part, right[key]) for key, part in left.items())
        else:
            todo.extend(zip(left, right, strict=True))
    return True


def factors(items: Sequence[Json]) -> list[Json]:
    """Return the tables of the items of a FROM and of their joins, in the order of the text."""
    return [factor for item in items for factor in (item["relation"], *(join["relation"] for join in item["joins"]))]


def parts(value: Json) -> Sequence[Json]:
    """Return the dicts, lists and tuples with content directly inside a value, without tokens and places."""
    if type(value) is dict:
        held = ((key, part) for key, part in value.items() if part and type(part) in _MANY)
        return [part for key, part in held if key != SPAN and not key.endswith("_token")]
    return [part for part in value if part and type(part) in _MANY] if type(value) in _MANY else ()


def _with_parts(value: Json, made: Sequence[Json]) -> Json:
    before = parts(value)
    if all(map(is_, made, before)):
        return value
    new = {id(old): part for old, part in zip(before, made, strict=True)}
    if isinstance(value, list | tuple):
        return type(value)(new.get(id(part), part) for part in value)
    return {key: new.get(id(part), part) for key, part in value.items()}


def is_query(value: Json) -> bool:
    """Return whether a value is a query with its WITH and ORDER BY. Such a value can lack the key of a node."""
    return isinstance(value, dict) and "body" in value and "order_by" in value


def unnested(value: Json) -> Json:
    """Return an expression without parentheses around it."""
    while kind(value) == "Nested":
        value = body(value)
    return value
