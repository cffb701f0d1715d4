"""Parser that splits the column list of CREATE TABLE into DataFusion's part and the keys.

DataFusion would ignore or reject the keys.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from flightllm.common.json_columns import NAMES as JSON_TYPES
from flightllm.common.names import TableName
from flightllm.errors import SqlError, UnsupportedError
from flightllm.sql.cursor import Cursor
from flightllm.sql.keys import NO_KEYS, RULES, ForeignKey, Key, Rule, TableKeys
from flightllm.sql.names import identifier
from flightllm.sql.tokens import Token, TokenKind, tokenize

_USAGE = "PRIMARY KEY (a, b), UNIQUE (a), or FOREIGN KEY (a) REFERENCES other (b)"
_REFUSED = (
    *("check", "key", "generated", "auto_increment", "autoincrement", "identity", "materialized", "alias", "ephemeral"),
    *("collate", "on", "exclude"),
)
"""Words that begin unsupported parts of a column's definition. A column can have such a word as its name."""
NESTED = ("struct", "map", "array")
"""Types whose parts are in angle brackets."""


def read_column_list(columns: str, table: TableName) -> tuple[str, TableKeys]:
    """Return the column list without its keys, and the keys.

    The list marks the columns of the primary key as NOT NULL. A foreign key can leave out the columns of the other
    table. This function does not check that columns exist.

    Raises:
        SqlError: a constraint is not complete, or there are two primary keys.
        UnsupportedError: the list has a part that the server does not support, such as CHECK.
    """
    tokens = tokenize(columns)
    reader = _ColumnListReader(tokens, table)
    found = [reader.element(first, last) for first, last in column_ranges(tokens)]
    keys = reader.keys
    primary = set(keys.primary.columns) if keys.primary else set()
    kept = [
        f"{text} NOT NULL" if column.name in primary and not column.required else text
        for column in found
        if (text := _text(columns, tokens, column.ranges))
    ]
    return (columns, NO_KEYS) if not keys else (f"({', '.join(kept)})", keys)


def is_json_column(tokens: Sequence[Token], first: int, last: int) -> bool:
    """Return whether the tokens of a column of CREATE TABLE begin with its name and a type of JSON."""
    if last - first < 2 or tokens[first].kind not in {TokenKind.WORD, TokenKind.QUOTED}:
        return False
    after = tokens[first + 2 : first + 3]
    return tokens[first + 1].is_word(*JSON_TYPES) and not (
        after and after[0].kind is TokenKind.SYMBOL and after[0].text in "([."
    )


def without_json(columns: str) -> tuple[str, Mapping[str, str]]:
    """Return a column list in which columns of JSON are texts, and the type of each of these columns by name."""
    tokens, found, parts, end = tokenize(columns), dict[str, str](), list[str](), 0
    for first, last in column_ranges(tokens):
        if is_json_column(tokens, first, last):
            kind = tokens[first + 1]
            found[identifier(tokens[first]) or ""] = kind.text.lower()
            parts += [columns[end : kind.start], "VARCHAR"]
            end = kind.end
    return "".join([*parts, columns[end:]]), found


def read_constraint(tokens: Sequence[Token], at: int, table: TableName) -> TableKeys:
    """Return the key that a constraint of ALTER TABLE … ADD declares; the constraint must end the statement."""
    reader = _ColumnListReader(tokens, table)
    if reader.element(at, len(tokens)).ranges or not reader.keys:
        raise SqlError(f"ALTER TABLE … ADD takes a key: [CONSTRAINT name] {_USAGE}")
    return reader.keys


def _text(columns: str, tokens: Sequence[Token], ranges: Sequence[tuple[int, int]]) -> str:
    return " ".join(columns[tokens[first].start : tokens[last - 1].end] for first, last in ranges)


