"""Write that two values are equal, or are both NULL, so that a join reads it as its keys.

`IS NOT DISTINCT FROM` gives the other joins of a chain the wrong meaning of NULL. Structs lose their rows with NULL to
the filters that a join sends to its other side.
"""

from collections.abc import Callable
from typing import Final

import pyarrow as pa

from flightllm.sql.nodes import Json
from flightllm.sql.query_columns import Type
from flightllm.sql.tree import written
from flightllm.sql.types import is_number

_EQUAL: Final = (
    "(coalesce({a}, {none}) = coalesce({b}, {none}) AND (a IS NULL) = (b IS NULL) AND (a IS NULL) <> (b IS NOT NULL))"
)
"""The last condition cannot be a key of a join: DataFusion forgets a key if it finds late that one side is constant."""


def null_safe(left: Json, right: Json, left_type: Type, right_type: Type) -> Json:
    """Return the condition, which is never NULL. With unknown types, a join compares all pairs of rows."""
    return written(_form(left_type, right_type), a=left, b=right)


def same_value(left: Json, right: Json, of: Type, texts: tuple[str, str] | None = None) -> Json:
    """Return the condition for two values of one type, which can be unknown: it is always a key of a join.

    `texts` is the SQL of the texts of the values `a` and `b`, for a type without a cast to a text.
    """
    form = _of_one_type(of) if texts is None else _EQUAL.format(a=texts[0], b=texts[1], none="''")
    return written(form, a=left, b=right)


def _form(left: Type, right: Type) -> str:
    if left is None or (left != right and not (is_number(left) and is_number(right))):
        return "coalesce(a = b OR (a IS NULL AND b IS NULL), false)"
    return _of_one_type(left)


def _of_one_type(of: Type) -> str:
    if of is not None and is_number(of):
        return _EQUAL.format(a="a", b="b", none="0")
    if of is not None and any(test(of) for test in _BYTES):  # bytes need not be a text
        return _EQUAL.format(a="encode(a, 'hex')", b="encode(b, 'hex')", none="''")
    texts = _EQUAL.format(a="CAST(a AS text)", b="CAST(b AS text)", none="''")
    if of is None or pa.types.is_nested(of):  # lists such as ['a, b'] and ['a', 'b'] have one text
        return f"({texts} AND coalesce(a = b, true))"
    return texts


_BYTES: Final[tuple[Callable[[pa.DataType], bool], ...]] = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
)
