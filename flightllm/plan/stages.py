"""Cut a plan at its AI operators: relational stages for DataFusion, operators between them, tables as the joints."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import TypeAlias

import pyarrow as pa
from datafusion import DataFrame, SessionContext
from datafusion.catalog import Catalog, Schema
from datafusion.substrait import Consumer, Producer, Serde
from substrait.algebra_pb2 import Expression
from substrait.plan_pb2 import Plan

from flightllm.ai import AICall
from flightllm.plan import expressions as ex
from flightllm.plan.expressions import Functions, field
from flightllm.plan.nodes import (
    AiMap,
    Fetch,
    Filter,
    Node,
    Number,
    Project,
    Scan,
    Sort,
    Step,
    children,
    keep,
    walk,
    with_children,
)
from flightllm.plan.substrait import NotExpressibleError, to_plan
from flightllm.plan.through import has_window

STAGE_CATALOG = "stage"
"""The catalog of a query's own context that holds its joints."""


@dataclass(frozen=True, slots=True)
class BoundCall:
    """An AI call over a table: the columns that hold its arguments, and the one that says which rows need it."""

    ai: AICall
    arguments: tuple[int, ...]
    when: int | None
    guard: "Condition | None" = None
    """What says so instead where it depends on the answers of other calls."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A boolean over the output of an operator, for DataFusion to evaluate on some rows at a time.

    `table` is to hold the output's columns `reads`; `plan` returns one column for them (None: what is read is it).
    """

    reads: tuple[int, ...]
    table: str
    schema: pa.Schema
    plan: Plan | None


@dataclass(frozen=True, slots=True)
class BoundStep:
    """Calls, by position, in rounds whose calls do not wait for one another, and then which rows stay."""

    rounds: tuple[tuple[int, ...], ...]
    condition: Condition | None
    after: frozenset[int]
    """The steps whose answers this one needs."""


@dataclass(frozen=True, slots=True)
class Relational:
    """A stage that DataFusion runs: `plan` reads ordinary tables and the joints that `inputs` fill."""

    plan: Plan
    inputs: tuple["Joint", ...]
    schema: pa.Schema
    """At least one column, named by position, so that duplicate names cannot clash."""
    streams: bool
    """Each row of the one input can be processed by itself, so the stage runs batch by batch as the input arrives."""
    ordered: bool
    """Its rows must come in the order of a sort, which DataFusion loses where parts of a stage run side by side."""
    picks: tuple[int, ...] | None = None
    """The columns of its one input that it returns, where it streams and does nothing else."""


@dataclass(frozen=True, slots=True)
class Operator:
    """A joint filled by AI calls: the first `width` columns of `input`, then one per call."""

    table: str
    schema: pa.Schema
    input: Relational
    width: int
    calls: tuple[BoundCall, ...]
    steps: tuple[BoundStep, ...] = ()
    """What to do with some rows, where rows are dropped between the calls; none where all calls are for all rows."""

    @property
    def ordered(self) -> bool:
        """Tell whether the query needs the rows in the order of the input."""
        return self.input.ordered


@dataclass(frozen=True, slots=True)
class Limit:
    """A joint that skips `offset` rows of a stage that streams and stops it after `limit` more (None: no end)."""

    table: str
    schema: pa.Schema
    input: Relational
    offset: int
    limit: int | None


@dataclass(frozen=True, slots=True)
class Numbered:
    """A joint that keeps all rows of a stage and appends their numbers; several stages may read it."""

    table: str
    schema: pa.Schema
    input: Relational


Joint: TypeAlias = Operator | Limit | Numbered


def stage_frame(context: SessionContext, plan: Plan) -> DataFrame:
    """Turn a stage's plan into a DataFrame of `context`, where its joints must be registered.

    Raises:
        NotExpressibleError: DataFusion cannot read what it wrote itself, a table function for example.
    """
    decoded = Serde.deserialize_bytes(plan.SerializeToString())
    try:
        return context.create_dataframe_from_logical_plan(Consumer.from_substrait_plan(context, decoded))
    except Exception as error:  # DataFusion has no class of its own for this
        raise NotExpressibleError(str(error).splitlines()[0]) from error


