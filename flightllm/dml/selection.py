"""The query that finds the rows to change and computes their new values.

For each row it returns these columns:

- `position`, the row's number in the table, NULL for a row to insert
- `action`, the number of the action, from 1 on
- the new values of every action, and the errors for which a row keeps its old value
- the values from other tables that RETURNING reads
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import pyarrow as pa

from flightllm.catalog.column_defaults import defaults_of
from flightllm.catalog.entries import Entry
from flightllm.catalog.numbered import ROW
from flightllm.common.names import TableName, quoted
from flightllm.dml.old_values import values_and_errors
from flightllm.dml.returning import MERGE_ACTION
from flightllm.errors import SqlError, UnsupportedError
from flightllm.sql.names import identifier
from flightllm.sql.row_change import Action, ActionKind, RowChange
from flightllm.sql.row_changes import outside, with_alias
from flightllm.sql.tokens import Token, TokenKind, closing_parenthesis, tokenize

POSITION, ACTION = "position", "action"
"""The names of the query's first two columns."""
TARGET = "search.public.changing"
"""The query's name for the table to change."""
_PRESENT = " present"
_NAMES = rf'(?:"(?:{ROW}|{_PRESENT}|{MERGE_ACTION})"|extra\d+)'
_HIDDEN = re.compile(rf'(?:(?:"[^"]*"|\w+)\.|(?<![\w".])){_NAMES}(?:, )?')
_DANGLING = re.compile(r",\s*(?=\.(?:\s|$))")
_EXPRESSION_WORDS = (
    *("case", "when", "then", "else", "end", "and", "or", "not", "is", "in", "like", "between"),
    *("null", "true", "false"),
)
_AFTER_TABLE = ("join", "inner", "left", "right", "full", "cross", "natural", "on", "using")
_JOINS = {
    frozenset({"matched"}): "INNER",
    frozenset({"not_matched"}): "RIGHT",
    frozenset({"matched", "not_matched"}): "RIGHT",
    frozenset({"not_matched_by_source"}): "LEFT",
    frozenset({"matched", "not_matched_by_source"}): "LEFT",
}


@dataclass(frozen=True, slots=True)
class Done:
    """One action. `values` maps each table column to the output column that holds its new value.

    `kept` maps a table column to the output column that is not NULL in the rows where the old value stays.
    """

    kind: ActionKind
    values: Mapping[str, str]
    kept: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Selection:
    """The query's text and the meaning of its columns."""

    sql: str
    actions: tuple[Done, ...]
    types: Mapping[str, pa.DataType]
    """The type to cast each output column to: the type of the table column that it changes."""
    extras: tuple[str, ...]
    """The output columns that RETURNING reads."""

    @property
    def keeps(self) -> bool:
        """Whether a column keeps its old value in some rows."""
        return any(action.kept for action in self.actions)


def inserts_by_bare_names(change: RowChange, entry: Entry) -> bool:
    """Return whether MERGE inserts a value or tests a condition by a column's bare name that the table has, too."""
    texts = (text or "" for action in change.actions if action.rows == "not_matched" for text in _texts_of(action))
    return change.merged and any(name in entry.schema.names for text in texts for _, name in _bare_names(text))


def of_source(change: RowChange, columns: Collection[str]) -> RowChange:
    """Return a MERGE whose bare names after WHEN NOT MATCHED are columns of the source: the table has no row there.

    `INSERT (k, v) VALUES (k, upper(v))` → `INSERT (k, v) VALUES ("s".k, upper("s".v))`
    """
    alias = quoted(_merged_alias(change.source))

    def written(text: str) -> str:
        parts, end = list[str](), 0
        for token, name in _bare_names(text):
            if name in columns:
                parts += (text[end : token.start], f"{alias}.")
                end = token.start
        return "".join([*parts, text[end:]])

    def changed(action: Action) -> Action:
        if action.rows != "not_matched":
            return action
        values = tuple((column, None if value is None else written(value)) for column, value in action.values)
        return replace(action, condition=written(action.condition), values=values)

    return replace(change, actions=tuple(map(changed, change.actions)))


def with_rows(change: RowChange, columns: Sequence[str]) -> RowChange:
    """Return a MERGE whose INSERT ROW has the columns of the source as values: the first one for the first column."""
    alias = quoted(_merged_alias(change.source))
    values = tuple((str(place), f"{alias}.{quoted(name)}") for place, name in enumerate(columns))
    return replace(
        change, actions=tuple(replace(one, values=values) if one.of_source else one for one in change.actions)
    )


def _texts_of(action: Action) -> Iterator[str | None]:
    yield action.condition
    for _, value in action.values:
        yield value


