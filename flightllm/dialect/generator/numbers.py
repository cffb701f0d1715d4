"""Write functions over numbers."""

import re
from collections.abc import Mapping
from typing import Any, Final

from flightllm.dialect.generator.calls import vendor_call
from flightllm.dialect.generator.written import Written
from flightllm.errors import UnsupportedError
from flightllm.functions.divisors import DIVISOR

_NUMBER = re.compile(r"\d+(\.\d+)?")


def numbers() -> Mapping[type, Written]:
    """Return the function that writes an expression over numbers, by sqlglot's class."""
    from sqlglot import exp

    return {exp.IntDiv: _whole, exp.BitwiseXor: _exclusive, exp.Div: _quotient, exp.Neg: _negative}


_ZERO_REFUSED: Final = ("bigquery", "databricks", "snowflake")
"""Dialects in which a division by zero is an error, also one of doubles."""


def _quotient(generator: Any, found: Any) -> str:
    """Write a quotient; DataFusion divides a double by zero, so a divisor that can be zero is checked.

    In a condition, such a quotient is NULL: DataFusion computes it also for rows that another condition rules out.
    """
    from sqlglot import exp

    kinds = [one.to.this if isinstance(one, exp.Cast) else None for one in (found.left, found.right)]
    is_double = exp.DType.DOUBLE in kinds or not any(one in exp.DataType.REAL_TYPES for one in kinds)
    if generator.read_from not in _ZERO_REFUSED or not is_double or _is_never_zero(found.right):
        return str(generator.div_sql(found))
    divisor = generator.sql(found, "expression")
    checked = f"nullif({divisor}, 0)" if _is_in_condition(found) else f"{DIVISOR}({divisor})"
    sides = generator.sql(found, "this"), checked
    return " / ".join(f"CAST({one} AS DOUBLE)" for one in sides)


def _is_in_condition(found: Any) -> bool:
    """Return whether another condition of the query can rule out rows for which DataFusion computes a value."""
    from sqlglot import exp

    conditions = (exp.Where, exp.Having, exp.Qualify, exp.Join, exp.And, exp.Or)
    return isinstance(found.find_ancestor(exp.Query, *conditions), conditions)


def _is_never_zero(value: Any) -> bool:
    """Return whether a divisor is another number than 0, or `nullif(…, 0)`."""
    from sqlglot import exp

    made: Any = vendor_call()
    inner = value.unnest() if isinstance(value, exp.Paren) else value
    inner = inner.this if isinstance(inner, exp.Neg) else inner
    if isinstance(inner, made):
        args = inner.args["expressions"]
        return (
            str(inner.args["this"]) == "NULLIF" and len(args) == 2 and _is_number(args[1]) and not float(args[1].name)
        )
    return _is_number(inner) and float(inner.name) != 0


def _is_number(value: Any) -> bool:
    from sqlglot import exp

    return isinstance(value, exp.Literal) and not value.is_string


def _whole(generator: Any, found: Any) -> str:
    if generator.read_from == "duckdb":  # a pass divides by the types of the operands
        return f"(({generator.sql(found, 'this')}) // ({generator.sql(found, 'expression')}))"
    return f"CAST(({generator.sql(found, 'this')}) / ({generator.sql(found, 'expression')}) AS BIGINT)"


def _exclusive(generator: Any, found: Any) -> str:
    """Write the operator `^`; the functions of its meaning are calls.

    Raises:
        UnsupportedError: the dialect has no such operator.
    """
    if generator.read_from == "snowflake":
        raise UnsupportedError("snowflake has no operator ^: write BITXOR(a, b), or POWER(a, b) for a power")
    left, right = (f"({generator.sql(found, side)})" for side in ("this", "expression"))
    return f"(({left} | {right}) - ({left} & {right}))"


def _negative(generator: Any, found: Any) -> str:
    """Write `-'1'`, which clients send as a number of units, as the number."""
    from sqlglot import exp

    value = found.this
    if isinstance(value, exp.Literal) and value.is_string and _NUMBER.fullmatch(value.name):
        return f"-{value.name}"
    return str(generator.neg_sql(found))
