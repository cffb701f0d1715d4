"""PostgreSQL's functions of JSON values: a `jsonb` is a JSON text in one form, and NULL stays NULL."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, NoReturn

import pyarrow as pa

from flightllm.errors import SqlError
from flightllm.functions.exact_decimals import shortest
from flightllm.functions.own import OwnFunction
from flightllm.functions.rows import TEXTS, each_row
from flightllm.functions.value_texts import number_text

JSONB, JSON = "__jsonb", "__json"
"""The names in SQL of the casts of a text to jsonb and to json."""
AT_PATH, TEXT_AT_PATH = "__json_at", "__json_text_at"
"""The names in SQL of the functions that read the value at a list of steps."""
CONTAINS, HAS, MERGED, WITHOUT, SET_AT = (
    "__json_contains",
    "__json_has",
    "__json_merged",
    "__json_without",
    "__json_set",
)
STRIPPED, PRETTY, KIND, BUILT, BUILT_LIST = (
    "__json_stripped",
    "__json_pretty",
    "__json_kind",
    "__json_built",
    "__json_list_built",
)
SAME: Final = "__json_same"
"""The name in SQL of the form of a JSON value that is equal for equal values."""
POSTGRES_JSON: Final = "__json_value"
"""The name in SQL of the JSON of a value, as PostgreSQL writes it."""
_TIME: Final = re.compile(r"(.*\d\d:\d\d:\d\d)(?:(\.\d*?)0*)?(Z|[+-]\d\d(?::\d\d)?)?")
"""A time, the fraction of its second without zeros at the end, and its zone."""
_MOST_DIGITS: Final = 20_000
"""The greatest exponent of a number: its digits are written out."""


def jsonbs(texts: pa.Array) -> pa.Array:
    """Return JSON texts as jsonb: keys in order without duplicates, one space after `:` and `,`.

    Raises:
        SqlError: a text is not JSON.
    """
    return each_row(_jsonb, texts)


def same_numbers(texts: pa.Array) -> pa.Array:
    """Return JSON texts as jsonb, and numbers without zeros at their end: 1.0 is equal to 1.

    Raises:
        SqlError: a text is not JSON.
    """
    return each_row(lambda text: _written(_shortest(_read(text))), texts)


def jsons(texts: pa.Array) -> pa.Array:
    """Return JSON texts as they are.

    Raises:
        SqlError: a text is not JSON.
    """
    for text in texts.to_pylist():
        if text is not None:
            _read(text)
    return texts


def at_path(texts: pa.Array, paths: pa.Array) -> pa.Array:
    """Return the JSON at a list of names and places; NULL where it has no value."""
    return each_row(lambda text, steps: _found(text, steps, _written), texts, paths)


def text_at_path(texts: pa.Array, paths: pa.Array) -> pa.Array:
    """Return the value at a list of names and places as text; NULL where it has no value, and for null."""
    return each_row(lambda text, steps: _found(text, steps, _as_text), texts, paths)


def contains(texts: pa.Array, parts: pa.Array) -> pa.Array:
    """Return whether a JSON value contains another one, as `@>` does."""

    def found(text: str, part: str) -> bool:
        value, wanted = _read(text), _read(part)
        inside = isinstance(value, list) and not isinstance(wanted, dict | list)
        return _contains(value, [wanted] if inside else wanted)

    return each_row(found, texts, parts, kind=pa.bool_())


def has(texts: pa.Array, keys: pa.Array, every: pa.Array) -> pa.Array:
    """Return whether a JSON value has one or all of some keys, or of some elements that are texts."""

    def found(text: str, names: Sequence[str | None], all_of_them: bool) -> bool:  # noqa: FBT001 - a row's value
        value = _read(text)
        known = set(value) if isinstance(value, dict) else {one for one in _items(value) if isinstance(one, str)}
        tests = [name in known for name in names if name is not None]
        return all(tests) if all_of_them else any(tests)

    return each_row(found, texts, keys, every, kind=pa.bool_())


def merged(texts: pa.Array, others: pa.Array) -> pa.Array:
    """Return two JSON values in one, as `||` of jsonb does."""
    return each_row(lambda text, other: _written(_merged(_read(text), _read(other))), texts, others)


def without(texts: pa.Array, keys: pa.Array, styles: pa.Array) -> pa.Array:
    """Return JSON values without some keys, without the element at a place, or without the value at a path.

    Raises:
        SqlError: a value has no keys or places.
    """
    ways: Mapping[str, Callable[[Any, Sequence[str]], Any]] = {
        "keys": _without_keys,
        "place": _without_place,
        "path": _without_path,
    }
    return each_row(lambda text, names, style: _written(ways[style](_read(text), names)), texts, keys, styles)


def set_at(texts: pa.Array, paths: pa.Array, values: pa.Array, create: pa.Array) -> pa.Array:
    """Return JSON values with another value at a path, as `jsonb_set` does."""
    return each_row(
        lambda text, path, value, new: _written(_set(_read(text), path, _read(value), new=new)),
        texts,
        paths,
        values,
        create,
    )


def stripped(texts: pa.Array) -> pa.Array:
    """Return JSON values without the fields that are null."""
    return each_row(lambda text: _written(_stripped(_read(text))), texts)


def pretty(texts: pa.Array) -> pa.Array:
    """Return JSON values over several lines."""
    return each_row(lambda text: _pretty(_ordered(_read(text)), 0), texts)


def kinds(texts: pa.Array) -> pa.Array:
    """Return the type of each JSON value: object, array, string, number, boolean or null."""
    return each_row(lambda text: _kind(_read(text)), texts)


def built(names: pa.Array, values: pa.Array, styles: pa.Array) -> pa.Array:
    """Return JSON objects of names and JSON texts with PostgreSQL's spaces: `{"a" : 1}`, or `{ "a" : 1 }` in `wide`.

    Raises:
        SqlError: a name is NULL.
    """

    def made(keys: Sequence[str | None], parts: Sequence[str | None], style: str) -> str:
        if None in keys:
            raise SqlError("a name in a JSON object is NULL: write coalesce(name, '')")
        fields = ", ".join(f"{_quoted(str(key))} : {part or 'null'}" for key, part in zip(keys, parts, strict=True))
        return f"{{ {fields} }}" if style == "wide" else f"{{{fields}}}"

    return each_row(made, names, values, styles)


def built_lists(values: pa.Array) -> pa.Array:
    """Return JSON lists of JSON texts, with a space after each comma."""
    return each_row(lambda parts: f"[{', '.join(one or 'null' for one in parts)}]", values)


def postgres_json(texts: pa.Array, types: pa.Array) -> pa.Array:
    """Return the JSON of values by PostgreSQL's texts of them and the names of their types.

    Raises:
        SqlError: a value is a list, a struct or a map of an unknown type.
    """
    return each_row(_value, texts, types)


@lru_cache(maxsize=512)
def _jsonb(text: str) -> str:
    return _written(_read(text))


def _read(text: str) -> Any:
    """Return a JSON value, whose numbers are decimals.

    Raises:
        SqlError: the text is not JSON.
    """
    try:
        return json.loads(text, parse_float=_number, parse_int=_number, parse_constant=_constant)
    except (ValueError, RecursionError) as error:
        raise SqlError(
            f"the text {text[:60]!r} is not JSON: for NULL in its place, write TRY_PARSE_JSON(text) in the dialect"
            " snowflake, or test it by json_valid(text)"
        ) from error


def _number(digits: str) -> Decimal:
    number = Decimal(digits)
    if abs(number.adjusted()) > _MOST_DIGITS:
        raise ValueError(digits)
    return number


def _constant(name: str) -> NoReturn:
    raise ValueError(name)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _written(value: Any) -> str:
    """Return a value as jsonb writes it."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_quoted(name)}: {_written(one)}' for name, one in _sorted(value))}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    if isinstance(value, Decimal):
        text = format(value, "f")
        return text if value else text.removeprefix("-")
    return _quoted(value) if isinstance(value, str) else json.dumps(value)


