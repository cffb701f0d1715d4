"""Cut a plan at its AI operators: relational stages for DataFusion, and between them operators that fill tables."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count
from typing import TypeAlias

import pyarrow as pa
from datafusion import DataFrame, SessionContext
from datafusion.catalog import Catalog, Schema
from datafusion.substrait import Producer
from substrait.algebra_pb2 import Expression, JoinRel, ReadRel, SetRel, SortField
from substrait.plan_pb2 import Plan

from flightllm.datafusion.contexts import encoded_frame
from flightllm.errors import InternalError
from flightllm.functions.call import AICall
from flightllm.plan import expressions as ex
from flightllm.plan.emptiness import deciders
from flightllm.plan.expressions import Functions, field
from flightllm.plan.nodes import (
    AiJoin,
    AiMap,
    Fetch,
    Filter,
    FusedStep,
    GroupLimit,
    Groups,
    Join,
    Node,
    Number,
    Project,
    Scan,
    SetOp,
    Sort,
    Ties,
    children,
    has_ai,
    has_window,
    keep,
    own_messages,
    transform,
    walk,
    with_children,
)
from flightllm.plan.pushdown import push_down_to
from flightllm.plan.substrait import NotExpressibleError, to_plan

STAGE_CATALOG = "stage"
"""The catalog of a query's own context that holds its stage inputs."""
_ALL_ROWS = 2**62
_NO_ROWS = "EmptyRelation: rows=0"


@dataclass(frozen=True, slots=True)
class StageCall:
    """An AI call over a table: the columns of its arguments, and the column that says which rows need the call."""

    ai: AICall
    arguments: tuple[int, ...]
    when: int | None
    guard: "Condition | None" = None
    """The condition that says so in place of a column, if it depends on the answers of other calls."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A boolean over an operator's output, which DataFusion evaluates on some rows at a time.

    `table` must hold the columns `reads` of the output. `plan` returns one column for them; None: the one column read.
    """

    reads: tuple[int, ...]
    table: str
    schema: pa.Schema
    plan: Plan | None


@dataclass(frozen=True, slots=True)
class BoundStep:
    """Calls by position, in rounds, and then the condition that rows must meet. Calls of a round run at once."""

    rounds: tuple[tuple[int, ...], ...]
    condition: Condition | None
    after: frozenset[int]
    """The steps whose answers this step needs."""


@dataclass(frozen=True, slots=True)
class Decider:
    """A part of a stage that decides about an input: if this part has no rows, the rows of the input are useless."""

    plan: Plan
    tables: frozenset[str]
    """The stage inputs that the part reads."""


@dataclass(frozen=True, slots=True)
class Relational:
    """A stage that DataFusion runs: `plan` reads ordinary tables and the stage inputs that `inputs` fill."""

    plan: Plan
    inputs: tuple["StageInput", ...]
    schema: pa.Schema
    """At least one column; names are positions, so that duplicate names cannot clash."""
    streams: bool
    """Whether each row of the only input can be processed by itself, so that the stage runs on each batch as it
    arrives."""
    ordered: bool
    """Whether rows must keep the order of a sort; DataFusion loses the order if it runs parts of a stage in
    parallel."""
    picks: tuple[int, ...] | None = None
    """The columns of the only input that the stage returns, if the stage streams and does nothing else."""
    whole: bool = False
    """Whether the stage streams and returns every row of the only input."""
    deciders: tuple[tuple[tuple["Decider", ...], ...], ...] = ()
    """For each input and each place where the plan reads the input: the parts that can make the input's rows useless
    there."""


class _Named:
    """A stage input; its table is in the stage catalog."""

    __slots__ = ()
    table: str

    @property
    def name(self) -> str:
        """Return the table's name without catalog and schema."""
        return self.table.rsplit(".", 1)[-1]


