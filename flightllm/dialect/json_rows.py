"""Write PostgreSQL's functions that make rows of JSON texts."""

from collections.abc import Iterator

from flightllm.dialect.functions import DialectCall, read_call
from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit
from flightllm.functions.variants import ELEMENTS, FLATTENED, MEMBERS, VARIANT_TEXT
from flightllm.sql.scopes import NO_ALIAS
from flightllm.sql.tokens import TokenKind

_LISTS = {
    **dict.fromkeys(("json_array_elements", "jsonb_array_elements"), MEMBERS),
    **dict.fromkeys(("json_array_elements_text", "jsonb_array_elements_text"), ELEMENTS),
}
"""The function that makes a list of a JSON text, by the name of the function that makes rows."""
_OBJECTS = {
    **dict.fromkeys(("json_each", "jsonb_each"), "json_extract"),
    **dict.fromkeys(("json_each_text", "jsonb_each_text"), VARIANT_TEXT),
}
NAMES = frozenset({*_LISTS, *_OBJECTS})


def json_rows(source: Source) -> Iterator[Edit]:
    """Rewrite `FROM t, jsonb_array_elements(t.j) e` as `FROM t, unnest(…(t.j)) e(value)`, and `jsonb_each` likewise."""
    for index, token in enumerate(source.tokens):
        word = token.text.lower()
        called = word in NAMES and token.kind is TokenKind.WORD and index + 1 in source.closing
        if not called or not source.is_symbol(index + 1, "(") or word in source.place.own_functions:
            continue
        in_from = source.scopes.names_table[index]
        call = read_call(source, index)
        if call is None or len(call.ranges) != 1 or not (in_from or word in _LISTS):
            continue
        if word in _LISTS:
            yield call.opened(f"unnest({_LISTS[word]}(")
            named = _named(call) if in_from else None
            yield call.closed("))" if named is not None or not in_from else f")) AS {word}(value)")
            if named is not None and not source.is_symbol(named + 1, "("):
                end = source.tokens[named].end
                yield Edit(end, end, "(value)")
        else:
            lateral = "" if source.is_word(index - 1, "lateral") else "LATERAL "
            yield call.opened(
                f"{lateral}(SELECT {VARIANT_TEXT}(__e, '$.key') AS key, {_OBJECTS[word]}(__e, '$.value') AS value"
                f" FROM unnest({FLATTENED}("
            )
            shown = "" if _named(call) is not None else f" AS {word}"
            yield call.closed(f", '', false, false, 'object')) AS __rows(__e)){shown}")


def _named(call: DialectCall) -> int | None:
    """Return the token of the alias after a call, or None."""
    source, at = call.source, call.closing + 1
    at += source.is_word(at, "as")
    known = at < len(source.tokens) and source.tokens[at].kind in {TokenKind.WORD, TokenKind.QUOTED}
    return at if known and not source.is_word(at, *NO_ALIAS, "with") else None
