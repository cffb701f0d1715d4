"""The logical plan as a tree of small frozen nodes; expressions stay Substrait and refer to input columns by position.

A node's columns are the columns of its inputs, left to right, unless its class says otherwise. A node that rules only
look through keeps its own Substrait message as `rel`, without the message's inputs.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from operator import is_

from google.protobuf.message import Message
from substrait.algebra_pb2 import AggregateRel, Expression, FetchRel, JoinRel, ReadRel, SetRel, SortField, SortRel
from substrait.type_pb2 import Type

from flightllm.functions.call import AICall
from flightllm.plan import expressions as ex
from flightllm.plan.expressions import Functions, field

_LEFT_ONLY = frozenset({JoinRel.JOIN_TYPE_LEFT_SEMI, JoinRel.JOIN_TYPE_LEFT_ANTI})
_RIGHT_ONLY = frozenset({JoinRel.JOIN_TYPE_RIGHT_SEMI, JoinRel.JOIN_TYPE_RIGHT_ANTI})


@dataclass(frozen=True, eq=False, slots=True)
class Scan:
    """A read of a table, or of literal rows."""

    rel: ReadRel

    @property
    def width(self) -> int:
        """Return the number of columns."""
        if self.rel.HasField("projection"):
            return len(self.rel.projection.select.struct_items)
        return len(self.rel.base_schema.struct.types)

    @property
    def columns(self) -> list[str]:
        """Return the names of the columns."""
        names = list(self.rel.base_schema.names)
        if self.rel.HasField("projection"):
            return [names[item.field] for item in self.rel.projection.select.struct_items]
        return names


@dataclass(frozen=True, eq=False, slots=True)
class Filter:
    """A filter that keeps the rows for which `condition` is true."""

    input: "Node"
    condition: Expression

    @property
    def width(self) -> int:
        """Return the number of columns."""
        return self.input.width


@dataclass(frozen=True, eq=False, slots=True)
class Project:
    """A projection: `expressions` are its whole output; window functions are in them too."""

    input: "Node"
    expressions: tuple[Expression, ...]

    @property
    def width(self) -> int:
        """Return the number of columns."""
        return len(self.expressions)


@dataclass(frozen=True, eq=False, slots=True)
class Join:
    """A join; `condition` sees the left columns, then the right columns. A join without a condition is a cross join."""

    left: "Node"
    right: "Node"
    kind: "JoinRel.JoinType.ValueType"
    condition: Expression | None

    @property
    def width(self) -> int:
        """Return the number of columns; semi and anti joins keep one side, and mark joins add a boolean to it."""
        if self.kind in _LEFT_ONLY:
            return self.left.width
        if self.kind in _RIGHT_ONLY:
            return self.right.width
        if self.kind == JoinRel.JOIN_TYPE_LEFT_MARK:
            return self.left.width + 1
        if self.kind == JoinRel.JOIN_TYPE_RIGHT_MARK:
            return self.right.width + 1
        return self.left.width + self.right.width


@dataclass(frozen=True, eq=False, slots=True)
class Aggregate:
    """A grouping with aggregates: the grouping columns, then one column per measure."""

    input: "Node"
    rel: AggregateRel

    @property
    def width(self) -> int:
        """Return the number of columns; several grouping sets add a column with the set's number."""
        sets = 1 if len(self.rel.groupings) > 1 else 0
        return len(self.rel.grouping_expressions) + len(self.rel.measures) + sets


@dataclass(frozen=True, eq=False, slots=True)
class Sort:
    """A sort of the rows."""

    input: "Node"
    rel: SortRel

    @property
    def width(self) -> int:
        """Return the number of columns."""
        return self.input.width


@dataclass(frozen=True, eq=False, slots=True)
class Fetch:
    """A limit: skip some rows, then keep at most a number of rows."""

    input: "Node"
    rel: FetchRel

    @property
    def width(self) -> int:
        """Return the number of columns."""
        return self.input.width


@dataclass(frozen=True, eq=False, slots=True)
class SetOp:
    """A union, intersection or difference of inputs of equal width."""

    inputs: tuple["Node", ...]
    rel: SetRel

    @property
    def width(self) -> int:
        """Return the number of columns."""
        return self.inputs[0].width