@dataclass(frozen=True, slots=True)
class Operator(_Named):
    """A stage input filled by AI calls: the first `width` columns of `input`, then one per call."""

    table: str
    schema: pa.Schema
    input: Relational
    width: int
    calls: tuple[StageCall, ...]
    steps: tuple[BoundStep, ...] = ()
    """The order of the calls, if rows are dropped between them; empty if all calls are for all rows."""
    in_waves: bool = False
    """Whether the rows are made one after another, so that a LIMIT need not take all of them."""

    @property
    def ordered(self) -> bool:
        """Return whether the query needs the rows in the order of the input."""
        return self.input.ordered

    @property
    def takes_waves(self) -> bool:
        """Return whether a LIMIT takes the rows a few at a time: they have an order, or come from another operator."""
        if self.ordered or self.in_waves:
            return True
        return self.input.streams and isinstance(self.input.inputs[0], Operator | PairJoin)


@dataclass(frozen=True, slots=True)
class Limit(_Named):
    """A stage input that skips `offset` rows of a streaming stage, then stops it after `limit` rows (None: no end)."""

    table: str
    schema: pa.Schema
    input: Relational
    offset: int
    limit: int | None


@dataclass(frozen=True, slots=True)
class RowIdStage(_Named):
    """A stage input that keeps all rows of a stage and appends a row id to each. Several stages can read it."""

    table: str
    schema: pa.Schema
    input: Relational


@dataclass(frozen=True, slots=True)
class GroupLimited(_Named):
    """A stage input that sends `input` through `chain`, some rows at a time, until each group has `count` rows.

    The last `keys` columns of `input` are equal for all rows of a group. Its rows come in the order in which they are
    wanted. `wave` is the table that `chain` reads: the other columns, and the row number. Column `number` of the result
    of `chain` has this number too. `decided`, `directions` and `ties` are those of `nodes.GroupLimit`. With `ties`, the
    columns of the order follow the keys; `peers` is their number.
    """

    table: str
    schema: pa.Schema
    input: Relational
    keys: int
    wave: str
    wave_schema: pa.Schema
    chain: Relational
    number: int
    count: int
    limit: int | None
    decided: int | None
    directions: tuple["SortField.SortDirection.ValueType", ...]
    ties: Ties | None
    peers: int


@dataclass(frozen=True, slots=True)
class PairJoin(_Named):
    """A stage input with the pairs of two stages for which a yes/no call and a condition are true.

    The rows of a side are kept in its table, with the number of their values in the last column. `sides` has the
    columns of the call's arguments in each side. For each field of the call, `places` says whether it is on the left,
    and at which place of this side. `candidates` returns the numbers of the pairs that the condition lets through;
    None: all pairs. `pairs` is the table of numbers of matching values, and `rows` the plan that returns their rows.
    """

    table: str
    schema: pa.Schema
    inputs: tuple[Relational, Relational]
    ai: AICall
    sides: tuple[tuple[int, ...], tuple[int, ...]]
    places: tuple[tuple[bool, int], ...]
    widths: tuple[int, int]
    tables: tuple[str, str]
    schemas: tuple[pa.Schema, pa.Schema]
    candidates: Plan | None
    pairs: str
    pairs_schema: pa.Schema
    rows: Plan


@dataclass(frozen=True, slots=True)
class United(_Named):
    """A stage input with the rows of several stages in turn. A stage begins only if more rows are needed."""

    table: str
    schema: pa.Schema
    inputs: tuple[Relational, ...]


StageInput: TypeAlias = Operator | PairJoin | Limit | RowIdStage | GroupLimited | United


def all_stages(stage: Relational) -> Iterator[Relational]:
    """Yield a stage and the stages that fill its inputs, at any depth."""
    yield stage
    for one in stage.inputs:
        below = one.inputs if isinstance(one, PairJoin | United) else (one.input,)
        for each in (*below, one.chain) if isinstance(one, GroupLimited) else below:
            yield from all_stages(each)


