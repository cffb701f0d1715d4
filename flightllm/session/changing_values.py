"""Find the functions in a statement whose values change from run to run: those of random values and of the time."""

from collections.abc import Iterable
from typing import Final

from flightllm.catalog.entries import Entry
from flightllm.sql.parsed_text import ParsedText

_CALLED: Final = (
    *("random", "rand", "uuid", "gen_random_uuid", "generate_uuid", "uuid_string", "newid", "uuidv4"),
    *("uuidv7", "randn", "uniform", "shuffle", "nextval", "now", "today", "clock_timestamp", "statement_timestamp"),
    *("transaction_timestamp", "timeofday", "getdate", "sysdate", "sysdatetime", "utc_timestamp", "unix_timestamp"),
    *("current_datetime", "curdate", "curtime", "get_current_timestamp"),
)
_WORDS: Final = ("current_date", "current_time", "current_timestamp", "localtime", "localtimestamp")
"""Functions that need no brackets."""


def changing_call(text: ParsedText, tables: Iterable[Entry]) -> str | None:
    """Return the name of a function with changing values in a text or its views; None if there is no such call."""
    texts = [text, *(ParsedText(table.query) for table in tables if table.query)]
    return next((name for one in texts if (name := _changing(one)) is not None), None)


def _changing(text: ParsedText) -> str | None:
    for index, token in enumerate(text.tokens):
        is_call = token.is_word(*_CALLED) and text.is_symbol(index + 1, "(")
        if (is_call or token.is_word(*_WORDS)) and not text.is_symbol(index - 1, "."):
            return token.text.lower()
    return None
