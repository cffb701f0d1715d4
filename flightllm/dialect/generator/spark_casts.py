"""Write the casts of Spark: a time is a number of seconds since 1970, and a number such a time."""

import re
from typing import Any, Final

from flightllm.sql.passes.spark_values import AS_NUMBER, AS_TIME

_TIMES: Final = ("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMPNTZ")
_MONTH: Final = re.compile(r"\d{4}(?:-\d\d)?")
"""A text of a date that lacks its day, or its month too."""
_DECIMAL: Final = re.compile(r"\d*\.?\d+")
"""A number without an exponent, which is a decimal of Spark."""


def spark_cast(generator: Any, found: Any) -> str | None:
    """Return the text of a cast to a number or a time, or None for other casts.

    A time has no zone here: Spark shows it in the zone of the session, which is UTC.
    """
    from sqlglot import exp

    value, kind = found.this, found.to.this
    cast = "TRY_CAST" if found.args.get("safe") else "CAST"
    inner = value.this if isinstance(value, exp.Neg) else value
    if kind.name == "DATE" and _is_text(inner) and _MONTH.fullmatch(inner.name):
        return f"{cast}('{inner.name}{'-01' * (2 - inner.name.count('-'))}' AS DATE)"
    if kind.name in _TIMES:
        text = generator.sql(value)
        return f"{cast}({text if _is_text(inner) else f'{AS_TIME}({text})'} AS TIMESTAMP)"
    to = generator.sql(found.to) if kind.name != "DECIMAL" or found.to.expressions else "DECIMAL(10, 0)"
    if kind.name == "DECIMAL" and isinstance(inner, exp.Literal):
        exact = _DECIMAL.fullmatch(inner.name) and not inner.is_string  # as a double it would lose digits
        number = f"'{'-' if inner is not value else ''}{inner.name}'" if exact else generator.sql(value)
        return f"{cast}({number} AS {to})"
    if kind in exp.DataType.NUMERIC_TYPES and not isinstance(inner, exp.Literal):
        unit = "whole" if kind in exp.DataType.INTEGER_TYPES else "fraction"
        return f"{cast}({AS_NUMBER}({generator.sql(value)}, '{unit}') AS {to})"
    return None


def _is_text(value: Any) -> bool:
    from sqlglot import exp

    return isinstance(value, exp.Literal) and bool(value.is_string)