def stage_frame(context: SessionContext, plan: Plan) -> DataFrame:
    """Turn a stage's plan into a DataFrame of `context`, where its stage inputs must be registered.

    Raises:
        NotExpressibleError: DataFusion cannot read its own Substrait, of a table function for example.
    """
    try:
        return encoded_frame(context, plan.SerializeToString())
    except Exception as error:  # DataFusion has no class of its own for this
        raise NotExpressibleError(str(error).splitlines()[0]) from error


def positional(types: Iterable[pa.DataType], prefix: str = "") -> pa.Schema:
    """Name columns by position; all of them are nullable.

    The column names of a stage input begin with its name. Otherwise DataFusion can push a filter to the wrong side of
    an outer join, where both sides have equal names at equal positions.
    """
    return pa.schema([pa.field(f"{prefix}c{i}", kind) for i, kind in enumerate(types)])


class Cutter:
    """Cut one query's plan; registers an empty table of the right schema for each stage input in `context`."""

    def __init__(self, context: SessionContext, functions: Functions) -> None:
        self._context = context
        self._functions = functions
        self._numbers: dict[int, RowIdStage] = {}
        self._schemas: dict[str, pa.Schema] = {}
        """The columns of the stage inputs, by the name of their table."""
        self._limited: set[int] = set()
        """Identities of the unions whose inputs run one after the other."""
        self._names = (f"s{i}" for i in count())
        context.register_catalog_provider(STAGE_CATALOG, Catalog.memory_catalog())
        context.catalog(STAGE_CATALOG).register_schema("public", Schema.memory_schema())

    def cut(self, root: Node, *, ordered: bool = True) -> Relational:
        """Return the stage that computes `root`, over the stage inputs it needs."""
        stage_inputs: list[StageInput] = []
        if not root.width:  # a batch without columns would lose its number of rows
            root = Project(root, (ex.null(ex.BOOLEAN),))
        plan = self._replace(root, stage_inputs, ordered=ordered)
        plan = self._plannable(plan)
        encoded = to_plan(plan, self._functions)
        types = _picked_types(plan, self._schemas) or stage_frame(self._context, encoded).schema().types
        schema = positional(types)
        streams = _streams(plan, stage_inputs)
        picks = _picks(plan) if streams else None
        found = () if streams or not stage_inputs else self._deciders(plan, stage_inputs)
        whole = streams and not any(isinstance(n, Filter) for n in walk(plan))
        return Relational(
            encoded, tuple(stage_inputs), schema, streams, ordered and _is_ordered(root), picks, whole, found
        )

    def _plannable(self, plan: Node) -> Node:
        """Return a stage in a form that DataFusion can optimize.

        DataFusion takes a union's column names from the first input, even where its optimizer then drops that input,
        and fails to find the names. So inputs without rows are dropped first. If that is not enough, a limit on the
        inputs keeps the optimizer from emptying them.
        """
        if not any(isinstance(n, SetOp) for n in walk(plan)) or self._optimized(plan) is not None:
            return plan
        plan = transform(plan, self._without_empty)
        return plan if self._optimized(plan) is not None else transform(plan, _shielded)

    def _without_empty(self, node: Node) -> Node:
        if not isinstance(node, SetOp) or node.rel.op != SetRel.SET_OP_UNION_ALL:
            return node
        texts = map(self._optimized, node.inputs)
        kept = tuple(i for i, text in zip(node.inputs, texts, strict=True) if not (text or "").startswith(_NO_ROWS))
        return node if not kept else kept[0] if len(kept) == 1 else replace(node, inputs=kept)

    def _optimized(self, plan: Node) -> str | None:
        """Return DataFusion's optimized plan as text; None where DataFusion cannot optimize the plan."""
        frame = stage_frame(self._context, to_plan(plan, self._functions))
        try:
            return frame.optimized_logical_plan().display_indent()
        except Exception:  # noqa: BLE001 - DataFusion has no class of its own for this
            return None

    def _deciders(self, plan: Node, stage_inputs: Sequence[StageInput]) -> tuple[tuple[tuple[Decider, ...], ...], ...]:
        """Return for each place where the plan reads a stage input the parts that can make its rows useless there."""
        names = frozenset(j.table for j in stage_inputs)
        if any(isinstance(n, Join | SetOp) for n in walk(plan)):  # pushed down, predicates show which rows a side keeps
            plan = push_down_to(plan, self._functions, lambda node: _table_of(node) in names)
        made: dict[int, tuple[Node, Decider | None]] = {}
        found: dict[str, list[tuple[Decider, ...]]] = {name: [] for name in names}

        def decider(node: Node) -> Decider | None:
            if id(node) not in made:  # keeping the node keeps its id unique
                made[id(node)] = (node, self._decider(node, names) if self._same_each_time(node) else None)
            return made[id(node)][1]

        def visit(node: Node, above: tuple[Decider, ...]) -> None:
            table = _table_of(node)
            if table in found:
                found[table].append(above)
            for at, child in enumerate(children(node)):
                others = deciders(node, at) if names & _tables(child) else ()
                if isinstance(node, Join) and others:
                    others = (self._with_keys(node, left=at == 1),)
                visit(child, (*above, *(d for d in map(decider, others) if d is not None)))

        visit(plan, ())
        return tuple(tuple(found[j.table]) for j in stage_inputs)

    def _with_keys(self, node: Join, *, left: bool) -> Node:
        """Return the rows of a join's side that can have a partner: those without NULL in the equality's operands."""
        side, first = (node.left, 0) if left else (node.right, node.left.width)
        columns = range(first, first + side.width)
        operands = [] if node.condition is None else self._functions.operands(node.condition, "and")
        keys = [a for o in operands if self._functions.name(o) == "equal" for a in ex.arguments(o)]
        keys = [k for k in keys if ex.fields(k) and all(i in columns for i in ex.fields(k))]
        there = self._functions.conjunction(self._functions.call("is_not_null", ex.shift(k, -first)) for k in keys)
        return side if there is None else Filter(side, there)

    def _decider(self, node: Node, stage_inputs: frozenset[str]) -> Decider:
        # Without a limit: DataFusion cannot plan every DISTINCT below one. Its first rows are enough.
        rows = Project(node, (ex.null(ex.BOOLEAN),))
        return Decider(to_plan(rows, self._functions), stage_inputs & _tables(node))

    def _same_each_time(self, node: Node) -> bool:
        messages = (m for n in walk(node) for m in own_messages(n))
        slots = (s for m in messages for s in ([m] if isinstance(m, Expression) else ex.slots(m)))
        return not any(map(self._functions.is_volatile, slots))

    def _replace(self, node: Node, stage_inputs: list[StageInput], *, ordered: bool) -> Node:
        """Replace the topmost operators by scans of their stage inputs."""
        if not any(isinstance(n, AiMap | AiJoin | Number | GroupLimit) for n in walk(node)):
            return node
        stage_input: StageInput | None = None
        if isinstance(node, AiMap):
            stage_input = self._operator(node, ordered=ordered)
        elif isinstance(node, AiJoin):
            stage_input = self._pair_join(node)
        elif isinstance(node, Number):
            stage_input = self._row_id_stage(node)
        elif isinstance(node, GroupLimit):
            stage_input = self._group_limited(node)
        elif isinstance(node, SetOp) and id(node) in self._limited:
            stage_input = self._united(node)
        elif isinstance(node, Fetch) and (_chain_to_operator(node) or _union_below(node) is not None):
            stage_input = self._limit(node, ordered=ordered)
        if stage_input is None:
            passes = isinstance(node, Filter | Project | Fetch)
            replaced = tuple(self._replace(c, stage_inputs, ordered=ordered and passes) for c in children(node))
            return with_children(node, replaced)
        if stage_input not in stage_inputs:
            stage_inputs.append(stage_input)
        return keep(self._scan(stage_input), node.width)

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
            StageCall(c.ai, tuple(map(place, c.arguments)), None if c.when is None or waits else place(c.when))
            for c, waits in zip(node.calls, outer, strict=True)
        ]
        input_ = self.cut(Project(node.input, tuple(columns)), ordered=ordered)
        types = [*input_.schema.types[:width], *(c.ai.type for c in node.calls)]
        name, schema, _ = stage_input = self._stage_input(types, input_)
        for i, call in enumerate(node.calls):
            if call.when is not None and outer[i]:
                calls[i] = replace(calls[i], guard=self._condition(call.when, f"{name}_g{i}", schema))
        steps = self._steps(node, name, schema)
        return Operator(*stage_input, width, tuple(calls), steps)

    def _pair_join(self, node: AiJoin) -> PairJoin:
        split = node.left.width
        reads_left = [all(c < split for c in ex.fields(a)) for a in node.call.arguments]
        own: tuple[list[Expression], list[Expression]] = [], []
        places = []
        for argument, is_left in zip(node.call.arguments, reads_left, strict=True):
            arguments = own[0] if is_left else own[1]
            places.append((is_left, len(arguments)))
            arguments.append(argument if is_left else ex.shift(argument, -split))
        inputs, scans = [], []
        for place, side in enumerate((node.left, node.right)):
            input_ = self.cut(Project(side, (*map(field, range(side.width)), *own[place])), ordered=False)
            name, types = next(self._names), [*input_.schema.types[: side.width], pa.int64()]
            inputs.append(input_)
            scans.append((f"{STAGE_CATALOG}.public.{name}", positional(types, f"{name}_")))
        left, right = (self._table(table, schema) for table, schema in scans)
        name = next(self._names)
        pairs, pairs_schema = f"{STAGE_CATALOG}.public.{name}", positional([pa.int64()] * 2, f"{name}_")
        widths = node.left.width, node.right.width
        candidates = None
        if node.condition is not None:
            moved = _behind(node.condition, split)
            joined = Join(left, right, JoinRel.JOIN_TYPE_INNER, moved)
            numbers = Project(joined, (field(split), field(split + 1 + widths[1])))
            candidates = to_plan(numbers, self._functions)
        rows = to_plan(_matched(node, left, right, self._table(pairs, pairs_schema), self._functions), self._functions)
        name = next(self._names)
        types = [*inputs[0].schema.types[: widths[0]], *inputs[1].schema.types[: widths[1]]]
        return PairJoin(
            f"{STAGE_CATALOG}.public.{name}",
            positional(types, f"{name}_"),
            (inputs[0], inputs[1]),
            node.call.ai,
            (tuple(range(widths[0], widths[0] + len(own[0]))), tuple(range(widths[1], widths[1] + len(own[1])))),
            tuple(places),
            widths,
            (scans[0][0], scans[1][0]),
            (scans[0][1], scans[1][1]),
            candidates,
            pairs,
            pairs_schema,
            rows,
        )

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
        union = _union_below(node)
        if union is not None:
            self._limited.add(id(union))
        input_ = self.cut(node.input, ordered=ordered)
        return Limit(*self._stage_input(input_.schema.types, input_), *bounds)

    def _united(self, node: SetOp) -> United:
        inputs = tuple(self.cut(i, ordered=False) for i in sorted(node.inputs, key=has_ai))
        name = next(self._names)
        schema = positional(inputs[0].schema.types, f"{name}_")
        return United(f"{STAGE_CATALOG}.public.{name}", schema, inputs)

    def _group_limited(self, node: GroupLimit) -> GroupLimited:
        groups = _groups_below(node)
        base: Node = groups.input if groups.order is None else Sort(groups.input, groups.order)
        width = base.width
        peers = [] if node.ties is None or groups.order is None else [s.expr for s in groups.order.sorts]
        rows = Project(base, (*map(field, range(width)), *groups.keys, *peers))
        input_ = self.cut(rows, ordered=groups.order is not None)
        wave = f"{STAGE_CATALOG}.public.{(name := next(self._names))}"
        types = [*input_.schema.types[:width], pa.int64()]
        wave_schema = positional(types, f"{name}_")
        table = self._table(wave, wave_schema)
        chain = self.cut(transform(node.input, lambda n: table if n is groups else n), ordered=False)
        name = next(self._names)
        schema = positional(chain.schema.types, f"{name}_")
        return GroupLimited(
            f"{STAGE_CATALOG}.public.{name}",
            schema,
            input_,
            len(groups.keys),
            wave,
            wave_schema,
            chain,
            node.number,
            node.count,
            node.limit,
            node.decided,
            node.directions,
            node.ties,
            len(peers),
        )

    def _row_id_stage(self, node: Number) -> RowIdStage:
        if node.key not in self._numbers:
            input_ = self.cut(node.input, ordered=False)
            types = [*input_.schema.types[: node.input.width], pa.int64()]
            self._numbers[node.key] = RowIdStage(*self._stage_input(types, input_))
        return self._numbers[node.key]

    def _stage_input(self, types: Iterable[pa.DataType], input_: Relational) -> tuple[str, pa.Schema, Relational]:
        name = next(self._names)
        return f"{STAGE_CATALOG}.public.{name}", positional(types, f"{name}_"), input_

    def _scan(self, stage_input: StageInput) -> Scan:
        return self._table(stage_input.table, stage_input.schema)

    def _table(self, table: str, schema: pa.Schema) -> Scan:
        register(self._context, table, schema, [])
        self._schemas[table] = schema
        types = tuple(schema.types)
        if any(map(pa.types.is_nested, types)):  # the names of their fields are in the plan, too
            return scan(self._context, table)
        read = ReadRel()
        read.CopyFrom(_read_of(types))
        read.base_schema.names[:] = schema.names
        read.named_table.names[:] = table.split(".")
        return Scan(read)


