"""Rename repeated column names: DataFusion refuses them in a SELECT, so all but the first get a marked name."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from flightllm.common.names import quoted
from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit, Rewritten
from flightllm.dialect.types import end_of_cast_value, type_range
from flightllm.sql.calls import EXPRESSION_FOLLOWS
from flightllm.sql.names import identifier
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.tokens import Token, TokenKind

_MARK = "\ufdd1"
_MARKED = re.compile(rf"\A{_MARK}(\d*){_MARK}(.*)\Z", re.DOTALL)
_SHOWN = re.compile(rf"{_MARK}\d*{_MARK}")
_NO_ALIAS = ("end", "null", "true", "false", "precision", "varying", "unsigned", "zone", *EXPRESSION_FOLLOWS)
_NO_ALIAS_AFTER = ("zone", "collate", "time", *EXPRESSION_FOLLOWS)
"""Words of expressions and types that are not an alias, and words that no alias follows."""
_STATEMENTS = ("select", "with", "explain", "insert", "summarize", "describe", "desc")


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
        for place, item in enumerate(items):
            if item.star is None and item.name is None and any(_is_same(other, item) for other in items[:place]):
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
    """The same without casts, which DataFusion leaves out of a column's name; empty with an alias."""
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
    kept = [source.tokens[index] for index in _without_casts(source, first, last)] if alias is None else []
    return SelectItem(first, last, alias, name, column, None, _folded(tokens), _folded(kept), _dotted(kept))


def _folded(tokens: Sequence[Token]) -> tuple[object, ...]:
    return tuple((identifier(t) or t.text) if t.kind is not TokenKind.STRING else (t.text,) for t in tokens)


def _without_casts(source: ParsedText, first: int, last: int) -> Iterator[int]:
    """Yield the tokens of an expression but those of `CAST(… AS type)` and `::type`."""
    index = first
    while index < last:
        called = source.tokens[index].is_word("cast", "try_cast") and source.is_symbol(index + 1, "(")
        if called and (end := end_of_cast_value(source, index + 1)):
            yield from _without_casts(source, index + 2, end)
            index = source.closing[index + 1] + 1
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
    for place, item in enumerate(items):
        if item.star is not None:
            continue
        first = next((i for i, other in enumerate(items[:place]) if _is_same(other, item)), None)
        covered = item.value and any(_covers(source, other, item) for other in items)
        if first is None and not covered:
            continue
        if only_casts:
            if item.uncast != item.text:
                end = source.tokens[item.last - 1].end
                yield Edit(end, end, f" AS {quoted(source.text(item.first, item.last))}")
            continue
        plain = first is not None and all(other.star is None for other in items[first:place])
        plain = plain and (items[first or 0].text == item.text or bool(item.column) or item.alias is not None)
        delta = place - first if plain and first is not None else ""
        fallback = item.name or source.text(item.first, item.last)
        name = quoted(f"{_MARK}{delta}{_MARK}{fallback}")
        if item.alias is not None:
            token = source.tokens[item.alias]
            yield Edit(token.start, token.end, name)
        else:
            end = source.tokens[item.last - 1].end
            yield Edit(end, end, f" AS {name}")


def _is_same(one: SelectItem, other: SelectItem) -> bool:
    """Tell whether DataFusion takes two items for columns of one name; two parameters can differ in their values."""
    if one.star is not None:
        return False
    if one.value and other.value:
        shortest = min(len(one.value), len(other.value))
        return one.value[-shortest:] == other.value[-shortest:]
    if one.name is not None or other.name is not None:
        return one.name == other.name
    bound = "?" in one.uncast or any(str(part)[:1] == "$" for part in one.uncast)
    return one.uncast == other.uncast and not bound


def _covers(source: Source, star: SelectItem, item: SelectItem) -> bool:
    """Tell whether a star includes the column of an item."""
    if star.star is None:
        return False
    if not star.star:
        return True
    tables = source.scopes.of[item.first].tables
    return star.star[-1:] == item.value[-2:-1] or (len(item.value) == 1 and len(tables) == 1)
