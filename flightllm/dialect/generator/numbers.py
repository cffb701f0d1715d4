"""Write functions over numbers."""

import re
from collections.abc import Mapping
from typing import Any

from flightllm.dialect.generator.written import Written

_NUMBER = re.compile(r"\d+(\.\d+)?")


def numbers() -> Mapping[type, Written]:
    """Return the function that writes an expression over numbers, by sqlglot's class."""
    from sqlglot import exp

    return {exp.IntDiv: _whole, exp.BitwiseXor: _exclusive, exp.Neg: _negative}


def _whole(generator: Any, found: Any) -> str:
    if generator.read_from == "duckdb":  # a pass divides by the types of the operands
        return f"(({generator.sql(found, 'this')}) // ({generator.sql(found, 'expression')}))"
    return f"CAST(({generator.sql(found, 'this')}) / ({generator.sql(found, 'expression')}) AS BIGINT)"


def _exclusive(generator: Any, found: Any) -> str:
    left, right = (f"({generator.sql(found, side)})" for side in ("this", "expression"))
    return f"(({left} | {right}) - ({left} & {right}))"


def _negative(generator: Any, found: Any) -> str:
    """Write `-'1'`, which clients send as a number of units, as the number."""
    from sqlglot import exp

    value = found.this
    if isinstance(value, exp.Literal) and value.is_string and _NUMBER.fullmatch(value.name):
        return f"-{value.name}"
    return str(generator.neg_sql(found))