@lru_cache(maxsize=1_000)
def _read_of(types: tuple[pa.DataType, ...]) -> ReadRel:
    """Return the read of a table with these types. DataFusion makes it once: that takes longer than to copy it."""
    context = SessionContext()
    register(context, "t", positional(types), [])
    return scan(context, "t").rel


def scan(context: SessionContext, table: str) -> Scan:
    """Return the plan node that reads a table of a context."""
    logical = context.table(table).logical_plan()
    plan = Plan.FromString(Producer.to_substrait_plan(logical, context).encode())
    return Scan(plan.relations[0].root.input.read)


def register(context: SessionContext, table: str, schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> None:
    """Replace the rows of the stage input with this name by `batches`."""
    context.deregister_table(table)
    context.register_record_batches(table, [list(batches) or [_empty(schema)]])


@lru_cache(maxsize=1_000)
def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=schema)


def _chain_to_operator(node: Node) -> bool:
    """Return whether only row-wise nodes and limits are between `node` and an AI operator."""
    while isinstance(node, Fetch | Filter | Project):
        if isinstance(node, Project) and has_window(node):
            return False
        node = node.input
    return isinstance(node, AiMap | AiJoin)


def _union_below(node: Fetch) -> SetOp | None:
    """Return the UNION ALL with AI operators that `node` limits, if only projections are between them."""
    below = node.input
    while isinstance(below, Project) and not has_window(below):
        below = below.input
    found = isinstance(below, SetOp) and below.rel.op == SetRel.SET_OP_UNION_ALL and has_ai(below)
    return below if found and isinstance(below, SetOp) else None


