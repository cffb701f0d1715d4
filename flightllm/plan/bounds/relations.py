"""Bounds on the columns and rows of each operator of a plan, computed from the bounds of its inputs."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import pyarrow as pa
from datafusion import Expr, LogicalPlan, SessionContext

from flightllm.common.expressions import unaliased
from flightllm.common.names import DEFAULT_SCHEMA
from flightllm.common.stopping import check_wanted
from flightllm.datafusion.table_size import TableSize
from flightllm.plan.bounds.expressions import Expressions, literal, marks
from flightllm.plan.bounds.functions import AGGREGATES, WINDOWS
from flightllm.plan.bounds.value import BATCH_ROWS, BoundsTally, UnboundedError, ValueBounds, largest

_TEXT, _ITEMS = 64, 16
"""Assumed bytes of a text, and elements of a list, in a column of unknown size."""
_MATCHES = 10
"""Assumed number of matches in an equi-join for a row of the larger side."""
_PROBE = 1e6
"""Assumed bytes of a recursive query's columns, to test whether one turn of the recursion makes them grow."""
_GROWTH, _TURNS = 1.5, 50
_MANY = 1e5
_READ_ROWS, _PAIRS = 8_192, 1e9
"""Rows in one batch of a table scan, and the most pairs of rows that a join can compare between two batches.

A join can be stopped only between batches.
"""
_EQUAL_PAIR = 5
"""The cost of finding and joining one pair with equal keys, in comparisons of pairs."""
_AT_ONCE = 128 * _READ_ROWS
"""Rows that a hash join can take without a stop, where they are ready in its input."""
_FRAMED = frozenset(["sum", "count", "avg", "mean", "min", "max", "var", "stddev", "first_value", "last_value"])
"""Aggregates that DataFusion updates for a sliding frame instead of computing them again for each row."""
_OFFSET = re.compile(r"(?:ROWS|RANGE|GROUPS) BETWEEN (\S+) PRECEDING")
_GROUP_BYTES = 32
"""Bytes of a group besides its columns: its hash, its place, its grouping set and its count."""
_MOST_COLUMNS = 64
"""DataFusion refuses CUBE of more columns."""
_PLACEHOLDER = "__unnest_placeholder("


