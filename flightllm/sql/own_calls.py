"""Refuse the functions that only the server's own texts call in the texts of clients."""

from collections.abc import Iterable, Sequence
from typing import Final

from flightllm.common import names
from flightllm.errors import PermissionDeniedError
from flightllm.functions.internal import INTERNAL
from flightllm.functions.own import OWN_PREFIX
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.passes import spark_values, variants
from flightllm.sql.tokens import Token, TokenKind, position

PLACEHOLDERS: Final = frozenset(
    value
    for module in (names, spark_values, variants)
    for name, value in vars(module).items()
    if name.isupper() and isinstance(value, str) and value.startswith(OWN_PREFIX)
).difference(function.name for function in INTERNAL)
"""The calls that only a pass over a rewritten text understands."""
_NAMES: Final = PLACEHOLDERS.union(function.name for function in INTERNAL)
_COUNTS: Final = {function.name: len(function.arguments) for function in INTERNAL}


def check_no_own_calls(text: ParsedText, *, restores: bool = False) -> None:
    """Check that a client's text calls no function of the server's own texts; other names can begin as these do.

    With `restores`, a view can: an administrator can send the definition again that the server shows for a view.

    Raises:
        PermissionDeniedError: the text calls one.
    """
    tokens = text.tokens
    is_view = restores and _makes_view(text)
    for index, token in enumerate(tokens[:-1]):
        name = token.text.lower()
        named = token.kind is TokenKind.WORD or token.kind is TokenKind.QUOTED
        if not named or name not in _NAMES or not tokens[index + 1].is_symbol("("):
            continue
        if text.is_word(0, "with") and (index == 1 or (index == 2 and text.is_word(1, "recursive"))):
            continue  # the name of a query and its columns
        if not is_view or name not in _COUNTS or _count(tokens, index + 1) != _COUNTS[name]:
            raise _only_the_server(f"{token.text} at {position(text.sql, token.start)}")


def check_no_own_names(called: Iterable[str]) -> None:
    """Check that a client's plan calls no function of the server's own texts.

    Raises:
        PermissionDeniedError: one of the names is that of such a function.
    """
    for name in called:
        if name.lower() in _NAMES:
            raise _only_the_server(name)


def _only_the_server(place: str) -> PermissionDeniedError:
    """Return the error of a call at a place."""
    return PermissionDeniedError(
        f"{place} is a function that only the server can call: write a function that SHOW FUNCTIONS lists"
    )


def _makes_view(text: ParsedText) -> bool:
    """Return whether a text begins with CREATE [OR REPLACE] [TEMPORARY] VIEW."""
    index = 1
    if text.is_word(index, "or") and text.is_word(index + 1, "replace"):
        index += 2
    if text.is_word(index, "temp", "temporary"):
        index += 1
    return text.is_word(0, "create") and text.is_word(index, "view")


def _count(tokens: Sequence[Token], opened: int) -> int:
    """Return the number of arguments in the parentheses that open at a token."""
    depth, commas = 0, 0
    for token in tokens[opened:]:
        if token.kind is TokenKind.SYMBOL:
            depth += (token.text in {"(", "["}) - (token.text in {")", "]"})
        commas += depth == 1 and token.is_symbol(",")
        if not depth:
            break
    return commas + (not tokens[opened + 1].is_symbol(")"))