def positional(types: Iterable[pa.DataType], prefix: str = "") -> pa.Schema:
    """Name columns by position, each of which may be NULL.

    The columns of a joint carry its name too: DataFusion pushes a filter to the wrong side of an outer join whose sides
    have equal names at equal places.
    """
    return pa.schema([pa.field(f"{prefix}c{i}", kind) for i, kind in enumerate(types)])


class Cutter:
    """Cut one query's plan; registers an empty table of the right schema for each joint in `context`."""

    def __init__(self, context: SessionContext, functions: Functions) -> None:
        self._context = context
        self._functions = functions
        self._numbers: dict[int, Numbered] = {}
        self._names = (f"s{i}" for i in count())
        context.register_catalog_provider(STAGE_CATALOG, Catalog.memory_catalog())
        context.catalog(STAGE_CATALOG).register_schema("public", Schema.memory_schema())

    def cut(self, root: Node, *, ordered: bool = True) -> Relational:
        """Return the stage that computes `root`, over the joints it needs."""
        joints: list[Joint] = []
        if not root.width:  # a batch without columns would lose its number of rows
            root = Project(root, (ex.null(ex.BOOLEAN),))
        plan = self._replace(root, joints, ordered=ordered)
        encoded = to_plan(plan, self._functions)
        schema = positional(stage_frame(self._context, encoded).schema().types)
        streams = _streams(plan, joints)
        picks = _picks(plan) if streams else None
        return Relational(encoded, tuple(joints), schema, streams, ordered and _is_ordered(root), picks)

    def _replace(self, node: Node, joints: list[Joint], *, ordered: bool) -> Node:
        """Replace the topmost operators by scans of their joints."""
        if not any(isinstance(n, AiMap | Number) for n in walk(node)):
            return node
        joint: Joint | None = None
        if isinstance(node, AiMap):
            joint = self._operator(node, ordered=ordered)
        elif isinstance(node, Number):
            joint = self._numbered(node)
        elif isinstance(node, Fetch) and _chain_to_operator(node):
            joint = self._limit(node, ordered=ordered)
        if joint is None:
            passes = isinstance(node, Filter | Project | Fetch)
            replaced = tuple(self._replace(c, joints, ordered=ordered and passes) for c in children(node))
            return with_children(node, replaced)
        if joint not in joints:
            joints.append(joint)
        return keep(self._scan(joint), node.width)

    def _operator(self, node: AiMap, *, ordered: bool) -> Operator:
        width = node.input.width
        columns: list[Expression] = list(map(field, range(width)))
        places = {ex.key(c): i for i, c in enumerate(columns)}

        def place(expression: Expression) -> int:
            key = ex.key(expression)
            if key not in places:
                places[key] = len(columns)
                columns.append(expression)
            return places[key]

        outer = [_waits(c.when, width) for c in node.calls]
        calls = [
            BoundCall(c.ai, tuple(map(place, c.arguments)), None if c.when is None or waits else place(c.when))
            for c, waits in zip(node.calls, outer, strict=True)
        ]
        input_ = self.cut(Project(node.input, tuple(columns)), ordered=ordered)
        types = [*input_.schema.types[:width], *(c.ai.type for c in node.calls)]
        name, schema, _ = joint = self._joint(types, input_)
        for i, call in enumerate(node.calls):
            if call.when is not None and outer[i]:
                calls[i] = replace(calls[i], guard=self._condition(call.when, f"{name}_g{i}", schema))
        steps = self._steps(node, name, schema)
        return Operator(*joint, width, tuple(calls), steps)

    def _steps(self, node: AiMap, name: str, schema: pa.Schema) -> tuple[BoundStep, ...]:
        home = {node.input.width + c: number for number, step in enumerate(node.steps) for c in step.calls}
        steps = []
        for number, step in enumerate(node.steps):
            condition = None
            read = frozenset().union(*(_reads(node.calls[c].when) for c in step.calls), _reads(step.condition))
            if step.condition is not None:
                condition = self._condition(step.condition, f"{name}_k{number}", schema)
            after = frozenset(home[c] for c in read if c in home) - {number}
            steps.append(BoundStep(_rounds(node, step), condition, after))
        return tuple(steps)

    def _condition(self, expression: Expression, table: str, schema: pa.Schema) -> Condition:
        reads = tuple(sorted(ex.fields(expression)))
        own = positional([schema.field(c).type for c in reads], table.rsplit(".", 1)[-1] + "_")
        if len(reads) == 1 and ex.field_index(expression) is not None:
            return Condition(reads, table, own, None)
        if not reads:  # a batch without columns would lose its number of rows
            own = positional([pa.bool_()], "none")
        moved = ex.substitute(expression, lambda c: field(reads.index(c)))
        return Condition(reads, table, own, to_plan(Project(self._table(table, own), (moved,)), self._functions))

    def _limit(self, node: Fetch, *, ordered: bool) -> Limit | None:
        bounds = ex.bounds(node.rel)
        if bounds is None:
            return None
        input_ = self.cut(node.input, ordered=ordered)
        return Limit(*self._joint(input_.schema.types, input_), *bounds)

    def _numbered(self, node: Number) -> Numbered:
        if node.key not in self._numbers:
            input_ = self.cut(node.input, ordered=False)
            types = [*input_.schema.types[: node.input.width], pa.int64()]
            self._numbers[node.key] = Numbered(*self._joint(types, input_))
        return self._numbers[node.key]

    def _joint(self, types: Iterable[pa.DataType], input_: Relational) -> tuple[str, pa.Schema, Relational]:
        name = next(self._names)
        return f"{STAGE_CATALOG}.public.{name}", positional(types, f"{name}_"), input_

    def _scan(self, joint: Joint) -> Scan:
        return self._table(joint.table, joint.schema)

    def _table(self, table: str, schema: pa.Schema) -> Scan:
        register(self._context, table, schema, [])
        return scan(self._context, table)


