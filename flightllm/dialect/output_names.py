"""Name columns without an alias after the text that the user wrote, and rename repeated column names.

DataFusion rejects repeated names in a SELECT, so all but the first get a marked name.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from flightllm.common.names import quoted
from flightllm.dialect.postgres_names import CALLED_BARE, CONSTANTS, postgres_name
from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit, Rewritten
from flightllm.dialect.types import end_of_cast_value, type_range
from flightllm.errors import SqlError
from flightllm.sql.calls import EXPRESSION_FOLLOWS
from flightllm.sql.keywords import ENDS_EXPRESSION, ENDS_FROM, ENDS_TYPE, JOIN_KINDS
from flightllm.sql.names import NO_NAMES, Item, OutputNames, identifier
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.tokens import Token, TokenKind

_AFTER_STAR = ("exclude", "except", "replace", "rename", "ilike")
_NOT_CALLED = (
    *("in", "and", "or", "not", "when", "then", "else", "case", "any", "all", "exists", "over", "filter", "as"),
    *("cast", "try_cast"),
)
"""Keywords that are not the name of a function before a parenthesis, and keep their case."""
_WIDE = (
    *("unnest", "columns", "explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer"),
    *("stack", "json_tuple", "flatten"),
)
"""Functions that can return several columns."""
_AFTER_FROM = (
    *ENDS_FROM,
    *("minus", "values", "returning"),
)
"""Words after which a SELECT belongs to another query."""
_BEFORE_BY = ("union", "except", "intersect", "minus", "all", "distinct", "corresponding")
"""Words of a set operation before its BY NAME."""
_PIPES = ("select", "extend", "aggregate", "drop", "rename", "set", "pivot", "unpivot", "call", "join", *JOIN_KINDS)
"""Operators of a pipe that change the columns."""
_MOST_PARTS = 16
"""The most parts of a column's name, with the fields of its value, by which it is compared with a shorter name."""
_LONGEST = 1_000
"""The most characters of a name; a longer expression keeps DataFusion's name."""
_GAPS = re.compile(r"\s*,(\s*)")
_MARK = "\ufdd1"
_MARKED = re.compile(rf"\A{_MARK}(\d*){_MARK}(.*)\Z", re.DOTALL)
_SHOWN = re.compile(rf"{_MARK}\d*{_MARK}")
_NO_ALIAS = (*ENDS_EXPRESSION, *ENDS_TYPE, "unsigned", *EXPRESSION_FOLLOWS)
_NO_ALIAS_AFTER = ("zone", "collate", "time", "over", *EXPRESSION_FOLLOWS)
"""Words of expressions and types that are not an alias, and words that no alias follows."""
_STATEMENTS = ("select", "with", "explain", "insert", "summarize", "describe", "desc")


def output_names(text: ParsedText, *, as_postgres: bool = False) -> OutputNames:
    """Return the names of the columns of a statement's query: `1`, `'a'`, `a + 1`, `upper(a)`.

    White space and comments between tokens become one space. Names of functions are in lower case, and parameters
    have their numbers. A text that only another dialect can read has no names of this kind. With `as_postgres` the
    names are those of PostgreSQL, and they can repeat in the result of a query.
    """
    try:
        return _names(text, as_postgres=as_postgres)
    except SqlError:
        return NO_NAMES


def _names(parsed: ParsedText, *, as_postgres: bool) -> OutputNames:
    start = _query(parsed)
    select = None if start is None else first_select(parsed, start)
    if select is None or _changes_columns(parsed):
        return NO_NAMES
    items = list[Item]()
    wide = list[int]()
    for first, last in next((one.items for one in parsed.selects if one.start == select), ()):
        first = _after_top(parsed, first)  # noqa: PLW2901 - TOP precedes the first item
        if parsed.is_word(first, "as"):  # BigQuery's SELECT AS STRUCT returns one column with all items
            return NO_NAMES
        if _is_wide(parsed, first, last):
            wide.append(len(items))
        items.append(_item(parsed, first, last, as_postgres=as_postgres))
    if len(wide) > 1:
        return NO_NAMES
    repeat = as_postgres and not parsed.is_word(0, "create")
    if as_postgres and not repeat and len({item.name or item.column or item for item in items}) < len(items):
        return _names(parsed, as_postgres=False)  # a table's columns have different names
    return OutputNames(tuple(items), wide[0] if wide else None, repeat=repeat)


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


def first_select(parsed: ParsedText, at: int) -> int | None:
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
    while at < len(parsed.tokens) and not parsed.is_word(at, *_AFTER_FROM):
        if parsed.is_symbol(at, ")") or parsed.is_symbol(at, "|>"):
            return None
        if parsed.is_word(at, "select"):
            return at
        at = parsed.closing.get(at, at) + 1
    return None


