"""Expressions: building, walking, rewriting."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from substrait.algebra_pb2 import Expression
from substrait.plan_pb2 import Plan
from substrait.type_pb2 import Type

from flightllm.plan import expressions as ex
from flightllm.plan.expressions import Functions, field

FUNCTIONS = Functions.of(Plan())


def expressions() -> st.SearchStrategy[Expression]:
    """Generate trees of AND, `=` and IS NULL over columns."""
    return st.recursive(
        st.integers(0, 9).map(field),
        lambda inner: st.one_of(
            st.builds(lambda a, b: FUNCTIONS.call("and", a, b), inner, inner),
            st.builds(lambda a, b: FUNCTIONS.call("equal", a, b), inner, inner),
            st.builds(lambda a: FUNCTIONS.call("is_null", a), inner),
        ),
        max_leaves=8,
    )


def path(index: int) -> Expression:
    """Build a reference to the first member of the struct column `index`."""
    expression = field(index)
    expression.selection.direct_reference.struct_field.child.struct_field.field = 0
    return expression


@given(expressions())
def test_substitute_identity(expression: Expression) -> None:
    """Replacing each column by itself changes nothing, and the original is never touched."""
    before = ex.key(expression)
    assert ex.key(ex.substitute(expression, field)) == before
    ex.substitute(expression, lambda _: ex.null(Type(bool=Type.Boolean())))
    assert ex.key(expression) == before


@given(expressions(), st.integers(0, 5))
def test_shift(expression: Expression, by: int) -> None:
    """Shifting moves the columns read, and back again."""
    moved = ex.shift(expression, by)
    assert ex.fields(moved) == {c + by for c in ex.fields(expression)}
    assert ex.key(ex.shift(moved, -by)) == ex.key(expression)


@given(st.lists(expressions(), min_size=1, max_size=5))
def test_conjunction(operands: list[Expression]) -> None:
    """Joining by AND and taking apart again gives the operands of the operands, in order."""
    joined = FUNCTIONS.conjunction(operands)
    assert joined is not None
    flat = [o for operand in operands for o in FUNCTIONS.operands(operand, "and")]
    assert list(map(ex.key, FUNCTIONS.operands(joined, "and"))) == list(map(ex.key, flat))


def test_empty_conjunction() -> None:
    """No operand, no condition; and no condition has a key of its own."""
    assert FUNCTIONS.conjunction([]) is None
    assert ex.key(None) == b""


def test_field_index() -> None:
    """Only a plain reference is a column; a path into a struct is not."""
    assert ex.field_index(field(3)) == 3
    assert ex.field_index(path(3)) is None
    assert ex.field_index(FUNCTIONS.call("is_null", field(3))) is None
    assert ex.fields(path(3)) == {3}


def test_struct_path() -> None:
    """A path follows its column to another place, but cannot be put on a computed one."""
    assert ex.key(ex.shift(path(3), 2)) == ex.key(path(5))
    with pytest.raises(ValueError, match="path into a struct"):
        ex.substitute(path(3), lambda _: ex.null(ex.BOOLEAN))


def test_functions() -> None:
    """The functions of a plan keep their anchors; those for guards are added once."""
    plan = Plan()
    function = plan.extensions.add().extension_function
    function.function_anchor, function.name = 7, "and"
    functions = Functions.of(plan)
    assert functions.name(functions.call("and", field(0), field(1))) == "and"
    assert [a for a, n in functions.names.items() if n == "and"] == [7]
    written = Plan()
    functions.declare(written)
    assert Functions.of(written) == functions


def test_volatile() -> None:
    """What may differ each time is found wherever it is inside."""
    functions = Functions({1: "random", 2: "and"})
    random = Expression(scalar_function=Expression.ScalarFunction(function_reference=1))
    assert functions.is_volatile(functions.call("and", field(0), random))
    assert not functions.is_volatile(functions.call("and", field(0), field(1)))
