"""Refuse the functions that only the server's own texts call in the texts of clients."""

from collections.abc import Sequence
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
_FIRST: Final = 6
"""The number of tokens that can begin a statement before its kind: CREATE OR REPLACE TEMPORARY VIEW."""


def check_no_own_calls(text: ParsedText) -> None:
    """Check that a client's text calls no function of the server's own texts; other names can begin as these do.

    A view can: a client can send the definition again that the server shows for a view.

    Raises:
        PermissionDeniedError: the text calls one.
    """
    tokens = text.tokens
    is_view = tokens[:1] and tokens[0].is_word("create") and any(token.is_word("view") for token in tokens[:_FIRST])
    for index, token in enumerate(tokens[:-1]):
        name = token.text.lower()
        named = token.kind is TokenKind.WORD or token.kind is TokenKind.QUOTED
        if not named or name not in _NAMES or not tokens[index + 1].is_symbol("("):
            continue
        if not is_view or name not in _COUNTS or _count(tokens, index + 1) != _COUNTS[name]:
            raise PermissionDeniedError(
                f"{token.text} at {position(text.sql, token.start)} is a function that only the server can call: write"
                " a function that SHOW FUNCTIONS lists"
            )


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
