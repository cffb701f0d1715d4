"""Build, walk and rewrite Substrait expressions; messages are treated as immutable and copied before any change."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from google.protobuf.message import Message
from substrait.algebra_pb2 import Expression, FetchRel, FunctionArgument, Rel
from substrait.extensions.extensions_pb2 import SimpleExtensionDeclaration
from substrait.plan_pb2 import Plan
from substrait.type_pb2 import Type

_M = TypeVar("_M", bound=Message)

_DATAFUSION_URN = 4294967295
"""DataFusion's marker for functions that belong to no extension file."""

_BUILDING_BLOCKS = ("and", "is_true", "is_not_true", "is_not_false", "is_null", "is_not_null", "equal")

_VOLATILE = frozenset({"random", "uuid"})

BOOLEAN = Type(bool=Type.Boolean(nullability=Type.NULLABILITY_NULLABLE))


@dataclass(frozen=True, slots=True)
class Functions:
    """The functions that a plan can call, by the anchor that its expressions use."""

    names: Mapping[int, str]
    others: tuple[SimpleExtensionDeclaration, ...] = ()
    """The other declarations of the plan, such as the type of an untyped NULL."""

    @classmethod
    def of(cls, plan: Plan) -> "Functions":
        """Read the functions that `plan` declares, and add the functions that guards are built from."""
        declared = [e.extension_function for e in plan.extensions if e.HasField("extension_function")]
        others = tuple(e for e in plan.extensions if not e.HasField("extension_function"))
        names = {function.function_anchor: function.name for function in declared}
        anchor = max(names, default=0) + 1
        for name in _BUILDING_BLOCKS:
            if name not in names.values():
                names[anchor] = name
                anchor += 1
        return cls(names, others)

    def name(self, expression: Expression) -> str | None:
        """Return the name of the scalar function that `expression` calls, or None if it is not a call."""
        if expression.WhichOneof("rex_type") != "scalar_function":
            return None
        return self.names[expression.scalar_function.function_reference]

    def declare(self, plan: Plan) -> None:
        """Write all functions and types into `plan`'s extensions."""
        plan.extensions.extend(self.others)
        for anchor, name in self.names.items():
            function = plan.extensions.add().extension_function
            function.extension_urn_reference = _DATAFUSION_URN
            function.function_anchor = anchor
            function.name = name

    def call(self, name: str, *arguments: Expression) -> Expression:
        """Build a call of one of the boolean building blocks."""
        anchor = next(a for a, n in self.names.items() if n == name)
        return Expression(
            scalar_function=Expression.ScalarFunction(
                function_reference=anchor,
                arguments=[FunctionArgument(value=a) for a in arguments],
                output_type=BOOLEAN,
            )
        )

    def conjunction(self, operands: Iterable[Expression]) -> Expression | None:
        """Join `operands` by AND; None for no operand."""
        result: Expression | None = None
        for operand in operands:
            result = operand if result is None else self.call("and", result, operand)
        return result

    def is_volatile(self, expression: Expression) -> bool:
        """Return whether `expression` can differ at each evaluation, so that it must be evaluated once for each row."""
        return any(self.name(e) in _VOLATILE for e in walk(expression))

    def operands(self, expression: Expression, name: str) -> list[Expression]:
        """Flatten nested calls of `name` ("and", "or") into their operands, in order."""
        if self.name(expression) != name:
            return [expression]
        return [o for argument in arguments(expression) for o in self.operands(argument, name)]


def arguments(expression: Expression) -> list[Expression]:
    """Return the value arguments of a scalar function call."""
    return [a.value for a in expression.scalar_function.arguments if a.HasField("value")]


def field(index: int) -> Expression:
    """Build a reference to column `index` of the input."""
    reference = Expression.FieldReference(root_reference=Expression.FieldReference.RootReference())
    reference.direct_reference.struct_field.field = index
    reference.direct_reference.struct_field.SetInParent()
    return Expression(selection=reference)


def field_index(expression: Expression) -> int | None:
    """Return the column that `expression` refers to, or None if it is not a plain reference."""
    if expression.WhichOneof("rex_type") != "selection" or not expression.selection.HasField("root_reference"):
        return None
    segment = expression.selection.direct_reference.struct_field
    return None if segment.HasField("child") else segment.field


def null(type_: Type) -> Expression:
    """Build a NULL of the given type."""
    return Expression(literal=Expression.Literal(null=type_, nullable=True))


def only_where(condition: Expression, expression: Expression) -> Expression:
    """Build an expression that is `expression` where `condition` is true, and NULL elsewhere."""
    clause = Expression.IfThen.IfClause(then=expression)
    getattr(clause, "if").CopyFrom(condition)
    return Expression(if_then=Expression.IfThen(ifs=[clause]))


