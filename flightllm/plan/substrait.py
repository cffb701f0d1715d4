"""Converts a Substrait plan into our nodes, and a tree without AI operators back into Substrait."""

from collections.abc import Callable, Container, Iterable, Iterator
from typing import TypeVar

from google.protobuf.message import Message
from substrait.algebra_pb2 import AggregateRel, CrossRel, Expression, JoinRel, ProjectRel, Rel, RelCommon
from substrait.plan_pb2 import Plan, PlanRel

from flightllm.plan import expressions as ex
from flightllm.plan.expressions import Functions, field
from flightllm.plan.nodes import (
    Aggregate,
    AiJoin,
    AiMap,
    Fetch,
    Filter,
    GroupLimit,
    Groups,
    Join,
    Node,
    Number,
    Project,
    Scan,
    SetOp,
    Sort,
    keep,
    walk,
)

_M = TypeVar("_M", bound=Message)
_FieldReference = Expression.FieldReference


class NotExpressibleError(Exception):
    """The plan has a part that our nodes or Substrait cannot express; the query runs with batch UDFs instead."""


class SubstraitReader:
    """Converts the relations of one Substrait plan into nodes.

    `null_aware` says of each left anti join, in pre-order, whether it is a `NOT IN`. DataFusion's Substrait drops that
    flag, and the join would then keep rows that SQL's `NOT IN` rejects because of a NULL. `ai` names the stub functions
    of AI calls. A scalar subquery with an AI call becomes a join, so that operators can be put into it.
    """

    def __init__(self, functions: Functions, null_aware: Iterable[bool], ai: Container[str] = ()) -> None:
        self._functions = functions
        self._ai = ai
        self._null_aware: Iterator[bool] = iter(null_aware)

    def read(self, rel: Rel) -> Node:
        """Convert `rel` and its inputs.

        Raises:
            NotExpressibleError: our nodes do not have this kind of relation or output mapping.
        """
        kind = rel.WhichOneof("rel_type")
        readers: dict[str, Callable[[Rel], Node]] = {
            "read": self._scan,
            "filter": self._filter,
            "project": self._project,
            "join": self._join,
            "cross": self._cross,
            "aggregate": self._aggregate,
            "sort": self._sort,
            "fetch": self._fetch,
            "set": self._set,
        }
        if kind not in readers:
            raise NotExpressibleError(f"the plan has a {kind} relation")
        body = getattr(rel, kind)
        if kind != "project" and body.common.HasField("emit"):
            raise NotExpressibleError(f"the plan reorders the columns of a {kind} relation")
        return readers[kind](rel)

    def _join_subqueries(self, input_: Node, expressions: list[Expression]) -> tuple[Node, list[Expression]]:
        """Join scalar subqueries with AI calls, one row each, to `input_`; return it and the changed expressions."""

        def replace(expression: Expression) -> Expression:
            nonlocal input_
            if expression.WhichOneof("rex_type") != "subquery":
                return ex.rebuild(expression, replace)
            if any(r.WhichOneof("root_type") == "outer_reference" for r in messages(expression, _FieldReference)):
                raise NotExpressibleError("the plan has a correlated subquery that was not turned into a join")
            anchors = {f.function_reference for f in messages(expression, Expression.ScalarFunction)}
            if not any(self._functions.names[a] in self._ai for a in anchors):
                return expression
            if expression.subquery.WhichOneof("subquery_type") != "scalar":
                raise NotExpressibleError("the plan has an AI call in a subquery that was not turned into a join")
            subquery = self.read(expression.subquery.scalar.input)
            if not _one_row(subquery):
                raise NotExpressibleError("a scalar subquery with an AI call can return several rows")
            column = field(input_.width)
            input_ = Join(input_, subquery, JoinRel.JOIN_TYPE_INNER, None)
            return column

        replaced = [replace(e) for e in expressions]
        return input_, replaced

    def _scan(self, rel: Rel) -> Node:
        return Scan(rel.read)

    def _filter(self, rel: Rel) -> Node:
        input_ = self.read(rel.filter.input)
        joined, (condition,) = self._join_subqueries(input_, [rel.filter.condition])
        return keep(Filter(joined, condition), input_.width)

    def _project(self, rel: Rel) -> Node:
        input_ = self.read(rel.project.input)
        columns = [*map(field, range(input_.width)), *rel.project.expressions]
        if rel.project.common.HasField("emit"):
            mapping = rel.project.common.emit.output_mapping
            if max(mapping, default=0) >= len(columns):  # a grouping id, which a single grouping set lacks
                raise NotExpressibleError("the plan reads a column that its input does not have")
            columns = [columns[i] for i in mapping]
        joined, columns = self._join_subqueries(input_, columns)
        return Project(joined, tuple(columns))

    def _join(self, rel: Rel) -> Node:
        join = rel.join
        condition: Expression | None = join.expression if join.HasField("expression") else None
        anti = join.type == JoinRel.JOIN_TYPE_LEFT_ANTI
        null_aware = anti and self._next_null_aware()
        left, right = self.read(join.left), self.read(join.right)
        if join.HasField("post_join_filter"):
            raise NotExpressibleError("the plan filters after a join")
        if null_aware and condition is not None:
            condition = self._not_in(condition)
        return Join(left, right, join.type, condition)

    def _next_null_aware(self) -> bool:
        try:
            return next(self._null_aware)
        except StopIteration:
            raise NotExpressibleError("the plan has an anti join whose treatment of NULL is unknown") from None

    def _not_in(self, condition: Expression) -> Expression:
        """Count a comparison with NULL as a match, as `NOT IN` does: `l = r` becomes `(l = r) IS NOT FALSE`."""
        functions = self._functions
        compared = [o for o in functions.operands(condition, "and") if functions.name(o) == "equal"]
        if len(compared) != 1 or len(functions.operands(condition, "and")) != 1:
            raise NotExpressibleError("NOT IN has a correlated subquery")
        return functions.call("is_not_false", condition)

    def _cross(self, rel: Rel) -> Node:
        return Join(self.read(rel.cross.left), self.read(rel.cross.right), JoinRel.JOIN_TYPE_INNER, None)

    def _aggregate(self, rel: Rel) -> Node:
        own = without(rel.aggregate, "input")
        _list_keys_once(own)
        return Aggregate(self.read(rel.aggregate.input), own)

    def _sort(self, rel: Rel) -> Node:
        return Sort(self.read(rel.sort.input), without(rel.sort, "input"))

    def _fetch(self, rel: Rel) -> Node:
        return Fetch(self.read(rel.fetch.input), without(rel.fetch, "input"))

    def _set(self, rel: Rel) -> Node:
        return SetOp(tuple(map(self.read, rel.set.inputs)), without(rel.set, "inputs"))


