"""Read the joined tables of a FROM: their columns, and the columns that USING and NATURAL merge."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from flightllm.common.names import quoted
from flightllm.errors import SqlError
from flightllm.sql.joins import FULL, INNER, RIGHT, join_kind, merged_names
from flightllm.sql.keywords import JOIN_KINDS
from flightllm.sql.nodes import Json, Node, body, kind, name_of, new_identifier
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.query_columns import QueryColumns
from flightllm.sql.tokens import position
from flightllm.sql.tree import Tree, parse_query, written

MergedColumns = Mapping[str, Node]
"""The expression of each merged column by its name."""


class UnreadableError(Exception):
    """The signal that DataFusion must read the USING and NATURAL of a FROM."""


@dataclass(slots=True)
class _Table:
    """A table in FROM: the parts of the name that qualifies its columns, and its columns if they are known."""

    name: Sequence[str]
    columns: Sequence[str] | None
    factor: Json
    merged: set[str] = field(default_factory=set)

    def has(self, column: str) -> bool:
        """Return whether the table has a column that is not merged."""
        return column in (self.columns or ()) and column not in self.merged

    def column(self, name: str) -> Node:
        return {"CompoundIdentifier": [*map(new_identifier, self.name), new_identifier(name)]}


@dataclass(slots=True)
class Side:
    """One side of a join, or one item of FROM: its tables, and its merged columns in the order of `*`."""

    tables: list[_Table]
    merged: dict[str, Node] = field(default_factory=dict)

    def columns(self) -> list[str] | None:
        """Return the names that NATURAL compares, or None if they are unknown."""
        if any(table.columns is None for table in self.tables):
            return None
        return [*self.merged, *(name for table in self.tables for name in table.columns or () if table.has(name))]

    def unambiguous(self) -> MergedColumns:
        """Return the merged columns whose names no other column has."""
        return {name: one for name, one in self.merged.items() if not any(table.has(name) for table in self.tables)}


class JoinedTables:
    """The items of one FROM. `replaced` writes merged columns in the place of their names, in a condition of ON.

    With `strict`, DataFusion cannot read USING or NATURAL in our place.
    """

    def __init__(
        self,
        tree: Tree,
        columns: QueryColumns,
        replaced: Callable[[Json, MergedColumns], Json],
        *,
        strict: bool = False,
    ) -> None:
        self._tree = tree
        self._columns = columns
        self._replaced = replaced
        self._problems: list[SqlError] = []
        """Errors about joins; they count if DataFusion would read the wrong column."""
        self._sides: list[Side] = []
        self._merges = False
        self._strict = strict
        self.outer = False
        """A LEFT, RIGHT or FULL join merges columns."""
        self.missing: dict[str, Json] = {}
        """The RIGHT or FULL join for each column that it merges: DataFusion's column is NULL in some of its rows."""
        self.reads = False
        """A condition of ON reads a merged column, or a later USING or NATURAL reads one of `missing`."""

    def read(self, items: Sequence[Json]) -> list[Json]:
        """Return the items with ON in place of USING and NATURAL; these are the same if nothing is merged.

        Raises:
            SqlError: the text does not say which column USING or NATURAL means.
            UnreadableError: the same, but all joins are inner joins.
        """
        made: list[Json] = []
        for item in items:
            side, one = self._chain(item)
            self._sides.append(side)
            made.append(one)
        for table in self.tables if self._merges else ():
            if not table.name:
                place = position(self._tree.sql, _begin(self._tree, table.factor, "("))
                message = f"the table at {place} has no name, but is joined with USING or NATURAL: add AS q"
                self._problems.append(SqlError(message))
        if self._problems:
            raise self._problems[0] if self.outer or self._strict else UnreadableError
        return made if self._merges else list(items)

    @property
    def tables(self) -> list[_Table]:
        """Return all tables."""
        return [table for side in self._sides for table in side.tables]

    def merged(self) -> MergedColumns:
        """Return the merged columns whose names no other column has."""
        names = [name for side in self._sides for name in side.merged]
        every = Side(self.tables, {name: one for side in self._sides for name, one in side.merged.items()})
        return {name: one for name, one in every.unambiguous().items() if names.count(name) == 1}

    def star(self, excluded: frozenset[str]) -> Iterator[Json]:
        """Yield the items that `*` stands for: each side's merged columns, and then the other columns of its tables."""
        for side in self._sides:
            yield from (merged_item(name, one) for name, one in side.merged.items() if name not in excluded)
            for table in side.tables:
                names = table.merged | excluded.intersection(table.columns or ())
                without = f" EXCLUDE ({', '.join(map(quoted, sorted(names)))})" if names else ""
                yield from body(parse_query(f"SELECT {'.'.join(map(quoted, table.name))}.*{without}"))["projection"]

    def star_in_place(self, excluded: frozenset[str], changed: Mapping[str, Json]) -> Iterator[Json]:
        """Yield the items that `*` stands for in DuckDB: a merged column has the place of its first table.

        `changed` are the expressions of REPLACE. The columns of all tables must be known.
        """
        for side in self._sides:
            seen = set(excluded)
            for table in side.tables:
                for name in table.columns or ():
                    merged = side.merged.get(name) if name in table.merged else None
                    if name in excluded or (merged is not None and name in seen):
                        continue
                    if merged is not None:
                        seen.add(name)
                    column = changed.get(name) or merged or table.column(name)
                    yield merged_item(name, column)

    def _chain(self, item: Json) -> tuple[Side, Json]:
        """Read tables with joins between them."""
        side, relation = self._factor(item["relation"])
        joins: list[Json] = []
        for join in item["joins"]:
            right, factor = self._factor(join["relation"])
            side, operator = self._join(side, right, join)
            joins.append({**join, "relation": factor, "join_operator": operator})
        return side, {**item, "relation": relation, "joins": joins}

    def _factor(self, factor: Json) -> tuple[Side, Json]:
        """Read one table, or joins in parentheses."""
        fields = body(factor)
        if kind(factor) == "NestedJoin" and not fields["alias"]:
            side, inner = self._chain(fields["table_with_joins"])
            return side, {"NestedJoin": {**fields, "table_with_joins": inner}}
        _, columns = self._columns.table(factor)
        return Side([_Table(_qualifier(factor), columns, factor)]), factor

    def _join(self, left: Side, right: Side, join: Json) -> tuple[Side, Json]:
        operator = join["join_operator"]
        name = kind(operator)
        constraint: Json = body(operator) if name else None
        how = join_kind(join) or INNER
        halved = not (how.left and how.right)
        both = Side([*left.tables, *right.tables], {**left.merged, **right.merged})
        kept = both if not halved else left if how.left else right
        if kind(constraint) == "On":
            condition = self._replaced(body(constraint), both.unambiguous())
            self.reads |= condition is not body(constraint)
            return kept, {name: {"On": condition}}
        if constraint != "Natural" and kind(constraint) != "Using":
            return both, operator
        if kind(constraint) == "Using" and any(len(parts) > 1 for parts in body(constraint)):
            raise UnreadableError
        names = merged_names(join, left.columns(), right.columns())
        if names is None:
            self._problem(join, "is NATURAL, but the columns of a table are not known", "JOIN … USING (a, b)")
        merged, equal = dict[str, Node](), list[str]()
        given: dict[str, Json] = {}
        for number, key in enumerate(names or ()):
            one, other = (self._key(side, key, join, halved=halved) for side in (left, right))
            given |= {f"a{number}": one, f"b{number}": other}
            equal.append(f"a{number} = b{number}")
            merged[key] = other if how == RIGHT else one
            if how == FULL:
                merged[key] = written('"coalesce"(a, b)', a=one, b=other)
        condition = written(" AND ".join(equal) or "true", **given)
        if not halved:
            self._merges = True
            self.outer |= how != INNER
            self.missing |= dict.fromkeys(merged if how.keeps_right else (), join)
            kept = Side(both.tables, {**merged, **{key: one for key, one in both.merged.items() if key not in merged}})
        return kept, {name: {"On": condition}}

    def _key(self, side: Side, name: str, join: Json, *, halved: bool) -> Node:
        """Return a column of one side of a join that USING or NATURAL names; SEMI and ANTI merge no columns."""
        free = [table for table in side.tables if name not in table.merged]
        tables = [table for table in free for column in table.columns or () if column == name]
        unknown = [table for table in free if table.columns is None]
        merged = side.merged.get(name)
        if len(tables) + (merged is not None) > 1:
            self._problem(join, f"merges the column {name}, which one side has twice", f"ON a.{name} = b.{name}")
        if merged is not None:
            self.reads |= name in self.missing
            return merged
        if not tables and not unknown:
            self._problem(join, f"merges the column {name}, which a side of the join lacks", f"ON a.x = b.{name}")
            return {"Identifier": new_identifier(name)}  # DataFusion's error for inner joins names the columns
        if len(side.tables) > 1 and unknown:
            self._problem(join, f"merges the column {name}, but its table is not known", f"ON a.{name} = b.{name}")
        table = (tables or unknown)[0]
        if not halved:
            table.merged.add(name)
        return table.column(name)

    def _problem(self, join: Json, what: str, instead: str) -> None:
        self._problems.append(SqlError(f"the join at {place_of_join(self._tree, join)} {what}: write {instead}"))


