"""Plans a query whose AI calls are stubs: DataFusion resolves and decorrelates it, then our nodes take over.

`list_arguments` comes before: only DataFusion knows the types of expressions, and so which arguments are lists.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa
from datafusion import DataFrame, SessionContext, udf
from datafusion.substrait import Producer
from substrait.algebra_pb2 import Expression
from substrait.plan_pb2 import Plan

from flightllm.common.names import LAMBDA_PREFIX
from flightllm.datafusion.contexts import analyzed, unfolded
from flightllm.datafusion.errors import EVALUATED_EARLY, mapped_error
from flightllm.errors import AICallError, LimitExceededError, SqlError
from flightllm.functions.call import MODEL, AICall
from flightllm.plan.bounds import Unbounded
from flightllm.plan.call_hoisting import hoist_calls
from flightllm.plan.comparisons import fold_comparisons, promises
from flightllm.plan.expressions import Functions
from flightllm.plan.nodes import Node, own_messages, walk
from flightllm.plan.pin_time import pin_time
from flightllm.plan.pushdown import push_down
from flightllm.plan.substrait import NotExpressibleError, SubstraitReader, messages

_CORRELATED = "outer_ref("
"""The text in a plan that marks a column of an outer query."""
_NOTHING_FITS = pa.map_(pa.int8(), pa.int8())
"""A type that DataFusion casts nothing to, so that its error names the types of the arguments."""
_CALL, _GIVEN, _WANTED = "a call to '", "' function: coercion from ", " to the signature Exact("
_LIST = re.compile(r"(?:Large|FixedSize)?List(?:View)?\((.*)\)$")
_NESTED = re.compile(r"(?:non-null )?(?:\w*List\w*|Struct|Map)\(")


@dataclass(frozen=True, slots=True)
class PlannedQuery:
    """A query as a tree of nodes, and the functions that its expressions call."""

    root: Node
    functions: Functions
    calls: Mapping[str, AICall]
    """The calls by stub: those of the text, and those that stand for a comparison."""


def register_stubs(context: SessionContext, calls: Mapping[str, AICall]) -> None:
    """Declare one volatile scalar function per AI call: DataFusion then checks its use and casts its arguments."""
    for stub, call in calls.items():

        def never(*_: pa.Array, text: str = call.text) -> pa.Array:
            raise SqlError(f"{text} {EVALUATED_EARLY}")

        inputs = [call.takes] * max(1, len(call.fields))
        context.register_udf(udf(never, inputs, call.type, "volatile", stub))


def plan_query(
    context: SessionContext,
    frame: DataFrame,
    calls: Mapping[str, AICall],
    unbounded: Unbounded | None = None,
    *,
    folds: bool = False,
) -> PlannedQuery:
    """Convert the plan of a frame, made in a planning context in which the stubs of `calls` are registered.

    Where planning could evaluate an expression without a bound, the context no longer folds constants. With `folds`, a
    comparison of any call with constants becomes a boolean call, and not only of calls with a promise.

    Raises:
        LimitExceededError: DataFusion would evaluate an unbounded query while it decorrelates a subquery.
        SqlError: constant folding fails.
        AICallError: a call that answers a number makes a promise, and no comparison with a number is around it.
        NotExpressibleError: Substrait or our nodes cannot express the plan.
    """
    if unbounded is not None and not unbounded.while_planned:
        unbounded = None
    if unbounded is not None:
        if _CORRELATED in frame.logical_plan().display_indent():
            raise LimitExceededError(
                f"{unbounded}; with AI calls and correlated subqueries, a part of a query is evaluated while it is"
                " planned: write a JOIN in place of the subquery, or a smaller value"
            )
        frame = unfolded(context, frame)
    try:
        logical = frame.optimized_logical_plan()
    except Exception as error:  # the boundary to DataFusion, which raises builtin exceptions
        raise mapped_error(error) from error
    _check_carried(logical.display_indent())
    if LAMBDA_PREFIX in logical.display_indent():  # the columns of a lambda's body would keep their old positions
        raise NotExpressibleError("our nodes cannot move the columns of a lambda")
    try:
        encoded = Producer.to_substrait_plan(logical, context).encode()
    except Exception as error:  # DataFusion has no class of its own for this
        raise NotExpressibleError(_first_line(error)) from error
    plan = Plan.FromString(encoded)
    if unbounded is not None:
        pin_time(plan)
    functions = Functions.of(plan)
    reader = SubstraitReader(functions, _null_aware(logical.display_indent()), calls)
    read = reader.read(plan.relations[0].root.input)
    if folds or any(call.promise is not None for call in calls.values()):
        wants = (lambda _: True) if folds else promises
        read, functions, calls = fold_comparisons(read, functions, calls, wants)
    read = push_down(read, functions, calls)
    root = hoist_calls(read, functions, calls)
    _check_lifted(root, functions, calls)
    return PlannedQuery(root, functions, calls)


def _check_lifted(root: Node, functions: Functions, calls: Mapping[str, AICall]) -> None:
    """Raise NotExpressibleError where a call is left in an expression: in VALUES, or in a subquery of a sort key."""
    for node in walk(root):
        for call in (c for m in own_messages(node) for c in messages(m, Expression.ScalarFunction)):
            if functions.names[call.function_reference] in calls:
                raise NotExpressibleError(f"an AI call is in a {type(node).__name__.lower()}, where no AI call can run")


def _null_aware(plan_text: str) -> list[bool]:
    """Tell for each left anti join, in pre-order, whether it is a `NOT IN`; only the plan's text says so."""
    lines = (line.strip() for line in plan_text.splitlines())
    return [line.endswith("null_aware") for line in lines if line.startswith("LeftAnti Join")]


