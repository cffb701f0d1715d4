"""Expressions of a plan in the dialect of a source."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp
from substrait.algebra_pb2 import Expression, Rel
from substrait.type_pb2 import Type

from flightllm.attached.pushed.calls import CALLS, Given, also_by_index
from flightllm.attached.pushed.typed import NotSayableError, Typed, as_decimal, constant, is_null, null_of, of_type
from flightllm.attached.pushed.words import Words
from flightllm.plan import expressions as ex
from flightllm.plan.expressions import Functions


@dataclass(frozen=True, slots=True)
class ValueWriter:
    """Writes expressions; `subquery` writes a subquery of one column."""

    functions: Functions
    words: Words
    subquery: Callable[[Rel], Typed]

    def value(self, expression: Expression, columns: Sequence[Typed]) -> Typed:
        """Return an expression over columns.

        Raises:
            NotSayableError: the dialect has no equal of a part.
        """
        kind = expression.WhichOneof("rex_type")
        match kind:
            case "selection":
                index = ex.field_index(expression)
                if index is None:
                    raise NotSayableError("a part of a value")
                return replace(columns[index], sql=columns[index].sql.copy())
            case "literal":
                return constant(expression.literal)
            case "cast":
                return self._cast(self.value(expression.cast.input, columns), expression.cast.type)
            case "if_then":
                return self._case(expression.if_then, columns)
            case "singular_or_list":
                return self._in(expression.singular_or_list, columns)
            case "subquery" if expression.subquery.WhichOneof("subquery_type") == "scalar":
                return self.subquery(expression.subquery.scalar.input)
            case "scalar_function":
                return self._call(expression, columns)
        raise NotSayableError(f"a {kind} expression")

    def condition(self, expression: Expression, columns: Sequence[Typed]) -> exp.Expr:
        """Return a condition over columns.

        Raises:
            NotSayableError: the dialect has no equal of a part.
        """
        found = self.value(expression, columns)
        if found.kind != "bool":
            raise NotSayableError("a condition of another type than a boolean")
        return found.sql

    def _in(self, given: Expression.SingularOrList, columns: Sequence[Typed]) -> Typed:
        value = self.value(given.value, columns)
        options = [self.value(one, columns) for one in given.options]
        if any(one.kind != value.kind for one in options):
            raise NotSayableError("IN over several types")
        exact = exp.In(this=self.words.ordered(value), expressions=[one.sql for one in options])
        return Typed(also_by_index(exp.In, value, options, exact), "bool")

    def _case(self, given: Expression.IfThen, columns: Sequence[Typed]) -> Typed:
        ifs, results = list[exp.If](), list[Typed]()
        for one in given.ifs:
            then = self.value(one.then, columns)
            results.append(then)
            ifs.append(exp.If(this=self.condition(getattr(one, "if"), columns), true=then.sql))
        default = self.value(getattr(given, "else"), columns) if given.HasField("else") else None
        if default is not None:
            results.append(default)
        typed = [one for one in results if not is_null(one.sql)]
        if not typed or len({one.shape for one in typed}) > 1 or typed[0].kind == "other":
            raise NotSayableError("CASE of several types")
        return replace(typed[0], sql=exp.Case(ifs=ifs, default=default.sql if default else None))

    def _cast(self, value: Typed, wanted: Type) -> Typed:
        goal = of_type(exp.null(), wanted)
        if is_null(value.sql):
            return null_of(wanted)
        if value.shape == goal.shape:
            return replace(goal, sql=value.sql)
        match value.kind, goal.kind:
            case "int", "int" if goal.width > value.width:
                name = {16: "smallint", 32: "int", 64: "bigint"}[goal.width]
                return replace(goal, sql=exp.cast(value.sql, exp.DataType.build(name)))
            case (("int" | "decimal" | "float"), "float") if value.kind != "float" or goal.width > value.width:
                return replace(goal, sql=exp.cast(value.sql, exp.DataType.Type.DOUBLE), width=64)
            case "int", "decimal":
                return replace(goal, sql=as_decimal(value.sql, goal.digits))
            case "decimal", "decimal" if goal.digits[1] >= value.digits[1]:
                return replace(goal, sql=as_decimal(value.sql, goal.digits))
            case "float", "decimal":  # PostgreSQL's own cast keeps 15 digits
                exact = value.sql if self.words.dialect == "duckdb" else exp.cast(value.sql, exp.DataType.Type.TEXT)
                return replace(goal, sql=as_decimal(exact, goal.digits))
            case "date", "timestamp":
                return replace(goal, sql=exp.cast(value.sql, exp.DataType.Type.TIMESTAMP))
        raise NotSayableError(f"a cast of {value.kind} to {goal.kind}")

    def _call(self, expression: Expression, columns: Sequence[Typed]) -> Typed:
        name = self.functions.name(expression) or ""
        values = [self.value(one, columns) for one in ex.arguments(expression)]
        result = of_type(exp.null(), expression.scalar_function.output_type)
        writer = CALLS.get(name)
        found = None if writer is None else writer(Given(self.words, name, values, result))
        if found is None:
            raise NotSayableError(f"{name} of {', '.join(one.kind for one in values)}")
        return found
