"""Conditions that DataFusion gives to a scan: their trees, and the WHERE that a source can take over.

DataFusion hands over an expression of PyArrow, which offers no way to look inside. Its serialized form does: a record
batch with the constants, and a list of keys and values that spells the tree in prefix order.
"""

import ctypes
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from flightllm.attached.columns import Column, named

Literal: TypeAlias = "Callable[[pa.Scalar], exp.Expr | None]"

_COMPARISONS: Mapping[str, type[exp.Binary]] = {
    "equal": exp.EQ,
    "not_equal": exp.NEQ,
    "less": exp.LT,
    "less_equal": exp.LTE,
    "greater": exp.GT,
    "greater_equal": exp.GTE,
}
_TURNED = {"less": "greater", "less_equal": "greater_equal", "greater": "less", "greater_equal": "less_equal"}
_AND, _OR = frozenset({"and", "and_kleene"}), frozenset({"or", "or_kleene"})
_MOST_VALUES = 1_000
"""The longest list of IN that goes out."""


@dataclass(frozen=True, slots=True)
class Field:
    """A column by its name."""

    name: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant."""

    value: Any


@dataclass(frozen=True, slots=True)
class Call:
    """A call of one of Arrow's functions."""

    function: str
    arguments: "tuple[Tree, ...]"
    options: Mapping[str, Any]


Tree: TypeAlias = Field | Constant | Call


def read_tree(condition: pc.Expression) -> Tree | None:
    """Return the tree of a condition, or None for a form that is not known here."""
    try:
        _, (buffer, *_) = condition.__reduce__()
        batch = pa.ipc.open_file(buffer).get_batch(0)
        pairs = _pairs(batch.schema)
        found = _read(pairs, batch)
        return found if next(pairs, None) is None else None
    except Exception:  # noqa: BLE001 - the form belongs to PyArrow; without a tree the condition is applied here alone
        return None


