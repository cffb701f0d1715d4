"""Statements of Snowflake's worksheets that change nothing here: a warehouse, a role, a parameter of the session."""

from collections.abc import Sequence

from flightllm.errors import UnsupportedError
from flightllm.sql.tokens import Token

_PLACES = ("warehouse", "role")
_FREE = ("query_tag", "use_cached_result", "statement_queued_timeout_in_seconds")
"""Parameters of Snowflake's sessions that can have any value."""
_KEPT = {"timezone": ("utc", "etc/utc"), "week_start": ("0", "1"), "timestamp_type_mapping": ("timestamp_ntz",)}
"""Parameters with the values that the server has."""


def uses_nothing(tokens: Sequence[Token]) -> bool:
    """Return whether a statement is `USE WAREHOUSE name`, `USE ROLE name` or `USE SECONDARY ROLES name`."""
    if len(tokens) == 3 and tokens[1].is_word(*_PLACES):
        return True
    return len(tokens) == 4 and tokens[1].is_word("secondary") and tokens[2].is_word("roles")


def alters_session(tokens: Sequence[Token]) -> bool:
    """Return whether a statement is `ALTER SESSION SET name = value` with a value that changes nothing here.

    Raises:
        UnsupportedError: the value would change what queries give.
    """
    if len(tokens) < 3 or not tokens[1].is_word("session"):
        return False
    names = [tokens[at - 1].text.lower() for at, token in enumerate(tokens) if at > 2 and token.is_symbol("=")]
    values = [tokens[at + 1].text.lower() for at, token in enumerate(tokens[:-1]) if at > 2 and token.is_symbol("=")]
    if tokens[2].is_word("unset"):
        return True
    if tokens[2].is_word("set") and names and len(names) == len(values):
        for name, value in zip(names, values, strict=True):
            if name not in _FREE and value not in _KEPT.get(name, ()):
                raise UnsupportedError(f"ALTER SESSION SET {name} has no effect here: leave it out")
        return True
    raise UnsupportedError("ALTER SESSION has no effect here: leave it out")