def _changes_columns(parsed: ParsedText) -> bool:
    """Return whether a set operation BY NAME, an operator of a pipe or COLUMNS can change the columns of a query."""
    if not {"by", "columns"} & parsed.words and "|>" not in parsed.sql:  # as most long texts
        return False
    for at in range(len(parsed.tokens)):
        of_set = parsed.is_word(at - 1, *_BEFORE_BY)  # ORDER BY name is about a column
        if of_set and parsed.is_word(at, "by") and parsed.is_word(at + 1, "name", "position"):
            return True
        piped = parsed.is_symbol(at, "|>") and parsed.is_word(at + 1, *_PIPES)
        if piped or (parsed.is_word(at, "columns") and parsed.is_symbol(at + 1, "(")):
            return True
    return False


def _after_top(parsed: ParsedText, first: int) -> int:
    if not parsed.is_word(first, "top"):
        return first
    if parsed.tokens[first + 1].kind is TokenKind.NUMBER:
        return first + 2
    closing = parsed.closing.get(first + 1)
    return first if closing is None or parsed.is_symbol(closing + 1, ",") else closing + 1


def is_star(parsed: ParsedText, first: int, last: int) -> bool:
    """Return whether an item is `*` or `t.*`, with or without EXCLUDE and similar words."""
    at = first
    while at + 1 < last and identifier(parsed.tokens[at]) is not None and parsed.is_symbol(at + 1, "."):
        at += 2
    return parsed.is_symbol(at, "*") and (at + 1 == last or parsed.is_word(at + 1, *_AFTER_STAR))


def _is_wide(parsed: ParsedText, first: int, last: int) -> bool:
    """Return whether an item can return more than one column."""
    fields = parsed.is_symbol(last - 1, "*") and parsed.is_symbol(last - 2, ".")
    calls = any(parsed.is_word(at, *_WIDE) and parsed.is_symbol(at + 1, "(") for at in range(first, last))
    return fields or calls or is_star(parsed, first, last)


def _item(parsed: ParsedText, first: int, last: int, *, as_postgres: bool) -> Item:
    if first >= last or is_star(parsed, first, last):
        return Item(None)
    if last == first + 1 and parsed.is_word(first, "true", "false") and not as_postgres:
        return Item(parsed.tokens[first].text.lower())
    begin, end = first, last
    while parsed.is_symbol(begin, "(") and parsed.closing.get(begin) == end - 1 and begin + 1 < end - 1:
        begin, end = begin + 1, end - 1
    if as_postgres and end == begin + 1 and parsed.is_word(begin, *CONSTANTS, *CALLED_BARE):
        return Item(postgres_name(parsed, begin, end), _kept(parsed, first, last))
    if end == begin + 1 and parsed.is_word(begin, "localtimestamp"):
        return Item("localtimestamp")
    column = read_item(parsed, begin, end).column
    if _is_field_of_answer(parsed, begin, end):
        return Item(parsed.tokens[end - 1].text)
    if read_item(parsed, first, last).alias is not None or column:
        plain = column[-1] if column and (as_postgres or (begin, end) == (first, last)) else ""
        return Item(None, field=column[-1] if len(column) > 1 else "", column=plain)
    name = postgres_name(parsed, first, last) if as_postgres else "".join(_written(parsed, first, last))
    if len(name) > _LONGEST:
        return Item(None)
    return Item(name, _kept(parsed, first, last))


def _is_field_of_answer(parsed: ParsedText, first: int, last: int) -> bool:
    """Return whether an item is `AI.GENERATE(…).result`, whose column BigQuery names `result`."""
    called = parsed.is_word(first, "ai") and parsed.is_symbol(first + 1, ".") and parsed.is_symbol(first + 3, "(")
    return called and parsed.closing.get(first + 3) == last - 3 and parsed.is_symbol(last - 2, ".")


def _kept(parsed: ParsedText, first: int, last: int) -> frozenset[str]:
    """Return the names of DataFusion that show that an item is a column, or has an alias."""
    ends = {identifier(parsed.tokens[index]) for index in (first, last - 1)}
    if last - first > 1 and parsed.tokens[last - 1].kind is TokenKind.STRING:
        ends.add(parsed.tokens[last - 1].text)  # the item has an alias in single quotes
    return frozenset(filter(None, ends))


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
    if token.is_run:
        return _GAPS.sub(lambda comma: ", " if comma[1] else ",", text)
    called = token.kind is TokenKind.WORD and parsed.is_symbol(index + 1, "(") and not token.is_word(*_NOT_CALLED)
    return text.lower() if called else text


