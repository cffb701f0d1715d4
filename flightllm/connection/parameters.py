"""Python's values as the parameters of a statement."""

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, TypeAlias
from uuid import UUID

import pyarrow as pa

from flightllm.errors import InvalidInputError

Parameters: TypeAlias = Sequence[Any] | Mapping[str, Any]
"""Values for `?` and `$1`, in order; or values for `:name` and `$name`, by name."""


def row_of(parameters: Parameters | None) -> pa.RecordBatch | None:
    """Return one row with a column for each parameter, or None if there are no parameters.

    Raises:
        InvalidInputError: a value has no type of Arrow, or the parameters are neither a sequence nor a mapping.
    """
    if parameters is None:
        return None
    known: object = parameters
    if isinstance(known, str | bytes) or not isinstance(known, Sequence | Mapping):
        raise InvalidInputError("parameters are a list of values, or a dict of values by name")
    if not parameters:
        return None
    if isinstance(parameters, Mapping):
        columns = [_column(str(name), value) for name, value in parameters.items()]
        return pa.RecordBatch.from_arrays(columns, names=[str(name).lstrip(":$") for name in parameters])
    columns = [_column(str(place), value) for place, value in enumerate(parameters, 1)]
    return pa.RecordBatch.from_arrays(columns, names=[str(place) for place in range(len(columns))])


def check_names(sql: str, parameters: Parameters | None) -> None:
    """Check that a dict has a value for each `:name` and `$name` of a statement, and no other values.

    Raises:
        InvalidInputError: a name is missing, or the statement does not have a name.
        SqlError: the text mixes kinds of placeholders.
    """
    if not isinstance(parameters, Mapping):
        return
    from flightllm.sql.parameters import parameter_names  # slow to import
    from flightllm.sql.parsed_text import ParsedText

    names = parameter_names(ParsedText(sql))
    if any(name.isdecimal() for name in names):
        return  # `?` and `$1` take the values of a dict in their order
    given = [str(name).lstrip(":$") for name in parameters]
    missing = {name.lower() for name in names} - {name.lower() for name in given}
    if missing:
        raise InvalidInputError(f"the statement takes :{min(missing)}, which the parameters do not have")
    extra = {name.lower() for name in given} - {name.lower() for name in names}
    if extra:
        raise InvalidInputError(f"the parameters have {min(extra)!r}, which the statement does not take")


def _column(name: str, value: Any) -> pa.Array:
    try:
        if isinstance(value, pa.Scalar):
            return pa.array([value.as_py()], value.type)
        # With `from_pandas`, NaT and NA are NULL, but NaN is too.
        return pa.array([_as_text(value)], from_pandas=not _has_nan(value))
    except OverflowError as error:
        raise InvalidInputError(
            f"the parameter {name} is too large for a whole number of 64 bits: give a Decimal, or a text"
        ) from error
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidInputError(
            f"the parameter {name} is of the type {type(value).__name__}, which SQL does not have: {error}"
        ) from error


def _as_text(value: Any) -> Any:
    """Return UUIDs as texts, which SQL's columns have, also in lists and dicts; return other values unchanged."""
    if isinstance(value, list | tuple):
        return [_as_text(one) for one in value]
    if isinstance(value, dict):
        return {name: _as_text(one) for name, one in value.items()}
    return str(value) if isinstance(value, UUID) else value


def _has_nan(value: Any) -> bool:
    if isinstance(value, list | tuple | dict):
        return any(map(_has_nan, value.values() if isinstance(value, dict) else value))
    return isinstance(value, Real) and value != value  # noqa: PLR0124 - only NaN differs from itself