class _ArrowSchema(ctypes.Structure):
    """The begin of ArrowSchema, by Arrow's C data interface."""

    _fields_ = (("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_void_p))


def _pairs(schema: pa.Schema) -> Iterator[tuple[str, str]]:
    """Yield the keys and values of a schema's metadata in order; PyArrow's own mapping drops repeated keys."""
    capsule = schema.__arrow_c_schema__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address = _ArrowSchema.from_address(pointer(capsule, b"arrow_schema")).metadata
    found = list[bytes]()
    if address:
        (count,) = struct.unpack("=i", ctypes.string_at(address, 4))
        address += 4
        for _ in range(2 * count):
            (size,) = struct.unpack("=i", ctypes.string_at(address, 4))
            found.append(ctypes.string_at(address + 4, size))
            address += 4 + size
    del capsule  # it owns the bytes that were read
    texts = [part.decode() for part in found]
    yield from zip(texts[::2], texts[1::2], strict=True)


def _read(pairs: "Iterator[tuple[str, str]]", batch: pa.RecordBatch) -> Tree:
    """Read one tree; the iterator stands after it then."""
    return _of(next(pairs), pairs, batch)


def _of(first: tuple[str, str], pairs: Iterator[tuple[str, str]], batch: pa.RecordBatch) -> Tree:
    key, value = first
    if key == "field_ref":
        return Field(value)
    if key == "literal":
        return Constant(batch.column(int(value))[0])
    if key != "call":
        raise ValueError(key)
    arguments, options = list[Tree](), dict[str, Any]()
    while (following := next(pairs))[0] != "end":
        if following[0] == "options":
            options = dict(batch.column(int(following[1]))[0].items())
        else:
            arguments.append(_of(following, pairs, batch))
    return Call(value, tuple(arguments), options)


def fields_of(tree: Tree) -> set[str]:
    """Return the names of the columns of a condition."""
    if isinstance(tree, Field):
        return {tree.name}
    return set().union(*map(fields_of, tree.arguments)) if isinstance(tree, Call) else set()


# --- the part that goes out


def where(tree: Tree | None, columns: Mapping[str, Column], literal: Literal) -> exp.Expr | None:
    """Return a condition in the source's dialect that all wanted rows fulfil; None if the source gets no condition.

    Other rows can fulfil it too: the whole condition is applied here to what comes back.
    """
    if not isinstance(tree, Call):
        return None
    if tree.function in _AND:
        parts = [found for one in tree.arguments if (found := where(one, columns, literal)) is not None]
        return exp.and_(*parts) if parts else None
    if tree.function in _OR:
        either = [where(one, columns, literal) for one in tree.arguments]
        known = [one for one in either if one is not None]
        return exp.paren(exp.or_(*known)) if len(known) == len(either) else None
    column = _column(tree.arguments[0], columns) if tree.arguments else None
    if tree.function in {"is_null", "is_valid"} and column is not None:
        tested = exp.Is(this=named(column), expression=exp.Null())
        return exp.paren(tested) if tree.function == "is_null" else exp.not_(exp.paren(tested))
    if tree.function == "is_in" and column is not None and column.compared:
        return _in(column, tree.options.get("value_set"), literal)
    if tree.function in _COMPARISONS and len(tree.arguments) == 2:
        return _compared(tree, columns, literal)
    return None


def is_exact(tree: Tree | None, columns: Mapping[str, Column], literal: Literal) -> bool:
    """Return whether the source finds exactly the rows of a condition, with the result of `where`.

    Texts do not count: a collation of the source can find more of them equal.
    """
    if not isinstance(tree, Call):
        return False
    if tree.function in _AND or tree.function in _OR:
        return all(is_exact(one, columns, literal) for one in tree.arguments)
    found = [column for one in tree.arguments if (column := _column(one, columns)) is not None]
    kinds = (pa.types.is_integer, pa.types.is_decimal, pa.types.is_date, pa.types.is_timestamp)
    plain = tree.function in {"is_null", "is_valid"} or any(kind(one.type) for one in found for kind in kinds)
    return plain and where(tree, columns, literal) is not None


def _column(tree: Tree, columns: Mapping[str, Column]) -> Column | None:
    return columns.get(tree.name) if isinstance(tree, Field) else None


def _compared(tree: Call, columns: Mapping[str, Column], literal: Literal) -> exp.Expr | None:
    function, (left, right) = tree.function, tree.arguments
    if isinstance(left, Constant):
        function, left, right = _TURNED.get(function, function), right, left
    column = _column(left, columns)
    if column is None or not isinstance(right, Constant) or not fits(column.type, right.value.type):
        return None
    if column.compared != "order" and not (function == "equal" and column.compared == "equality"):
        return None
    constant = literal(right.value)
    if constant is None:
        return None
    side = column.same if function == "equal" else column.key
    return _COMPARISONS[function](this=side(named(column)), expression=constant)


def _in(column: Column, values: Any, literal: Literal) -> exp.Expr | None:
    if not isinstance(values, pa.ListScalar) or len(values) > _MOST_VALUES:
        return None
    constants = [literal(one) for one in values if one.is_valid and fits(column.type, one.type)]
    known = [one for one in constants if one is not None]
    if not known or len(known) < len(values):
        return None
    return exp.In(this=column.same(named(column)), expressions=known)


def fits(column: pa.DataType, constant: pa.DataType) -> bool:
    """Return whether a constant has the kind of its column: DataFusion casts one of them if the kinds differ."""
    kinds = (
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_decimal,
        pa.types.is_boolean,
        pa.types.is_date,
        lambda one: pa.types.is_string(one) or pa.types.is_large_string(one),
        lambda one: pa.types.is_timestamp(one) and one.tz is None,
        lambda one: pa.types.is_timestamp(one) and one.tz is not None,
    )
    return any(kind(column) and kind(constant) for kind in kinds)


# --- the whole condition, applied here


def applied(tree: Tree | None, condition: pc.Expression, schema: pa.Schema) -> pc.Expression:
    """Return the condition with DataFusion's order of floats, in which NaN equals itself and is above all numbers."""
    return condition if tree is None or not _has_floats(tree, schema) else _expression(tree, schema)


def _has_floats(tree: Tree, schema: pa.Schema) -> bool:
    if isinstance(tree, Field):
        return bool(pa.types.is_floating(schema.field(tree.name).type))
    if isinstance(tree, Constant):
        return bool(pa.types.is_floating(tree.value.type))
    return any(_has_floats(one, schema) for one in tree.arguments)


def _expression(tree: Tree, schema: pa.Schema) -> pc.Expression:
    if isinstance(tree, Field):
        return pc.field(tree.name)
    if isinstance(tree, Constant):
        return pc.scalar(tree.value)
    parts = [_expression(one, schema) for one in tree.arguments]
    if tree.function in _AND:
        return parts[0] & parts[1]
    if tree.function in _OR:
        return parts[0] | parts[1]
    if tree.function == "is_in":
        return parts[0].isin(pa.array(tree.options["value_set"].as_py(), tree.options["value_set"].type.value_type))
    if tree.function in _COMPARISONS and any(_has_floats(one, schema) for one in tree.arguments):
        return _of_floats(tree.function, *parts)
    return pc.Expression._call(tree.function, parts)  # noqa: SLF001 - the public functions call it by name


def _of_floats(function: str, left: pc.Expression, right: pc.Expression) -> pc.Expression:
    left, right = left.cast(pa.float64()), right.cast(pa.float64())
    left_nan, right_nan = pc.is_nan(left), pc.is_nan(right)
    match function:
        case "equal":
            return (left == right) | (left_nan & right_nan)
        case "not_equal":
            return ~((left == right) | (left_nan & right_nan))
        case "less":
            return (left < right) | (right_nan & ~left_nan)
        case "less_equal":
            return (left <= right) | right_nan
        case "greater":
            return (left > right) | (left_nan & ~right_nan)
        case _:
            return (left >= right) | left_nan
