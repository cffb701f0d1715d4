"""The tag of CommandComplete, by which clients learn the kind of a statement and its number of rows."""

from collections.abc import Callable, Sequence
from itertools import pairwise

from flightllm.sql.tokens import Token, TokenKind

_SKIPPED = ("or", "replace", "temp", "temporary", "external", "unbounded", "unique", "local", "global")
_TWO_WORDS = (("row", "filter"), ("column", "mask"))
_CHANGES = ("insert", "update", "delete", "merge")
_TRANSACTIONS = {"start": "START TRANSACTION", "end": "COMMIT", "abort": "ROLLBACK"}


def tag_of(tokens: Sequence[Token]) -> Callable[[int], str]:
    """Return a function from a statement's number of rows to its tag."""
    words = [token.text.lower() if token.kind is TokenKind.WORD else token.text for token in tokens]
    first = next((word for word in words if word != "("), "")
    if first == "with":
        first = _main(words)
    if first in _CHANGES:
        return lambda rows: f"{'INSERT 0' if first == 'insert' else first.upper()} {max(rows, 0)}"
    if first in ("create", "drop", "alter", "refresh"):
        kinds = [word for word in words[1:5] if word not in _SKIPPED]
        count = 2 if tuple(kinds[:2]) in _TWO_WORDS else 1
        named = " ".join([first, *kinds[:count]]).upper()
        if first == "create" and "as" in words and kinds[:1] == ["table"]:
            return lambda rows: f"SELECT {rows}" if rows >= 0 else named
        return lambda _: named
    if first in ("explain", "show", "set", "reset", "use", "grant", "revoke", "attach", "detach"):
        return lambda _: "SET" if first == "use" else first.upper()
    if first == "truncate":
        return lambda _: "TRUNCATE TABLE"
    if first in ("begin", "commit", "rollback", "savepoint", "release", *_TRANSACTIONS):
        return lambda _: _TRANSACTIONS.get(first, first.upper())
    return lambda rows: f"SELECT {max(rows, 0)}"


def _main(words: Sequence[str]) -> str:
    """Return the first word after a WITH list."""
    depth = 0
    for before, word in pairwise(words):
        depth += (before == "(") - (before == ")")
        if depth == 0 and before == ")" and word in ("select", "values", *_CHANGES):
            return word
    return "select"
