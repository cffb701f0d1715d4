"""One SELECT with its subqueries: each becomes a join with the query's results for all rows, or stays."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from flightllm.common.cached import cached_property
from flightllm.common.names import quoted
from flightllm.errors import UnsupportedError
from flightllm.sql.joins import FULL, INNER, LEFT, RIGHT, join_kind
from flightllm.sql.names import key_name
from flightllm.sql.nodes import Json, Node, body, kind, name_of, new_identifier, replaced, unnested
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.passes.subqueries.items import by_name, by_number, column, derived, item, without
from flightllm.sql.passes.subqueries.questions import ARRAY, Place, Question, questions
from flightllm.sql.passes.subqueries.spreading import Domain, Spreader, chained, left_join
from flightllm.sql.passes.subqueries.steady import queries_of_with, steady
from flightllm.sql.query_columns import Known, QueryColumns, TableColumns, Type, own_functions
from flightllm.sql.references import References, Scope, is_column, names_of, outermost_queries
from flightllm.sql.select_shapes import (
    aggregates,
    changes_per_call,
    conjuncts,
    gives_one_row,
    is_grouped,
    is_limited,
    is_plain,
    is_single,
    joined,
    keys_of,
    own_nodes,
)
from flightllm.sql.tree import parse, text_of, written, written_query
from flightllm.sql.types import ExpressionTypes, expressions_of

_SIGNS: Final = {"Eq": "=", "NotEq": "<>", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}
_EXTREMES: Final = {"Lt": "max", "LtEq": "max", "Gt": "min", "GtEq": "min"}
_ONE_ROW: Final = "more than one row returned by a subquery used as an expression: "
_WITH_CALL: Final = "with a call of a model or of a volatile function in it"
_BEFORE_GROUPING: Final = ("selection", "group_by", "from")


@dataclass(frozen=True)
class Around:
    """The tables that a subquery sees, the conditions that their rows meet, and the joins that it adds to them."""

    tables: Sequence[Json]
    scope: Scope
    conditions: Sequence[Json] = ()
    joins: list[Json] = field(default_factory=list)


@dataclass(frozen=True)
class Statement:
    """The numbers, columns and places that the queries of one statement share."""

    root: Json
    columns_of: TableColumns
    position: Callable[[Json], str]
    numbers: "count[int]" = field(default_factory=lambda: count(1))
    key_types: dict[str, Type] = field(default_factory=dict)
    """The types of the keys of all domains, by their names; a query in a query reads keys of the outer one's domain."""
    _views: dict[tuple[str, ...], Json] = field(default_factory=dict)

    @cached_property
    def references(self) -> References:
        """Return the columns of outer queries in the queries of the statement."""
        return References(self.columns)

    @cached_property
    def columns(self) -> QueryColumns:
        """Return the columns of the statement's tables and queries."""
        return QueryColumns(self.root, self.columns_of)

    def common(self, table: Json) -> Json:
        """Return the query of WITH or the view that a table means, or None."""
        found = self.columns.common(table)
        if found is not None or not isinstance(self.columns_of, Known):
            return found
        names = tuple(name_of(body(part)) for part in body(table)["name"])
        if names not in self._views:
            text = self.columns_of.view_of(names)
            self._views[names] = _read_view(text) if text else None
        return self._views[names]

    def changes_per_call(self, value: Json) -> bool:
        """Return whether a value calls a model or a volatile function, also in a query or a view that it reads."""
        own = own_functions(self.columns_of)
        return changes_per_call([value, *queries_of_with([value], self.common)], own)

    @cached_property
    def types(self) -> ExpressionTypes:
        """Return the types of the expressions of the statement."""
        return ExpressionTypes(self.root, self.columns_of)

    def type_of(self, column: Node) -> Type:
        """Return the type of a column of the statement or of a domain, or None if it is unknown."""
        found = self.types.of(column)
        return self.key_types.get(names_of(column)[-1]) if found is None else found


