"""Read the joined tables of a SELECT: their columns, and the columns that USING and NATURAL merge."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from flightllm.common.names import TableName, quoted
from flightllm.dialect.output_names import is_star, read_item
from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit
from flightllm.dialect.unread_joins import UnreadJoins, alias_at, end_of_condition, listed, unread_joins
from flightllm.errors import SqlError
from flightllm.sql.keywords import ENDS_FROM
from flightllm.sql.names import identifier, read_parts
from flightllm.sql.on_conditions import JOIN_KINDS
from flightllm.sql.parsed_text import Select
from flightllm.sql.scopes import Scope, Table, begins_query
from flightllm.sql.tokens import position


class _UnreadableError(Exception):
    """The signal that a FROM clause has a form that this reader does not know."""


@dataclass(frozen=True, slots=True)
class Merged:
    """The SQL of a merged column, and whether the SQL is a plain column."""

    sql: str
    plain: bool = True


@dataclass(slots=True)
class _Joined:
    """A table in FROM: how stars and columns qualify it, its columns if they are known, and those that are merged."""

    qualifier: str
    columns: tuple[str, ...] | None
    start: int
    merged: set[str] = field(default_factory=set)

    def has(self, column: str) -> bool | None:
        """Return whether the table has a column; None if its columns are unknown."""
        return None if self.columns is None else column in self.columns


@dataclass(slots=True)
class Side:
    """One side of a join, or one item of FROM: its tables, and its merged columns in the order of `*`."""

    tables: list[_Joined]
    merged: dict[str, Merged] = field(default_factory=dict)

    def is_ambiguous(self, name: str) -> bool:
        """Return whether a table has a column of a name that is not merged."""
        return any(table.has(name) and name not in table.merged for table in self.tables)

    def columns(self) -> list[str] | None:
        """Return the names that NATURAL compares, or None if they are unknown."""
        found = [*self.merged]
        for table in self.tables:
            if table.columns is None:
                return None
            found += [column for column in table.columns if column not in table.merged]
        return found


@dataclass(slots=True)
class Tables:
    """The FROM clause of a SELECT."""

    sides: list[Side] = field(default_factory=list)
    edits: list[Edit] = field(default_factory=list)
    """Edits that write ON in place of USING and NATURAL."""
    conditions: list[tuple[int, int, dict[str, Merged]]] = field(default_factory=list)
    """The tokens of each ON, with the columns that are merged there."""
    merges: bool = False
    outer: bool = False
    """A LEFT, RIGHT or FULL join merges columns."""
    end: int = 0
    """The token after the clause."""

    @property
    def tables(self) -> list[_Joined]:
        """Return all tables."""
        return [table for side in self.sides for table in side.tables]

    @property
    def merged(self) -> dict[str, Merged]:
        """Return the merged columns by name."""
        return {name: one for side in self.sides for name, one in side.merged.items()}

    def is_ambiguous(self, name: str) -> bool:
        """Return whether a merged column's name is also the name of another column."""
        merges = sum(name in side.merged for side in self.sides)
        return merges > 1 or any(side.is_ambiguous(name) for side in self.sides)

    def star(self, excluded: frozenset[str]) -> Iterator[str]:
        """Yield the items that `*` stands for: each side's merged columns, and then the other columns of its tables."""
        for side in self.sides:
            for name, one in side.merged.items():
                if name not in excluded:
                    yield one.sql if one.plain else f"{one.sql} AS {quoted(name)}"
            for table in side.tables:
                left = table.merged | {name for name in excluded if table.has(name)}
                names = ", ".join(map(quoted, sorted(left)))
                yield f"{table.qualifier}.* EXCLUDE ({names})" if left else f"{table.qualifier}.*"


