"""Parser for the options of EXPLAIN: `ANALYZE VERBOSE`, `(ANALYZE, FORMAT json)`, `FORMAT json`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from flightllm.errors import SqlError, UnsupportedError
from flightllm.sql.tokens import Token, TokenKind

FORMATS = ("text", "json")
_WITHOUT_MEANING = ("verbose", "costs", "buffers", "timing", "summary")
"""Options that have no effect, because EXPLAIN always shows all details. Some clients send them."""
_QUERY_WORDS = ("select", "with", "values", "table", "from")
_ON, _OFF = ("true", "on", "1"), ("false", "off", "0")


@dataclass(frozen=True, slots=True)
class ExplainOptions:
    """The options of one EXPLAIN."""

    analyze: bool = False
    format: str = "text"
    savings: bool = True
    """Whether to predict the query without each rule too, which takes much longer."""


def read_explain_options(tokens: Sequence[Token], at: int) -> tuple[ExplainOptions, int]:
    """Return the options that start at token `at`, and the index where the query begins.

    Raises:
        SqlError: the list of options is incomplete, or an option is unknown or has an invalid value.
        UnsupportedError: the format is unknown.
    """
    options = ExplainOptions()
    if _is_list(tokens, at):
        return _read_list(tokens, at + 1)
    if _word(tokens, at, "analyze"):
        options, at = replace(options, analyze=True), at + 1
    if _word(tokens, at, "verbose"):
        at += 1
    if _word(tokens, at, "format"):
        return replace(options, format=_format(tokens, at + 1)), at + 2
    return options, at


def _is_list(tokens: Sequence[Token], at: int) -> bool:
    """Return whether a list of options begins here, and not a query in parentheses."""
    opens = at + 1 < len(tokens) and tokens[at].is_symbol("(")
    return opens and tokens[at + 1].kind is TokenKind.WORD and not tokens[at + 1].is_word(*_QUERY_WORDS)


def _read_list(tokens: Sequence[Token], at: int) -> tuple[ExplainOptions, int]:
    options = ExplainOptions()
    while at < len(tokens):
        name = tokens[at].text.lower()
        at += 1
        if name == "format":
            options, at = replace(options, format=_format(tokens, at)), at + 1
        elif name in {"analyze", "savings"} or name in _WITHOUT_MEANING:
            value, at = _switch(tokens, at)
            if name == "analyze":
                options = replace(options, analyze=value)
            elif name == "savings":
                options = replace(options, savings=value)
        else:
            raise SqlError(f"EXPLAIN has no option {name!r}: write ANALYZE, SAVINGS off, VERBOSE or FORMAT text | json")
        if at < len(tokens) and tokens[at].is_symbol(")"):
            return options, at + 1
        if at < len(tokens) and not tokens[at].is_symbol(","):
            raise SqlError(f"expected , or ) between EXPLAIN's options, found {tokens[at].text[:40]!r}")
        at += 1
    raise SqlError("the list of EXPLAIN's options is not closed: write EXPLAIN (ANALYZE, FORMAT json) SELECT …")


def _switch(tokens: Sequence[Token], at: int) -> tuple[bool, int]:
    """Return the value of a switch, on by default, and the index after the value."""
    word = tokens[at].text.lower() if at < len(tokens) else ""
    if word in _ON or word in _OFF:
        return word in _ON, at + 1
    return True, at


def _format(tokens: Sequence[Token], at: int) -> str:
    word = tokens[at].text.lower() if at < len(tokens) else ""
    if word not in FORMATS:
        raise UnsupportedError(f"EXPLAIN has no format {word[:40]!r}: write FORMAT text or FORMAT json")
    return word


def _word(tokens: Sequence[Token], at: int, word: str) -> bool:
    return at < len(tokens) and tokens[at].is_word(word)