class Outer:
    """Rewrites one query whose body is a SELECT, but not the queries in it."""

    def __init__(self, query: Json, statement: Statement) -> None:
        self._query = query
        self._select = body(query["body"])
        self._statement = statement
        self._references = statement.references
        self._grouped = is_grouped(self._select)
        self._hidden: list[str] = []
        self._moved: list[Json] = []
        self._answers = dict[tuple[str, bool, bool], Json]()
        """The answers by the text of the question and the options of `_Asking`."""
        scope = self._references.scope(self._select["from"])
        self._where = Around(self._select["from"], scope)
        self._lateral_keys: dict[str, list[str]] = {}
        self._tables = [self._joined(table) for table in self._without_lateral(self._select["from"])]
        self._where = Around(self._tables, scope, list(self._filters(scope)))

    def rewritten(self) -> Json:
        """Return the query, or the same object if all its subqueries stay.

        Raises:
            UnsupportedError: a subquery cannot be planned.
        """
        select = self._select
        tables = self._tables
        selection = joined([*filter(None, [select["selection"]]), *self._moved]) if self._moved else select["selection"]
        changed: dict[str, Json] = {"selection": self._clause("selection", selection)}
        keys = {text_of(by_name(key, select["projection"])) for key in keys_of(select)}
        items = [("group_by" if _is_key(one, keys) else "projection", one) for one in select["projection"]]
        changed["projection"] = [self._clause(clause, one) for clause, one in items]
        if all(new is old for new, old in zip(changed["projection"], select["projection"], strict=True)):
            changed["projection"] = select["projection"]
        for clause in ("having", "group_by", "distinct", "named_window", "qualify"):
            changed[clause] = self._clause(clause, select[clause])
        order = self._clause("order_by", self._query["order_by"])
        if len(tables) != len(select["from"]) or any(
            new is not old for new, old in zip(tables, select["from"], strict=True)
        ):
            changed["from"] = tables
        if self._where.joins:
            (chain,) = chained(tables)
            changed["from"] = [{**chain, "joins": [*chain["joins"], *self._where.joins]}]
        if all(value is select[clause] for clause, value in changed.items()) and order is self._query["order_by"]:
            return self._query
        changed["projection"] = list(self._shown(changed["projection"]))
        return {**self._query, "order_by": order, "body": {"Select": {**select, **changed}}}

    def _shown(self, items: Sequence[Json]) -> Iterator[Json]:
        """Yield the items of SELECT with the names that they had, and stars without the columns of joins."""
        names = list[str]()
        for new, old in zip(items, self._select["projection"], strict=True):
            if kind(new) == "Wildcard" and self._hidden:
                yield without(new, self._hidden)
            elif kind(new) == "QualifiedWildcard" and self._keys_of(body(new)[0]):
                qualifier, options = body(new)
                star = without({"Wildcard": options}, self._keys_of(qualifier))
                yield {"QualifiedWildcard": [qualifier, body(star)]}
            elif new is not old and kind(new) == "UnnamedExpr":
                name = text_of(body(old))
                names.append(name)
                yield item(body(new), name if names.count(name) == 1 else f"{name} ({names.count(name)})")
            else:
                yield new

    def _keys_of(self, qualifier: Json) -> list[str]:
        """Return the keys among the columns of a LATERAL query whose name is before a star."""
        name = name_of(body(body(qualifier)[-1])) if kind(qualifier) == "ObjectName" else ""
        return self._lateral_keys.get(name, [])

    def _filters(self, scope: Scope) -> Iterator[Json]:
        """Yield the conditions of WHERE that hold for every row that a subquery sees."""
        for one in conjuncts(self._select["selection"]):
            known = all(scope.has(names_of(node)) for node in self._references.free(one))
            if known and not self._statement.changes_per_call(one) and next(outermost_queries(one), None) is None:
                yield one

    # --- clauses

    def _clause(self, clause: str, value: Json) -> Json:
        if value is None:
            return None
        changes = dict[int, Json]()
        for asked, place in questions(value, condition=clause in {"selection", "having", "qualify"}):
            if not self._stays(asked, place, clause):
                changes[id(asked.node)] = self._shared_answer(asked, place, clause)
            elif asked.node is not (same := _as_in(asked)):
                changes[id(asked.node)] = same
        return replaced(value, changes) if changes else value

    def _without_lateral(self, tables: list[Json]) -> list[Json]:
        """Return the tables of FROM with a join for each LATERAL query that reads the tables before it."""
        if not any(_is_lateral(join["relation"]) for chain in chained(tables) for join in chain["joins"]):
            return tables
        (chain,) = chained(tables)
        joins = list[Json]()
        for join in chain["joins"]:
            before = [{**chain, "joins": list(joins)}]
            around = Around(before, self._references.scope(before))
            rows = body(join["relation"])["subquery"] if _is_lateral(join["relation"]) else None
            nodes = [] if rows is None else self.nodes({"Subquery": rows}, around.scope)
            joins.append(self._lateral_join(join, nodes, around) if nodes else join)
        return [{**chain, "joins": joins}]

    def _lateral_join(self, join: Json, nodes: Sequence[Node], around: Around) -> Json:
        fields = body(join["relation"])
        asked = Question({"Subquery": fields["subquery"]}, fields["subquery"])
        name = name_of(fields["alias"]["name"]) if fields["alias"] else f"lateral {self.number()}"
        domain, columns = self.domain(nodes, around, asked, late=False)
        spread = derived(self.spread(fields["subquery"], domain, nodes, columns), name)
        given = fields["alias"]["columns"] if fields["alias"] else []
        listed = [*({"name": new_identifier(key), "data_type": None} for key in domain.keys), *given] if given else []
        alias = {**body(spread)["alias"], "columns": listed}
        self._hidden += domain.keys
        self._lateral_keys[name] = list(domain.keys)
        matches, found = domain.matches(name, columns), join["join_operator"]
        constraint: Json = body(found)
        if kind(constraint) == "On":
            matches = joined([matches, body(constraint)])
        elif constraint != "None":
            raise self._refused(asked.node, "beside USING or NATURAL")
        if join_kind(join) not in {INNER, LEFT}:
            raise self._refused(asked.node, "on the right of this join")
        after = "Left" if join_kind(join) == LEFT else "Inner"
        relation = {"Derived": {**body(spread), "alias": alias}}
        return {**join, "relation": relation, "join_operator": {after: {"On": matches}}}

    def _joined(self, table: Json) -> Json:
        """Return a table of FROM whose ON conditions have no subqueries that DataFusion cannot plan."""
        kinds = {join_kind(join) for join in table["joins"]}
        joins = list[Json]()
        for join in table["joins"]:
            how = join["join_operator"]
            constraint: Json = body(how) if kind(how) else None
            if kind(constraint) != "On" or not any(map(self._is_new, questions(body(constraint), condition=False))):
                joins.append(join)
            elif join_kind(join) == INNER and kinds.isdisjoint({RIGHT, FULL}):
                parts = list(conjuncts(body(constraint)))
                moved = [one for one in parts if any(map(self._is_new, questions(one, condition=False)))]
                kept = joined([one for one in parts if one not in moved]) or written("true")
                self._moved += moved
                joins.append({**join, "join_operator": {kind(how): {"On": kept}}})
            elif join_kind(join) in {LEFT, RIGHT, FULL}:
                joins += self._outer_join({**table, "joins": list(joins)}, join)
            else:
                raise self._refused(body(constraint), "in ON of this join")
        return table if joins == table["joins"] else {**table, "joins": joins}

    def _is_new(self, found: tuple[Question, Place]) -> bool:
        """Return whether a question in ON cannot stay there: only an uncorrelated value can."""
        asked, _ = found
        return not (asked.value and not asked.operator) or bool(self._nodes(asked, self._where.scope))

    def _outer_join(self, before: Json, join: Json) -> list[Json]:
        operator = join["join_operator"]
        condition = body(body(operator))
        left = Around([before], self._references.scope([before]))
        right = Around([{"relation": join["relation"], "joins": []}], self._references.scope([{**join, "joins": []}]))
        changes = dict[int, Json]()
        for found in questions(condition, condition=join_kind(join) == LEFT):
            if self._is_new(found):
                asked, place = found
                nodes = self._nodes(asked, self._where.scope)
                tables = {self._where.scope.table(names_of(node)) for node in nodes}
                own = {name for name, _ in left.scope.tables}, {name for name, _ in right.scope.tables}
                if not (tables <= own[0] or tables <= own[1]):
                    raise self._refused(asked.node, "with columns of both sides in ON of an outer join")
                around = left if tables <= own[0] else right
                changes[id(asked.node)] = self._answer(asked, place, "from", around)
        relation = join["relation"]
        if right.joins:
            nested = {"relation": relation, "joins": right.joins}
            relation = {"NestedJoin": {"table_with_joins": nested, "alias": None}}
        after = {**join, "relation": relation, "join_operator": {kind(operator): {"On": replaced(condition, changes)}}}
        return [*left.joins, after]

    # --- what stays

    def _nodes(self, asked: Question, scope: Scope) -> list[Node]:
        """Return the columns of a scope that a question reads, in its query or beside it."""
        return self._references.inside([{"Subquery": asked.query}, asked.left], scope)

    def _stays(self, asked: Question, place: Place, clause: str) -> bool:
        """Return whether DataFusion gives PostgreSQL's rows for a question."""
        inner: Json = {"Subquery": asked.query}
        nodes = self._references.inside(inner, self._where.scope)
        if kind(unnested(asked.left)) == "Tuple" or self._references.hides(inner, self._where.scope):
            return False
        if asked.operator == ARRAY:
            return False
        if asked.value:
            return not nodes or (self._is_sum(asked.query, nodes) and self._plans_value(place, clause))
        if clause not in {"selection", "having"} or (nodes and not self._only_filters(asked.query, nodes)):
            return False
        if not asked.operator:
            return not is_single(body(asked.query["body"])) if kind(asked.query["body"]) == "Select" else not nodes
        if asked.operator != "Eq" or kind(asked.query["body"]) not in {"Select", "SetOperation"}:
            return False
        if next(outermost_queries(asked.left), None) is not None:
            return False
        if not asked.negated:
            return place.false
        return place.alone and not nodes and bool(self._references.free(asked.left))

    def _only_filters(self, query: Json, nodes: Sequence[Node]) -> bool:
        """Return whether a query reads the outer columns only in its own WHERE, and has no more than filters."""
        if not is_plain({**query, "with": None}) or query["with"]:
            return False
        select = body(query["body"])
        equal = any(kind(node) == "IsNotDistinctFrom" for node in own_nodes(select["selection"]))
        plain = self._are_in(select["selection"], nodes) and _reads_one_table(select) and not equal
        return plain and not self._compares(select["selection"], nodes)

    def _compares(self, condition: Json, nodes: Sequence[Node]) -> bool:
        """Return whether a condition compares outer columns with a subquery that becomes a join.

        The comparison moves into the joined table, and DataFusion filters the join by it.
        """
        asked = (one for one, place in questions(condition, condition=True) if one.operator != "Eq" or not place.false)
        return any(self._are_some_in(one.left, nodes) for one in asked)

    def _is_sum(self, query: Json, nodes: Sequence[Node]) -> bool:
        """Return whether a query computes one aggregate of the rows whose columns equal outer columns."""
        if kind(query["body"]) != "Select" or query["with"] or is_limited(query):
            return False
        select = body(query["body"])
        items = expressions_of(query["body"])
        if not is_single(select) or select["having"] or len(items) != 1 or not _reads_one_table(select):
            return False
        equal = [one for one in conjuncts(select["selection"]) if _is_equality(one)]
        return aggregates(items) == [unnested(items[0])] and self._are_in(equal, nodes)

    def _are_in(self, value: Json, nodes: Sequence[Node]) -> bool:
        own = {id(node) for node in own_nodes(value)}
        return all(id(node) in own for node in nodes)

    def _are_some_in(self, value: Json, nodes: Sequence[Node]) -> bool:
        own = {id(node) for node in own_nodes(value)} if value is not None else set[int]()
        return any(id(node) in own for node in nodes)

    def _plans_value(self, place: Place, clause: str) -> bool:
        chosen = kind(self._select["distinct"]) == "On"
        plain = place.plain and not place.aggregate
        return clause in {"selection", "projection"} and plain and not self._grouped and not chosen

    # --- answers

    def _shared_answer(self, asked: Question, place: Place, clause: str) -> Json:
        """Return the answer to a question beside WHERE's tables: the same text has one join, and equals its key."""
        if self._statement.changes_per_call(asked.node):
            return self._answer(asked, place, clause, self._where)
        key = (text_of(asked.node), self._is_late(place, clause), place.false)
        if key not in self._answers:
            self._answers[key] = self._answer(asked, place, clause, self._where)
        return self._answers[key]

    def _is_late(self, place: Place, clause: str) -> bool:
        """Return whether a question is asked after GROUP BY."""
        return self._grouped and clause not in _BEFORE_GROUPING and not place.aggregate

    def _answer(self, asked: Question, place: Place, clause: str, around: Around) -> Json:
        """Return the expression that answers a question."""
        if asked.operator == ARRAY:
            raise self._refused(asked.node, "as ARRAY(SELECT …) with DISTINCT, GROUP BY, LIMIT or a set operation")
        asking = _Asking(self, asked, around, late=self._is_late(place, clause), false=place.false)
        if asked.value and not asked.operator:
            return asking.value(asked.query)
        if asked.value:
            return asking.row()
        found = asking.any() if asked.operator else asking.exists(asked.query)
        return written("NOT (found)", found=found) if asked.negated else found

    def add(self, around: Around, rows: Json, name: str, columns: Sequence[str], condition: Json) -> None:
        """Join a query with the tables that a subquery sees; its columns must not show in a star."""
        self._hidden += columns
        around.joins.append(left_join(derived(rows, name), condition))

    def domain(
        self, nodes: Sequence[Node], around: Around, asked: Question, *, late: bool
    ) -> tuple[Domain, list[Node]]:
        """Return the values of the outer columns, and a column for each key."""
        if self._statement.changes_per_call(around.tables):
            raise self._refused(
                asked.node, "beside a table that calls a model or a volatile function: store the table first by"
            )
        tables = steady(around.tables, self._statement.common, self._statement.columns.common_as_is)
        if tables is None:
            raise self._refused(
                asked.node,
                "beside rows that LIMIT, DISTINCT ON or a window takes without ORDER BY:"
                " write an ORDER BY, or store them first by",
            )
        if late:
            self._check_keys(nodes, asked)
        first = {names_of(node): node for node in reversed(nodes)}
        number = next(self._statement.numbers)
        keys = {names: key_name(number, place, names[-1]) for place, names in enumerate(first, 1)}
        plain = written_query("SELECT DISTINCT 0")
        select = {
            **body(plain["body"]),
            "projection": [item(node, keys[names]) for names, node in first.items()],
            "from": tables,
            "selection": joined(list(around.conditions)),
        }
        types = tuple(map(self._statement.type_of, first.values()))
        self._statement.key_types.update(zip(keys.values(), types, strict=True))
        found = Domain({**plain, "body": {"Select": select}}, f"outer {number}", tuple(keys.values()), types)
        return found, list(first.values())

    def _check_keys(self, nodes: Sequence[Node], asked: Question) -> None:
        """Refuse a subquery that reads a column outside the keys of GROUP BY, as PostgreSQL does."""
        items, scope = self._select["projection"], self._where.scope
        numbered = (unnested(by_number(key, items)) for key in keys_of(self._select))
        keys = [key if not is_column(key) or scope.has(names_of(key)) else by_name(key, items) for key in numbered]
        grouped = {self._place_of(key) for key in keys if is_column(key)}
        if any(self._place_of(node) not in grouped for node in nodes):
            raise self._refused(asked.node, "with a column outside the keys of GROUP BY")

    def _place_of(self, node: Node) -> tuple[str | None, str]:
        """Return the table and the name of a column."""
        names = names_of(node)
        return self._where.scope.table(names), names[-1]

    def spread(self, query: Json, domain: Domain, nodes: Sequence[Node], columns: Sequence[Node]) -> Json:
        """Return a query for all values of its outer columns."""
        keys = dict(zip(map(names_of, columns), domain.keys, strict=True))
        named = {id(node): keys[names_of(node)] for node in nodes}
        where = self._statement.position(query)
        return Spreader(domain, named, self._references, self._statement.numbers, where).query(query)

    def number(self) -> int:
        """Return a number that no name of the statement has."""
        return next(self._statement.numbers)

    def nodes(self, value: Json, scope: Scope) -> list[Node]:
        """Return the columns of a scope that a value reads."""
        return self._references.inside(value, scope)

    def changes_per_call(self, value: Json) -> bool:
        """Return whether a value calls a model or a volatile function."""
        return self._statement.changes_per_call(value)

    def refused(self, asked: Question, what: str) -> UnsupportedError:
        """Return the error about a question."""
        return self._refused(asked.node, what)

    def _refused(self, value: Json, what: str) -> UnsupportedError:
        return UnsupportedError(
            f"the subquery at {self._statement.position(value)} is not supported {what}"
            + (" CREATE TABLE … AS" if what.endswith("by") else ": write a join in place of the subquery")
        )


