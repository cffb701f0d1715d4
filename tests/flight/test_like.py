"""LIKE over names."""

from itertools import product

import pytest

from flightllm.errors import InvalidInputError
from flightllm.flight.like import like


def _expected(pattern: str, name: str) -> bool:
    """Say what LIKE means, as slowly as it is simple."""
    if not pattern or not name:
        return not name and not pattern.strip("%")
    if pattern[0] == "%":
        return _expected(pattern[1:], name) or _expected(pattern, name[1:])
    return pattern[0] in ("_", name[0]) and _expected(pattern[1:], name[1:])


def test_every_short_pattern() -> None:
    """All patterns of up to five characters say of all names of up to four what they mean."""
    names = ["".join(name) for length in range(5) for name in product("ab", repeat=length)]
    for pattern in ("".join(parts) for length in range(6) for parts in product("a_%", repeat=length)):
        matches = like(pattern)
        assert [name for name in names if matches(name)] == [name for name in names if _expected(pattern, name)]


@pytest.mark.parametrize(
    ("pattern", "name"),
    [("\\%\\_\\\\", "%_\\"), ("a.b", "a.b"), ("%\n_", "x\ny"), ("_", "\n"), ("ab\\", "ab\\")],
)
def test_single_characters(pattern: str, name: str) -> None:
    """Escaped characters stand for themselves, as do those of regular expressions; a lone backslash is one."""
    assert [like(pattern)(text) for text in (name, name + "x")] == [True, False]


@pytest.mark.parametrize("pattern", ["%" * 4_000 + "z", "%a" * 2_000 + "z", "%_a" * 1_000 + "z", "a%" * 2_000 + "z"])
def test_long_patterns(pattern: str) -> None:
    """A name that a pattern of many `%` does not fit is refused at once: going back and forth would take years."""
    assert not like(pattern)("a" * 10_000)


def test_too_long_patterns() -> None:
    """A pattern is no upload."""
    with pytest.raises(InvalidInputError, match="5,000 characters; the limit is 4,096"):
        like("%" * 5_000)
