"""Write functions over numbers."""

from collections.abc import Mapping
from typing import Any

from flightllm.dialect.generator.written import Written


def numbers() -> Mapping[type, Written]:
    """Return the function that writes an expression over numbers, by sqlglot's class."""
    from sqlglot import exp

    return {exp.IntDiv: _whole}


def _whole(generator: Any, found: Any) -> str:
    return f"CAST(({generator.sql(found, 'this')}) / ({generator.sql(found, 'expression')}) AS BIGINT)"