def slots(message: Message) -> Iterator[Expression]:
    """Yield the outermost expressions inside `message`, in place, without entering the relations of subqueries."""
    if isinstance(message, Expression):  # most expressions are like these; Protocol Buffers list fields slowly
        if is_leaf(message):
            return
        if message.WhichOneof("rex_type") == "scalar_function":
            yield from (one.value for one in message.scalar_function.arguments if one.HasField("value"))
            return
    for descriptor, value in message.ListFields():
        if descriptor.message_type is None:
            continue
        repeated = not isinstance(value, Message)
        for item in value if repeated else (value,):
            if isinstance(item, Expression):
                yield item
            elif not isinstance(item, Rel):
                yield from slots(item)


def is_leaf(expression: Expression) -> bool:
    """Return whether an expression is a literal, or a field of the input."""
    kind = expression.WhichOneof("rex_type")
    if kind == "selection":
        return str(expression.selection.WhichOneof("root_type")) != "expression"
    return str(kind) == "literal"


def walk(expression: Expression) -> Iterator[Expression]:
    """Yield `expression` and all expressions below it, except those in subqueries."""
    yield expression
    for slot in slots(expression):
        yield from walk(slot)


def rebuild(message: _M, function: Callable[[Expression], Expression]) -> _M:
    """Return a copy of `message`, an expression or a relation without inputs, with `function` applied to operands."""
    copy = type(message)()
    copy.CopyFrom(message)
    for slot in list(slots(copy)):
        replaced = function(slot)
        if replaced is not slot:
            slot.CopyFrom(replaced)
    return copy


def with_slots(message: _M, operands: Iterable[Expression]) -> _M:
    """Return a copy of `message` whose outermost expressions are `operands`, in the order of `slots`."""
    following = iter(operands)
    return rebuild(message, lambda _: next(following))


def fields(expression: Expression) -> frozenset[int]:
    """Return the columns of the input that `expression` reads."""
    return frozenset(
        e.selection.direct_reference.struct_field.field
        for e in walk(expression)
        if e.WhichOneof("rex_type") == "selection" and e.selection.HasField("root_reference")
    )


def substitute(expression: Expression, column: Callable[[int], Expression]) -> Expression:
    """Replace every column reference by `column(index)`.

    A reference into a struct column keeps its path, so `column` must then return a plain reference.
    """
    if expression.WhichOneof("rex_type") == "selection" and expression.selection.HasField("root_reference"):
        index = expression.selection.direct_reference.struct_field.field
        target = column(index)
        if not expression.selection.direct_reference.struct_field.HasField("child"):
            return target
        moved = field_index(target)
        if moved is None:
            raise ValueError("a path into a struct cannot follow a computed column")
        copy = Expression()
        copy.CopyFrom(expression)
        copy.selection.direct_reference.struct_field.field = moved
        return copy
    return rebuild(expression, lambda e: substitute(e, column))


def shift(expression: Expression, by: int) -> Expression:
    """Add `by` to the index of every column reference."""
    return substitute(expression, lambda index: field(index + by))


def key(expression: Expression | None) -> bytes:
    """Return bytes that are equal for equal expressions."""
    return b"" if expression is None else expression.SerializeToString(deterministic=True)


def text(expression: Expression) -> str | None:
    """Return the text of a text literal, or None if the expression is not a text literal."""
    if expression.WhichOneof("rex_type") == "cast":
        return text(expression.cast.input)
    if expression.WhichOneof("rex_type") != "literal" or expression.literal.WhichOneof("literal_type") != "string":
        return None
    return str(expression.literal.string)


def bounds(rel: FetchRel) -> tuple[int, int | None] | None:
    """Return how many rows a Fetch skips and keeps (None: all); return None where these are not literals."""
    offset = _literal(rel.offset_expr, 0) if rel.HasField("offset_expr") else 0
    count = _literal(rel.count_expr, -1) if rel.HasField("count_expr") else -1
    if offset is None or count is None:
        return None
    return offset, None if count < 0 else count


def at_most(rows: int) -> FetchRel:
    """Build a Fetch without input, to keep the first `rows` rows."""
    return FetchRel(count_expr=Expression(literal=Expression.Literal(i64=rows)))


def _literal(expression: Expression, null: int) -> int | None:
    if expression.WhichOneof("rex_type") != "literal":
        return None
    kind = expression.literal.WhichOneof("literal_type") or "null"
    return null if kind == "null" else int(getattr(expression.literal, kind))