def duplicates(source: Source) -> Iterator[Edit]:
    """Rewrite `SELECT i, i FROM t` as `SELECT i, i AS "¤1¤i" FROM t`; `shown_names` restores the names.

    A table or view must not have equal names, so CREATE keeps them, but it can have a column and casts of the column.
    """
    if not (source.is_word(0, *_STATEMENTS, "create") or source.is_symbol(0, "(")):
        return
    for select in source.selects:
        if len(select.items) > 1:
            items = [read_item(source, first, last) for first, last in select.items]
            yield from _renamed(source, items, only_casts=source.is_word(0, "create"))


def with_equal_calls_apart(written: str, stubbed: str) -> str:
    """Return a query with stubs of AI calls, with distinct names for equal items; `written` still has the calls.

    `SELECT ai_gen('x', a), llm('x', a)` asks the same twice, so both calls have the same stub. All but the first
    get a name, which `shown_names` turns back into the item's text in the query.
    """
    before, after = ParsedText(written), ParsedText(stubbed)
    edits = list[Edit]()
    for was, select in zip(before.selects, after.selects, strict=False):
        items = [read_item(after, first, last) for first, last in select.items]
        if len(was.items) != len(items):
            return stubbed
        earlier = _Earlier()
        for place, item in enumerate(items):
            repeats = earlier.add(place, item) is not None
            if item.star is None and item.name is None and repeats:
                end = after.tokens[item.last - 1].end
                edits.append(Edit(end, end, f" AS {quoted(f'{_MARK}{_MARK}{before.text(*was.items[place])}')}"))
    return Rewritten(stubbed, stubbed).with_edits(edits).text


def shown_names(names: Sequence[str]) -> list[str]:
    """Return the names of columns as the user wrote them."""
    shown: list[str] = []
    for place, name in enumerate(names):
        found = _MARKED.match(name)
        if found is None:
            shown.append(name)
            continue
        first = place - int(found[1] or place + 1)
        shown.append(shown[first] if first >= 0 else found[2])
    return shown


def repeated_name(name: str) -> str:
    """Return a distinct name for a column that repeats a column of a star; `shown_names` restores `name`."""
    return f"{_MARK}{_MARK}{name}"


def without_marks(text: str) -> str:
    """Return a text, such as an error message, without the marks of names."""
    return _SHOWN.sub("", text)


@dataclass(frozen=True, slots=True)
class SelectItem:
    """An item of a SELECT: its tokens, and its column's name if the text says it."""

    first: int
    last: int
    alias: int | None
    """The token of the item's alias."""
    name: str | None
    column: tuple[str, ...]
    """The parts of the item's name, if it is a plain column."""
    star: tuple[str, ...] | None
    """The qualifier of a star; empty for `*`, and None for other items."""
    text: tuple[object, ...]
    """The item's tokens in a form that is equal for items with equal spelling."""
    uncast: tuple[object, ...]
    """The same without casts and subqueries, which DataFusion leaves out of a column's name; empty with an alias."""
    value: tuple[str, ...]
    """The parts of the column's name, if the item is a plain column or its cast, without an alias."""


def read_item(source: ParsedText, first: int, last: int) -> SelectItem:
    """Read an item of a SELECT from its tokens."""
    tokens = source.tokens[first:last]
    column = _dotted(tokens)
    if tokens[-1].is_symbol("*") and (len(tokens) == 1 or tokens[-2].is_symbol(".")):
        return SelectItem(first, last, None, None, (), _dotted(tokens[:-2]), (), (), ())
    alias = None
    if len(tokens) > 1 and not column and identifier(tokens[-1]) is not None:
        before = tokens[-2]
        ends = before.kind not in {TokenKind.SYMBOL, TokenKind.WORD} or before.text in {")", "]"}
        ends = ends or (before.kind is TokenKind.WORD and not before.is_word(*_NO_ALIAS_AFTER))
        implicit = ends and not tokens[-1].is_word(*_NO_ALIAS) and not any(t.is_word("interval") for t in tokens)
        alias = last - 1 if implicit or before.is_word("as") else None
    name = identifier(source.tokens[alias]) if alias is not None else (column[-1] if column else None)
    kept = [source.tokens[index] for index in without_casts(source, first, last)] if alias is None else []
    return SelectItem(first, last, alias, name, column, None, folded(tokens), folded(kept), _dotted(kept))


def folded(tokens: Sequence[Token]) -> tuple[object, ...]:
    """Return tokens in a form that is equal for tokens of equal spelling."""
    return tuple((identifier(t) or t.text) if t.kind is not TokenKind.STRING else (t.text,) for t in tokens)