class JoinedTables:
    """The FROM clauses of a text."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._named = {t.first: t for scope in {id(s): s for s in source.scopes.of}.values() for t in scope.tables}
        self._selects = {id(source.scopes.of[one.start]): one for one in source.selects}
        self._found = dict[int, Tables | None]()
        self._unread = set[int]()

    def of(self, select: Select) -> Tables | None:
        """Return the tables of a SELECT, or None if it has no FROM or a FROM of unknown form.

        Raises:
            SqlError: the text does not say which column USING or NATURAL means.
        """
        if select.start not in self._found:
            self._found[select.start] = None  # for a table that reads itself
            if self._source.is_word(select.end, "from"):
                try:
                    self._found[select.start] = _Reader(self._source, self._named, self._columns).read(select.end + 1)
                except _UnreadableError:
                    self._unread.add(select.start)
        return self._found[select.start]

    def unread(self, select: Select) -> UnreadJoins | None:
        """Return the RIGHT and FULL joins that merge columns in a FROM of unknown form, or None for another FROM."""
        self.of(select)
        return self.outer_joins(select) if select.start in self._unread else None

    def outer_joins(self, select: Select) -> UnreadJoins | None:
        """Return the RIGHT and FULL joins that merge columns in a SELECT's FROM, or None for another FROM."""
        found = unread_joins(self._source, select.end)
        if not found.joins:
            return None
        return self._with_natural(select, found) if found.natural else found

    def _with_natural(self, select: Select, found: UnreadJoins) -> UnreadJoins:
        """Add the names that NATURAL can merge: those of two tables.

        If a table's columns are unknown, these are all names.
        """
        tables = [table for first, table in self._named.items() if select.end < first < found.end]
        columns = [self._columns(table) for table in tables if table.parts]
        if None in columns or any(not table.parts for table in tables):
            names = set(filter(None, map(identifier, self._source.tokens)))
            found = replace(found, changed=self._changed(select))
        else:
            known = Counter(name for one in columns for name in one or ())
            names = {name for name, times in known.items() if times > 1}
        return replace(found, names=found.names | names)

    def _changed(self, select: Select) -> set[str]:
        """Return the known columns of the table that an UPDATE or DELETE changes; an empty set for a SELECT."""
        if not self._source.is_word(select.start, "update", "delete"):
            return set()
        table = self._source.scopes.changed_table(select.start)
        return set() if table is None else set(self._columns(table) or ())

    def lack(self, scope: Scope, name: str) -> bool:
        """Return whether the tables of a nested SELECT surely have no column of a name."""
        select = self._selects.get(id(scope))
        if select is None or not self._source.is_word(select.end, "from"):
            return select is not None
        found = self.of(select)
        return found is not None and all(table.has(name) is False for table in found.tables)

    def _columns(self, table: Table) -> tuple[str, ...] | None:
        """Return the columns of a table in FROM, or None if they are unknown."""
        source = self._source
        if table.columns is not None:
            return listed(source, table.columns[0]) or None
        if table.subquery is not None:
            return self._of_query(table.subquery[0])
        if not table.parts:
            return None
        if (common := source.scopes.common_table(table.parts, table.first)) is not None:
            if common.columns is not None:
                return listed(source, common.columns[0]) or None
            return self._of_query(common.opening)
        name = source.place.found(table.parts[0]) if len(table.parts) == 1 else TableName(*table.parts[-2:])
        return tuple(source.place.columns_of(name)) or None

    def _of_query(self, opening: int) -> tuple[str, ...] | None:
        """Return the columns of the query that a parenthesis opens; only a SELECT tells its columns."""
        source, at = self._source, opening + 1
        while source.is_symbol(at, "("):
            at += 1
        while at < source.closing[opening] and not source.is_word(at, "select", "values"):
            at = source.closing.get(at, at) + 1  # past the WITH queries of a query that begins with WITH
        select = next((one for one in source.selects if one.start == at), None)
        return None if select is None else self._of_select(select)

    def _of_select(self, select: Select) -> tuple[str, ...] | None:
        source, names = self._source, list[str]()
        for first, last in select.items:
            if not is_star(source, first, last):
                names.append(read_item(source, first, last).name or source.text(first, last))
                continue
            found = self.of(select)
            if found is None or not source.is_symbol(last - 1, "*"):
                return None
            starred = read_item(source, first, last).star
            for side in found.sides:
                columns = side.columns()
                if starred:
                    one = [t for t in side.tables if t.qualifier == ".".join(map(quoted, starred))]
                    columns = list(one[0].columns) if one and one[0].columns is not None else ([] if not one else None)
                if columns is None:
                    return None
                names += columns
        return tuple(names)


