"""Name columns without an alias after the text that the user wrote, not after the rewritten text."""

from collections.abc import Iterator

from flightllm.dialect.duplicates import read_item
from flightllm.errors import SqlError
from flightllm.sql.names import identifier
from flightllm.sql.output_names import NO_NAMES, Item, OutputNames
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.tokens import Token, TokenKind

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
_WIDE = (
    *("unnest", "columns", "explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer"),
    *("stack", "json_tuple", "flatten"),
)
"""Functions that can return several columns."""
_AFTER_FROM = (
    *("where", "group", "having", "order", "limit", "offset", "fetch", "window", "qualify", "union", "intersect"),
    *("except", "minus", "values", "returning"),
)
"""Words after which a SELECT belongs to another query."""
_LONGEST = 1_000
"""The most characters of a name; a longer expression keeps DataFusion's name."""


def output_names(text: str | ParsedText) -> OutputNames:
    """Return the names of the columns of a statement's query: `1`, `'a'`, `a + 1`, `upper(a)`.

    White space and comments between tokens become one space. Names of functions are in lower case, and parameters
    have their numbers. A text that only another dialect can read has no names of this kind.
    """
    try:
        return _names(ParsedText.of(text))
    except SqlError:
        return NO_NAMES


def _names(parsed: ParsedText) -> OutputNames:
    start = _query(parsed)
    select = None if start is None else _first_select(parsed, start)
    if select is None or _joins_by_name(parsed):
        return NO_NAMES
    items = list[Item]()
    wide = list[int]()
    for first, last in next((one.items for one in parsed.selects if one.start == select), ()):
        first = _after_top(parsed, first)  # noqa: PLW2901 - TOP precedes the first item
        if parsed.is_word(first, "as"):  # BigQuery's SELECT AS STRUCT returns one column with all items
            return NO_NAMES
        if _is_wide(parsed, first, last):
            wide.append(len(items))
        items.append(_item(parsed, first, last))
    return OutputNames(tuple(items), wide[0] if wide else None) if len(wide) < 2 else NO_NAMES


def _query(parsed: ParsedText) -> int | None:
    """Return the first token of a statement's query, after DESCRIBE, EXPLAIN, SUMMARIZE or CREATE TABLE … AS."""
    if parsed.is_word(0, "create"):
        at = 0
        while at < len(parsed.tokens) and not parsed.is_word(at, "as"):
            at = parsed.closing.get(at, at) + 1
        return at + 1
    at = int(parsed.is_word(0, "describe", "desc"))
    while parsed.is_word(at, "explain", "analyze", "verbose", "summarize"):
        at += 1
    return at


def _first_select(parsed: ParsedText, at: int) -> int | None:
    """Return the SELECT that names the columns of the query at a token, or None if the text does not show it.

    In a set operation, that is the SELECT of its first query. A SELECT inside another clause does not count.
    """
    while True:
        if parsed.is_symbol(at, "("):
            at += 1
        elif parsed.is_word(at, "with"):
            main = _after_with(parsed, at)
            if main is None:
                return None
            at = main
        elif parsed.is_word(at, "select"):
            return at
        else:
            return _moved_select(parsed, at) if parsed.is_word(at, "from") else None


def _after_with(parsed: ParsedText, at: int) -> int | None:
    """Return the token after the list of a WITH, or None if the tokens are not a list of queries."""
    at += 1 + parsed.is_word(at + 1, "recursive")
    while at < len(parsed.tokens) and identifier(parsed.tokens[at]) is not None:
        at = parsed.closing.get(at + 1, at) + 1  # after the query's name and its list of columns
        if not parsed.is_word(at, "as"):
            return None
        at += 1
        while parsed.is_word(at, "not", "materialized"):
            at += 1
        if not parsed.is_symbol(at, "(") or at not in parsed.closing:
            return None
        at = parsed.closing[at] + 1
        if not parsed.is_symbol(at, ","):
            return at
        at += 1
    return None


def _moved_select(parsed: ParsedText, at: int) -> int | None:
    """Return the SELECT that follows a FROM and its tables, or None if another clause or the end comes first."""
    while at < len(parsed.tokens) and not parsed.is_symbol(at, ")") and not parsed.is_word(at, *_AFTER_FROM):
        if parsed.is_word(at, "select"):
            return at
        at = parsed.closing.get(at, at) + 1
    return None


def _joins_by_name(parsed: ParsedText) -> bool:
    """Return whether a set operation BY NAME can add columns to those of the first query."""
    words = range(len(parsed.tokens))
    return any(parsed.is_word(at, "by") and parsed.is_word(at + 1, "name", "position") for at in words)


def _after_top(parsed: ParsedText, first: int) -> int:
    if not parsed.is_word(first, "top"):
        return first
    if parsed.tokens[first + 1].kind is TokenKind.NUMBER:
        return first + 2
    closing = parsed.closing.get(first + 1)
    return first if closing is None or parsed.is_symbol(closing + 1, ",") else closing + 1


def _is_star(parsed: ParsedText, first: int, last: int) -> bool:
    """Return whether an item is `*` or `t.*`, with or without EXCLUDE and similar words."""
    at = first
    while at + 1 < last and identifier(parsed.tokens[at]) is not None and parsed.is_symbol(at + 1, "."):
        at += 2
    return parsed.is_symbol(at, "*") and (at + 1 == last or parsed.is_word(at + 1, *_AFTER_STAR))


def _is_wide(parsed: ParsedText, first: int, last: int) -> bool:
    """Return whether an item can return more than one column."""
    fields = parsed.is_symbol(last - 1, "*") and parsed.is_symbol(last - 2, ".")
    calls = any(parsed.is_word(at, *_WIDE) and parsed.is_symbol(at + 1, "(") for at in range(first, last))
    return fields or calls or _is_star(parsed, first, last)


def _item(parsed: ParsedText, first: int, last: int) -> Item:
    if first >= last or _is_star(parsed, first, last):
        return Item(None)
    if last == first + 1 and parsed.is_word(first, "true", "false"):
        return Item(parsed.tokens[first].text.lower())
    begin, end = first, last
    while parsed.is_symbol(begin, "(") and parsed.closing.get(begin) == end - 1 and begin + 1 < end - 1:
        begin, end = begin + 1, end - 1
    if read_item(parsed, first, last).alias is not None or read_item(parsed, begin, end).column:
        return Item(None)
    name = "".join(_written(parsed, first, last))
    if len(name) > _LONGEST:
        return Item(None)
    ends = {identifier(parsed.tokens[index]) for index in (first, last - 1)}
    if last - first > 1 and parsed.tokens[last - 1].kind is TokenKind.STRING:
        ends.add(parsed.tokens[last - 1].text)  # the item has an alias in single quotes
    return Item(name, frozenset(filter(None, ends)))


def _written(parsed: ParsedText, first: int, last: int) -> Iterator[str]:
    """Yield the parts of an item as the user wrote them."""
    for index in range(first, last):
        token = parsed.tokens[index]
        inside = parsed.is_symbol(index - 1, "(") or token.is_symbol(")") or token.is_symbol(",")
        if index > first and parsed.tokens[index - 1].end < token.start and not inside:
            yield " "
        yield _text(parsed, index, token)


def _text(parsed: ParsedText, index: int, token: Token) -> str:
    text = parsed.sql[token.start : token.end]
    if token.kind is TokenKind.PLACEHOLDER and text == "?":
        return f"${parsed.parameters[index]}"
    called = token.kind is TokenKind.WORD and parsed.is_symbol(index + 1, "(") and not token.is_word(*_NOT_CALLED)
    return text.lower() if called else text
