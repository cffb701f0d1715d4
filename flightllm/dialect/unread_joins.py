"""Find the RIGHT and FULL joins that merge columns in a FROM clause that the reader of joined tables cannot read."""

from dataclasses import dataclass, field

from flightllm.dialect.source import Source
from flightllm.errors import SqlError
from flightllm.sql.keywords import ENDS_FROM
from flightllm.sql.names import identifier, read_column_names
from flightllm.sql.on_conditions import JOIN_KINDS
from flightllm.sql.scopes import NO_ALIAS, begins_query

_AFTER_ON = ("join", "minus", "lateral", "on", "using", "returning", *ENDS_FROM)


@dataclass(slots=True)
class UnreadJoins:
    """The RIGHT and FULL joins that merge columns in one FROM clause; all numbers are token indexes."""

    joins: list[int] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    """The merged columns."""
    natural: bool = False
    """NATURAL merges columns, which are not yet in `names`."""
    joined_again: bool = False
    """A later USING or NATURAL reads a merged column."""
    changed: set[str] = field(default_factory=set)
    """Columns of the table that an UPDATE or DELETE changes; outside of FROM, these names mean no merged columns."""
    conditions: list[tuple[int, int]] = field(default_factory=list)
    """The tokens of each ON."""
    end: int = 0
    """The token after the clause."""


def unread_joins(source: Source, start: int) -> UnreadJoins:
    """Return the joins of the FROM clause whose FROM is at a token, also those in parentheses."""
    return _Finder(source).found(start + 1)


@dataclass(slots=True)
class _Item:
    """The joins of one item of FROM; a comma ends the item."""

    merging: int = 0
    """The number of joins of any kind with USING or NATURAL."""
    natural: bool = False
    """One of these joins has NATURAL."""
    outer: bool = False
    """One of these joins is a RIGHT or FULL join."""
    names: set[str] = field(default_factory=set)
    """The columns that the RIGHT and FULL joins merge by USING."""

    def reads_merged(self) -> bool:
        """Return whether one join can merge another one's merged column: NATURAL does not say what it merges."""
        return self.natural and self.outer and self.merging > 1


@dataclass(frozen=True, slots=True)
class _Join:
    """A join whose ON or USING is still to come."""

    at: int
    """The token of its JOIN."""
    outer: bool
    """A RIGHT or FULL join."""


class _Finder:
    """A finder that goes through the tokens of one FROM clause."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._found = UnreadJoins()
        self._item = _Item()
        self._waiting = list[_Join]()
        self._depth = 0
        """The number of open brackets."""

    def found(self, at: int) -> UnreadJoins:
        """Read the clause from a token on."""
        while at < len(self._source.tokens) and not _ends(self._source, at, nested=self._depth > 0):
            at = self._step(at)
        self._found.end = at
        self._end_item()
        return self._found

    def _end_item(self) -> None:
        """End an item of FROM: no later join can read its merged columns by USING or NATURAL."""
        self._found.joined_again |= self._item.reads_merged()
        self._item = _Item()

    def _step(self, at: int) -> int:
        """Read one token; return the token to read next."""
        source, found = self._source, self._found
        if source.is_symbol(at, ")"):
            self._depth -= 1
        elif source.is_symbol(at, ",") and self._depth == 0:
            self._end_item()
        elif source.is_symbol(at, "("):
            if not source.scopes.names_table[at] or begins_query(source.tokens, source.closing, at):
                return source.closing.get(at, at) + 1
            self._depth += 1
        elif source.is_word(at, "join") and not source.is_symbol(at - 1, "."):
            self._join(at)
        elif source.is_word(at, "on"):
            self._waiting[-1:] = []
            last = end_of_condition(source, at + 1)
            found.conditions.append((at + 1, last))
            return last
        elif source.is_word(at, "using") and source.is_symbol(at + 1, "("):
            self._using(at)
            return source.closing.get(at + 1, at + 1) + 1
        return at + 1

    def _join(self, at: int) -> None:
        words = kinds(self._source, at)
        outer = not words.isdisjoint({"right", "full"}) and words.isdisjoint({"semi", "anti"})
        if "natural" in words:
            self._item.natural = True
            self._item.merging += 1
            if outer:
                self._item.outer = True
                self._found.joins.append(at)
                self._found.natural = True
        elif words.isdisjoint({"natural", "cross"}):
            self._waiting.append(_Join(at, outer))

    def _using(self, at: int) -> None:
        join = self._waiting.pop() if self._waiting else _Join(at, outer=False)
        names = listed(self._source, at + 1)
        self._item.merging += 1
        self._found.joined_again |= not self._item.names.isdisjoint(names)
        if join.outer:
            self._item.outer = True
            self._item.names.update(names)
            self._found.joins.append(join.at)
            self._found.names.update(names)


def alias_at(source: Source, at: int) -> str | None:
    """Return the alias of a table that begins at a token, perhaps with AS, or None."""
    if source.is_word(at, "as"):
        at += 1
    elif source.is_word(at, *NO_ALIAS, *JOIN_KINDS, "minus"):
        return None
    return identifier(source.tokens[at]) if at < len(source.tokens) else None


def end_of_condition(source: Source, at: int) -> int:
    """Return the token after the condition of ON that begins at a token."""
    while at < len(source.tokens):
        ends = any(source.is_symbol(at, end) for end in (")", ";", ",", "|>"))
        kind = source.is_word(at, *JOIN_KINDS) and not source.is_symbol(at + 1, "(")
        if ends or kind or (source.is_word(at, *_AFTER_ON) and not source.is_symbol(at - 1, ".")):
            break
        at = source.closing.get(at, at) + 1
    return min(at, len(source.tokens))


def listed(source: Source, opening: int) -> tuple[str, ...]:
    """Return the names in parentheses; an empty tuple for other content."""
    try:
        return read_column_names(source.tokens, opening)[0]
    except SqlError:
        return ()


def _ends(source: Source, at: int, *, nested: bool) -> bool:
    if source.is_symbol(at, ";") or source.is_symbol(at, "|>"):
        return True
    if nested or source.is_symbol(at - 1, "."):
        return False
    return source.is_symbol(at, ")") or source.is_word(at, *ENDS_FROM, "minus", "returning")


def kinds(source: Source, join: int) -> set[str]:
    """Return the words before JOIN that give its kind."""
    words, at = set[str](), join - 1
    while source.is_word(at, *JOIN_KINDS):
        words.add(source.tokens[at].text.lower())
        at -= 1
    return words
