"""The function that names types: `typeof`."""

from typing import Final

import pyarrow as pa

from flightllm.common.type_names import name_of_text
from flightllm.functions.own import OwnFunction
from flightllm.functions.rows import each_row

TYPE_NAME: Final = "__type_name"
"""The name of `type_names` as an SQL function."""


def type_names(names: pa.Array) -> pa.Array:
    """Return the names in SQL of types that DataFusion's `arrow_typeof` names; other names stay."""
    return each_row(name_of_text, names)


FUNCTIONS: Final = (OwnFunction(type_names, (pa.string(),), pa.string(), TYPE_NAME),)
