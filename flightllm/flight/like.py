"""LIKE patterns over names for metadata commands; matching is linear in the name for every pattern."""

import re
from collections.abc import Callable

from flightllm.errors import InvalidInputError

_MOST = 4_096
"""The longest pattern in characters; names are far shorter."""
_PART = re.compile(r"\\(.)|(%)|(.)", re.DOTALL)


def like(pattern: str) -> Callable[[str], bool]:
    r"""Return a predicate for a pattern with `%`, `_` and backslash as escape.

    `a%b%c` becomes `a(?>.*?b).*c`. The text between two `%` matches at its first occurrence; the atomic group prevents
    a second try later, and so keeps matching linear.

    Raises:
        InvalidInputError: the pattern is too long.
    """
    if len(pattern) > _MOST:
        raise InvalidInputError(f"the name pattern has {len(pattern):,} characters; the limit is {_MOST:,}")
    first, *others = _between(pattern)
    middle = "".join(f"(?>.*?{part})" for part in others[:-1] if part)
    wanted = re.compile(first + middle + "".join(f".*{part}" for part in others[-1:]), re.DOTALL)
    return lambda name: wanted.fullmatch(name) is not None


def _between(pattern: str) -> list[str]:
    """Return the pieces between the `%` of a pattern, as regular expressions of single characters."""
    parts = [""]
    for escaped, many, plain in _PART.findall(pattern):
        if many:
            parts.append("")
        else:
            parts[-1] += "." if plain == "_" else re.escape(escaped or plain)
    return parts
