"""Write functions over lists."""

from collections.abc import Mapping
from typing import Any

from flightllm.dialect.generator.written import Written


def lists() -> Mapping[type, Written]:
    """Return the function that writes an expression over lists, by sqlglot's class."""
    from sqlglot import exp

    return {exp.ArrayOverlaps: _overlaps, exp.ArraySize: _size, exp.RegexpSplit: _split, exp.Split: _split}


def _size(generator: Any, found: Any) -> str:
    """Write the number of items as a signed number: the server's own is unsigned, and `n - 1` of it a DECIMAL."""
    return f"CAST({generator.func('ARRAY_LENGTH', found.this, found.expression)} AS BIGINT)"


def _split(generator: Any, found: Any) -> str:
    """Write a list of parts: an empty text has one part, though `string_to_array` returns an empty list for it."""
    text, between = generator.sql(found, "this"), generator.sql(found, "expression")
    return f"ARRAY_POP_FRONT(STRING_TO_ARRAY({between} || ({text}), {between}))"


def _overlaps(generator: Any, found: Any) -> str:
    return str(generator.func("ARRAY_HAS_ANY", found.this, found.expression))