def merged_item(name: str, column: Node) -> Json:
    """Return an item of a SELECT with a merged column under its name."""
    if kind(column) == "CompoundIdentifier":
        return {"UnnamedExpr": column}
    return {"ExprWithAlias": {"expr": column, "alias": new_identifier(name)}}


def place_of_join(tree: Tree, join: Json) -> str:
    """Return the `line:column` of the first word of a join."""
    return position(tree.sql, _begin(tree, join["relation"], "join"))


def _begin(tree: Tree, factor: Json, word: str) -> int:
    """Return the offset of the last `(`, or of the first word of the last JOIN, before the names of a table."""
    first, text = min((start for start, _ in tree.spans(factor)), default=0), ParsedText(tree.sql)
    at = next((i for i, token in enumerate(text.tokens) if token.start >= first), 0)
    while at and text.tokens[at].text.lower() != word:
        at -= 1
    while text.is_word(at - 1, *JOIN_KINDS):
        at -= 1
    return text.tokens[at].start


def _qualifier(factor: Json) -> list[str]:
    fields = body(factor)
    if fields.get("alias"):
        return [name_of(fields["alias"]["name"])]
    is_table = kind(factor) == "Table" and not fields["args"]
    return [name_of(body(part)) for part in fields["name"]] if is_table else []
