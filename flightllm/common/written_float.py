"""A number of JSON that keeps its digits."""

from typing import Self


class WrittenFloat(float):
    """A number with its digits as they are written, because 1.10 as a text is not 1.1."""

    text: str

    def __new__(cls, text: str) -> Self:
        """Read a number of JSON."""
        made = super().__new__(cls, text)
        made.text = text
        return made
