"""Names of attached tables in texts: `crm.public.t` and `crm.t` become `"crm.public".t`.

The catalog has the tables of a source's schema in one schema of its own, whose name has a dot. So all later steps know
names of two parts only.
"""

from collections.abc import Iterator, Mapping, Sequence

from flightllm.access.rights import Rights
from flightllm.attached.database import AttachedDatabase
from flightllm.catalog.attached import is_of, refresh, schema_of
from flightllm.catalog.entries import Entry
from flightllm.catalog.store import TableStore
from flightllm.common.names import TableName
from flightllm.errors import InvalidInputError, UnsupportedError
from flightllm.sql.names import identifier, read_parts
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.tokens import Token, TokenKind

_BEFORE_TABLES = ("from", "join", "into", "table", "update", "describe", "desc", "summarize", "exists")
_OF_TABLES = ("grant", "revoke")
_BEFORE_SCHEMAS = ("schema", "use")
_BACKTICKS = frozenset({"databricks", "spark"})
"""Dialects in which double quotes can be around a text."""
_DOTTED = frozenset({"bigquery"})
"""Dialects that divide a name in quotes at its dots."""


def known_to(rights: Rights, databases: Mapping[str, AttachedDatabase]) -> Mapping[str, AttachedDatabase]:
    """Return the databases that a principal can know of: all for an admin, else those with a grant to the principal."""
    if rights.unlimited or not databases:
        return databases
    granted = {schema for _, _, schema, _ in rights.grants}
    return {name: one for name, one in databases.items() if any(is_of(name, schema) for schema in granted)}


def with_attached_names(sql: str, store: TableStore, rights: Rights, dialect: str) -> str:
    """Return a text in which each name of an attached table has two parts; another text is the same object.

    The tables of the databases that the text names are read from their sources, where they are due.

    Raises:
        InvalidInputError: the text names a table of a database whose tables could not be read.
        UnsupportedError: the dialect has no name for an attached table.
        SqlError: the text cannot be split into tokens.
    """
    databases = store.attached.all
    if not databases:
        return sql
    text = ParsedText(sql)
    named = {name: one for name, one in databases.items() if name in text.mentions}
    known = known_to(rights, named)
    if not known:
        return sql
    refresh(store, frozenset(known))
    quote = "`" if dialect in _BACKTICKS else '"'
    found = list(_Names(text.tokens, known, store.entries, dialect).found())
    if found and dialect in _DOTTED:
        raise UnsupportedError(
            f"the dialect {dialect} divides names at dots, so it cannot name a table of the attached database"
            f" {sql[found[0][0] : found[0][1]]}: make a view of the table in the dialect default, and read the view"
        )
    for start, end, schema in reversed(found):
        sql = f"{sql[:start]}{quote}{schema}{quote}{sql[end:]}"
    return sql


class _Names:
    """The names in the tokens of a text."""

    def __init__(
        self,
        tokens: Sequence[Token],
        databases: Mapping[str, AttachedDatabase],
        entries: Mapping[TableName, Entry],
        dialect: str,
    ) -> None:
        self._tokens, self._databases, self._entries = tokens, databases, entries
        self._dotted = dialect in _DOTTED
        alone = (
            identifier(token)
            for before, token, after in zip([None, *tokens], tokens, [*tokens[1:], None], strict=False)
            if not any(one is not None and one.is_symbol(".") for one in (before, after))
        )
        self._aliases = frozenset(databases).intersection(alone)
        """The names of databases that the text also uses as names of one part, such as an alias."""

    def found(self) -> Iterator[tuple[int, int, str]]:
        """Yield the begin and end of the text to replace, and the schema to write there."""
        place = 0
        while place < len(self._tokens):
            parts, after = read_parts(self._tokens, place)
            if not parts:
                place += 1
                continue
            follows_dot = place > 0 and self._tokens[place - 1].is_symbol(".")
            first = self._tokens[place]
            inner = tuple(first.text.split("."))
            if self._dotted and len(parts) == 1 and first.kind is TokenKind.QUOTED and inner[0] in self._databases:
                schema, taken = self._schema(place, inner)
                if taken:
                    yield first.start, first.end, schema
            elif parts[0] in self._databases and not follows_dot:
                schema, taken = self._schema(place, parts)
                if taken:
                    last = self._tokens[place + 2 * (taken - 1)]
                    yield first.start, last.end, schema
            place = max(after, place + 1)

    def _schema(self, place: int, parts: tuple[str, ...]) -> tuple[str, int]:
        """Return the schema that a name means, and how many parts it takes; 0 parts for another name."""
        database = self._databases[parts[0]]
        default = schema_of(database.name, database.default_schema)
        of_schema = self._is_schema(place)
        if of_schema:
            if len(parts) > 2:
                return "", 0
            return (schema_of(*parts), 2) if len(parts) == 2 else (default, 1)
        if len(parts) == 1:
            return "", 0
        is_table, is_alias = self._is_table(place), parts[0] in self._aliases
        if len(parts) > 2 and (is_table or TableName(schema_of(*parts[:2]), parts[2]) in self._entries):
            self._check(database)
            return schema_of(*parts[:2]), 2
        is_there = TableName(default, parts[1]) in self._entries
        if (is_table and (is_there or not is_alias)) or (is_there and not is_alias):
            self._check(database)
            return default, 1
        return "", 0

    def _check(self, database: AttachedDatabase) -> None:
        if not database.read and database.problem:
            raise InvalidInputError(database.problem)

    def _is_schema(self, place: int) -> bool:
        if place == 0:
            return False
        before = self._tokens[place - 1]
        if before.is_word(*_BEFORE_SCHEMAS):
            return True
        if self._tokens[0].is_word("set") and any(token.is_word("search_path") for token in self._tokens[1:3]):
            return True
        lists = self._tokens[0].is_word("show") and any(token.is_word("tables", "views") for token in self._tokens[1:3])
        return lists and before.is_word("from", "in")

    def _is_table(self, place: int) -> bool:
        before = self._tokens[place - 1] if place else None
        if before is None or before.kind is not TokenKind.WORD:
            return False
        if before.is_word("on"):
            return self._tokens[0].is_word(*_OF_TABLES) or self._tokens[0].is_word("create", "drop")
        return before.is_word(*_BEFORE_TABLES)