@dataclass(frozen=True, eq=False, slots=True)
class Call:
    """One AI call of an operator: its text arguments, and as `when` the condition for rows that need it (None: all).

    Rows where `when` is not true get NULL and are never sent to the model.
    """

    ai: AICall
    arguments: tuple[Expression, ...]
    when: Expression | None
    type: Type


@dataclass(frozen=True, eq=False, slots=True)
class FusedStep:
    """A part of a fused operator: ask `calls` one after the other, then drop the rows where `condition` is not true.

    The condition sees the operator's input columns, then the columns of all its calls; so do the guards of the calls.
    """

    calls: tuple[int, ...]
    condition: Expression | None


@dataclass(frozen=True, eq=False, slots=True)
class AiMap:
    """Append one column per call, in order, to the input's columns; calls read only the input, not one another.

    With `steps`, which `optimizer.fuse` makes after all rules, rows are dropped between calls. Then a guard can read
    the columns of earlier calls.
    """

    input: "Node"
    calls: tuple[Call, ...]
    steps: tuple[FusedStep, ...] = ()
    width: int = dataclasses.field(init=False)
    """The number of columns. It is kept, because a chain of many operators would count it again at each one."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", self.input.width + len(self.calls))


@dataclass(frozen=True, eq=False, slots=True)
class AiJoin:
    """The pairs of two inputs for which a yes/no call and a condition are true.

    The condition and the call's arguments see the left columns, then the right columns. Each argument reads one side
    only, so that the distinct values of a side stand for its rows. No rule handles the node: it is made after them.
    """

    left: "Node"
    right: "Node"
    condition: Expression | None
    call: Call

    @property
    def width(self) -> int:
        """Return the number of columns."""
        return self.left.width + self.right.width


@dataclass(frozen=True, eq=False, slots=True)
class Number:
    """Append a row number to the input's columns; all nodes with one `key` see the same rows with the same numbers.

    Its rows are kept between stages, so that a plan can read them twice.
    """

    input: "Node"
    key: int

    @property
    def width(self) -> int:
        """Return the number of columns."""
        return self.input.width + 1


@dataclass(frozen=True, eq=False, slots=True)
class Groups:
    """Append a unique row number for a `GroupLimit` above; filters and AI operators can be between the two nodes.

    Rows of a group have equal `keys`; `order` says which rows of a group come first (None: any).
    """

    input: "Node"
    keys: tuple[Expression, ...]
    order: SortRel | None

    @property
    def width(self) -> int:
        """Return the number of columns."""
        return self.input.width + 1


ALL_ROWS = 2**31
"""The `count` of a `GroupLimit` that keeps all rows of `limit` groups."""


class Ties(Enum):
    """The window function whose ties a `GroupLimit` keeps."""

    RANK = "rank"
    DENSE_RANK = "dense_rank"


@dataclass(frozen=True, eq=False, slots=True)
class GroupLimit:
    """Keep at least the first `count` rows of each group, or all rows of a smaller group, and at least `limit` groups.

    Column `number` comes from the `Groups` below; only filters, projections and AI operators can be between them. More
    rows can stay: the nodes above work with these rows, and extra rows do not change their result.

    With `decided`, only rows for which this boolean column is true count towards `count`. With `directions`, the groups
    have an order, by the first keys of `Groups` in these directions, and the first `limit` groups of this order stay.
    With `ties`, all rows stay that are equal to the last of the `count` rows in the order of `Groups`: RANK counts
    rows, DENSE_RANK counts rows that differ in this order.
    """

    input: "Node"
    number: int
    count: int
    limit: int | None = None
    decided: int | None = None
    directions: tuple["SortField.SortDirection.ValueType", ...] = ()
    ties: "Ties | None" = None

    @property
    def width(self) -> int:
        """Return the number of columns."""
        return self.input.width


Node = Scan | Filter | Project | Join | Aggregate | Sort | Fetch | SetOp | AiMap | AiJoin | Number | Groups | GroupLimit


def children(node: Node) -> tuple[Node, ...]:
    """Return the inputs of `node`, left to right."""
    if isinstance(node, Scan):
        return ()
    if isinstance(node, Join | AiJoin):
        return (node.left, node.right)
    return node.inputs if isinstance(node, SetOp) else (node.input,)


def with_children(node: Node, inputs: tuple[Node, ...]) -> Node:
    """Return `node` over other inputs; the same object if all inputs are the same."""
    if all(map(is_, children(node), inputs)):
        return node
    match node:
        case Scan():
            return node
        case Join() | AiJoin():
            return replace(node, left=inputs[0], right=inputs[1])
        case SetOp():
            return replace(node, inputs=inputs)
        case _:
            return replace(node, input=inputs[0])


def transform(node: Node, function: Callable[[Node], Node]) -> Node:
    """Apply `function` to every node, inputs first; return the same object if nothing changed."""
    return function(with_children(node, tuple(transform(c, function) for c in children(node))))


def walk(node: Node) -> Iterator[Node]:
    """Yield `node` and all nodes below it, each before its inputs, from left to right."""
    waiting = [node]  # planning walks a plan a hundred times, and a generator for each level is slow
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(children(node)))


def keep(node: Node, width: int) -> Node:
    """Return `node` cut to its first `width` columns."""
    return node if node.width == width else Project(node, tuple(map(field, range(width))))


def has_ai(node: Node) -> bool:
    """Return whether an AI operator is in the tree."""
    return isinstance(node, AiMap | AiJoin) or any(isinstance(n, AiMap | AiJoin) for n in walk(node))


def joins(root: Node) -> bool:
    """Return whether a call of the plan says how it joins."""
    return any(call.ai.join is not None for n in walk(root) if isinstance(n, AiMap) for call in n.calls)


def keeps_its_rows(node: AiMap) -> bool:
    """Return whether an operator must stay over its input: the rows calibrate a call, or a call decides a join of them.

    A filter can still pass it.
    """
    return by_rows(node) or any(call.ai.join is not None for call in node.calls)


def by_rows(node: AiMap) -> bool:
    """Return whether the rows of an operator calibrate one of its calls: with other rows, it answers otherwise."""
    return any(call.ai.by_rows for call in node.calls)


def call_expressions(calls: Iterable[Call]) -> list[Expression]:
    """Return the arguments and guards of calls."""
    return [e for c in calls for e in (*c.arguments, *([] if c.when is None else [c.when]))]


def own_messages(node: Node) -> tuple[Message, ...]:
    """Return the expressions and relations that `node` itself holds, without those of its inputs."""
    match node:
        case Filter():
            return (node.condition,)
        case Project():
            return node.expressions
        case Join():
            return () if node.condition is None else (node.condition,)
        case AiMap():
            return tuple(call_expressions(node.calls))
        case AiJoin():
            return (*call_expressions([node.call]), *([] if node.condition is None else [node.condition]))
        case Groups(_, keys, order):
            return (*keys, *([] if order is None else [order]))
        case Number() | GroupLimit():
            return ()
        case _:
            return (node.rel,)


def with_expressions(node: Node, change: Callable[[Expression], Expression]) -> Node:
    """Return a node with `change` applied to its outermost expressions; its inputs and AI calls stay the same."""
    match node:
        case Filter():
            return replace(node, condition=change(node.condition))
        case Project():
            return replace(node, expressions=tuple(map(change, node.expressions)))
        case Join():
            return node if node.condition is None else replace(node, condition=change(node.condition))
        case Aggregate() | Sort():
            return replace(node, rel=ex.rebuild(node.rel, change))
        case _:
            return node


def windows(node: Project) -> list[Expression]:
    """Return the window functions that the projection computes."""
    parts = (e for x in node.expressions if not ex.is_leaf(x) for e in ex.walk(x))
    return [e for e in parts if e.WhichOneof("rex_type") == "window_function"]


def has_window(node: Project) -> bool:
    """Return whether the projection computes window functions, whose result depends on which rows it sees."""
    return bool(windows(node))


def over_input(expression: Expression, columns: Sequence[Expression | None], functions: Functions) -> Expression | None:
    """Return `expression` with each column replaced by the expression that computes it (None: a column to keep opaque).

    Return None if the expression reads an opaque column, or if a struct path forbids the rewrite. Also return None if a
    volatile function such as `random()` would run twice.
    """
    read = {c: columns[c] for c in ex.fields(expression)}
    if any(column is None or functions.is_volatile(column) for column in read.values()):
        return None
    try:
        return ex.substitute(expression, lambda index: read[index] or ex.field(index))
    except ValueError:
        return None