def _bare_names(text: str) -> Iterator[tuple[Token, str]]:
    """Yield the names without a table in an expression, outside of its subqueries."""
    tokens = tokenize(text)
    others = _no_columns(tokens)
    for index, token in enumerate(tokens):
        if index in others:
            continue
        name = identifier(token)
        before, after = tokens[index - 1] if index else None, tokens[index + 1] if index + 1 < len(tokens) else None
        qualified = before is not None and (before.is_symbol(".") or before.is_word("as") or before.is_symbol("::"))
        called = after is not None and (after.is_symbol(".") or after.is_symbol("(") or after.is_symbol("=>"))
        if name is not None and not qualified and not called and not token.is_word(*_EXPRESSION_WORDS):
            yield token, name


def _no_columns(tokens: Sequence[Token]) -> set[int]:
    """Return the indexes of tokens that look like columns: in subqueries, names of types, and parts of dates.

    These are the words in `DATE '2024-01-02'`, `INTERVAL '1' year`, `EXTRACT (year FROM …)` and `CAST(… AS DATE)`.
    """
    found: set[int] = set()
    for index, token in enumerate(tokens):
        words = [t.text.lower() for t in tokens[index : index + 4] if t.kind is TokenKind.WORD or t.is_symbol("(")]
        after = tokens[index + 1] if index + 1 < len(tokens) else None
        if token.is_symbol("(") and after is not None and after.is_word("select", "with", "values", "table"):
            found.update(range(index, closing_parenthesis(tokens, index) + 1))
        elif token.kind is TokenKind.WORD and after is not None and after.kind is TokenKind.STRING:
            found.add(index)
            if token.is_word("interval"):
                found.update(range(index, index + 3))
        elif words[:2] == ["extract", "("] and words[3:] == ["from"]:
            found.update(range(index, index + 4))
        elif words[:3] == ["at", "time", "zone"]:
            found.update(range(index, index + 3))
        elif token.is_word("as") and index not in found:
            found.update(range(index, _end_of_type(tokens, index)))
    return found


def _end_of_type(tokens: Sequence[Token], start: int) -> int:
    """Return the index of the parenthesis that closes CAST, for the AS before its type."""
    depth = 0
    for index in range(start, len(tokens)):
        depth += tokens[index].is_symbol("(") - tokens[index].is_symbol(")")
        if depth < 0:
            return index
    return len(tokens)


def selection(change: RowChange, entry: Entry, extras: Sequence[str]) -> Selection:
    """Return the query of a change. `extras` are expressions over other tables that RETURNING reads.

    Raises:
        SqlError: a column is unknown, or an INSERT has too many values.
    """
    actions = tuple(_named(action, entry) for action in change.actions)
    text = _Text(change, entry)
    done, outputs, types = list[Done](), list[str](), dict[str, pa.DataType]()
    for number, action in enumerate(actions):
        names, kept = dict[str, str](), dict[str, str]()
        for index, (column, value) in enumerate(action.values):
            new, errors = values_and_errors(value or "NULL") if action.kind == "update" else (value, "")
            output = names[column] = f"value{number}_{index}"
            types[output] = entry.schema.field(column).type
            outputs.append(f"{text.value(number, new)} AS {output}")
            if errors:
                kept[column] = f"kept{number}_{index}"
                outputs.append(f"{text.value(number, errors)} AS {kept[column]}")
        done.append(Done(action.kind, names, kept))
    outputs += [f"({text.shown(extra)}) AS extra{index}" for index, extra in enumerate(extras)]
    return Selection(text.query(outputs), tuple(done), types, tuple(f"extra{index}" for index in range(len(extras))))


def _named(action: Action, entry: Entry) -> Action:
    """Return an action whose values all name columns of the table. An insert gets a value for every column."""
    known = entry.schema.names
    values = dict(action.values)
    if action.positional:
        if len(values) > len(known):
            raise SqlError(f"INSERT has {len(values)} values for the {len(known)} columns of {entry.name.display}")
        values = dict(zip(known, values.values(), strict=False))
    for column in values:
        if column not in known:
            raise SqlError(
                f"the table {entry.name.display!r} has no column {column!r}; its columns are {', '.join(known)}"
            )
    defaults = defaults_of(entry)
    if action.kind == "insert":
        values = {column: values.get(column) for column in known}
    filled = tuple((c, defaults.get(c, "NULL") if v is None else v) for c, v in values.items())
    return Action(action.kind, action.rows, action.condition, filled)


