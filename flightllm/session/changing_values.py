"""Find the functions in a statement whose values change from run to run: those of random values and of the time."""

from collections.abc import Iterable

from flightllm.catalog.entries import Entry
from flightllm.sql.changing import CLOCK, CLOCK_WORDS, RANDOM
from flightllm.sql.parsed_text import ParsedText


def changing_call(text: ParsedText, tables: Iterable[Entry]) -> str | None:
    """Return the name of a function with changing values in a text or its views; None if there is no such call."""
    texts = [text, *(ParsedText(table.query) for table in tables if table.query)]
    return next((name for one in texts if (name := _changing(one)) is not None), None)


def _changing(text: ParsedText) -> str | None:
    for index, token in enumerate(text.tokens):
        is_call = token.is_word(*RANDOM, *CLOCK) and text.is_symbol(index + 1, "(")
        if (is_call or token.is_word(*CLOCK_WORDS)) and not text.is_symbol(index - 1, "."):
            return token.text.lower()
    return None