def without_casts(source: ParsedText, first: int, last: int) -> Iterator[int]:
    """Yield the tokens of an expression but those of `CAST(… AS type)`, `::type` and subqueries."""
    index = first
    while index < last:
        called = source.tokens[index].is_word("cast", "try_cast") and source.is_symbol(index + 1, "(")
        if called and (end := end_of_cast_value(source, index + 1)):
            yield from without_casts(source, index + 2, end)
            index = source.closing[index + 1] + 1
        elif source.is_symbol(index, "(") and source.is_word(index + 1, "select", "with"):
            yield index  # DataFusion gives each subquery the same name
            index = source.closing[index] + 1
        elif source.is_symbol(index, "::"):
            index = next((after for _, after in type_range(source, index + 1)), index + 1)
        else:
            yield index
            index += 1


def _dotted(tokens: Sequence[Token]) -> tuple[str, ...]:
    """Return the parts of a dotted name; an empty tuple for other tokens."""
    names = [identifier(token) for token in tokens[::2]]
    dotted = all(token.is_symbol(".") for token in tokens[1::2])
    return tuple(name or "" for name in names) if len(tokens) % 2 and dotted and None not in names else ()


def _renamed(source: Source, items: Sequence[SelectItem], *, only_casts: bool) -> Iterator[Edit]:
    earlier, stars = _Earlier(), _Stars(source, items)
    for place, item in enumerate(items):
        if item.star is not None:
            continue
        first = earlier.add(place, item)
        covered = item.value and stars.cover(item)
        if first is None and not covered:
            continue
        if only_casts:
            if item.uncast != item.text:
                end = source.tokens[item.last - 1].end
                yield Edit(end, end, f" AS {quoted(source.text(item.first, item.last))}")
            continue
        plain = first is not None and stars.before[first] == stars.before[place]
        plain = plain and (items[first or 0].text == item.text or bool(item.column) or item.alias is not None)
        plain = plain and (item.alias is None or len(items[first or 0].column) < 2)  # `s.a` can be a field: `t.s[a]`
        delta = place - first if plain and first is not None else ""
        fallback = item.name or source.text(item.first, item.last)
        name = quoted(f"{_MARK}{delta}{_MARK}{fallback}")
        if item.alias is not None:
            token = source.tokens[item.alias]
            yield Edit(token.start, token.end, name)
        else:
            end = source.tokens[item.last - 1].end
            yield Edit(end, end, f" AS {name}")


class _Earlier:
    """The items of one SELECT so far, by the properties that make DataFusion give two items one name."""

    def __init__(self) -> None:
        self._first = dict[tuple[object, ...], int]()

    def add(self, place: int, item: SelectItem) -> int | None:
        """Add an item, and return the place of the first earlier one of the same name, or None.

        An earlier expression with the same text comes before others, so that no mark repeats that of another cast.
        """
        if item.star is not None:
            return None
        keys = list(_sought(item))
        same = [self._first[key] for key in keys if key in self._first]
        if item.alias is None and not item.column:
            written = ((*key, item.text) for key in keys)
            same = [self._first[key] for key in written if key in self._first] or same
        for key in _given(item):
            self._first.setdefault(key, place)
            self._first.setdefault((*key, item.text), place)
        return min(same, default=None)


def _given(item: SelectItem) -> Iterator[tuple[object, ...]]:
    """Yield the keys under which later items find an item: those of a column, or of an alias, or of an expression."""
    if item.value:
        yield "column", item.value
        yield from (("ends", end) for end in _ends(item.value))
        if item.name is not None:
            yield "named", item.name
    elif item.name is not None:
        yield "alias", item.name
    elif "?" not in item.uncast and not any(str(part)[:1] == "$" for part in item.uncast):
        yield "expression", item.uncast  # two parameters can differ in their values


def _sought(item: SelectItem) -> Iterator[tuple[object, ...]]:
    """Yield the keys of earlier items that have the same name as an item: `t.a` is the same as `a` and `s.t.a`."""
    if item.value:
        yield "ends", item.value
        yield from (("column", end) for end in _ends(item.value))
        if item.name is not None:
            yield "alias", item.name
    elif item.name is not None:
        yield from (("named", item.name), ("alias", item.name))
    else:
        yield "expression", item.uncast


def _ends(parts: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the last parts of a name, for each number of parts up to `_MOST_PARTS`."""
    return (parts[first:] for first in range(max(len(parts) - _MOST_PARTS, 0), len(parts)))


class _Stars:
    """The stars of one SELECT."""

    def __init__(self, source: Source, items: Sequence[SelectItem]) -> None:
        self._source = source
        self.before = list(accumulate((is_star(source, item.first, item.last) for item in items), initial=0))
        """The number of stars before each item."""
        self._all = any(item.star == () for item in items)
        self._tables = {item.star[-1] for item in items if item.star}

    def cover(self, item: SelectItem) -> bool:
        """Return whether a star includes the column of an item."""
        if self._all or not self._tables:
            return self._all
        one_table = len(item.value) == 1 and len(self._source.scopes.of[item.first].tables) == 1
        return one_table or not self._tables.isdisjoint(item.value[-2:-1])
