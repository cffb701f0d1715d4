"""Column names from the first row of a file."""

from collections.abc import Sequence

MOST_COLUMNS = 32_768
"""Each column takes a few kilobytes of memory, however short its values are."""


def column_names(row: Sequence[str | None]) -> list[str]:
    """Return distinct names, ignoring case: `a`, `A` give `a`, `A_1`; an empty third name gives `column3`."""
    names = list[str]()
    taken = set[str]()
    wanted = {(cell or "").strip().lower() for cell in row}
    for place, cell in enumerate(row, 1):
        plain = (cell or "").strip() or f"column{place}"
        name, number = plain, 0
        while name.lower() in taken or (number and name.lower() in wanted):
            number += 1
            name = f"{plain}_{number}"
        taken.add(name.lower())
        names.append(name)
    return names


def numbered(width: int) -> list[str]:
    """Return the names of the columns of a file without a header."""
    return [f"column{place}" for place in range(1, width + 1)]