def _streams(plan: Node, stage_inputs: Sequence[StageInput]) -> bool:
    row_wise = all(isinstance(n, Filter | Project | Scan) for n in walk(plan))
    windows = any(isinstance(n, Project) and has_window(n) for n in walk(plan))
    return len(stage_inputs) == 1 and not isinstance(stage_inputs[0], RowIdStage) and row_wise and not windows


def _picks(plan: Node) -> tuple[int, ...] | None:
    """Return the columns of a scan that a plan returns; None if the plan does anything else."""
    if isinstance(plan, Scan):
        return tuple(range(plan.width))
    below = _picks(plan.input) if isinstance(plan, Project) else None
    places = [ex.field_index(e) for e in plan.expressions] if isinstance(plan, Project) else []
    return None if below is None or None in places else tuple(below[place] for place in places if place is not None)


def _picked_types(plan: Node, inputs: Mapping[str, pa.Schema]) -> list[pa.DataType]:
    """Return the types of a plan that only picks columns and rows of a stage input; empty for any other plan."""
    if isinstance(plan, Scan):
        return list(inputs[_table_of(plan)].types) if _table_of(plan) in inputs else []
    if isinstance(plan, Filter | Sort | Fetch):
        return _picked_types(plan.input, inputs)
    places = [ex.field_index(e) for e in plan.expressions] if isinstance(plan, Project) else [None]
    below = [] if None in places or not isinstance(plan, Project) else _picked_types(plan.input, inputs)
    return [below[place] for place in places if place is not None] if below else []


