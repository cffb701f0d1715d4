"""Rewriting of searches in FROM: `vector_search('idx', 'text', top_k => 5) AS v` becomes a table of found rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from flightllm.errors import AICallError
from flightllm.functions.call import SEARCH
from flightllm.functions.registry import FunctionRegistry
from flightllm.sql.arguments import split_arguments
from flightllm.sql.calls_in_from import replace_calls
from flightllm.sql.names import identifier
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.scopes import Scopes
from flightllm.sql.tokens import Token, TokenKind, position

_CONSTANT_WORDS = ("null", "true", "false", "array", "make_array")


@dataclass(frozen=True, slots=True)
class TableCall:
    """A call of a search in FROM with constant arguments: its text, and the name of its index (or an empty text)."""

    text: str
    index: str


def replace_table_functions(
    text: ParsedText, registry: FunctionRegistry, table: Callable[[TableCall], str]
) -> ParsedText:
    """Return SQL with each search in FROM replaced by the text that `table` returns; other text stays as it is.

    Raises:
        AICallError: an argument is not a constant.
    """
    sql = text.sql
    if not registry.may_search(sql):
        return text

    def found(index: int) -> str | None:
        function = registry.get(text.tokens[index].text)
        searches = function is not None and function.backend == SEARCH
        return table(_call(sql, text.tokens, index, text.scopes)) if searches else None

    return replace_calls(text, found)


def _call(sql: str, tokens: Sequence[Token], index: int, scopes: Scopes) -> TableCall:
    closing = scopes.closing[index + 1]
    searched = ""
    for place, (first, last) in enumerate(split_arguments(tokens, index + 2, closing, scopes.closing)):
        given, name = tokens[first:last], None
        if len(given) > 1 and given[1].is_symbol("=>"):
            name, given = identifier(given[0]), given[2:]
        if not all(map(_is_constant, given)):
            raise AICallError(
                f"{tokens[index].text} at {position(sql, tokens[index].start)}: in FROM its arguments must be"
                " constants; to search for each row of a table, call it in SELECT"
            )
        if name == "index" or (name is None and place == 0):
            searched = given[0].text if given else ""
    return TableCall(sql[tokens[index].start : tokens[closing].end], searched)


def _is_constant(token: Token) -> bool:
    return token.kind in {TokenKind.STRING, TokenKind.NUMBER, TokenKind.SYMBOL} or token.is_word(*_CONSTANT_WORDS)
