"""Replace functions that report a client's user, schema or server by constants of its session."""

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet

from flightllm.common.names import TableName, quoted
from flightllm.dialect.source import NameContext, Source
from flightllm.dialect.text import Edit
from flightllm.errors import UnsupportedError
from flightllm.sql.literals import text_literal
from flightllm.sql.scopes import Scope
from flightllm.sql.tokens import TokenKind

_Value = Callable[[NameContext], str]
_CALLED: Mapping[str, _Value] = {
    "current_schema": lambda place: text_literal(place.path[0]),
    "current_database": lambda place: text_literal(place.catalog),
    "current_catalog": lambda place: text_literal(place.catalog),
    "current_user": lambda place: text_literal(place.user),
    "session_user": lambda place: text_literal(place.user),
    "system_user": lambda place: text_literal(place.user),
    "user": lambda place: text_literal(place.user),
    "current_role": lambda place: text_literal(place.user),
    "version": lambda place: text_literal(place.version),
    "pg_advisory_unlock_all": lambda _place: "NULL",
    "current_schemas": lambda place: f"make_array({', '.join(map(text_literal, place.path))})",
}
NAMES = frozenset(_CALLED)
_BARE = ("current_schema", "current_catalog", "current_user", "session_user", "current_role", "user")
"""Functions that SQL writes without parentheses. USER is also a common column name: it counts only without FROM."""
_STATEMENTS = ("select", "with", "values", "explain", "insert", "update", "delete", "merge", "summarize", "describe")


def identity(source: Source) -> Iterator[Edit]:
    """Rewrite `SELECT current_schema()` as `SELECT 'public' AS "current_schema"`.

    Raises:
        UnsupportedError: a view would keep the value of this session.
    """
    made = next((i for i in range(1, 5) if source.is_word(i, "view", "table")), 0) if source.is_word(0, "create") else 0
    opening = source.is_symbol(0, "(")
    if not (opening or source.is_word(0, *_STATEMENTS) or made):
        return
    items = frozenset(item for select in source.selects for item in select.items)
    for index, last in _calls(source, items):
        name = source.tokens[index].text.lower()
        if made and source.is_word(made, "view") and name != "version":
            raise UnsupportedError(
                f"{name} in a view is not supported, because the view would keep your own value: write it in queries of"
                " the view, or put a row filter on a table"
            )
        value = _CALLED[name](source.place)
        named = f" AS {quoted(name)}" if (index, last) in items else ""
        yield Edit(source.tokens[index].start, source.tokens[last - 1].end, value + named)


def _calls(source: Source, items: AbstractSet[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the token ranges of calls of these functions; `items` are the token ranges of the items of SELECTs."""
    aliases = {token.text.lower() for index, token in enumerate(source.tokens) if source.is_word(index - 1, "as")}
    columns = dict[tuple[int, str], bool]()
    """Whether a name can be a column in a scope."""
    for index, token in enumerate(source.tokens):
        if token.kind is not TokenKind.WORD or token.text.lower() not in _CALLED or source.is_symbol(index - 1, "."):
            continue
        name, called = token.text.lower(), source.is_symbol(index + 1, "(")
        end = source.closing.get(index + 1, index + 1) + 1 if called else index + 1
        if called:
            fits = (end == index + 3) == (name != "current_schemas")
        else:
            named = source.is_symbol(end, ".") or source.is_symbol(end, "=>")
            fits = name in _BARE and not named and name not in aliases and (name != "user" or (index, end) in items)
            scope = source.scopes.of[index]
            if fits and (id(scope), name) not in columns:
                columns[id(scope), name] = _may_be_column(source, scope, name)
            fits = fits and not columns[id(scope), name]
        if fits and source.begins_expression(index):
            yield index, end


def _may_be_column(source: Source, scope: Scope | None, name: str) -> bool:
    """Return whether a bare name can be a column of a table in scope, or of a subquery or WITH query."""
    while scope is not None:
        for table in scope.tables:
            if name == "user" or table.columns is not None:
                return True
            if table.parts and source.scopes.common_table(table.parts, table.first) is None:
                schema = table.parts[-2:-1]
                known = TableName(schema[0], table.parts[-1]) if schema else source.place.found(table.parts[-1])
                if name in source.place.columns_of(known):
                    return True
        scope = scope.parent
    return False