def _is_ordered(node: Node) -> bool:
    """Return whether a Sort below `node` set the order of its rows."""
    while isinstance(node, Filter | Project | Fetch | AiMap):
        node = node.input
    return isinstance(node, Sort)


def _behind(condition: Expression, split: int) -> Expression:
    """Make room for the number of the left values, which is the last column of the left side."""
    return ex.substitute(condition, lambda i: field(i if i < split else i + 1))


def _matched(node: AiJoin, left: Node, right: Node, pairs: Node, functions: Functions) -> Node:
    """Return the rows of both sides whose numbers are a pair, and for which the condition is true."""
    split, first = node.left.width, node.left.width + 3  # the left number and the pair are between the sides
    known = Join(left, pairs, JoinRel.JOIN_TYPE_INNER, functions.call("equal", field(split), field(split + 1)))
    equal = functions.call("equal", field(split + 2), field(first + node.right.width))
    condition = node.condition
    if condition is not None:
        moved = ex.substitute(condition, lambda i: field(i if i < split else i + 3))
        condition = functions.conjunction([equal, moved])
    joined = Join(known, right, JoinRel.JOIN_TYPE_INNER, equal if condition is None else condition)
    return Project(joined, tuple(map(field, (*range(split), *range(first, first + node.right.width)))))


