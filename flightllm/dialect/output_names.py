"""The names of columns without an alias: what their user wrote, whatever it became for DataFusion."""

from collections.abc import Iterator

from flightllm.dialect.duplicates import read_item
from flightllm.dialect.source import Parsed
from flightllm.errors import SqlError
from flightllm.sql.names import identifier
from flightllm.sql.output_names import NO_NAMES, Item, OutputNames
from flightllm.sql.tokens import Kind, Token

_AFTER_STAR = ("exclude", "except", "replace", "rename", "ilike")
_NOT_CALLED = (
    "in",
    "and",
    "or",
    "not",
    "when",
    "then",
    "else",
    "case",
    "any",
    "all",
    "exists",
    "over",
    "filter",
    "as",
    "cast",
    "try_cast",
)
_LONGEST = 1_000
"""Characters of a name; a longer expression keeps DataFusion's."""


def output_names(sql: str) -> OutputNames:
    """Return the names of the columns of a statement's query: `1`, `'a'`, `a + 1`, `upper(a)`.

    White space and comments become one space where there are some; names of functions are written in lower case, and
    parameters with their numbers. A text that only another dialect reads has no such names.
    """
    try:
        parsed = Parsed(sql)
        return _names(parsed)
    except SqlError:
        return NO_NAMES


def _names(parsed: Parsed) -> OutputNames:
    select = _first_select(parsed)
    if select is None:
        return NO_NAMES
    items = list[Item]()
    wide = list[int]()
    for first, last in next((one.items for one in parsed.selects if one.start == select), ()):
        first = _after_top(parsed, first)  # noqa: PLW2901 - TOP stands before the first item
        if any(parsed.is_word(index, "unnest") for index in range(first, last)) or _is_star(parsed, first, last):
            wide.append(len(items))
        items.append(_item(parsed, first, last))
    return OutputNames(tuple(items), wide[0] if wide else None) if len(wide) < 2 else NO_NAMES


def _first_select(parsed: Parsed) -> int | None:
    """Return the SELECT whose columns a statement's query has: the first that no brackets hold but those around it."""
    at, has_common = 0, False
    while at < len(parsed.tokens):
        if parsed.is_word(at, "select"):
            return at
        has_common = has_common or parsed.is_word(at, "with")
        query = parsed.is_symbol(at, "(") and _opens(parsed, at + 1)
        common = has_common and _follows_as(parsed, at)
        if query and not common and not parsed.is_word(at - 1, "from", "join", "in", "exists"):
            at += 1
            continue
        if parsed.is_word(at, "values", "pivot", "unpivot", "describe", "show", "returning"):
            return None
        at = parsed.closing.get(at, at) + 1
    return None


def _opens(parsed: Parsed, at: int) -> bool:
    while parsed.is_symbol(at, "("):
        at += 1
    return parsed.is_word(at, "select", "with", "from")


def _follows_as(parsed: Parsed, at: int) -> bool:
    """Tell whether the query of a WITH is opened at a token."""
    while parsed.is_word(at - 1, "materialized", "not"):
        at -= 1
    return parsed.is_word(at - 1, "as")


def _after_top(parsed: Parsed, first: int) -> int:
    if not parsed.is_word(first, "top"):
        return first
    if parsed.tokens[first + 1].kind is Kind.NUMBER:
        return first + 2
    closing = parsed.closing.get(first + 1)
    return first if closing is None or parsed.is_symbol(closing + 1, ",") else closing + 1


def _is_star(parsed: Parsed, first: int, last: int) -> bool:
    """Tell whether an item is `*` or `t.*`, with or without EXCLUDE and its like."""
    at = first
    while at + 1 < last and identifier(parsed.tokens[at]) is not None and parsed.is_symbol(at + 1, "."):
        at += 2
    return parsed.is_symbol(at, "*") and (at + 1 == last or parsed.is_word(at + 1, *_AFTER_STAR))


def _item(parsed: Parsed, first: int, last: int) -> Item:
    if first >= last or _is_star(parsed, first, last):
        return Item(None)
    if last == first + 1 and parsed.is_word(first, "true", "false"):
        return Item(parsed.tokens[first].text.lower())
    if parsed.is_symbol(first, "(") and parsed.closing.get(first) == last - 1 > first + 1:
        inner = read_item(parsed, first + 1, last - 1)
        if inner.column:  # which keeps its name in brackets
            return Item(None)
    found = read_item(parsed, first, last)
    if found.alias is not None or found.column:
        return Item(None)
    name = "".join(_written(parsed, first, last))
    if len(name) > _LONGEST:
        return Item(None)
    ends = {identifier(parsed.tokens[index]) for index in (first, last - 1)}
    return Item(name, frozenset(filter(None, ends)))


def _written(parsed: Parsed, first: int, last: int) -> Iterator[str]:
    """Yield the parts of an item as they are written."""
    for index in range(first, last):
        token = parsed.tokens[index]
        inside = parsed.is_symbol(index - 1, "(") or token.is_symbol(")") or token.is_symbol(",")
        if index > first and parsed.tokens[index - 1].end < token.start and not inside:
            yield " "
        yield _text(parsed, index, token)


def _text(parsed: Parsed, index: int, token: Token) -> str:
    text = parsed.sql[token.start : token.end]
    if token.kind is Kind.PLACEHOLDER and text == "?":
        return f"${1 + sum(one.kind is Kind.PLACEHOLDER for one in parsed.tokens[:index])}"
    called = token.kind is Kind.WORD and parsed.is_symbol(index + 1, "(") and not token.is_word(*_NOT_CALLED)
    return text.lower() if called else text
