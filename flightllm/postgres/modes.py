"""The modes of a transaction: whether it can change something, and its level of isolation."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from flightllm.common.switches import switch
from flightllm.postgres.failures import WireError
from flightllm.sql.tokens import Token

LEVEL = "read committed"
LEVELS = (LEVEL, "read uncommitted", "repeatable read", "serializable")
_MODE = re.compile(rf"(?:isolation level ({'|'.join(LEVELS)})|read (only|write)|(?:not )?deferrable)(?:\s|$)")


@dataclass(frozen=True, slots=True)
class Modes:
    """The modes that a statement gives. `read_only` can be missing."""

    read_only: bool | None = None
    level: str = LEVEL


def read_modes(tokens: Sequence[Token]) -> Modes:
    """Read modes such as `ISOLATION LEVEL SERIALIZABLE, READ ONLY`, with or without commas.

    Raises:
        WireError: a word belongs to no mode.
    """
    text = " ".join(token.text.lower() for token in tokens if not token.is_symbol(","))
    read_only, level, at = None, LEVEL, 0
    while at < len(text):
        found = _MODE.match(text, at)
        if found is None:
            raise WireError("42601", f"syntax error at or near {text[at:].split()[0][:40]!r}: a mode was expected")
        level = found[1] or level
        read_only = found[2] == "only" if found[2] else read_only
        at = found.end()
    return Modes(read_only, level)


def set_modes(tokens: Sequence[Token]) -> tuple[bool, Sequence[Token]] | None:
    """Return the modes of SET TRANSACTION, and whether they hold for all further ones; None for another SET."""
    words = [token.text.lower() for token in tokens[:6]]
    if words[1:5] == ["session", "characteristics", "as", "transaction"]:
        return True, tokens[5:]
    at = 2 if words[1:2] in (["local"], ["session"]) else 1
    return (False, tokens[at + 1 :]) if words[at : at + 1] == ["transaction"] else None


def read_switch(name: str, value: str) -> bool:
    """Read a Boolean value of a parameter.

    Raises:
        WireError: the value is another text.
    """
    found = switch(value.strip("'\""))
    if found is None:
        raise WireError("22023", f'parameter "{name}" requires a Boolean value')
    return found
