"""Long lists of numbers as texts, which DataFusion reads many times faster than a literal for each number."""

import re
from collections.abc import Iterator, Sequence

from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.tokens import Token

_WHOLE = re.compile(r"-?\d{1,18}(?:,-?\d{1,18})*+")
_PLAIN = re.compile(r"-?\d{1,18}(?:\.\d+)?(?:,-?\d{1,18}(?:\.\d+)?)*+")
"""Numbers that mean the same in a text. Larger whole numbers have other types, and exponents are left alone."""


def with_lists_as_texts(text: ParsedText) -> str:
    """Return VALUES with each long list of numbers as a text, cast to the list's type.

    `[0.5, -1, …]` → `CAST(string_to_array('0.5,-1,…', ',') AS DOUBLE[])`; whole numbers give `BIGINT[]`. Columns of
    other queries have names, and a name is the text of its expression: rewrite only VALUES.
    """
    parts, last = list[str](), 0
    for start, end, run in _lists(text.tokens):
        kind = "BIGINT" if _WHOLE.fullmatch(run) else "DOUBLE"
        parts += (text.sql[last:start], f"CAST(string_to_array('{run}', ',') AS {kind}[])")
        last = end
    return "".join([*parts, text.sql[last:]])


def _lists(tokens: Sequence[Token]) -> Iterator[tuple[int, int, str]]:
    """Yield the range in the text, and the numbers, of each list that consists of one long run."""
    for index, token in enumerate(tokens):
        if not token.is_run or index < 2 or index + 1 >= len(tokens) or not tokens[index + 1].is_symbol("]"):
            continue
        first, before = tokens[index - 1], tokens[index - 2]
        named = before.is_word("array")
        if first.is_symbol("[") and (named or before.text in {"(", ",", "["}) and _PLAIN.fullmatch(token.text):
            yield (before if named else first).start, tokens[index + 1].end, token.text