def column_ranges(tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """Yield the token ranges of the columns and constraints of a column list; `tokens` include its parentheses."""
    inner, start = tokens[1:-1], 1
    for index, inside in enclosed(inner):
        if not inside and inner[index].is_symbol(","):
            yield start, index + 1
            start = index + 2
    yield start, len(tokens) - 1


def enclosed(tokens: Sequence[Token]) -> Iterator[tuple[int, bool]]:
    """Yield each token's index, and whether brackets are around it, also the angle brackets of a type."""
    depth = angles = 0
    for index, token in enumerate(tokens):
        if token.kind is TokenKind.SYMBOL:
            if token.text == "<" and index and (angles or tokens[index - 1].is_word(*NESTED)):
                angles += 1
            elif angles and token.text in {">", ">>"}:
                angles -= len(token.text)
            depth += (token.text in "([{") - (token.text in ")]}")
        yield index, depth > 0 or angles > 0


@dataclass(frozen=True, slots=True)
class _Element:
    """A column with the token ranges of its definition without keys, or a constraint, which has no ranges."""

    name: str = ""
    ranges: Sequence[tuple[int, int]] = ()
    required: bool = False
    """The definition says NOT NULL."""


class _ColumnListReader:
    """A reader that goes through the parts of a column list and collects their keys."""

    def __init__(self, tokens: Sequence[Token], table: TableName) -> None:
        self._tokens = tokens
        self._table = table
        self.keys = NO_KEYS

    def element(self, first: int, last: int) -> "_Element":
        """Read a column or a constraint."""
        cursor = Cursor(self._tokens[:last], first)
        if first >= last:
            raise SqlError("the column list has an extra comma: remove it")
        if self._constraint(cursor, column=None):
            if cursor.at < last:
                raise SqlError(f"expected ',' or ')' after a constraint, found {self._tokens[cursor.at].text[:40]!r}")
            return _Element()
        name = identifier(self._tokens[first]) or ""
        ranges, start, depth, cursor.at = list[tuple[int, int]](), first, 0, first + 1
        while cursor.at < last:
            token, at = self._tokens[cursor.at], cursor.at
            opening = token.is_symbol("(") or token.is_symbol("<")
            depth += opening - token.is_symbol(")") - (len(token.text) if token.text in {">", ">>"} else 0)
            if depth <= 0 and not opening and self._constraint(cursor, column=name):
                ranges += [(start, at)] if at > start else []
                start = cursor.at
            elif depth <= 0 and token.is_word(*_REFUSED):
                raise self._refused(token)
            else:
                cursor.at += 1
        ranges += [(start, last)] if last > start else []
        following = pairwise(self._tokens[first:last])
        return _Element(name, ranges, required=any(a.is_word("not") and b.is_word("null") for a, b in following))

    def _constraint(self, cursor: Cursor, column: str | None) -> bool:
        """Read a constraint of a table or of a column if there is one, and return whether there was one."""
        start = cursor.at
        name = ""
        if cursor.take("constraint"):
            name = cursor.name("a constraint", f"CONSTRAINT name {_USAGE}")
        if cursor.take("primary", "key"):
            self._primary(name, self._columns(cursor, column))
        elif self._is_unique(cursor, column):
            columns = self._columns(cursor, column)
            key = Key(name or self._named(*columns, "key"), columns)
            self._add(TableKeys(self.keys.primary, (*self.keys.unique, key), self.keys.foreign), key.name)
        elif column is None and cursor.take("foreign", "key"):
            columns = self._columns(cursor, column)
            cursor.need(_USAGE, "references")
            self._foreign(name, columns, cursor)
        elif column is not None and cursor.take("references"):
            self._foreign(name, (column,), cursor)
        elif column is None and self._at(cursor, "check", "exclude"):
            raise self._refused(self._tokens[cursor.at])
        elif name and column is not None and self._at(cursor, "not", "null", "default"):
            return True  # the server ignores the name of such a constraint
        elif cursor.at != start:
            found = self._tokens[cursor.at] if cursor.at < len(self._tokens) else None
            if found is not None and found.is_word("check"):
                raise self._refused(found)
            raise SqlError(f"after CONSTRAINT write {_USAGE}")
        else:
            return False
        self._promises(cursor)
        return True

    def _at(self, cursor: Cursor, *words: str) -> bool:
        after = cursor.tokens[cursor.at : cursor.at + 2]
        if not after or not after[0].is_word(*words):
            return False
        return not after[0].is_word("check") or (len(after) == 2 and after[1].is_symbol("("))  # else a column's name

    def _is_unique(self, cursor: Cursor, column: str | None) -> bool:
        """Read UNIQUE if the word is a constraint and not the name of a column."""
        at = cursor.at
        if cursor.take("unique"):
            _ = cursor.take("key") or cursor.take("index")
            nulls = cursor.take("nulls", "not", "distinct") or cursor.take("nulls", "distinct")
            following = cursor.tokens[cursor.at : cursor.at + 1]
            if column is not None or nulls or (following and following[0].is_symbol("(")):
                return True
            cursor.at = at
        return False

    def _columns(self, cursor: Cursor, column: str | None) -> tuple[str, ...]:
        if column is not None:
            return (column,)
        columns = _name_list(cursor)
        if not columns:
            raise SqlError(f"a list of columns was expected: {_USAGE}")
        if len(set(columns)) < len(columns):
            raise SqlError(f"a key names a column twice: ({', '.join(columns)})")
        return columns

    def _primary(self, name: str, columns: tuple[str, ...]) -> None:
        if self.keys.primary is not None:
            raise SqlError("a table has one PRIMARY KEY: write PRIMARY KEY (a, b) for a key of several columns")
        key = Key(name or self._named("pkey"), columns)
        self._add(TableKeys(key, self.keys.unique, self.keys.foreign), key.name)

    def _foreign(self, name: str, columns: tuple[str, ...], cursor: Cursor) -> None:
        table, others = cursor.table(), _name_list(cursor)
        if others and len(others) != len(columns):
            raise SqlError(f"a foreign key has {len(columns)} columns but refers to {len(others)}: name as many")
        rules: dict[str, Rule] = {}
        while cursor.take("match", "simple") or cursor.take("match", "full") or self._rule(cursor, rules):
            pass
        key = ForeignKey(
            name or self._named(*columns, "fkey"),
            columns,
            table,
            others,
            rules.get("update", "NO ACTION"),
            rules.get("delete", "NO ACTION"),
        )
        self._add(TableKeys(self.keys.primary, self.keys.unique, (*self.keys.foreign, key)), key.name)

    def _rule(self, cursor: Cursor, rules: dict[str, Rule]) -> bool:
        for event in ("update", "delete"):
            for rule in RULES:
                if cursor.take("on", event, *rule.lower().split()):
                    rules[event] = rule
                    return True
        if cursor.take("on"):
            raise SqlError(f"after ON in a foreign key write UPDATE or DELETE, then one of {', '.join(RULES)}")
        return False

    def _promises(self, cursor: Cursor) -> None:
        """Skip options of a constraint such as NOT ENFORCED, and refuse ENFORCED: the server enforces no constraint."""
        while any(
            cursor.take(*words)
            for words in (
                ("not", "enforced"),
                ("not", "deferrable"),
                ("deferrable",),
                ("initially", "deferred"),
                ("initially", "immediate"),
                ("not", "valid"),
                ("rely",),
                ("norely",),
            )
        ):
            pass
        if self._at(cursor, "enforced", "using", "include"):
            raise self._refused(cursor.tokens[cursor.at])

    def _add(self, keys: TableKeys, name: str) -> None:
        if name in {*(key.name for key in self.keys.candidates), *(key.name for key in self.keys.foreign)}:
            raise SqlError(f"two constraints of the table have the name {name!r}: rename one")
        self.keys = keys

    def _named(self, *parts: str) -> str:
        return "_".join([self._table.name, *parts])

    def _refused(self, token: Token) -> UnsupportedError:
        what, instead = token.text.upper(), "write name, type, NOT NULL, DEFAULT, and keys, which are not enforced"
        if token.is_word("check", "enforced", "exclude"):
            instead = f"leave {what} out: the server does not check rows against constraints"
        return UnsupportedError(f"{what} in CREATE TABLE is not supported: {instead}")


def _name_list(cursor: Cursor) -> tuple[str, ...]:
    """Read a list such as `(a, "B")` if there is one."""
    if not cursor.symbol("("):
        return ()
    names: list[str] = []
    while True:
        names.append(cursor.name("a column of a key", _USAGE))
        _ = cursor.take("asc") or cursor.take("desc")
        if cursor.symbol(")"):
            return tuple(names)
        if not cursor.symbol(","):
            raise SqlError(f"a ',' or ')' was expected in the columns of a key: {_USAGE}")