class _Asking:
    """Answers one question. `late`: after GROUP BY; `false`: NULL counts as false."""

    def __init__(self, outer: Outer, asked: Question, around: Around, *, late: bool, false: bool) -> None:
        self._outer = outer
        self._asked = asked
        self._around = around
        self._late = late
        self._false = false
        left = unnested(asked.left)
        self._values: list[Json] = list(body(left)) if kind(left) == "Tuple" else [asked.left]
        self._compared = [] if asked.left is None else outer.nodes(asked.left, around.scope)

    def exists(self, query: Json, compared: Sequence[Node] = ()) -> Json:
        """Return whether a query has a row; `compared` are outer columns that the pass has written into it."""
        if kind(query["body"]) == "Select":
            select = body(query["body"])
            if is_single(select) and select["having"] is None and not is_limited(query):
                return written("true")
            if is_plain(query):
                query = {**query, "body": {"Select": {**select, "projection": []}}}
        nodes = self._nodes(query, compared)
        number = self._outer.number()
        rows, found = f"rows {number}", f"found {number}"
        if not nodes:
            if is_plain(query):
                query = {
                    **query,
                    "body": {"Select": {**body(query["body"]), "projection": [item(written("1"), found)]}},
                }
            limit = query["limit_clause"] or written_query("SELECT 0 LIMIT 1")["limit_clause"]
            limited = query if is_limited(query) else {**query, "limit_clause": limit}
            return written(f"(SELECT count(*) > 0 FROM given AS {quoted(rows)})", given=limited)
        domain, columns = self._outer.domain(nodes, self._around, self._asked, late=self._late)
        spread = self._outer.spread(query, domain, nodes, columns)
        keys = ", ".join(map(quoted, domain.keys))
        text = f"SELECT DISTINCT {keys}, true AS {quoted(found)} FROM given AS {quoted(rows)}"
        name = f"subquery {number}"
        self._outer.add(
            self._around, written_query(text, given=spread), name, [*domain.keys, found], domain.matches(name, columns)
        )
        return written("place IS NOT NULL", place=self._of_group(column(name, found)))

    def value(self, query: Json) -> Json:
        """Return the value of a query of one row. More rows are an error when the value is read."""
        nodes = self._nodes(query, ())
        if not nodes:
            return {"Subquery": query}
        number = self._outer.number()
        domain, columns = self._outer.domain(nodes, self._around, self._asked, late=self._late)
        spread = self._outer.spread(query, domain, nodes, columns)
        keys, name = ", ".join(map(quoted, domain.keys)), f"subquery {number}"
        value, rows = f"value {number}", f"rows {number}"
        table = f"given AS {quoted(rows)} ({keys}, {quoted(value)})"
        if gives_one_row(query):
            text, shown = f"SELECT * FROM {table}", [*domain.keys, value]
        else:
            text = (
                f"SELECT {keys}, first_value({quoted(value)}) AS {quoted(value)}, count(*) AS {quoted(rows)}"
                f" FROM {table} GROUP BY {keys}"
            )
            shown = [*domain.keys, value, rows]
        self._outer.add(self._around, written_query(text, given=spread), name, shown, domain.matches(name, columns))
        found = self._of_group(column(name, value))
        if gives_one_row(query):
            return found
        # A cast of this text fails, and only for a row whose value is read, as in PostgreSQL.
        several = f"CASE WHEN n > 1 THEN CAST('{_ONE_ROW}' || CAST(n AS text) AS boolean) ELSE false END"
        return written(
            f"CASE WHEN {several} THEN NULL ELSE found END", n=self._of_group(column(name, rows)), found=found
        )

    def row(self) -> Json:
        """Return whether a row equals the one row of a query."""
        query, items = self._asked.query, expressions_of(self._asked.query["body"])
        select = body(query["body"])
        if kind(query["body"]) != "Select" or len(items) != len(self._values) or select["distinct"]:
            raise self._outer.refused(self._asked, "beside a row")
        pairs = []
        for left, one in zip(self._values, select["projection"], strict=True):
            part = {**query, "body": {"Select": {**select, "projection": [one]}}}
            pairs.append(written("a = (b)", a=left, b=self.value(part)))
        found = joined(pairs)
        return written("NOT (found)", found=found) if self._asked.negated else {"Nested": found}

    def any(self) -> Json:
        """Return whether a comparison holds for any row of a query; NULL if only rows with NULL leave it open."""
        asked, query = self._asked, self._asked.query
        late = any(aggregates(value) for value in self._values)
        alone = not self._nodes(query, ())
        if late or self._outer.changes_per_call(asked.left) or (alone and asked.operator not in {"Eq", "NotEq"}):
            if not alone or len(self._values) > 1:
                raise self._outer.refused(asked, "with an aggregate or a call of a model before it")
            return self._by_extremes(query)
        false = self._false and not asked.negated
        if self._outer.changes_per_call(query) and not false:
            raise self._outer.refused(asked, f"{_WITH_CALL} where it can be NULL")
        sign = _SIGNS[asked.operator]
        found = self._exists_where(lambda pairs: joined([written(f"x {sign} v", v=v, x=x) for x, v in pairs]))
        if false:
            return found
        if len(self._values) > 1:
            unknown = self._exists_where(
                lambda pairs: written("(c) IS NULL", c=joined([written("v = x", v=v, x=x) for x, v in pairs]))
            )
        else:
            unknown = self._exists_where(lambda pairs: written("v IS NULL", v=pairs[0][1]), compared=False)
            if self._compared or kind(unnested(asked.left)) != "Value" or body(unnested(asked.left))["value"] == "Null":
                unknown = written("u OR ((x) IS NULL AND e)", u=unknown, x=asked.left, e=self.exists(query))
        return written("CASE WHEN f THEN true WHEN u THEN NULL ELSE false END", f=found, u=unknown)

    def _exists_where(self, condition: Callable[[list[tuple[Json, Json]]], Json], *, compared: bool = True) -> Json:
        """Return whether the query has a row that meets a condition on (value beside the query, its own value)."""
        query = self._asked.query
        nodes = self._compared if compared else []
        items = expressions_of(query["body"])
        if is_plain(query) and len(items) == len(self._values):
            select = body(query["body"])
            own = condition(list(zip(self._values, items, strict=True)))
            where = joined([*filter(None, [select["selection"]]), own])
            return self.exists({**query, "body": {"Select": {**select, "selection": where}}}, nodes)
        number = self._outer.number()
        names = [f"value {number}.{place}" for place in range(1, len(self._values) + 1)]
        listed, table = ", ".join(map(quoted, names)), f"rows {number}"
        text = f"SELECT 1 FROM given AS {quoted(table)} ({listed})"
        wrapped = written_query(text, given=query)
        own = condition([(value, column(table, name)) for value, name in zip(self._values, names, strict=True)])
        return self.exists({**wrapped, "body": {"Select": {**body(wrapped["body"]), "selection": own}}}, nodes)

    def _by_extremes(self, query: Json) -> Json:
        """Return the answer from the least and the greatest value, or from a list of the different ones."""
        asked = self._asked
        if self._outer.changes_per_call(query):
            raise self._outer.refused(asked, _WITH_CALL)
        number = self._outer.number()
        value = quoted(f"value {number}")

        def computed(text: str) -> Json:
            return written(f'(SELECT {text} FROM given AS "rows {number}" ({value}))', given=query)

        if asked.operator == "Eq":
            listed = computed(f"array_agg(DISTINCT {value}) FILTER (WHERE {value} IS NOT NULL)")
            found = written("array_has(l, x)", l=listed, x=asked.left)
        elif asked.operator == "NotEq":
            low, high = computed(f"min({value})"), computed(f"max({value})")
            found = written("x NOT BETWEEN high AND low", x=asked.left, low=low, high=high)
        else:
            extreme = computed(f"{_EXTREMES[asked.operator]}({value})")
            found = written(f"x {_SIGNS[asked.operator]} e", x=asked.left, e=extreme)
        some = computed("count(*) > 0")
        unknown = computed(f"CASE WHEN count(*) > count({value}) THEN NULL ELSE false END")
        return written("(some AND (found OR unknown))", some=some, found=found, unknown=unknown)

    def _nodes(self, query: Json, compared: Sequence[Node]) -> list[Node]:
        return (
            [*compared, *self._outer.nodes({"Subquery": query}, self._around.scope)]
            if compared
            else self._outer.nodes({"Subquery": query}, self._around.scope)
        )

    def _of_group(self, place: Json) -> Json:
        return written("first_value(place)", place=place) if self._late else place


