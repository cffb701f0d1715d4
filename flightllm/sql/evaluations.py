"""Reader of `ai_evaluate(rows, call, label, option => …)` in FROM, and of the call that it evaluates.

Each of the first three arguments can be SQL or a text with SQL. `plain_arguments` writes them as SQL, so that later
steps find the names of tables in them.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from flightllm.errors import AICallError
from flightllm.functions.base import Literal
from flightllm.sql.arguments import read_constant, split_arguments
from flightllm.sql.calls_in_from import rows_as_sql, with_queries
from flightllm.sql.names import identifier
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.tokens import Token, TokenKind, position, tokenize

NAME: Final = "ai_evaluate"
USAGE: Final = "ai_evaluate((SELECT …), ai_filter('…', column), label [, models => […], …])"
_PLAIN: Final = re.compile(r"""\(SELECT \* FROM (?:(?:\w+|"[^"]+")\.)*(?P<name>\w+|"[^"]+")\)""")
"""Matches the rows of a whole table."""
_PARTS: Final = ("rows", "call", "label")


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The parts of one call of `ai_evaluate`, as SQL, and its options."""

    rows: str
    """A query in parentheses, with a WITH before it if it needs one."""
    alias: str
    """The alias of the rows, by which the call and the label can name them."""
    call: str
    label: str
    options: Mapping[str, Literal]
    where: str
    """The place of the call, for errors."""


def evaluates(text: ParsedText) -> bool:
    """Return whether a text can call `ai_evaluate`."""
    return any(map(_begins_in(text), range(len(text.tokens))))


def plain_arguments(text: ParsedText) -> Iterator[tuple[int, int, str]]:
    """Yield the start, the end and the SQL of each argument that is a text, a table or `TABLE t`."""
    for index in filter(_begins_in(text), range(len(text.tokens))):
        for part, first, last in _parts(text, index):
            tokens = text.tokens[first:last]
            sql = _as_sql(part, tokens)
            if sql is not None:
                yield tokens[0].start, tokens[-1].end, sql


def evaluation_at(text: ParsedText, index: int) -> Evaluation | None:
    """Return the evaluation that begins at a token in FROM, or None.

    Raises:
        AICallError: the evaluation lacks an argument, or an option of it is not a constant.
    """
    return _evaluation(text, index) if _begins_in(text)(index) else None


def with_options(call: str, options: Mapping[str, str | None]) -> str:
    """Return a call with its options replaced: by the given SQL, or by nothing."""
    tokens = tokenize(call)
    closing = ParsedText(call).closing
    kept = [
        call[tokens[first].start : tokens[last - 1].end]
        for first, last in split_arguments(tokens, 2, len(tokens) - 1, closing)
        if _option(tokens, first) not in options
    ]
    added = [f"{name} => {value}" for name, value in options.items() if value is not None]
    return f"{tokens[0].text}({', '.join([*kept, *added])})"


def check_is_call(call: str, where: str) -> None:
    """Check that SQL is one call of a function, with nothing around it.

    Raises:
        AICallError: it is something else.
    """
    tokens = tokenize(call)
    alone = len(tokens) > 2 and tokens[0].kind is TokenKind.WORD and tokens[1].is_symbol("(")
    if any(token.is_symbol("*") and tokens[at - 1].text in {"(", ",", "."} for at, token in enumerate(tokens)):
        raise AICallError(f"{where}: name the columns of the call instead of *, which would also pass the row's number")
    if not alone or ParsedText(call).closing.get(1) != len(tokens) - 1:
        raise AICallError(f"{where}: evaluates one call, such as ai_filter('…', column), not {call[:80]}")


def stub_arguments(sql: str, stub: str) -> list[str]:
    """Return the SQL of the arguments of a stub's first call."""
    text = ParsedText(sql)
    at = next(place for place, token in enumerate(text.tokens) if token.text == stub)
    ranges = split_arguments(text.tokens, at + 2, text.closing[at + 1], text.closing)
    return [sql[text.tokens[first].start : text.tokens[last - 1].end] for first, last in ranges]


def option_of(call: str, name: str) -> Literal:
    """Return the constant value of an option of a call, or None."""
    text = ParsedText(call)
    for first, last in split_arguments(text.tokens, 2, len(text.tokens) - 1, text.closing):
        if _option(text.tokens, first) == name:
            constant = read_constant(text.tokens[first + 2 : last])
            return None if constant is None else constant.value
    return None


def _begins_in(text: ParsedText) -> Callable[[int], bool]:
    """Return a test for the tokens that begin an evaluation in FROM."""
    names = text.scopes.names_table

    def begins(index: int) -> bool:
        return text.is_word(index, NAME) and names[index] and (index + 1) in text.closing

    return begins


def _parts(text: ParsedText, index: int) -> Iterator[tuple[str, int, int]]:
    """Yield the name and the token range of each argument that is not an option."""
    for place, (first, last) in enumerate(_ranges(text, index)):
        name = _option(text.tokens, first)
        if name in _PARTS:
            yield name, first + 2, last
        elif name is None and place < len(_PARTS) and first < last:
            yield _PARTS[place], first, last


def _ranges(text: ParsedText, index: int) -> list[tuple[int, int]]:
    return list(split_arguments(text.tokens, index + 2, text.closing[index + 1], text.closing))


def _option(tokens: Sequence[Token], first: int) -> str | None:
    named = first + 1 < len(tokens) and tokens[first + 1].is_symbol("=>")
    return (identifier(tokens[first]) or "").lower() if named else None


def _as_sql(part: str, tokens: Sequence[Token]) -> str | None:
    """Return the SQL that an argument stands for; None if it is SQL itself."""
    if part == "rows":
        return rows_as_sql(tokens)
    return tokens[0].text.strip().rstrip(";") if len(tokens) == 1 and tokens[0].kind is TokenKind.STRING else None


def _evaluation(text: ParsedText, index: int) -> Evaluation:
    where = f"{NAME} at {position(text.sql, text.tokens[index].start)}"
    found: dict[str, str] = {}
    for part, first, last in _parts(text, index):
        tokens = text.tokens[first:last]
        sql = _as_sql(part, tokens)
        found[part] = text.sql[tokens[0].start : tokens[-1].end] if sql is None else sql
    if missing := [part for part in _PARTS if part not in found]:
        raise AICallError(f"{where}: lacks its {' and '.join(missing)}. Usage: {USAGE}")
    options: dict[str, Literal] = {}
    for place, (first, last) in enumerate(_ranges(text, index)):
        name = _option(text.tokens, first)
        if name in _PARTS or (name is None and place < len(_PARTS)):
            continue
        constant = None if name is None else read_constant(text.tokens[first + 2 : last])
        if name is None or constant is None:
            raise AICallError(f"{where}: options are constants with a name, as in models => ['small']. Usage: {USAGE}")
        options[name] = constant.value
    rows, alias = found["rows"], "evaluated"
    if (named := _PLAIN.fullmatch(rows)) is not None:
        alias = named["name"]
    return Evaluation(with_queries(text, index, rows), alias, found["call"], found["label"], options, where)
