"""Compare intervals by their length, as PostgreSQL does: DataFusion compares months, then days, then the rest.

A month has 30 days and a day 24 hours. The time between two timestamps has no days, so DataFusion finds 8 days shorter
than `interval '1 day'`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from flightllm.sql.joins import join_kind, merged_names
from flightllm.sql.nodes import Json, Node, body, kind
from flightllm.sql.passes.by_key import ORDERS, KeyWriter, grouped_keys
from flightllm.sql.query_columns import TableColumns, Type
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import INTERVAL, arguments, function_name


def intervals(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `b - a > interval '1 day'` as a comparison of microseconds; also in IN, CASE, ORDER BY, min and more.

    Raises:
        UnsupportedError: a clause that has no such form compares intervals, such as GROUP BY.
    """
    return tree.rebuilt(EqualWriter(tree, columns_of, _Lengths()).changed)


class _Lengths:
    """Intervals by their microseconds."""

    operators: Final = ORDERS | {"Eq", "NotEq", "Spaceship"}
    said: Final = (
        "compares intervals, of which '1 month' and '30 days' must be equal: write extract(epoch FROM …) in place of"
        " the interval"
    )

    def has(self, given: Type) -> bool:
        """Return whether a type is that of intervals."""
        return bool(given == INTERVAL)

    def key(self, _: Tree, value: Json, types: Sequence[Type]) -> Json:
        """Return the microseconds of an interval, or of a value that is compared with one."""
        given = value if types[0] == INTERVAL else written("CAST(v AS INTERVAL)", v=value)
        return written("CAST(round(date_part('epoch', v) * 1000000) AS BIGINT)", v=given)


class EqualWriter(KeyWriter):
    """Writes the comparisons of values that are equal if their keys are."""

    def more_writers(self) -> Mapping[str, Callable[[str, Json], Node | None]]:
        """Return the writers of equality, and of the clauses that find equal values."""
        return {
            "IsDistinctFrom": self._sides,
            "IsNotDistinctFrom": self._sides,
            "InList": self._in_list,
            "InSubquery": self._in_query,
            "Case": self._case,
            "SetOperation": self._set_operation,
            "Using": self._using,
        }

    def _sides(self, name: str, fields: Json) -> Node | None:
        return {name: self.keys(*fields)} if self.any(*fields) else None

    def _in_list(self, name: str, fields: Json) -> Node | None:
        if not self.any(fields["expr"], *fields["list"]):
            return None
        value, *listed = self.keys(fields["expr"], *fields["list"])
        return {name: {**fields, "expr": value, "list": listed}}

    def _in_query(self, name: str, fields: Json) -> Node | None:
        if not self.any(fields["expr"], {"Subquery": fields["subquery"]}):
            return None
        value, query = self.keys_of_query(fields["expr"], fields["subquery"], "IN")
        return {name: {**fields, "expr": value, "subquery": query}}

    def _case(self, name: str, fields: Json) -> Node | None:
        operand, conditions = fields["operand"], fields["conditions"]
        if operand is None or not self.any(operand, *(one["condition"] for one in conditions)):
            return None
        value, *tests = self.keys(operand, *(one["condition"] for one in conditions))
        compared = [{**one, "condition": test} for one, test in zip(conditions, tests, strict=True)]
        return {name: {**fields, "operand": value, "conditions": compared}}

    def function(self, name: str, fields: Json) -> Node | None:
        """Write a call that compares its arguments; equal lengths count once."""
        values, function = arguments(fields), function_name(fields)
        if not self.any(*values):
            return super().function(name, fields)
        distinct = body(fields["args"])["duplicate_treatment"] == "Distinct"
        if function == "nullif" and len(values) == 2:
            first, second = self.keys(*values)
            either: Node = written("CASE WHEN a = b THEN NULL ELSE v END", a=first, b=second, v=values[0])
            return either
        if function == "count" and distinct:
            given = [{"Unnamed": {"Expr": key}} for key in self.keys(*values)]
            return {name: {**fields, "args": {"List": {**body(fields["args"]), "args": given}}}}
        if distinct and function not in {"min", "max"}:
            raise self.refused(f"{function}(…)", fields)
        return super().function(name, fields)

    def window(self, name: str, fields: Json) -> Node | None:
        """Write the PARTITION BY and the ORDER BY of a window."""
        divided = self.only_keys(fields["partition_by"])
        ordered = super().window(name, {**fields, "partition_by": divided})
        return ordered or (None if divided is fields["partition_by"] else {name: {**fields, "partition_by": divided}})

    def expressions(self, name: str, fields: Json) -> Node | None:
        """Write the keys of ORDER BY; those of GROUP BY are refused."""
        if fields and isinstance(fields[0], list) and self.any(*grouped_keys(fields[0])):
            raise self.refused("GROUP BY", fields[0])
        return super().expressions(name, fields)

    def select(self, name: str, fields: Json) -> Node | None:
        """Write the keys of DISTINCT ON; DISTINCT and the numbers of GROUP BY are refused."""
        distinct, grouped = fields["distinct"], fields["group_by"]
        self.check_clauses(name, fields)
        if distinct and kind(distinct) != "On" and self.has_keyed({name: fields}):
            raise self.refused("DISTINCT", fields["projection"])
        for key in grouped_keys(body(grouped)[0]) if kind(grouped) == "Expressions" else ():
            if self.keyed_place(key, {name: fields}):
                raise self.refused("GROUP BY", key)
        return super().select(name, fields)

    def check_clauses(self, name: str, fields: Json) -> None:
        """Check the clauses of a SELECT that compare columns which they do not name.

        Raises:
            UnsupportedError: GROUP BY ALL or NATURAL JOIN compares values by their keys.
        """
        if kind(fields["group_by"]) == "All" and self.has_keyed({name: fields}):
            raise self.refused("GROUP BY ALL", fields["projection"])
        for item in fields["from"]:
            before = self.types.columns_by_name(item["relation"])
            for join in item["joins"]:
                columns = self.types.columns_by_name(join["relation"])
                merged = merged_names(join, list(before), list(columns)) if join_kind(join) is not None else []
                if any(self._keyed.has(side.get(one)) for one in merged or () for side in (before, columns)):
                    raise self.refused("NATURAL JOIN or USING", join)
                before = columns | before

    def _set_operation(self, name: str, fields: Json) -> None:
        if fields["op"] == "Union" and str(fields["set_quantifier"]).startswith("All"):
            return
        if self.has_keyed({name: fields}):
            raise self.refused(str(fields["op"]).upper(), fields)

    def _using(self, _: str, fields: Json) -> None:
        if self.any(*(name[-1] for name in fields)):
            raise self.refused("USING", fields)
