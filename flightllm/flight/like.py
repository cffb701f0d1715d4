"""LIKE patterns over names, as metadata commands have them: in time that grows with the name, whatever the pattern."""

import re
from collections.abc import Callable

from flightllm.errors import InvalidInputError

_MOST = 4_096
"""Characters of a pattern; names are far shorter."""
_PART = re.compile(r"\\(.)|(%)|(.)", re.DOTALL)


def like(pattern: str) -> Callable[[str], bool]:
    r"""Return a predicate for a pattern with `%`, `_` and backslash as escape.

    `a%b%c` → `a(?>.*?b).*c`: what stands between two `%` matches where it is found first, and nowhere else after that.

    Raises:
        InvalidInputError: the pattern is too long.
    """
    if len(pattern) > _MOST:
        raise InvalidInputError(f"the name pattern has {len(pattern):,} characters; {_MOST:,} are the most")
    first, *others = _between(pattern)
    middle = "".join(f"(?>.*?{part})" for part in others[:-1] if part)
    wanted = re.compile(first + middle + "".join(f".*{part}" for part in others[-1:]), re.DOTALL)
    return lambda name: wanted.fullmatch(name) is not None


def _between(pattern: str) -> list[str]:
    """Return what stands between the `%` of a pattern, as regular expressions of single characters."""
    parts = [""]
    for escaped, many, plain in _PART.findall(pattern):
        if many:
            parts.append("")
        else:
            parts[-1] += "." if plain == "_" else re.escape(escaped or plain)
    return parts
