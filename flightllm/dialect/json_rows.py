"""Write PostgreSQL's functions that make rows of JSON texts."""

from collections.abc import Iterator

from flightllm.dialect.functions import DialectCall, read_call
from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit
from flightllm.functions.json_values import written_path
from flightllm.functions.jsonb import AT_PATH, JSONB, TEXT_AT_PATH
from flightllm.functions.variant_objects import OBJECT_NAMES
from flightllm.functions.variants import ELEMENTS, FLATTENED, MEMBERS, VARIANT_JSON, VARIANT_TEXT
from flightllm.sql.arguments import split_arguments
from flightllm.sql.literals import text_literal
from flightllm.sql.names import identifier
from flightllm.sql.scopes import NO_ALIAS, Scope
from flightllm.sql.tokens import TokenKind

_LISTS = {
    **dict.fromkeys(("json_array_elements", "jsonb_array_elements"), MEMBERS),
    **dict.fromkeys(("json_array_elements_text", "jsonb_array_elements_text"), ELEMENTS),
    **dict.fromkeys(("json_object_keys", "jsonb_object_keys"), OBJECT_NAMES),
}
"""The function that makes a list of a JSON text, by the name of the function that makes rows."""
_OBJECTS = {
    "json_each": "json_extract(__e, '$.value')",
    "json_each_text": f"{VARIANT_TEXT}(__e, '$.value')",
    "jsonb_each": f"{AT_PATH}(__e, make_array('value'))",
    "jsonb_each_text": f"{TEXT_AT_PATH}(__e, make_array('value'))",
}
"""The value of a field, by the name of the function that makes rows of an object."""
_RECORDS = {
    **dict.fromkeys(("json_to_recordset", "jsonb_to_recordset"), f"{MEMBERS}({{}})"),
    **dict.fromkeys(("json_to_record", "jsonb_to_record"), "make_array({})"),
}
"""The list of the objects that become rows, by the name of the function."""
_FILLED = {
    **dict.fromkeys(("json_populate_record", "jsonb_populate_record"), "record"),
    **dict.fromkeys(("json_populate_recordset", "jsonb_populate_recordset"), "recordset"),
}
_AS_LIST = "json_object_keys"
"""A function that returns a list outside FROM."""
_OF_JSON = ("json", "jsonb")
NAMES = frozenset({*_LISTS, *_OBJECTS, *_RECORDS, *_FILLED})


def json_rows(source: Source) -> Iterator[Edit]:
    """Rewrite `FROM t, jsonb_array_elements(t.j) e` as `FROM t, unnest(…(t.j)) e(value)`, and similar functions.

    Raises:
        SqlError: a function of objects stands outside FROM, or lacks the names and types of its columns.
    """
    for index, token in enumerate(source.tokens):
        word = token.text.lower()
        called = word in NAMES and token.kind is TokenKind.WORD and index + 1 in source.closing
        if not called or not source.is_symbol(index + 1, "(") or word in source.place.own_functions:
            continue
        in_from = source.scopes.names_table[index]
        call = read_call(source, index)
        if call is not None and word in _FILLED:
            raise call.error(f"write {word.partition('_')[0]}_to_{_FILLED[word]}(j) AS t(a INT, b TEXT) in FROM")
        if call is None or len(call.ranges) != 1 or (word == _AS_LIST and not in_from):
            continue
        if word in _LISTS:
            yield from _list(call, word, in_from=in_from)
        elif not in_from and word in _OBJECTS:
            raise call.error(f"write it in FROM, as in FROM t, {word}(t.j) AS e, and read e.key and e.value")
        elif word in _OBJECTS:
            yield from _object(call, word)
        else:
            yield from _record(call, word, in_from=in_from)


def _list(call: DialectCall, word: str, *, in_from: bool) -> Iterator[Edit]:
    source, binary = call.source, word.startswith("jsonb")
    yield call.opened(f"unnest({_LISTS[word]}({f'{JSONB}(' if binary else ''}")
    closed = ")))" if binary else "))"
    named = _named(call) if in_from else None
    value = word if _LISTS[word] == OBJECT_NAMES else "value"
    if not in_from or source.is_word(call.closing + 1, "with"):
        yield call.closed(closed)
        return
    yield call.closed(closed if named is not None else f"{closed} AS {word}({value})")
    if named is not None and not source.is_symbol(named + 1, "("):
        alias, end = source.tokens[named], source.tokens[named].end
        yield Edit(end, end, f"({source.sql[alias.start : end] if value == word else value})")
        if value != word:
            yield from _whole_rows(source, named)