@dataclass(frozen=True, slots=True)
class Relation:
    """The bounds of an operator's output."""

    columns: tuple[tuple[str, ValueBounds], ...]
    rows: float
    widest: float = 0
    """Rows of the largest input, if this is a cross join."""
    pairs: float = 0
    """Pairs of rows that joins compare before they can be stopped; pairs with equal keys count more."""
    by_name: dict[str, ValueBounds] = field(init=False, default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        self.by_name.update(self.columns)
        if len(self.by_name) == len(self.columns):
            return
        equal: dict[str, list[ValueBounds]] = {}
        for name, value in self.columns:
            equal.setdefault(name, []).append(value)
        for name, values in equal.items():
            if len(values) > 1:
                self.by_name[name] = replace(largest(values), distinct=max(v.distinct for v in values))

    @property
    def width(self) -> float:
        """Return the bytes of a row."""
        return sum(value.bytes for _, value in self.columns)

    @property
    def bytes(self) -> float:
        """Return the bytes of all rows."""
        return sum(value.spread(self.rows) for _, value in self.columns)


class Relations:
    """Walks one plan; the context's `sizes` says how large a table is."""

    def __init__(self, context: SessionContext, budget: BoundsTally) -> None:
        self._context = context
        self._budget = budget
        self._elsewhere: dict[str, ValueBounds] = {}
        """The columns of all operators, for a subquery that refers to columns of an outer query."""
        self._recursive: dict[str, Relation] = {}
        self._equations = ""
        """Lines of the plan that can name join keys."""
        self._grouped = 0.0
        """Bytes that all grouping sets of the plan make from one batch each."""
        self.shown = Counter[str]()
        """Function names and operators in the texts of the operators visited so far."""

    def bound(self, root: LogicalPlan) -> Relation:
        """Return the bounds of a plan's output.

        Raises:
            UnboundedError: an expression or operator in it can exceed the budget.
        """
        self._equations += "".join(line for line in root.display_indent().splitlines() if " = " in line)
        order: list[tuple[LogicalPlan, Any, list[int]]] = []
        todo = [(root, -1)]
        while todo:
            plan, parent = todo.pop()
            variant = plan.to_variant()
            if parent >= 0:
                order[parent][2].append(len(order))
            order.append((plan, variant, []))
            if type(variant).__name__ != "RecursiveQuery":
                todo.extend((child, len(order) - 1) for child in plan.inputs())
        found: dict[int, Relation] = {}
        for index in reversed(range(len(order))):
            check_wanted()
            plan, variant, children = order[index]
            inputs = [found.pop(child) for child in reversed(children)]
            found[index] = self._operator(plan, variant, inputs)
            self.shown.update(marks(plan.display()))
        return found[0]

    def _operator(self, plan: LogicalPlan, variant: Any, inputs: Sequence[Relation]) -> Relation:
        if not inputs:
            return self._leaf(plan, variant)
        given = inputs[0]
        if type(variant).__name__ not in {"Join", "Filter", "SubqueryAlias"}:
            self._check_pairs(given)
        known: Mapping[str, Callable[[], Relation]] = {
            "Projection": lambda: self._projection(variant, given),
            "Filter": lambda: self._filter(plan, variant, given),
            "Join": lambda: self._join(variant, *inputs),
            "Aggregate": lambda: self._aggregate(variant, given),
            "WindowExpr": lambda: self._window(variant, given),
            "Sort": lambda: self._sort(variant, given),
            "Limit": lambda: self._limit(variant, given),
            "Union": lambda: _union(inputs),
            "Unnest": lambda: _unnest(variant, given),
            "Distinct": lambda: _ungrouped(self._distinct(plan, given)),
        }
        found = known.get(type(variant).__name__)
        return given if found is None else found()

    def _leaf(self, plan: LogicalPlan, variant: Any) -> Relation:
        match type(variant).__name__:
            case "TableScan":
                return self._scan(plan, variant)
            case "Values":
                return self._values(variant)
            case "RecursiveQuery":
                return self._recursion(variant)
            case "Extension":
                raise UnboundedError(f"there are no bounds for the operator {plan.display()[:40]}")
            case _:
                return Relation((), 1)

    def _check_pairs(self, given: Relation) -> None:
        """Treat a join that cannot be stopped in time like a memory excess, but only for statements that run."""
        if given.pairs > _PAIRS:
            self._budget.stall("a join of many rows with many others each")

    def _sort(self, variant: Any, given: Relation) -> Relation:
        self._all(given, [key.expr() for key in variant.sort_exprs()])
        return given

    def _distinct(self, plan: LogicalPlan, given: Relation) -> Relation:
        text = plan.display()
        if text.startswith("DistinctOn"):
            self._on(given).opaque(text)
        return given

    def _on(self, relation: Relation) -> Expressions:
        def column(name: str) -> ValueBounds:
            return relation.by_name.get(name) or self._elsewhere.get(name) or ValueBounds(_TEXT)

        return Expressions(column, min(relation.rows, BATCH_ROWS), self._budget)

    def _all(self, relation: Relation, expressions: Iterable[Any]) -> list[ValueBounds]:
        on = self._on(relation)
        return [on.bound(_expression(raw)) for raw in expressions]

    def _projection(self, variant: Any, given: Relation) -> Relation:
        expressions = [_expression(raw) for raw in variant.projections()]
        values = []
        for value in self._all(given, expressions):
            if value.constant:
                self._budget.charge("a constant", replace(value, constant=False), 0, min(given.rows, BATCH_ROWS))
            values.append(replace(value, constant=False, literal=None, exact=None) if given.rows > 1 else value)
        names = map(_name, expressions)
        return Relation(tuple(zip(names, values, strict=True)), given.rows)

    def _filter(self, plan: LogicalPlan, variant: Any, given: Relation) -> Relation:
        self._all(given, [variant.predicate()])
        if given.widest and " = " in plan.display():
            distinct = self._keys(given, _expression(variant.predicate()))
            fewer = _fewer(given, _MATCHES * given.widest)
            return replace(fewer, pairs=_matching(given.pairs, distinct))
        return given

    def _keys(self, relation: Relation, condition: Expr) -> float:
        """Return how many distinct keys a condition's equations compare; infinite where that is unknown."""
        on, most, todo = self._on(relation), 0.0, [condition]
        while todo:
            node = todo.pop()
            if node.variant_name() != "BinaryExpr":
                continue
            operands = node.rex_call_operands()
            match node.rex_call_operator():
                case "AND":
                    todo.extend(operands)
                case "=":
                    sides = [on.bound(side) for side in operands]
                    if not any(side.constant for side in sides):
                        most = max(most, *(side.distinct for side in sides))
        return most or inf

    def _scan(self, plan: LogicalPlan, variant: Any) -> Relation:
        name = variant.table_name()
        if name in self._recursive:
            return self._recursive[name]
        if plan.display().startswith(("TableScan: generate_series()", "TableScan: range()")):
            return Relation((("value", ValueBounds(8)),), inf)
        schema = self._context.create_dataframe_from_logical_plan(plan).schema()
        fqn = variant.fqn()
        sizes = getattr(self._context, "sizes", None)
        size: TableSize | None = None if sizes is None else sizes(fqn[1] or DEFAULT_SCHEMA, fqn[2])
        rows = _MANY if size is None else max(1, size.rows)
        columns = tuple(
            (f.name, _column(f.type, None if size is None else size.columns.get(f.name), rows)) for f in schema
        )
        if size is not None and rows * min(rows, _AT_ONCE) * _EQUAL_PAIR > _PAIRS:
            columns = tuple(
                (name, replace(value, distinct=size.distinct(name)) if name in self._equations else value)
                for name, value in columns
            )
        relation = Relation(columns, rows)
        self._all(relation, variant.filters())
        return relation

    def _join(self, variant: Any, left: Relation, right: Relation) -> Relation:
        both = Relation((*left.columns, *right.columns), left.rows * right.rows)
        on = [side for pair in variant.on() for side in pair]
        condition = variant.filter()
        keys = self._all(both, on)
        self._all(both, [] if condition is None else [condition])
        widest = max(left.rows, right.rows, left.widest, right.widest)
        equal = on or (condition is not None and " = " in _expression(condition).canonical_name())
        distinct = max((key.distinct for key in keys), default=0.0)
        if equal and not on and condition is not None:
            distinct = self._keys(both, _expression(condition))
        smaller, larger = sorted((left, right), key=lambda side: side.rows)
        found = smaller.rows * min(larger.rows, _AT_ONCE)
        pairs = _matching(found, distinct) if equal else _pairs(left, right)
        kind = str(variant.join_type())
        if "Semi" in kind or "Anti" in kind or "Mark" in kind:
            side = left if kind.startswith("Left") else right
            if not on and condition is None:
                return side
            return replace(side, pairs=max(side.pairs, pairs))
        rows = min(both.rows, _MATCHES * widest) if equal else both.rows
        columns = (*_times(left, rows), *_times(right, rows))
        return Relation(columns, rows, 0 if equal else widest, max(left.pairs, right.pairs, pairs))

    def _aggregate(self, variant: Any, given: Relation) -> Relation:
        groups = [_expression(raw) for raw in variant.group_by_exprs()]
        keys = self._all(given, groups)
        rows = given.rows if groups else 1
        columns = [(_name(e), v) for e, v in zip(groups, keys, strict=True)]
        if groups and groups[0].variant_name() == "GroupingSet":
            columns = [*given.columns]
            self._grouping_sets(groups[0].canonical_name(), given)
        for raw in variant.aggregate_exprs():
            expression = _expression(raw)
            value = self._all(given, [expression])[0]
            name = _expression(unaliased(expression)).canonical_name().partition("(")[0]
            if AGGREGATES.get(name) == "all":
                value = self._kept(name, value, given.rows)
            columns.append((_name(_expression(raw)), replace(value, constant=False)))
        return _ungrouped(Relation(tuple(columns), rows))

    def _grouping_sets(self, text: str, given: Relation) -> None:
        """Count the groups of one batch: DataFusion makes them for all sets before it asks for their memory."""
        width = _GROUP_BYTES + sum(value.bytes for name, value in given.columns if name in text)
        self._grouped += grouping_sets(text) * min(given.rows, BATCH_ROWS) * width
        self._budget.keep("all grouping sets together", self._grouped)

    def _kept(self, name: str, value: ValueBounds, rows: float) -> ValueBounds:
        size = value.total if value.total < inf else value.bytes * rows
        size += 8 * rows
        self._budget.keep(name, size)
        if name in ("array_agg", "string_agg"):
            return ValueBounds(
                size, rows if name == "array_agg" else 1, value.bytes if name == "array_agg" else 0, total=size
            )
        return ValueBounds(40)

    def _window(self, variant: Any, given: Relation) -> Relation:
        self._budget.keep("a window", given.bytes / 2)
        columns = list(given.columns)
        for raw in variant.get_window_expr():
            expression = _expression(unaliased(_expression(raw)))
            name = expression.canonical_name().partition("(")[0]
            on = self._on(given)
            args = [on.bound(e) for e in expression.rex_call_operands()]
            for part in variant.get_partition_exprs(raw):
                on.bound(_expression(part))
            for key in variant.get_sort_exprs(raw):
                on.bound(_expression(key.expr()))
            text = expression.canonical_name()
            if " FILTER (" in text:
                on.opaque(text.partition(" FILTER (")[2])
            value = replace(self._framed(name, text, largest(args), given), distinct=inf)
            columns.append((_name(_expression(raw)), value))
        return Relation(tuple(columns), given.rows)

    def _framed(self, name: str, text: str, value: ValueBounds, given: Relation) -> ValueBounds:
        kind = WINDOWS.get(name) or AGGREGATES.get(name)
        if kind is None:
            raise UnboundedError(f"there are no bounds for {name} as a window function")
        if kind == "all" and name != "nth_value":
            frame = _OFFSET.search(text)
            rows = min(given.rows, float(frame[1]) + 1 if frame and frame[1].isdecimal() else given.rows)
            self._budget.keep(name, rows * given.rows * (value.bytes + 8))
            size = rows * (value.bytes + 8)
            return ValueBounds(size, rows, value.bytes, total=size * given.rows)
        if not name.startswith(tuple(_FRAMED)) and name not in WINDOWS:
            frame = _OFFSET.search(text)
            if frame and frame[1].isdecimal():
                rows = min(given.rows, float(frame[1]))
                self._budget.charge(name, ValueBounds(8), 10 * rows * given.rows, given.rows)
        return ValueBounds(16, number=given.rows) if kind == "number" else replace(value, constant=False, total=inf)

    def _limit(self, variant: Any, given: Relation) -> Relation:
        found = [self._all(given, [raw])[0] for raw in (variant.fetch(), variant.skip()) if raw is not None]
        fetch = variant.fetch()
        most = self._all(given, [fetch])[0].exact if fetch is not None and found else None
        return given if most is None else _fewer(given, max(1, most))

    def _values(self, variant: Any) -> Relation:
        table = variant.values()
        empty = Relation((), len(table))
        on = self._on(empty)
        columns: list[list[ValueBounds]] = [[] for _ in table[0]]
        for row in table:
            check_wanted()
            for place, raw in enumerate(row):
                expression = _expression(raw)
                plain = expression.variant_name() == "Literal"
                columns[place].append(literal(expression) if plain else on.bound(expression))
        found = []
        for values in columns:
            value = largest(values)
            found.append(replace(value, total=sum(v.bytes for v in values), constant=len(table) == 1))
            if len(table) == 1:
                found[-1] = values[0]
        return Relation(tuple((f"column{i + 1}", value) for i, value in enumerate(found)), len(table))

    def _recursion(self, variant: Any) -> Relation:
        name = variant.name()
        start, term = self.bound(_plan(variant.static_term())), _plan(variant.recursive_term())
        text = term.display_indent()
        if not variant.is_distinct() and not re.search(r"^ *(Filter|Limit|\w+ Join):", text, re.MULTILINE):
            raise UnboundedError(f"nothing ends the recursive query {name}")
        grown = self._grown(name, start, term)
        for (column, before), (_, after) in zip(start.columns, grown.columns, strict=False):
            del before
            if max(after.bytes, after.items) > _GROWTH * _PROBE:
                raise UnboundedError(f"the column {column} of the recursive query {name} grows with each turn")
        if grown.rows > _MANY * _MATCHES * _GROWTH and grown.widest:
            raise UnboundedError(f"the rows of the recursive query {name} multiply with each turn")
        columns = tuple(
            (column, ValueBounds(before.bytes + _TURNS * max(0, after.bytes - _PROBE), number=_numbers(before, after)))
            if after.bytes > _PROBE
            else (
                column,
                ValueBounds(
                    max(before.bytes, 8 if after.bytes == _PROBE else after.bytes), number=_numbers(before, after)
                ),
            )
            for (column, before), (_, after) in zip(start.columns, grown.columns, strict=False)
        )
        relation = Relation(columns, _MANY)
        outer = self._recursive.get(name)
        self._recursive[name] = relation
        try:
            self.bound(term)
        finally:
            self._restore(name, outer)
        return relation

    def _grown(self, name: str, start: Relation, term: LogicalPlan) -> Relation:
        """Return the output of one turn on large columns, without a limit on its cost."""
        budget, self._budget, outer = self._budget, BoundsTally(None), self._recursive.get(name)
        large = ValueBounds(_PROBE, _PROBE, 8, number=_PROBE)
        self._recursive[name] = Relation(tuple((column, large) for column, _ in start.columns), _MANY)
        try:
            return self.bound(term)
        finally:
            self._budget = budget
            self._restore(name, outer)

    def _restore(self, name: str, outer: Relation | None) -> None:
        if outer is None:
            self._recursive.pop(name, None)
        else:
            self._recursive[name] = outer


def _numbers(before: ValueBounds, after: ValueBounds) -> float:
    return before.number if after.number <= _PROBE else inf


def _plan(raw: Any) -> LogicalPlan:
    return raw if isinstance(raw, LogicalPlan) else LogicalPlan(raw)


def _expression(raw: Any) -> Expr:
    return raw if isinstance(raw, Expr) else Expr(raw)


def _name(expression: Expr) -> str:
    kind = expression.variant_name()
    if kind == "Column":
        return str(expression.to_variant().name())
    return str(expression.to_variant().alias() if kind == "Alias" else expression.schema_name())


def _column(kind: pa.DataType, total: float | None, rows: float) -> ValueBounds:
    """Return the bounds of a table's column; assumed ones where its size is unknown."""
    nominal = 8 if pa.types.is_primitive(kind) else _TEXT
    each = nominal if total is None else 1.5 * total / rows + 8
    number = _largest_number(kind)
    if pa.types.is_nested(kind):
        items = max(_ITEMS, each / 8)
        return ValueBounds(
            max(each, _TEXT * 4), items, max(8.0, min(each, _TEXT)), total=inf if total is None else 2 * total
        )
    return ValueBounds(each, number=number, total=rows * each)


def _largest_number(kind: pa.DataType) -> float:
    small: Mapping[pa.DataType, float] = {pa.int8(): 2**7, pa.uint8(): 2**8, pa.bool_(): 1}
    return small.get(kind, inf)


def _times(relation: Relation, rows: float) -> list[tuple[str, ValueBounds]]:
    factor = max(1.0, rows / max(1, relation.rows)) if rows < inf else inf
    return [
        (n, v if factor == 1 and not v.constant else replace(v, total=v.total * factor, constant=False))
        for n, v in relation.columns
    ]


def _fewer(relation: Relation, rows: float) -> Relation:
    return Relation(relation.columns, min(rows, relation.rows))


def grouping_sets(text: str) -> float:
    """Return at least the number of grouping sets, from the text of GROUP BY; literals can make it larger.

    `ROLLUP (a, b)` has 3 sets, `CUBE (a, b)` has 4, and `GROUPING SETS ((a, b), (a), ())` has 3.
    """
    columns = text.count(", ") + 1
    if text.startswith("CUBE"):
        return 2.0 ** min(columns, _MOST_COLUMNS)
    return columns + 1 if text.startswith("ROLLUP") else text.count("), (") + 1


def _pairs(left: Relation, right: Relation) -> float:
    return left.rows * min(right.rows, _READ_ROWS)


def _matching(pairs: float, distinct: float) -> float:
    """Return the number of pairs with equal keys, weighted by their cost; 0 if the keys are unknown."""
    return _EQUAL_PAIR * pairs / distinct if distinct < inf else 0


def _ungrouped(relation: Relation) -> Relation:
    """Return the bounds of grouped rows: grouping changes how many rows share a value, so `distinct` is unknown."""
    return replace(relation, columns=tuple((name, replace(v, distinct=inf)) for name, v in relation.columns))


def _union(inputs: Sequence[Relation]) -> Relation:
    columns = []
    for place, (name, _) in enumerate(inputs[0].columns):
        columns.append((name, largest(i.columns[place][1] for i in inputs if place < len(i.columns))))
    return Relation(tuple(columns), sum(i.rows for i in inputs))


def _unnest(variant: Any, given: Relation) -> Relation:
    rows, columns = given.rows, []
    longest = 1.0
    for name in variant.schema().field_names():
        plain = name.rpartition(".")[2] if name not in given.by_name else name
        inner = plain.removesuffix(")").rpartition(",depth=")[0]
        value = given.by_name.get(plain)
        if value is None and plain.startswith(_PLACEHOLDER):
            listed = given.by_name.get(f"{inner})") or largest(v for _, v in given.columns)
            longest = max(longest, listed.items)
            value = ValueBounds(listed.element, listed.items, listed.each, total=listed.total)
        columns.append((plain, value or largest(v for _, v in given.columns)))
    return Relation(tuple(columns), rows * longest)