def _sorted(value: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return fields in the order of jsonb: shorter names first."""
    return sorted(value.items(), key=lambda field: (len(field[0].encode()), field[0].encode()))


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _ordered(one) for name, one in _sorted(value)}
    return [_ordered(one) for one in value] if isinstance(value, list) else value


def _shortest(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _shortest(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_shortest(one) for one in value]
    return shortest(value) if isinstance(value, Decimal) else value


def _as_text(value: Any) -> str | None:
    if value is None:
        return None
    return value if isinstance(value, str) else _written(value)


def _found(text: str, steps: Sequence[str | None], written: Callable[[Any], str | None]) -> str | None:
    value = _read(text)
    for step in steps:
        if step is None:
            return None
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and (place := _place(step, value)) is not None:
            value = value[place]
        else:
            return None
    return written(value)


def _place(step: str, items: Sequence[Any]) -> int | None:
    """Return the place from 0 in a list that a step names; None for a place that the list does not have."""
    digits = step.strip().removeprefix("-")
    if not digits.isdecimal():
        return None
    place = int(step)
    place += len(items) if place < 0 else 0
    return place if 0 <= place < len(items) else None


def _items(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else [value]


def _contains(value: Any, part: Any) -> bool:
    if isinstance(part, dict):
        return isinstance(value, dict) and all(key in value and _contains(value[key], part[key]) for key in part)
    if isinstance(part, list):
        return isinstance(value, list) and all(any(_contains(one, wanted) for one in value) for wanted in part)
    return _equal(value, part)


def _equal(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def _merged(value: Any, other: Any) -> Any:
    if isinstance(value, dict) and isinstance(other, dict):
        return {**value, **other}
    return [*_items(value), *_items(other)]


def _without_keys(value: Any, names: Sequence[str]) -> Any:
    if isinstance(value, dict):
        return {name: one for name, one in value.items() if name not in names}
    if not isinstance(value, list):
        raise SqlError("a JSON value without keys or elements has nothing to delete: test it by jsonb_typeof(value)")
    return [one for one in value if not (isinstance(one, str) and one in names)]


def _without_place(value: Any, places: Sequence[str]) -> Any:
    if not isinstance(value, list):
        raise SqlError("a place can be deleted from a JSON list only: write value - 'name' for an object")
    place = _place(places[0], value)
    return value if place is None else [*value[:place], *value[place + 1 :]]


def _without_path(value: Any, path: Sequence[str]) -> Any:
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(value, dict) and step in value:
        if rest:
            return {**value, step: _without_path(value[step], rest)}
        return _without_keys(value, [step])
    place = _place(step, value) if isinstance(value, list) else None
    if place is None:
        return value
    if not rest:
        return [*value[:place], *value[place + 1 :]]
    return [*value[:place], _without_path(value[place], rest), *value[place + 1 :]]


def _set(value: Any, path: Sequence[str], new_value: Any, *, new: bool) -> Any:
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(value, dict):
        if step in value:
            return {**value, step: _set(value[step], rest, new_value, new=new) if rest else new_value}
        return {**value, step: new_value} if new and not rest else value
    if not isinstance(value, list):
        return value
    place = _place(step, value)
    if place is not None:
        changed = _set(value[place], rest, new_value, new=new) if rest else new_value
        return [*value[:place], changed, *value[place + 1 :]]
    if not step.strip().removeprefix("-").isdecimal():
        raise SqlError(f"the path element {step[:40]!r} does not name a place in a JSON list: write a number from 0")
    if rest or not new:
        return value
    return [new_value, *value] if step.strip().startswith("-") else [*value, new_value]


def _stripped(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _stripped(one) for name, one in value.items() if one is not None}
    return [_stripped(one) for one in value] if isinstance(value, list) else value


def _pretty(value: Any, depth: int) -> str:
    inner, outer = "    " * (depth + 1), "    " * depth
    if isinstance(value, dict):
        fields = [f"{inner}{_quoted(name)}: {_pretty(one, depth + 1)}" for name, one in value.items()]
        return "{\n" + ",\n".join(fields) + f"\n{outer}}}"
    if isinstance(value, list):
        return "[\n" + ",\n".join(f"{inner}{_pretty(one, depth + 1)}" for one in value) + f"\n{outer}]"
    return _scalar(value)


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    names = {dict: "object", list: "array", str: "string", bool: "boolean"}
    return names.get(type(value), "number")


def _value(text: str, kind: str) -> str:
    if kind.startswith(("List", "LargeList", "FixedSizeList", "Struct", "Map", "Union")):
        raise SqlError(
            "a list, a struct or a map of an unknown type has no JSON here: build it by json_array(a, b) and"
            " json_object('name', a)"
        )
    if kind.startswith(("Interval", "Duration", "Binary", "LargeBinary")):
        raise SqlError(f"a value of type {kind} has no JSON here: write CAST(value AS VARCHAR)")
    if kind.startswith("Float"):
        number = number_text(float(text))
        return number if number.lstrip("-")[:1].isdigit() else _quoted(number)
    if kind == "Boolean" or kind.startswith(("Int", "UInt", "Decimal")):
        return text
    if kind.startswith(("Timestamp", "Time")) and (parts := _TIME.fullmatch(text)) is not None:
        fraction, zone = parts[2] or "", parts[3] or ""
        zone = "+00:00" if zone == "Z" else f"{zone}:00" if len(zone) == 3 else zone
        text = f"{parts[1].replace(' ', 'T', 1)}{'' if fraction == '.' else fraction}{zone}"
    return _quoted(text)


FUNCTIONS: Final = (
    OwnFunction(same_numbers, (pa.string(),), pa.string(), SAME),
    OwnFunction(jsonbs, (pa.string(),), pa.string(), JSONB),
    OwnFunction(jsons, (pa.string(),), pa.string(), JSON),
    OwnFunction(at_path, (pa.string(), TEXTS), pa.string(), AT_PATH),
    OwnFunction(text_at_path, (pa.string(), TEXTS), pa.string(), TEXT_AT_PATH),
    OwnFunction(contains, (pa.string(), pa.string()), pa.bool_(), CONTAINS),
    OwnFunction(has, (pa.string(), TEXTS, pa.bool_()), pa.bool_(), HAS),
    OwnFunction(merged, (pa.string(), pa.string()), pa.string(), MERGED),
    OwnFunction(without, (pa.string(), TEXTS, pa.string()), pa.string(), WITHOUT),
    OwnFunction(set_at, (pa.string(), TEXTS, pa.string(), pa.bool_()), pa.string(), SET_AT),
    OwnFunction(stripped, (pa.string(),), pa.string(), STRIPPED),
    OwnFunction(pretty, (pa.string(),), pa.string(), PRETTY),
    OwnFunction(kinds, (pa.string(),), pa.string(), KIND),
    OwnFunction(built, (TEXTS, TEXTS, pa.string()), pa.string(), BUILT),
    OwnFunction(built_lists, (TEXTS,), pa.string(), BUILT_LIST),
    OwnFunction(postgres_json, (pa.string(), pa.string()), pa.string(), POSTGRES_JSON),
)
NAMES: Final = tuple(function.name for function in FUNCTIONS)