def _whole_rows(source: Source, named: int) -> Iterator[Edit]:
    """Write the alias of a function as its only column, where it stands for the whole row: `e` as `e.value`."""
    alias = identifier(source.tokens[named])
    for index, token in enumerate(source.tokens):
        bare = index != named and identifier(token) == alias and not source.scopes.names_table[index]
        path = source.is_symbol(index - 1, ".") or source.is_symbol(index + 1, ".") or source.is_symbol(index + 1, "(")
        bare = bare and _is_visible(source, index, named)
        if not bare or path or source.is_word(index - 1, "as") or source.names_column(index):
            continue
        if alias not in _columns_of_tables(source):
            is_item = any((index, index + 1) in select.items for select in source.selects)
            written = source.sql[token.start : token.end]
            yield Edit(token.end, token.end, f".value AS {written}" if is_item else ".value")


def _is_visible(source: Source, index: int, named: int) -> bool:
    """Return whether a name at a token surely means the table whose alias is at another token.

    A query in FROM can have a column of the name.
    """
    name = identifier(source.tokens[named])
    scope: Scope | None = source.scopes.of[index]
    while scope is not None:
        if any(table.alias == name for table in scope.tables):
            return scope is source.scopes.of[named]
        if any(table.subquery for table in scope.tables):
            return False
        scope = scope.parent
    return False


def _columns_of_tables(source: Source) -> set[str]:
    """Return the columns of all tables that a text names."""
    tables = {identifier(token) for index, token in enumerate(source.tokens) if source.scopes.names_table[index]}
    return {column for table in tables if table is not None for column in source.columns_of((table,))}


def _object(call: DialectCall, word: str) -> Iterator[Edit]:
    binary = word.startswith("jsonb")
    lateral = "" if call.source.is_word(call.first - 1, "lateral") else "LATERAL "
    yield call.opened(
        f"{lateral}(SELECT {VARIANT_TEXT}(__e, '$.key') AS key, {_OBJECTS[word]} AS value"
        f" FROM unnest({FLATTENED}({f'{JSONB}(' if binary else ''}"
    )
    shown = "" if _named(call) is not None else f" AS {word}"
    yield call.closed(f"{')' if binary else ''}, '', false, false, 'object')) AS __rows(__e)){shown}")


def _record(call: DialectCall, word: str, *, in_from: bool) -> Iterator[Edit]:
    """Write `jsonb_to_recordset(j) AS t(a INT, b TEXT)` as a query of the fields of each object."""
    source, named = call.source, _named(call) if in_from else None
    listed = named is not None and source.is_symbol(named + 1, "(") and named + 1 in source.closing
    if named is None or not listed:
        raise call.error(f"write it in FROM with its columns, as in FROM {word}(j) AS t(a INT, b TEXT)")
    closing = source.closing[named + 1]
    columns = []
    for first, last in split_arguments(source.tokens, named + 2, closing, source.closing):
        name, kind = identifier(source.tokens[first]), source.text(first + 1, last) if last > first + 1 else ""
        if name is None or not kind or kind.endswith("]"):
            raise call.error(
                "write a name and a type for each column, as in t(a INT, b TEXT); a list has the type JSON"
            )
        columns.append(f"{_field(name, kind, word)} AS {source.text(first, first + 1)}")
    lateral = "" if source.is_word(call.first - 1, "lateral") else "LATERAL "
    before, after = _RECORDS[word].split("{}")
    yield call.opened(f"{lateral}(SELECT {', '.join(columns)} FROM unnest({before}")
    yield call.closed(f"{after}) AS __rows(__e))")
    yield Edit(source.tokens[named + 1].start, source.tokens[closing].end, "")


def _field(name: str, kind: str, word: str) -> str:
    """Return the value of a field of the object `__e` as a type."""
    binary = word.startswith("jsonb")
    path, steps = text_literal(written_path((name,))), f"make_array({text_literal(name)})"
    if kind.lower() in _OF_JSON:
        return f"{AT_PATH}(__e, {steps})" if binary else f"{VARIANT_JSON}(__e, {path})"
    text = f"{TEXT_AT_PATH}(__e, {steps})" if binary else f"{VARIANT_TEXT}(__e, {path})"
    return f"CAST({text} AS {kind})"


def _named(call: DialectCall) -> int | None:
    """Return the token of the alias after a call, or None."""
    source, at = call.source, call.closing + 1
    at += source.is_word(at, "as")
    known = at < len(source.tokens) and source.tokens[at].kind in {TokenKind.WORD, TokenKind.QUOTED}
    return at if known and not source.is_word(at, *NO_ALIAS, "with") else None
