"""Write functions over JSON texts."""

from collections.abc import Mapping
from typing import Any

from flightllm.dialect.generator.written import Written


def json_texts() -> Mapping[type, Written]:
    """Return the function that writes an expression over JSON, by sqlglot's class."""
    from sqlglot import exp

    return {
        exp.JSONExtractScalar: _read_as_text,
    }


def _read_as_text(generator: Any, found: Any) -> str:
    name = "JSON_VALUE" if found.args.get("scalar_only") else "JSON_EXTRACT_STRING"
    return str(generator.func(name, found.this, found.expression))
