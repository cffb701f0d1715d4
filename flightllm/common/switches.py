"""Boolean values in texts, as PostgreSQL reads them."""

from typing import Final

ON: Final = ("on", "true", "tru", "tr", "t", "yes", "ye", "y", "1")
OFF: Final = ("off", "of", "false", "fals", "fal", "fa", "f", "no", "n", "0")


def switch(text: str) -> bool | None:
    """Return the meaning of a text in any case, or None for another text. `t` and `tr` mean true; `o` means neither."""
    word = text.lower()
    return True if word in ON else False if word in OFF else None
