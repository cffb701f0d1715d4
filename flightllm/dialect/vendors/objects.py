"""Read objects and lists in a call's arguments, as each vendor writes them, without changing the values in them."""

from dataclasses import dataclass

from flightllm.dialect.source import Source
from flightllm.functions.base import Entries, Literal
from flightllm.sql.arguments import read_constant, split_arguments
from flightllm.sql.tokens import TokenKind

_OBJECTS = (
    *("object_construct", "object_construct_keep_null", "named_struct", "map", "json_object"),
    *("json_build_object", "jsonb_build_object"),
)
_LISTS = ("array_construct", "array", "json_build_array", "jsonb_build_array", "json_array", "list_value", "make_array")


@dataclass(frozen=True, slots=True)
class Value:
    """The tokens of a value, with its key if it is in an object."""

    first: int
    last: int
    key: str = ""


def members(source: Source, first: int, last: int) -> list[Value] | None:
    """Return the values of an object such as `{'a': 1}`, `OBJECT_CONSTRUCT('a', 1)` or `MAP('a', 1)`; else None."""
    if source.is_symbol(first, "{") and source.closing.get(first) == last - 1:
        return _keyed(source, first, last)
    inner = _called(source, first, last, _OBJECTS)
    if inner is None or len(inner) % 2:
        return None
    found = []
    for key, value in zip(inner[::2], inner[1::2], strict=True):
        name = constant(source, key.first, key.last)
        if not isinstance(name, str):
            return None
        found.append(Value(value.first, value.last, name))
    return found


def elements(source: Source, first: int, last: int) -> list[Value] | None:
    """Return the values of a list such as `['a']`, `ARRAY['a']` or `ARRAY_CONSTRUCT('a')`; else None."""
    bracket = first + source.is_word(first, "array")
    if source.is_symbol(bracket, "[") and source.closing.get(bracket) == last - 1:
        return [Value(*one) for one in split_arguments(source.tokens, bracket + 1, last - 1, source.closing)]
    return _called(source, first, last, _LISTS)


def constant(source: Source, first: int, last: int) -> Literal:
    """Return the constant that tokens form, also after the word JSON or inside PARSE_JSON; else None."""
    if last - first == 2 and source.is_word(first, "json", "jsonb"):
        return constant(source, first + 1, last)
    if source.is_word(first, "parse_json") and source.closing.get(first + 1) == last - 1:
        return constant(source, first + 2, last - 1)
    if (last - first == 4 and source.is_symbol(first + 1, "::")) or (
        last - first == 3 and source.is_symbol(first + 1, "::")
    ):
        return constant(source, first, first + 1)
    if source.is_word(first, "struct") and source.closing.get(first + 1) == last - 1:
        return _struct(source, first, last)
    if source.is_word(first, "json_build_object", "jsonb_build_object"):
        return _built(source, first, last)
    found = read_constant(source.tokens[first:last])
    return None if found is None else found.value


def _built(source: Source, first: int, last: int) -> Entries | None:
    """Return the values of `jsonb_build_object('seed', 1)`; None where one is not constant."""
    found = [(one.key, constant(source, one.first, one.last)) for one in members(source, first, last) or ()]
    return Entries(tuple(found)) if found and all(value is not None for _, value in found) else None


def _struct(source: Source, first: int, last: int) -> Entries | None:
    """Return the values by the names of BigQuery's `STRUCT(0.2 AS temperature)`; None where a value has no name."""
    found = list[tuple[str, Literal]]()
    for start, end in split_arguments(source.tokens, first + 2, last - 1, source.closing):
        if end - start < 3 or not source.is_word(end - 2, "as"):
            return None
        found.append((source.tokens[end - 1].text.lower(), constant(source, start, end - 2)))
    return Entries(tuple(found))


def _keyed(source: Source, first: int, last: int) -> list[Value] | None:
    found = []
    for start, end in split_arguments(source.tokens, first + 1, last - 1, source.closing):
        is_key = end - start > 2 and source.is_symbol(start + 1, ":")
        if not is_key or source.tokens[start].kind is TokenKind.SYMBOL:
            return None
        found.append(Value(start + 2, end, source.tokens[start].text))
    return found


def _called(source: Source, first: int, last: int, names: tuple[str, ...]) -> list[Value] | None:
    """Return the arguments of a call of one of the functions."""
    if not source.is_word(first, *names) or source.closing.get(first + 1) != last - 1:
        return None
    return [Value(*one) for one in split_arguments(source.tokens, first + 2, last - 1, source.closing)]