def scan(context: SessionContext, table: str) -> Scan:
    """Return how a plan reads a table of a context."""
    logical = context.table(table).logical_plan()
    plan = Plan.FromString(Producer.to_substrait_plan(logical, context).encode())
    return Scan(plan.relations[0].root.input.read)


def register(context: SessionContext, table: str, schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> None:
    """Put `batches` behind a joint's name, in place of what was there."""
    context.deregister_table(table)
    context.register_record_batches(table, [list(batches) or [pa.RecordBatch.from_pylist([], schema=schema)]])


def _chain_to_operator(node: Node) -> bool:
    """Tell whether only row-wise nodes and limits lie between `node` and an AI operator."""
    while isinstance(node, Fetch | Filter | Project):
        if isinstance(node, Project) and has_window(node):
            return False
        node = node.input
    return isinstance(node, AiMap)


def _streams(plan: Node, joints: Sequence[Joint]) -> bool:
    row_wise = all(isinstance(n, Filter | Project | Scan) for n in walk(plan))
    windows = any(isinstance(n, Project) and has_window(n) for n in walk(plan))
    return len(joints) == 1 and not isinstance(joints[0], Numbered) and row_wise and not windows


def _picks(plan: Node) -> tuple[int, ...] | None:
    """Return which columns of the scan below a plan returns, None where it does anything else."""
    if isinstance(plan, Scan):
        return tuple(range(plan.width))
    below = _picks(plan.input) if isinstance(plan, Project) else None
    places = [ex.field_index(e) for e in plan.expressions] if isinstance(plan, Project) else []
    return None if below is None or None in places else tuple(below[place] for place in places if place is not None)


def _is_ordered(node: Node) -> bool:
    """Tell whether the rows of `node` come in an order that a Sort below it made."""
    while isinstance(node, Filter | Project | Fetch | AiMap):
        node = node.input
    return isinstance(node, Sort)


def _reads(expression: Expression | None) -> frozenset[int]:
    return frozenset() if expression is None else ex.fields(expression)


def _waits(when: Expression | None, width: int) -> bool:
    """Tell whether a guard reads answers, the columns from `width` on."""
    return any(c >= width for c in _reads(when))


def _rounds(node: AiMap, step: Step) -> tuple[tuple[int, ...], ...]:
    """Split the calls of a step so that each comes after those of the step that its guard reads."""
    rounds: list[list[int]] = []
    depth: dict[int, int] = {}
    for c in step.calls:
        earlier = [depth[i] for i in step.calls if i in depth and node.input.width + i in _reads(node.calls[c].when)]
        depth[c] = 1 + max(earlier, default=-1)
        rounds += [[] for _ in range(depth[c] + 1 - len(rounds))]
        rounds[depth[c]].append(c)
    return tuple(map(tuple, rounds))
