"""Write functions over texts and patterns."""

from collections.abc import Mapping
from typing import Any

from flightllm.dialect.generator.written import Written


def texts() -> Mapping[type, Written]:
    """Return the function that writes an expression over texts, by sqlglot's class."""
    from sqlglot import exp

    return {
        exp.RegexpExtract: _extracted,
        exp.RegexpLike: _matches,
        exp.ToChar: lambda generator, found: generator.func("TO_CHAR", found.this, found.args.get("format")),
    }


def _extracted(generator: Any, found: Any) -> str:
    return str(generator.func("REGEXP_EXTRACT", found.this, found.expression, found.args.get("group")))


def _matches(generator: Any, found: Any) -> str:
    text, pattern, flag = found.this, generator.sql(found, "expression"), found.args.get("flag")
    if found.args.get("full_match"):
        pattern = f"'^(?:' || ({pattern}) || ')$'"
    return str(generator.func("REGEXP_LIKE", text, pattern, flag))
