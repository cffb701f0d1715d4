"""A correlated query for all rows of the outer query at once: its rows have the outer values as their first columns.

`SELECT y FROM b WHERE b.g = a.g` becomes `SELECT "outer 1"."key 1", y FROM (SELECT DISTINCT a.g AS "key 1" FROM a)
AS "outer 1" CROSS JOIN b WHERE b.g = "outer 1"."key 1"`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count

import pyarrow as pa

from flightllm.common.arrow_types import is_list
from flightllm.common.names import quoted
from flightllm.errors import UnsupportedError
from flightllm.sql.joins import FULL, INNER, LEFT, RIGHT, join_kind
from flightllm.sql.nodes import Json, Node, body, kind, name_of, new_identifier, replaced, walk
from flightllm.sql.null_safe import same_value
from flightllm.sql.passes.nested_json import json_form
from flightllm.sql.passes.repeated_keys import keys_once
from flightllm.sql.passes.subqueries.items import by_name, by_number, column, derived, item, rows_as_selects, without
from flightllm.sql.query_columns import Type
from flightllm.sql.references import (
    References,
    is_column,
    names_of,
    names_of_tables,
    names_of_with,
)
from flightllm.sql.select_shapes import (
    aggregates,
    is_grouped,
    is_known,
    is_limited,
    is_single,
    joined,
    keys_of,
    own_nodes,
)
from flightllm.sql.tree import written, written_query


@dataclass(frozen=True)
class Domain:
    """The different values of outer columns: the query of them, its name, the names and the types of its columns."""

    query: Json
    name: str
    keys: tuple[str, ...]
    types: tuple[Type, ...]

    def column(self, key: str) -> Json:
        """Return a column of the domain."""
        return column(self.name, key)

    @property
    def table(self) -> Json:
        """Return the domain as a table of FROM."""
        return derived(self.query, self.name)

    def matches(self, table: str, others: Sequence[Json]) -> Json:
        """Return the condition that the keys of a table equal other values; NULL equals NULL."""
        keys = zip(self.keys, others, self.types, strict=True)
        return joined([same_value(column(table, key), other, of, _texts(of)) for key, other, of in keys])


def _texts(of: Type) -> tuple[str, str] | None:
    """Return the texts of two structs, or of lists of structs, which have no text but JSON; None for another type."""
    inner = of
    while inner is not None and is_list(inner):
        inner = inner.value_type
    return (json_form("a", of), json_form("b", of)) if inner is not None and pa.types.is_struct(inner) else None


def cross_join(relation: Json) -> Json:
    """Return a join with all rows of a table."""
    return {"relation": relation, "global": False, "join_operator": {"CrossJoin": "None"}}


def left_join(relation: Json, condition: Json) -> Json:
    """Return a join that keeps the rows before it."""
    return {"relation": relation, "global": False, "join_operator": {"Left": {"On": condition}}}


def chained(tables: Sequence[Json]) -> list[Json]:
    """Return the tables of a FROM as one chain of joins: its ON conditions see all tables before them."""
    if not tables:
        return []
    first, *others = (_alone(table) for table in tables)
    joins = list(first["joins"])
    for other in others:
        joins += [cross_join(other["relation"]), *other["joins"]]
    return [{"relation": first["relation"], "joins": joins}]


def _alone(table: Json) -> Json:
    if not any(join_kind(join) in {RIGHT, FULL} for join in table["joins"]):
        return table
    return {"relation": {"NestedJoin": {"table_with_joins": table, "alias": None}}, "joins": []}


class Spreader:
    """Writes one correlated query for all values of a domain. `keys` maps the outer columns, by `id`, to their keys."""

    def __init__(
        self, domain: Domain, keys: Mapping[int, str], references: References, numbers: "count[int]", where: str
    ) -> None:
        self._domain = domain
        self._keys = {node: domain.column(key) for node, key in keys.items()}
        self._references = references
        self._numbers = numbers
        self._where = where

    def query(self, given: Json) -> Json:
        """Return a query whose first columns are the keys of the domain.

        Raises:
            UnsupportedError: the query has a clause that has no such form.
        """
        if not is_known(given) or (given["with"] and self._reads(given["with"])):
            raise self._refused("a WITH or a clause that reads it")
        if names_of_with(given) & names_of_tables(self._domain.query):
            raise self._refused("a WITH that hides a table of the outer query")
        if is_limited(given):
            return self._limited(given)
        # A column of the outer query can be a key of DISTINCT ON, as those of the domain are.
        return keys_once({**given, "body": self._body(given["body"]), "order_by": self._order(given)})

    def _order(self, given: Json) -> Json:
        """Return the order of DISTINCT ON, which chooses rows by it; another order has no meaning."""
        order = given["order_by"]
        distinct = body(given["body"])["distinct"] if kind(given["body"]) == "Select" else None
        if not order or kind(distinct) != "On":
            return None
        if kind(order["kind"]) != "Expressions":
            raise self._refused("ORDER BY ALL")
        (key,) = body(written_query("SELECT 0 ORDER BY 0")["order_by"]["kind"])
        outer = [{**key, "expr": self._domain.column(one)} for one in self._domain.keys]
        items = body(given["body"])["projection"]
        own = [{**one, "expr": by_name(one["expr"], items)} for one in body(order["kind"])]
        return {**order, "kind": {"Expressions": [*outer, *self._placed(own)]}}

    def _body(self, given: Json) -> Json:
        fields = body(given)
        match kind(given):
            case "Select":
                return {"Select": self._select(fields)}
            case "SetOperation":
                return {
                    "SetOperation": {**fields, "left": self._body(fields["left"]), "right": self._body(fields["right"])}
                }
            case "Query":
                return {"Query": self.query(fields)}
            case "Values" if not self._reads(fields):
                rows = written_query("SELECT 0 FROM given", given=_query(given))
                return {"Select": self._select(_with_star(body(rows["body"])))}
            case "Values":
                return self._body(rows_as_selects(fields["rows"]))
            case _:
                raise self._refused("TABLE, or a clause that reads it")

    def _select(self, select: Json) -> Json:
        if any(map(self._is_outer, aggregates([select["projection"], select["having"]]))):
            raise self._refused("an aggregate that reads only such columns")
        if is_single(select):
            return self._single(select)
        tables, conditions = self._tables(select["from"])
        outer = [self._domain.column(key) for key in self._domain.keys]
        grouped = select["group_by"]
        if is_grouped(select):
            if kind(grouped) != "Expressions" or any(
                kind(key) in {"Rollup", "Cube", "GroupingSets"} for key in keys_of(select)
            ):
                raise self._refused("GROUP BY ALL, ROLLUP, CUBE or GROUPING SETS")
            keys = [by_number(key, select["projection"]) for key in keys_of(select)]
            grouped = {"Expressions": [[*outer, *self._placed(keys)], body(grouped)[1]]}
        where = self._placed(select["selection"])
        distinct = select["distinct"]
        if kind(distinct) == "On":
            distinct = {"On": [*outer, *self._placed(body(distinct))]}
        return {
            **select,
            "distinct": distinct,
            "projection": [*self._key_items(), *self._items(select["projection"])],
            "from": tables,
            "selection": joined([*([where] if where else []), *conditions]),
            "group_by": grouped,
            "having": self._placed(select["having"]),
            "qualify": self._placed(self._divided(select["qualify"])),
            "named_window": self._placed(self._divided(select["named_window"])),
        }

    def _is_outer(self, aggregate: Node) -> bool:
        """Return whether PostgreSQL computes an aggregate over the rows of the outer query."""
        fields = body(aggregate)
        columns = [node for node in own_nodes([fields["args"], fields["filter"]]) if is_column(node)]
        return bool(columns) and all(id(node) in self._keys for node in columns)

    def _items(self, items: Sequence[Json]) -> list[Json]:
        named = [self._named(one) for one in items]
        found = self._placed(self._divided(named))
        return [without(one, self._domain.keys) if kind(one) == "Wildcard" else one for one in found]

    def _named(self, one: Json) -> Json:
        """Return an item of SELECT under its own name if it is an outer column, which has the name of a key then."""
        outer = kind(one) == "UnnamedExpr" and id(body(one)) in self._keys
        return item(body(one), names_of(body(one))[-1]) if outer else one

    def _key_items(self) -> list[Json]:
        return [item(self._domain.column(key), key) for key in self._domain.keys]

    def _divided(self, value: Json) -> Json:
        """Return a value in which no window has rows of two outer rows."""
        outer = [self._domain.column(key) for key in self._domain.keys]
        specs = [node for node in walk(value) if kind(node) == "WindowSpec" and not body(node)["window_name"]]
        divided = [{**body(node), "partition_by": [*outer, *body(node)["partition_by"]]} for node in specs]
        changes = {id(node): {"WindowSpec": fields} for node, fields in zip(specs, divided, strict=True)}
        return replaced(value, changes) if changes else value

    def _placed(self, value: Json) -> Json:
        return replaced(value, self._keys) if value is not None else None

    def _reads(self, value: Json) -> bool:
        return any(id(node) in self._keys for node in walk(value))

    # --- FROM

    def _tables(self, tables: Sequence[Json]) -> tuple[list[Json], list[Json]]:
        """Return the tables of a FROM after the domain, and the conditions on tables that are spread themselves."""
        if not tables:
            return [{"relation": self._domain.table, "joins": []}], []
        (chain,) = chained(tables)
        conditions = list[Json]()
        joins = [cross_join(self._table(chain["relation"], conditions))]
        for join in chain["joins"]:
            matches = list[Json]()
            relation = self._table(join["relation"], matches)
            operator = self._placed(join["join_operator"])
            if matches and join_kind(join) == LEFT and kind(body(operator)) == "On":
                operator = {kind(operator): {"On": joined([body(body(operator)), *matches])}}
            elif matches and join_kind(join) != INNER:
                raise self._refused("an outer join with a table that reads it")
            else:
                conditions += matches
            joins.append({**join, "relation": relation, "join_operator": operator})
        return [{"relation": self._domain.table, "joins": joins}], conditions

    def _table(self, relation: Json, conditions: list[Json]) -> Json:
        if not self._reads(relation):
            return relation
        fields = body(relation)
        if kind(relation) != "Derived":
            raise self._refused("a table function or a join in parentheses that reads it")
        if fields["lateral"]:  # it can read the tables before it, too; it becomes a join with their rows later
            return self._placed(relation)
        alias = fields["alias"]
        if alias is None or alias["columns"]:
            name = name_of(alias["name"]) if alias else f"rows {next(self._numbers)}"
            names = (
                [new_identifier(key) for key in self._domain.keys] + [one["name"] for one in alias["columns"]]
                if alias
                else []
            )
            columns = [{"name": one, "data_type": None} for one in names]
            alias = {"explicit": True, "name": new_identifier(name), "columns": columns}
        name = name_of(alias["name"])
        others = [self._domain.column(key) for key in self._domain.keys]
        conditions.append(self._domain.matches(name, others))
        return {"Derived": {**fields, "lateral": False, "subquery": self.query(fields["subquery"]), "alias": alias}}

    # --- one group

    def _single(self, select: Json) -> Json:
        """Return aggregates over all rows: a key without rows has a result, too, such as the count 0."""
        number = next(self._numbers)
        rows, present = f"rows {number}", f"present {number}"
        scope = self._references.scope(select["from"])
        asked = {"items": select["projection"], "having": select["having"], "windows": select["named_window"]}
        own = [node for node in self._references.inside(asked, scope) if id(node) not in self._keys]
        names = {node: f"value {number}.{place}" for place, node in enumerate(dict.fromkeys(map(names_of, own)))}
        first = {names_of(node): node for node in own}
        items = [item(written("true"), present), *(item(first[node], name) for node, name in names.items())]
        plain = body(written_query("SELECT 0")["body"])
        read = {**plain, "projection": items, "from": select["from"], "selection": select["selection"]}
        changes = {id(node): column(rows, names[names_of(node)]) for node in own}
        after: dict[str, Json] = {
            key: replaced(value, changes) if value is not None else None for key, value in asked.items()
        }
        counted = {
            id(node): _present(node, column(rows, present)) for part in after.values() for node in aggregates(part)
        }
        after = {key: replaced(value, counted) if value is not None else None for key, value in after.items()}
        keys = [self._domain.column(key) for key in self._domain.keys]
        spread = derived(_query({"Select": self._select(read)}), rows)
        matches = self._domain.matches(rows, keys)
        return {
            **select,
            "projection": [*self._key_items(), *self._items(after["items"])],
            "from": [{"relation": self._domain.table, "joins": [left_join(spread, matches)]}],
            "selection": None,
            "group_by": {"Expressions": [keys, []]},
            "having": self._placed(after["having"]),
            "named_window": self._placed(self._divided(after["windows"])),
        }

    # --- LIMIT

    def _limited(self, given: Json) -> Json:
        low, high = self._bounds(given)
        number = f"row {next(self._numbers)}"
        order = given["order_by"]
        keys = body(order["kind"]) if order and kind(order["kind"]) == "Expressions" else []
        if order and not keys:
            raise self._refused("ORDER BY ALL")
        unlimited = {**given, "limit_clause": None, "fetch": None}
        rows = written("row_number() OVER (PARTITION BY a)")
        spec = body(body(rows)["over"])
        select = body(given["body"])
        if kind(given["body"]) == "Select" and not select["distinct"]:
            ordered = [{**key, "expr": by_name(key["expr"], select["projection"])} for key in keys]
            divided = {"WindowSpec": {**spec, "partition_by": [], "order_by": ordered}}
            numbered = {"Function": {**body(rows), "over": divided}}
            items = [*select["projection"], item(numbered, number)]
            inner = self.query({**unlimited, "body": {"Select": {**select, "projection": items}}})
        else:
            alias = f"rows {next(self._numbers)}"
            if not all(kind(key["expr"]) == "Identifier" for key in keys):
                raise self._refused("ORDER BY of an expression with DISTINCT, VALUES or a set operation, and LIMIT,")
            parted = [column(alias, key) for key in self._domain.keys]
            divided = {"WindowSpec": {**spec, "partition_by": parted, "order_by": keys}}
            star = body(written_query("SELECT *")["body"])["projection"][0]
            outer = body(written_query("SELECT 0")["body"])
            inner = _query(
                {
                    "Select": {
                        **outer,
                        "projection": [star, item({"Function": {**body(rows), "over": divided}}, number)],
                        "from": [{"relation": derived(self.query(unlimited), alias), "joins": []}],
                    }
                }
            )
        text = f'SELECT * EXCLUDE ({quoted(number)}) FROM inner_rows AS "limited"'
        wanted = written_query(text, inner_rows=inner)
        place = {"Identifier": new_identifier(number)}
        conditions = []
        if low is not None:
            conditions.append(written("place > low", place=place, low=low))
        if high is not None and low is not None:
            conditions.append(written("place <= low + high", place=place, low=low, high=high))
        elif high is not None:
            conditions.append(written("place <= high", place=place, high=high))
        return {**wanted, "body": {"Select": {**body(wanted["body"]), "selection": joined(conditions)}}}

    def _bounds(self, given: Json) -> tuple[Json, Json]:
        """Return the OFFSET and the LIMIT of a query, None for one that it lacks."""
        limit, offset = None, None
        clause = given["limit_clause"]
        if clause is not None:
            if kind(clause) != "LimitOffset" or body(clause)["limit_by"]:
                raise self._refused("LIMIT BY, or LIMIT with a comma")
            limit = body(clause)["limit"]
            offset = body(clause)["offset"]["value"] if body(clause)["offset"] else None
        if given["fetch"]:
            if given["fetch"]["with_ties"] or given["fetch"]["percent"]:
                raise self._refused("FETCH WITH TIES")
            limit = given["fetch"]["quantity"] or written("1")
        limit, offset = (None if _is_null(one) else one for one in (limit, offset))
        if self._reads([limit, offset]) or any(kind(one) not in {"", "Value"} for one in (limit, offset)):
            raise self._refused("a LIMIT other than a number")
        return offset, limit

    def _refused(self, what: str) -> UnsupportedError:
        return UnsupportedError(
            f"the subquery at {self._where} reads a column of the outer query, and {what} is not supported there:"
            " write a join in place of the subquery"
        )


def _is_null(value: Json) -> bool:
    return kind(value) == "Value" and body(value)["value"] == "Null"


def _query(given: Json) -> Json:
    """Return the body of a query as a query."""
    return {**written_query("SELECT 0"), "body": given}


def _with_star(select: Json) -> Json:
    return {**select, "projection": body(written_query("SELECT *")["body"])["projection"]}


def _present(aggregate: Node, present: Json) -> Json:
    """Return an aggregate that leaves out the row of a key without rows."""
    fields = body(aggregate)
    condition = present if fields["filter"] is None else joined([present, fields["filter"]])
    return {"Function": {**fields, "filter": condition}}