class _Reader:
    """A reader of one FROM clause."""

    def __init__(
        self, source: Source, named: dict[int, Table], columns: Callable[[Table], tuple[str, ...] | None]
    ) -> None:
        self._source = source
        self._named = named
        self._columns = columns
        self._found = Tables()
        self._problems = list[SqlError]()
        """Errors about joins; they count if DataFusion would read the wrong column."""

    def read(self, at: int) -> Tables:
        """Read the clause from the token after FROM on."""
        found = self._found
        while True:
            side, at = self._chain(at)
            found.sides.append(side)
            if not self._source.is_symbol(at, ","):
                break
            at += 1
        known_end = at >= len(self._source.tokens) or any(self._source.is_symbol(at, end) for end in (")", ";", "|>"))
        conflict = self._source.is_word(at, "on") and self._source.is_word(at + 1, "conflict")
        if not (known_end or conflict or self._source.is_word(at, *ENDS_FROM, "minus", "returning")):
            raise _UnreadableError
        found.end = at
        if found.merges:
            for table in found.tables:
                if not table.qualifier:
                    place = position(self._source.sql, table.start)
                    self._problems.append(
                        SqlError(f"the table at {place} has no name, but is joined with USING or NATURAL: add AS q")
                    )
        if self._problems and found.outer:
            raise self._problems[0]
        if self._problems:
            raise _UnreadableError
        return found

    def _chain(self, at: int) -> tuple[Side, int]:
        """Read tables with joins between them."""
        source = self._source
        side, at = self._factor(at)
        while (first := at) < len(source.tokens):
            words = set[str]()
            while source.is_word(at, *JOIN_KINDS):
                words.add(source.tokens[at].text.lower())
                at += 1
            if not source.is_word(at, "join"):
                if words:
                    raise _UnreadableError
                break
            if "asof" in words:
                raise _UnreadableError
            right, at = self._factor(at + 1)
            side, at = self._join(side, right, words, first, at)
        return side, at

    def _join(self, left: Side, right: Side, words: set[str], first: int, at: int) -> tuple[Side, int]:
        """Join two sides; `first` is the first token of the join's words, and `at` the token after the right side."""
        source, tokens = self._source, self._source.tokens
        kind = next((word for word in ("left", "right", "full") if word in words), "")
        both = Side([*left.tables, *right.tables], {**left.merged, **right.merged})
        halved = not words.isdisjoint({"semi", "anti"})
        kept = (right if kind == "right" else left) if halved else both
        if "natural" in words:
            names = self._natural(left, right, first)
            word = next(i for i in range(first, at) if source.is_word(i, "natural"))
            self._found.edits.append(Edit(tokens[word].start, tokens[word + 1].start, ""))
            edit = (tokens[at - 1].end, tokens[at - 1].end)
        elif source.is_word(at, "using") and source.is_symbol(at + 1, "("):
            names = listed(source, at + 1)
            if not names:
                raise _UnreadableError
            after = source.closing[at + 1] + 1
            edit = (tokens[at].start, tokens[after - 1].end)
            at = after
        elif source.is_word(at, "on"):
            last = end_of_condition(source, at + 1)
            known = {name: one for name, one in both.merged.items() if not both.is_ambiguous(name)}
            self._found.conditions.append((at + 1, last, known))
            return kept, last
        elif "cross" in words:
            return both, at
        else:
            raise _UnreadableError
        merged, equal = dict[str, Merged](), list[str]()
        for name in names:
            one, other = self._key(left, name, first, halved), self._key(right, name, first, halved)
            equal.append(f"{one.sql} = {other.sql}")
            merged[name] = one if kind in {"", "left"} else other
            if kind == "full":
                merged[name] = Merged(f'"coalesce"({one.sql}, {other.sql})', plain=False)
        space = " " if edit[0] == edit[1] else ""
        self._found.edits.append(Edit(*edit, f"{space}ON {' AND '.join(equal) or 'true'}"))
        if halved:
            return kept, at
        self._found.merges = True
        self._found.outer = self._found.outer or kind != ""
        return Side(both.tables, {**merged, **{k: v for k, v in both.merged.items() if k not in merged}}), at

    def _natural(self, left: Side, right: Side, at: int) -> tuple[str, ...]:
        mine, others = left.columns(), right.columns()
        if mine is None or others is None:
            self._problem(at, "is NATURAL, but the columns of a table are not known", "JOIN … USING (a, b)")
            return ()
        return tuple(name for name in mine if name in others)

    def _key(self, side: Side, name: str, at: int, halved: bool) -> Merged:  # noqa: FBT001 - one of two kinds
        """Return a column of one side of a join that USING or NATURAL names; SEMI and ANTI merge no columns."""
        free = [table for table in side.tables if name not in table.merged]
        tables = [table for table in free for column in table.columns or () if column == name]
        unknown = [table for table in free if table.columns is None]
        merged = side.merged.get(name)
        if len(tables) + (merged is not None) > 1:
            self._problem(at, f"merges the column {name}, which one side has twice", f"ON a.{name} = b.{name}")
        if merged is not None:
            return merged
        if not tables and not unknown:
            self._problem(at, f"merges the column {name}, which a side of the join lacks", f"ON a.x = b.{name}")
            return Merged(quoted(name))  # DataFusion's error for inner joins names the columns
        if len(side.tables) > 1 and unknown:
            self._problem(at, f"merges the column {name}, but its table is not known", f"ON a.{name} = b.{name}")
        table = (tables or unknown)[0]
        if not halved:
            table.merged.add(name)
        return Merged(f"{table.qualifier}.{quoted(name)}")

    def _factor(self, at: int) -> tuple[Side, int]:
        """Read one table, or joins in parentheses."""
        source = self._source
        at += source.is_word(at, "lateral", "only")
        if source.is_symbol(at, "(") and at in source.closing and not begins_query(source.tokens, source.closing, at):
            closing = source.closing[at]
            side, end = self._chain(at + 1)
            if end != closing:
                raise _UnreadableError
            return self._named_side(side, closing + 1)
        table, end = self._named.get(at), self._end_of_table(at)
        if table is None:
            return Side([_Joined("", None, source.tokens[at].start)]), end
        parts = (table.alias,) if table.aliased or not table.parts else table.parts
        return Side([_Joined(".".join(map(quoted, parts)), self._columns(table), source.tokens[at].start)]), end

    def _named_side(self, side: Side, at: int) -> tuple[Side, int]:
        """Return a side in parentheses that end before a token as one table if the side has a name."""
        source, name = self._source, alias_at(self._source, at)
        if name is None:
            return side, at
        if len(side.tables) > 1:  # the rule named_joins makes a subquery of several tables
            raise _UnreadableError
        table, columns = side.tables[0], None
        at += 1 + source.is_word(at, "as")
        if source.is_symbol(at, "("):
            columns = listed(source, at) or None
            at = source.closing[at] + 1
        else:
            columns = table.columns
        return Side([_Joined(quoted(name), columns, table.start)]), at

    def _end_of_table(self, at: int) -> int:
        """Return the token after a table's name, arguments, alias and list of columns."""
        source = self._source
        if not source.is_symbol(at, "("):
            if at >= len(source.tokens) or identifier(source.tokens[at]) is None:
                raise _UnreadableError
            _, at = read_parts(source.tokens, at)
        at = source.closing.get(at, at - 1) + 1
        if alias_at(source, at) is not None:
            at += 1 + source.is_word(at, "as")
            at = source.closing.get(at, at - 1) + 1
        return at

    def _problem(self, at: int, what: str, instead: str) -> None:
        place = position(self._source.sql, self._source.tokens[at].start)
        self._problems.append(SqlError(f"the join at {place} {what}: write {instead}"))
