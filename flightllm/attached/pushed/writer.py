"""Write a part of a plan as one SELECT in the dialect of the source that has its tables.

The columns of a plan are positions. So each SELECT in FROM names its columns c0, c1 and so on, and no name of a user
can meet another. A part that a dialect reads in another way is not written: `NotSayableError` says which, and it runs
here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final

from sqlglot import exp
from substrait.algebra_pb2 import Expression, JoinRel, ReadRel, Rel, SetRel, SortField
from substrait.type_pb2 import Type

from flightllm.attached.columns import SourceTable
from flightllm.attached.pushed.measures import measured
from flightllm.attached.pushed.query import Query
from flightllm.attached.pushed.typed import NotSayableError, Typed, of_type
from flightllm.attached.pushed.values import ValueWriter
from flightllm.attached.pushed.words import Words
from flightllm.plan import expressions as ex
from flightllm.plan.expressions import Functions
from flightllm.plan.nodes import Aggregate, Fetch, Filter, Join, Node, Project, Scan, SetOp, Sort
from flightllm.plan.substrait import NotExpressibleError, SubstraitReader

_ORDERS: Final = {
    SortField.SORT_DIRECTION_ASC_NULLS_FIRST: (False, True),
    SortField.SORT_DIRECTION_ASC_NULLS_LAST: (False, False),
    SortField.SORT_DIRECTION_DESC_NULLS_FIRST: (True, True),
    SortField.SORT_DIRECTION_DESC_NULLS_LAST: (True, False),
}
_OUTER: Final = {
    JoinRel.JOIN_TYPE_INNER: "INNER",
    JoinRel.JOIN_TYPE_LEFT: "LEFT",
    JoinRel.JOIN_TYPE_RIGHT: "RIGHT",
    JoinRel.JOIN_TYPE_OUTER: "FULL",
}
_EXISTS: Final = {
    JoinRel.JOIN_TYPE_LEFT_SEMI: (True, False),
    JoinRel.JOIN_TYPE_LEFT_ANTI: (True, True),
    JoinRel.JOIN_TYPE_RIGHT_SEMI: (False, False),
    JoinRel.JOIN_TYPE_RIGHT_ANTI: (False, True),
}
"""Whether the join keeps its left side, and whether it keeps the rows without a partner."""
_SETS: Final = {SetRel.SET_OP_UNION_ALL: False, SetRel.SET_OP_UNION_DISTINCT: True}
"""Whether the operation drops equal rows."""


def query_of(node: Node, functions: Functions, dialect: str, table: Callable[[ReadRel], SourceTable]) -> Query:
    """Return the SELECT of a part of a plan; `table` returns a scanned table of the source.

    Raises:
        NotSayableError: the dialect has no equal of a part.
    """
    return _Writer(functions, dialect, table).query(node)


@dataclass(slots=True)
class _Writer:
    functions: Functions
    dialect: str
    table: Callable[[ReadRel], SourceTable]
    _numbers: "count[int]" = field(default_factory=count)

    @property
    def values(self) -> ValueWriter:
        return ValueWriter(self.functions, Words(self.dialect), self._subquery)

    def query(self, node: Node) -> Query:
        """Return the parts of a node's SELECT."""
        match node:
            case Scan():
                return self._scan(node)
            case Filter():
                return self._filter(node)
            case Project():
                return self._project(node)
            case Join():
                return self._join(node)
            case Aggregate():
                return self._aggregate(node)
            case Sort():
                return self._sort(node)
            case Fetch():
                return self._fetch(node)
            case SetOp():
                return self._set(node)
        raise NotSayableError(f"a {type(node).__name__}")

    def _name(self) -> str:
        return f"t{next(self._numbers)}"

    def _inside(self, query: Query) -> Query:
        return query.inside(self._name())

    def _relation(self, query: Query) -> Query:
        return query if query.is_relation else self._inside(query)

    def _subquery(self, rel: Rel) -> Typed:
        try:
            below = self.query(SubstraitReader(self.functions, ()).read(rel))
        except NotExpressibleError as error:
            raise NotSayableError(str(error)) from error
        if len(below.columns) != 1:
            raise NotSayableError("a subquery of several columns")
        return replace(below.columns[0], sql=below.select().subquery())

    def _scan(self, node: Scan) -> Query:
        rel, name = node.rel, self._name()
        table = self.table(rel)
        stored = [
            _stored(table, column, name, kind)
            for column, kind in zip(rel.base_schema.names, rel.base_schema.struct.types, strict=True)
        ]
        places = [one.field for one in rel.projection.select.struct_items] if rel.HasField("projection") else None
        columns = tuple(stored if places is None else (stored[i] for i in places))
        where = (self.values.condition(rel.filter, stored),) if rel.HasField("filter") else ()
        schema = exp.to_identifier(table.schema, quoted=True) if table.schema else None
        source = exp.alias_(
            exp.Table(this=exp.to_identifier(table.name, quoted=True), db=schema), name, table=True, quoted=True
        )
        return Query(source, columns, where=where)  # a best-effort filter is above the scan too

    def _filter(self, node: Filter) -> Query:
        below = self.query(node.input)
        if below.limited or below.groups is not None:
            below = self._inside(below)
        return replace(below, where=(*below.where, self.values.condition(node.condition, below.columns)))

    def _project(self, node: Project) -> Query:
        below = self.query(node.input)
        read = [i for one in node.expressions for i in _reads(one)]
        twice = {i for i in read if read.count(i) > 1}
        if not below.order and any(not isinstance(below.columns[i].sql, exp.Column | exp.Literal) for i in twice):
            below = self._inside(below)
        return replace(below, columns=tuple(self.values.value(one, below.columns) for one in node.expressions))

    def _sort(self, node: Sort) -> Query:
        below = self.query(node.input)
        if below.limited:
            below = self._inside(below)
        return replace(below, order=tuple(self._key(one, below.columns) for one in node.rel.sorts))

    def _key(self, sort: SortField, columns: Sequence[Typed]) -> exp.Expr:
        if sort.direction not in _ORDERS:
            raise NotSayableError("an order without a direction")
        descending, nulls_first = _ORDERS[sort.direction]
        value = self.values.value(sort.expr, columns)
        if value.sql.find(exp.Column) is None:  # ORDER BY 1 means the first column
            raise NotSayableError("an order by a constant")
        return exp.Ordered(this=self.values.words.ordered(value), desc=descending, nulls_first=nulls_first)

    def _fetch(self, node: Fetch) -> Query:
        found = ex.bounds(node.rel)
        if found is None:
            raise NotSayableError("a limit that is not a number")
        return self.query(node.input).limit(*found)

    def _join(self, node: Join) -> Query:
        left, right = self._relation(self.query(node.left)), self._relation(self.query(node.right))
        both = (*left.columns, *right.columns)
        condition = None if node.condition is None else self.values.condition(node.condition, both)
        if node.kind in _EXISTS:
            keeps_left, negated = _EXISTS[node.kind]
            kept, other = (left, right) if keeps_left else (right, left)
            inner = exp.select("1").from_(other.source.copy())
            found: exp.Expr = exp.Exists(this=inner if condition is None else inner.where(condition))
            return Query(kept.source, kept.columns, where=(exp.not_(found) if negated else found,))
        if node.kind not in _OUTER:
            raise NotSayableError("a join of this kind")
        return Query(left.source, both, joins=(_joined(_OUTER[node.kind], right.source.copy(), condition),))

    def _set(self, node: SetOp) -> Query:
        if node.rel.op not in _SETS:
            raise NotSayableError("a set operation of this kind")
        distinct = _SETS[node.rel.op]
        parts = [self.query(one) for one in node.inputs]
        for others in zip(*(part.columns for part in parts), strict=True):
            if len({one.shape for one in others}) > 1 or (distinct and others[0].kind == "other"):
                raise NotSayableError("a set operation of several types")
        selects = [self._operand(part, compared=distinct).select() for part in parts]
        built: exp.Query = selects[0]
        for one in selects[1:]:
            built = exp.Union(this=built, expression=one, distinct=distinct)
        name = self._name()
        columns = tuple(
            replace(one, sql=exp.column(f"c{i}", table=name, quoted=True)) for i, one in enumerate(parts[0].columns)
        )
        return Query(exp.Subquery(this=built, alias=exp.TableAlias(this=exp.to_identifier(name, quoted=True))), columns)

    def _operand(self, query: Query, *, compared: bool) -> Query:
        """Return a SELECT of a union; texts that are compared get this server's order."""
        query = self._inside(query) if query.limited else replace(query, order=())
        if not compared:
            return query
        return replace(query, columns=tuple(replace(one, sql=self.values.words.ordered(one)) for one in query.columns))

    def _aggregate(self, node: Aggregate) -> Query:
        rel = node.rel
        if len(rel.groupings) > 1:
            raise NotSayableError("several grouping sets")
        below = self.query(node.input)
        if below.limited or below.groups is not None:
            below = self._inside(below)
        wanted = rel.groupings[0].expression_references if rel.groupings else ()
        if list(wanted) != list(range(len(rel.grouping_expressions))):
            raise NotSayableError("a grouping in another order")
        keys = [self.values.value(one, below.columns) for one in rel.grouping_expressions]
        if any(key.sql.find(exp.Column) is None for key in keys):  # GROUP BY 1 means the first column
            raise NotSayableError("a group by a constant")
        keys = [replace(key, sql=self.values.words.ordered(key)) for key in keys]
        measures = [measured(one, below.columns, self.values) for one in rel.measures]
        if not keys and not measures:
            raise NotSayableError("an aggregate without columns")
        return replace(below, columns=(*keys, *measures), groups=tuple(key.sql for key in keys), order=())


def _joined(kind: str, source: exp.Expr, condition: exp.Expr | None) -> exp.Join:
    if kind == "INNER":
        return exp.Join(this=source, kind="CROSS" if condition is None else "INNER", on=condition)
    return exp.Join(this=source, side=kind, on=exp.true() if condition is None else condition)


def _stored(table: SourceTable, name: str, alias: str, given: Type) -> Typed:
    """Return a column of a table; it is compared here only if the source compares it alike."""
    column = next((one for one in table.columns if one.name == name), None)
    if column is None or column.problem:
        raise NotSayableError("a column that cannot be read")
    bare = exp.column(exp.to_identifier(name, quoted=True), table=exp.to_identifier(alias, quoted=True))
    found = of_type(bare, given)
    if column.compared != "order":
        return Typed(column.read(bare), "other")
    return found if found.kind == "decimal" else replace(found, sql=column.read(bare))


def _reads(expression: Expression) -> list[int]:
    return [i for one in ex.walk(expression) if (i := ex.field_index(one)) is not None]