def _list_keys_once(rel: AggregateRel) -> None:
    """Remove duplicate grouping expressions, as DataFusion's own aggregates do.

    DataFusion also writes the expressions into the groupings, as older versions of Substrait did, and it reads those
    first. Changes that a rule makes to the expressions would have no effect, so they are removed from the groupings.
    """
    keys = [*rel.grouping_expressions]
    places: dict[bytes, int] = {}
    for grouping in rel.groupings:
        grouping.DiscardUnknownFields()
        references = [places.setdefault(ex.key(keys[i]), len(places)) for i in grouping.expression_references]
        del grouping.expression_references[:]
        grouping.expression_references.extend(references)
    del rel.grouping_expressions[:]
    rel.grouping_expressions.extend(Expression.FromString(key) for key in places)


def messages(message: Message, kind: type[_M]) -> Iterator[_M]:
    """Yield every message of type `kind` inside `message`, also in subqueries."""
    if isinstance(message, kind):
        yield message
    if isinstance(message, Expression) and ex.is_leaf(message):
        return
    for descriptor, value in message.ListFields():
        if descriptor.message_type is not None:
            for item in (value,) if isinstance(value, Message) else value:
                yield from messages(item, kind)


def _one_row(node: Node) -> bool:
    """Return whether `node` returns exactly one row: it is an aggregate without groups, under projections."""
    while isinstance(node, Project):
        node = node.input
    return isinstance(node, Aggregate) and not node.rel.grouping_expressions


def without(message: _M, name: str) -> _M:
    """Return a copy of `message` with one field cleared."""
    copy = type(message)()
    copy.CopyFrom(message)
    copy.ClearField(name)
    return copy


def write(node: Node) -> Rel:
    """Convert a tree without AI operators into a Substrait relation."""
    match node:
        case Scan(rel):
            return Rel(read=rel)
        case Filter():
            rel = Rel()
            rel.filter.condition.CopyFrom(node.condition)
            rel.filter.input.CopyFrom(write(node.input))
            return rel
        case Project():
            return Rel(project=_write_project(node))
        case Join():
            return _write_join(node)
        case Aggregate():
            rel = Rel(aggregate=node.rel)
            rel.aggregate.input.CopyFrom(write(node.input))
            return rel
        case Sort():
            rel = Rel(sort=node.rel)
            rel.sort.input.CopyFrom(write(node.input))
            return rel
        case Fetch():
            rel = Rel(fetch=node.rel)
            rel.fetch.input.CopyFrom(write(node.input))
            return rel
        case SetOp():
            rel = Rel(set=node.rel)
            rel.set.inputs.extend(map(write, node.inputs))
            return rel
        case AiMap() | AiJoin() | Number() | Groups() | GroupLimit():
            raise NotExpressibleError("an operator of ours has no Substrait form")


def _write_project(node: Project) -> ProjectRel:
    width = node.input.width
    emit = RelCommon.Emit(output_mapping=range(width, width + len(node.expressions)))
    return ProjectRel(common=RelCommon(emit=emit), input=write(node.input), expressions=node.expressions)


def _write_join(node: Join) -> Rel:
    left, right = write(_named_apart(node.left)), write(_named_apart(node.right))
    if node.condition is None and node.kind == JoinRel.JOIN_TYPE_INNER:
        return Rel(cross=CrossRel(left=left, right=right))
    return Rel(join=JoinRel(left=left, right=right, type=node.kind, expression=node.condition))


def _named_apart(node: Node) -> Node:
    """Add a projection that renames the columns of a join's input, if the input has a join in it.

    DataFusion renames both inputs of a join where their columns have equal names. Two columns of the lower join can
    then get the same name. A computed column gets a name from its expression, which is unique; the optimizer removes
    the computation.
    """
    if not any(isinstance(n, Join) for n in walk(node)):
        return node
    true = Expression(literal=Expression.Literal(boolean=True))
    return Project(node, tuple(ex.only_where(true, field(i)) for i in range(node.width)))


def to_plan(node: Node, functions: Functions) -> Plan:
    """Wrap a tree without AI operators into a Substrait plan that DataFusion can run."""
    plan = Plan(relations=[PlanRel(rel=write(node))])
    functions.declare(plan)
    return plan
