"""The cost of compiling and matching a pattern."""

import re

_COUNTED = re.compile(r"\{(\d*)(?:,(\d*))?\}")
_CLASS_STATES = 8
"""States of one character class, which stands for ranges of bytes."""
LARGEST_PROGRAM = 20_000


def regex_states(pattern: str) -> float:
    """Estimate the states of a compiled regular expression; a counted repetition multiplies the states inside."""
    sizes, last = [0.0], 0.0
    place = 0
    while place < len(pattern):
        character = pattern[place]
        counted = _COUNTED.match(pattern, place) if character == "{" else None
        if counted:
            times = max([int(digits[:9]) for digits in counted.groups() if digits] or [1])
            sizes[-1] += last * (times - 1)
            last *= times
            place = counted.end()
            continue
        if character == "(":
            sizes.append(0.0)
            last = 0.0
        elif character == ")" and len(sizes) > 1:
            last = sizes.pop()
            sizes[-1] += last
        elif character in "*+?|^$":
            pass
        else:
            end = place + 1
            if character == "\\":
                end = place + 2
                if pattern[place + 1 : place + 2] in ("p", "P"):
                    end = max(end, pattern.find("}", place) + 1)
            elif character == "[":
                end = max(end, pattern.find("]", place + 2) + 1)
            last = 1.0 if character not in "\\[." else _CLASS_STATES
            sizes[-1] += last
            place = end
            continue
        place += 1
    return sum(sizes) * (4 if "(?i" in pattern else 1)


def wildcards(pattern: str) -> int:
    """Return the number of places where a LIKE pattern matches any text."""
    return len(re.findall(r"%[%_]*", pattern))