_BOUND = r"(?:UNBOUNDED PRECEDING|CURRENT ROW|UNBOUNDED FOLLOWING)"
_LOST = (
    ("WindowAggr:", re.compile(rf"IGNORE NULLS|FILTER \(|RANGE BETWEEN (?!{_BOUND} AND {_BOUND})")),
    ("Aggregate:", re.compile("IGNORE NULLS")),
)


def _check_carried(plan_text: str) -> None:
    """Check that the plan has no function modifier that DataFusion's Substrait silently drops.

    These are IGNORE NULLS, the FILTER of a window function, and the offset of a RANGE frame.
    """
    for line in map(str.strip, plan_text.splitlines()):
        for kind, modifier in _LOST:
            if line.startswith(kind) and (found := modifier.search(line)):
                raise NotExpressibleError(f"Substrait would lose {found[0].strip(' (')} of a function")


def _first_line(error: Exception) -> str:
    text = str(error).split("{", 1)[0].split(" input", 1)[0]
    return re.sub(r'^(?:\w+\("?)+', "", text.split("\n", 1)[0]).strip(' ")')[:200]


def list_arguments(
    context: SessionContext, plan: Callable[[], DataFrame], calls: Mapping[str, AICall]
) -> Mapping[str, frozenset[int]]:
    """Return, by stub, the positions of arguments that are lists; stubs without lists are left out.

    `plan` plans the query in `context`. It runs once for each call that takes texts, each time with one call's types
    still unknown, and reads the types from DataFusion's error. Where it fails for another reason, the real planning
    fails as well. A plan without casts has no lists among its texts; see `schema_without_cast`.

    Raises:
        AICallError: the elements are structs or lists themselves, or a call that is not answered by a language model
            has a list.
    """
    unknown = {stub: call for stub, call in calls.items() if call.takes == pa.string() and call.fields}
    for stub, call in calls.items():
        _register(context, stub, call, _NOTHING_FITS if stub in unknown else call.takes)
    found: dict[str, frozenset[int]] = {}
    while unknown:
        given = _given(plan)
        if given is None or given[0] not in unknown:
            return found
        stub, types = given
        call = unknown.pop(stub)
        _register(context, stub, call, call.takes)
        if lists := frozenset(place for place, type_ in enumerate(types) if _is_list(type_, call, place)):
            if call.backend != MODEL:
                raise AICallError(
                    f"{call.text}: {call.fields[min(lists)]} is a list, but must be a text; only an index over a column"
                    " of vectors can be searched with a list of numbers"
                )
            found[stub] = lists
    return found


def schema_without_cast(context: SessionContext, frame: DataFrame) -> pa.Schema | None:
    """Return a query's columns with coerced types if its plan certainly casts nothing, or None.

    The text of a plan leaves out most rows of VALUES, so a plan with VALUES gives None.
    """
    try:
        found = analyzed(context, frame)
        text = found.logical_plan().display_indent()
    except Exception:  # noqa: BLE001 - the boundary to DataFusion, which raises builtin exceptions
        return None
    return None if "CAST(" in text or "Values:" in text else found.schema()


def _register(context: SessionContext, stub: str, call: AICall, type_: pa.DataType) -> None:
    context.register_udf(udf(_never, [type_] * max(1, len(call.fields)), call.type, "volatile", stub))


def _never(*_: pa.Array) -> pa.Array:
    raise AssertionError("a query was run that was planned only for its types")


def _given(plan: Callable[[], DataFrame]) -> tuple[str, list[str]] | None:
    """Return the function whose arguments have other types than declared, and these types."""
    try:
        plan()
    except Exception as error:  # noqa: BLE001 - the boundary to DataFusion, which raises builtin exceptions
        before, given, after = str(error).partition(_GIVEN)
        types, wanted, _ = after.partition(_WANTED)
        if given and wanted:
            return before.rpartition(_CALL)[2], _split(types)
    return None


def _split(types: str) -> list[str]:
    """Split at the commas outside of brackets and quotes."""
    parts, start, depth, quoted = [], 0, 0, False
    for place, character in enumerate(types):
        quoted ^= character == '"'
        if not quoted:
            depth += (character == "(") - (character == ")")
            if character == "," and not depth:
                parts.append(types[start:place].strip())
                start = place + 1
    return [*parts, types[start:].strip()]


def _is_list(type_: str, call: AICall, place: int) -> bool:
    match = _LIST.match(type_)
    if match and _NESTED.match(match[1]):
        raise AICallError(
            f"{call.text}: {call.fields[place]} is a list of {match[1].split('(')[0].lower()}s; pass a list of texts,"
            " such as array_agg(column), or vector_search(…, returning => 'column')"
        )
    return match is not None
