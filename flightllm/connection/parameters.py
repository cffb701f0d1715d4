"""Python's values as the parameters of a statement."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

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
    given = parameters if isinstance(parameters, Mapping) else {str(i): one for i, one in enumerate(parameters)}
    columns = [_column(name, value) for name, value in given.items()]
    return pa.RecordBatch.from_arrays(columns, names=[str(name).lstrip(":$") for name in given])


def _column(name: str, value: Any) -> pa.Array:
    try:
        if isinstance(value, pa.Scalar):
            return pa.array([value.as_py()], value.type)
        return pa.array([value], from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"the parameter {name} is of the type {type(value).__name__}, which SQL does not have: {error}"
        ) from error
