"""Order arrays as PostgreSQL does: a NULL element is greater than all others. For DataFusion it is the least."""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from flightllm.common.arrow_types import is_list
from flightllm.errors import UnsupportedError
from flightllm.functions.array_keys import KEY_FUNCTIONS
from flightllm.sql.nodes import Json
from flightllm.sql.passes.array_values import array_of
from flightllm.sql.passes.by_key import ORDERS, KeyWriter
from flightllm.sql.query_columns import TableColumns, Type, common_type
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import BETWEEN_TIMES, INTERVAL

COMPARED: Final = frozenset({"<", "<=", ">", ">=", "between", "order", "min", "max", "greatest", "least"})
"""The words and signs that order values."""
_KEY: Final = pa.decimal128(38, 10)


def array_order(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `l < ARRAY[2, 5]` as a comparison of keys, in which NULL is the greatest element.

    Also in BETWEEN, ORDER BY, min and max, greatest and least.

    Raises:
        UnsupportedError: the elements have no such key, or a clause has no such form.
    """
    return tree.rebuilt(KeyWriter(tree, columns_of, _Arrays()).changed)


class _Arrays:
    """Arrays by their elements, each after the word whether it is NULL."""

    operators: Final = ORDERS
    said: Final = (
        "orders arrays, in which NULL is the greatest element: write first_value(…) OVER (… ORDER BY …), or compare"
        " the elements"
    )

    def has(self, given: Type) -> bool:
        """Return whether a type is that of arrays."""
        return given is not None and is_list(given)

    def key(self, tree: Tree, value: Json, types: Sequence[Type]) -> Json:
        """Return the key of an array, or of the text of one."""
        arrays = [one for one in types if one is not None and is_list(one)]
        if types[0] == pa.string():
            value = array_of(tree, value, arrays[0] if arrays else pa.list_(pa.string()))
        elements = [one.value_type for one in arrays]
        while any(map(is_list, elements)):
            value = written("flatten(v)", v=value)
            elements = [one.value_type for one in elements if is_list(one)]
        name = KEY_FUNCTIONS.get(_key_element(common_type(elements)))
        if name is None:
            raise UnsupportedError(
                f"the arrays at {tree.position(value)} have no order: compare their elements, as in l[1] < r[1]"
            )
        return written(f"{name}(v)", v=value)


def _key_element(element: Type) -> Type:
    """Return the type of the key's elements; another type for elements that have no key."""
    if element is None or element in {INTERVAL, BETWEEN_TIMES}:
        return None
    if pa.types.is_decimal(element):
        return _KEY if element.scale <= _KEY.scale else element
    if pa.types.is_null(element) or pa.types.is_uint64(element):
        return _KEY
    if pa.types.is_timestamp(element):
        return pa.timestamp("ns", "UTC" if element.tz else None)
    for test, found in _KINDS:
        if test(element):
            return found
    return element


_KINDS: Final = (
    (pa.types.is_integer, pa.int64()),
    (pa.types.is_floating, pa.float64()),
    (pa.types.is_string, pa.string()),
    (pa.types.is_large_string, pa.string()),
    (pa.types.is_string_view, pa.string()),
    (pa.types.is_binary, pa.binary()),
    (pa.types.is_large_binary, pa.binary()),
    (pa.types.is_date, pa.date32()),
    (pa.types.is_time, pa.time64("ns")),
)