def _reads(expression: Expression | None) -> frozenset[int]:
    return frozenset() if expression is None else ex.fields(expression)


def _waits(when: Expression | None, width: int) -> bool:
    """Return whether a guard reads answers, which are the columns from `width` on."""
    return any(c >= width for c in _reads(when))


def _groups_below(node: GroupLimit) -> Groups:
    below = node.input
    while isinstance(below, Filter | Project | AiMap):
        below = below.input
    if not isinstance(below, Groups):
        raise InternalError("a GroupLimit has no Groups below it")
    return below


def _shielded(node: Node) -> Node:
    """Put a limit that keeps all rows on a union's inputs: DataFusion pushes no predicate below a limit."""
    if not isinstance(node, SetOp):
        return node
    return with_children(node, tuple(Fetch(i, ex.at_most(_ALL_ROWS)) for i in node.inputs))


def _table_of(node: Node) -> str:
    """Return the full name of the table that a scan reads; empty for other nodes."""
    return ".".join(node.rel.named_table.names) if isinstance(node, Scan) else ""


def _tables(node: Node) -> frozenset[str]:
    return frozenset(filter(None, map(_table_of, walk(node))))


def _rounds(node: AiMap, step: FusedStep) -> tuple[tuple[int, ...], ...]:
    """Split a step's calls into rounds: each call comes after the calls that its guard reads."""
    rounds: list[list[int]] = []
    depth: dict[int, int] = {}
    for c in step.calls:
        earlier = [depth[i] for i in step.calls if i in depth and node.input.width + i in _reads(node.calls[c].when)]
        depth[c] = 1 + max(earlier, default=-1)
        rounds += [[] for _ in range(depth[c] + 1 - len(rounds))]
        rounds[depth[c]].append(c)
    return tuple(map(tuple, rounds))