def _is_key(one: Json, keys: Collection[str]) -> bool:
    """Return whether an item of SELECT is a key of GROUP BY; `keys` are the texts of the keys."""
    value = body(one)["expr"] if kind(one) == "ExprWithAlias" else body(one)
    return bool(keys) and kind(one) in {"ExprWithAlias", "UnnamedExpr"} and text_of(value) in keys


def _reads_one_table(select: Json) -> bool:
    """Return whether a FROM has one table: with several, DataFusion can take a column of one for that of another."""
    return len(select["from"]) == 1 and not select["from"][0]["joins"]


def _is_lateral(relation: Json) -> bool:
    return kind(relation) == "Derived" and bool(body(relation)["lateral"])


def _as_in(asked: Question) -> Node:
    """Return IN for `= ANY` and `<> ALL`, which DataFusion reads wrongly, and a value for ARRAY."""
    if kind(asked.node) == "Function":
        return {"Subquery": asked.query}
    if kind(asked.node) not in {"AnyOp", "AllOp"}:
        return asked.node
    return {"InSubquery": {"expr": asked.left, "subquery": asked.query, "negated": asked.negated}}


def _is_equality(condition: Json) -> bool:
    return (
        kind(condition) == "BinaryOp"
        and body(condition)["op"] == "Eq"
        and all(
            kind(unnested(body(condition)[side])) in {"Identifier", "CompoundIdentifier"} for side in ("left", "right")
        )
    )


def _read_view(text: str) -> Json:
    """Return the query of a view; one that the parser does not read counts as a query that changes per call."""
    tree = parse(ParsedText(text))
    return body(tree.root) if tree is not None and kind(tree.root) == "Query" else written_query("SELECT random()")