class _Text:
    """Writes the text of the query."""

    def __init__(self, change: RowChange, entry: Entry) -> None:
        self._change = change
        self._name = entry.name
        self._row = f"{quoted(change.alias)}.{quoted(ROW)}"
        self._guarded = change.merged
        present = f"{quoted(_merged_alias(change.source))}.{quoted(_PRESENT)} IS NOT NULL" if change.merged else ""
        self._whens = [self._when(action, present) for action in change.actions]

    def shown(self, text: str) -> str:
        """Return text in which each reference to the table to change uses its alias."""
        return with_alias(tokenize(text), text, self._name, self._change.alias)

    def _when(self, action: Action, present: str) -> str:
        there = f"{self._row} IS NOT NULL"
        about = {
            "matched": f"{there} AND {present}",
            "not_matched": f"{self._row} IS NULL",
            "not_matched_by_source": f"{there} AND NOT ({present})",
        }[action.rows]
        return f"{about} AND ({self.shown(action.condition)})" if action.condition else about

    def value(self, number: int, value: str | None) -> str:
        """Return the SQL of a new value, computed only for the rows of its action."""
        text = f"({self.shown(value or 'NULL')})"
        if not self._guarded:
            return text
        before = "".join(f"WHEN {when} THEN NULL " for when in self._whens[:number])
        return f"CASE {before}WHEN {self._whens[number]} THEN {text} END"

    def query(self, outputs: Sequence[str]) -> str:
        change = self._change
        target = f"{TARGET} AS {quoted(change.alias)}"
        common = f"{change.common} " if change.common else ""
        listed = "".join(f", {output}" for output in outputs)
        if not change.merged:
            source = f", {self.shown(change.source)}" if change.source else ""
            where = f" WHERE {self.shown(change.condition)}" if change.condition else ""
            return f"{common}SELECT {self._row} AS {POSITION}, 1 AS {ACTION}{listed} FROM {target}{source}{where}"
        number = " ".join(
            f"WHEN {when} THEN {0 if action.kind == 'nothing' else index + 1}"
            for index, (when, action) in enumerate(zip(self._whens, change.actions, strict=True))
        )
        join = _JOINS.get(frozenset(action.rows for action in change.actions), "FULL")
        alias = quoted(_merged_alias(change.source))
        source = f"(SELECT *, true AS {quoted(_PRESENT)} FROM {change.source}) AS {alias}"
        inner = (
            f"SELECT {self._row} AS {POSITION}, CASE {number} ELSE 0 END AS {ACTION}{listed}"
            f" FROM {target} {join} JOIN {source} ON {self.shown(change.condition)}"
        )
        return f"{common}SELECT * FROM ({inner}) AS changes WHERE {ACTION} > 0"


def source_aliases(source: str) -> list[str]:
    """Return the names of the other tables of a statement, in order: the alias of each table, else its name."""
    tokens = tokenize(source)
    free = list(outside(tokens, 0, len(tokens)))
    starts = [0, *(i + 1 for i in free if tokens[i].is_symbol(",") or tokens[i].is_word("join"))]
    ends = [i for i in free if tokens[i].is_symbol(",") or tokens[i].is_word(*_AFTER_TABLE)]
    items = (tokens[start : min((e for e in ends if e > start), default=len(tokens))] for start in starts)
    return [alias for alias in map(_alias_of, items) if alias is not None]


def _alias_of(tokens: Sequence[Token]) -> str | None:
    end = len(tokens) - 1
    if end >= 0 and tokens[end].is_symbol(")"):  # (SELECT …) AS s (a, b)
        depth = 0
        while end >= 0:
            depth += tokens[end].is_symbol(")") - tokens[end].is_symbol("(")
            end -= 1
            if depth == 0:
                break
    return identifier(tokens[end]) if end >= 0 else None


def _merged_alias(source: str) -> str:
    """Return the name of MERGE's source.

    Raises:
        SqlError: a subquery has no alias, or there are several tables.
    """
    aliases = source_aliases(source)
    if len(aliases) != 1:
        raise SqlError(
            "USING takes one table, or a subquery with a name: write MERGE INTO … USING (SELECT …) AS s ON …"
        )
    return aliases[0]


def columns_query(change: RowChange, alias: str) -> str:
    """Return a query whose columns are the columns of one of the other tables."""
    common = f"{change.common} " if change.common else ""
    return f"{common}SELECT {quoted(alias)}.* FROM {change.source}"


def check_alias(change: RowChange, target: TableName) -> None:
    """Raise `UnsupportedError` if a statement uses one name for the table to change and for another table."""
    if change.merged and _merged_alias(change.source) == change.alias:
        raise UnsupportedError(
            f"MERGE has two tables named {change.alias!r}: write MERGE INTO {target.display} AS t USING … AS s"
        )
    if change.source and change.alias in source_aliases(change.source):
        deletes = change.actions[0].kind == "delete"
        form = "DELETE FROM {0} AS a USING … AS b" if deletes else "UPDATE {0} AS a SET … FROM … AS b"
        raise UnsupportedError(
            f"the statement has two tables named {change.alias!r}: write {form.format(target.display)}"
        )


def without_hidden(text: str) -> str:
    """Return the text of an error without the hidden columns that the query adds to tables."""
    return _DANGLING.sub("", _HIDDEN.sub("", text))
