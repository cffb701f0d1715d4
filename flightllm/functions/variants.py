"""Read values in JSON texts as other vendors do: text has no quotes, and null is NULL."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec
import pyarrow as pa

from flightllm.errors import SqlError
from flightllm.functions.json_values import Step, as_json, as_text, at_paths, is_json, read_path, value_at
from flightllm.functions.own import OwnFunction
from flightllm.functions.rows import TEXTS

VARIANT_TEXT, VARIANT_JSON = "__variant_text", "__variant_json"
"""The names in SQL of the functions that read the value at a path, as text and as JSON."""
ELEMENTS, MEMBERS, FLATTENED = "__variant_elements", "__variant_members", "__variant_flattened"
"""The names in SQL of the functions that make lists of the values in a JSON text."""
PARSED_JSON: Final = "__parsed_json"
"""The name in SQL of the function that checks that a text is JSON."""
SCALARS: Final = "__variant_scalars"
"""The name in SQL of the function that makes a list of a JSON list without inner lists and objects."""
OF_LIST: Final = "__variant_of_list"
"""The name in SQL of the function that writes a list of texts as JSON."""
WITHOUT_THIS: Final = " without this"
"""The end of a mode of FLATTEN, before `OF_TYPED`, if nobody reads the column `this`."""
OF_TYPED: Final = " of a typed value"
"""The end of a mode of FLATTEN for a list or a struct: its null is NULL."""
_BEGINS: Final = frozenset({"{", "[", '"'})
"""The first letters of JSON values that no plain answer has."""
_ANSWERS: Final = frozenset(
    {
        *(("labels", 0), ("labels",), ("label",), ("category",), ("categories", 0, "sentiment"), ("response",)),
        *(("choices", 0, "messages"), ("choices", 0, "message"), ("choices", 0, "message", "content"), ("result",)),
    }
)
"""The paths of vendors to an answer: functions here return the answer itself."""


def variant_texts(texts: pa.Array, paths: pa.Array) -> pa.Array:
    """Return the value at each row's path as text. An answer that is not JSON is its own value."""
    rows = zip(texts.to_pylist(), paths.to_pylist(), at_paths(texts, paths, as_text), strict=True)
    return pa.array([answer(text, path) if value is None else value for text, path, value in rows], pa.string())


def variant_jsons(texts: pa.Array, paths: pa.Array) -> pa.Array:
    """Return the JSON text of the value at each row's path; NULL for null."""
    values = at_paths(texts, paths, _not_null)
    rows = zip(texts.to_pylist(), paths.to_pylist(), values, strict=True)
    return pa.array([answer(text, path) if value is None else value for text, path, value in rows], pa.string())


def elements(texts: pa.Array) -> pa.Array:
    """Return the elements of each JSON list as texts; NULL for a text that is not a list."""
    return pa.array((_elements(text, as_text) for text in texts.to_pylist()), TEXTS)


def parsed_jsons(texts: pa.Array, strict: pa.Array) -> pa.Array:
    """Return JSON texts as they are. Without `strict`, an answer passes: a text that does not begin as JSON does.

    Raises:
        SqlError: a text is not JSON.
    """
    rows = zip(texts.to_pylist(), strict.to_pylist(), strict=True)
    if any(
        text is not None and (all_ or text.lstrip()[:1] in _BEGINS) and not is_json(text.encode())
        for text, all_ in rows
    ):
        raise SqlError(
            "PARSE_JSON needs JSON, and the text of a row is not JSON: write TRY_PARSE_JSON(text), or in bigquery"
            " SAFE.PARSE_JSON(text), for NULL"
        )
    return texts


def scalars(texts: pa.Array) -> pa.Array:
    """Return the elements of each JSON list as texts; NULL for a list with a list or an object in it."""
    return pa.array((_scalars(text) for text in texts.to_pylist()), TEXTS)


def members(texts: pa.Array) -> pa.Array:
    """Return the elements of each JSON list as JSON texts; NULL for a text that is not a list."""
    return pa.array((_elements(text, as_json) for text in texts.to_pylist()), TEXTS)


def flattened(texts: pa.Array, paths: pa.Array, outer: pa.Array, recursive: pa.Array, modes: pa.Array) -> pa.Array:
    """Return the rows of FLATTEN as JSON objects with key, path, index, value and this.

    `modes` are `object`, `array` or `both`. With `outer`, a text without values has one row without values. A mode that
    ends with `WITHOUT_THIS` leaves out `this`, because 10,000 copies of a list of 10,000 items need a gigabyte.
    """
    columns = (texts, paths, outer, recursive, modes)
    return pa.array((_rows(*row) for row in zip(*(one.to_pylist() for one in columns), strict=True)), TEXTS)


def of_lists(lists: pa.Array) -> pa.Array:
    """Return each list of texts as a JSON list of strings; NULL in a list becomes null."""
    written = (None if one is None else msgspec.json.encode(one).decode() for one in lists.to_pylist())
    return pa.array(written, pa.string())


def answer(text: str | None, path: str | None) -> str | None:
    """Return a text itself if the path leads to an answer, and the text is not an object or a list; else None.

    A label is a list of one label at the path `labels`.
    """
    if text is None or path is None or text.lstrip()[:1] in {"{", "["}:
        return None
    steps = tuple(step.lower() if isinstance(step, str) else step for step in read_path(path))
    if steps == ("labels",):
        return msgspec.json.encode([text]).decode()
    return text if steps in _ANSWERS else None


def _not_null(value: bytes) -> str | None:
    return None if value == b"null" else as_json(value)


def _elements(text: str | None, read: Callable[[bytes], str | None]) -> list[str | None] | None:
    if text is None:
        return None
    try:
        found = msgspec.json.decode(text, type=list[msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        return None
    return [read(bytes(one).strip()) for one in found]


def _scalars(text: str | None) -> list[str | None] | None:
    found = _elements(text, as_json)
    nested = any(one is not None and one[:1] in {"{", "["} for one in found or ())
    return None if found is None or nested else _elements(text, as_text)


def _rows(text: str | None, path: str | None, outer: bool | None, recursive: bool | None, mode: str) -> list[str]:  # noqa: FBT001 - one row
    steps = read_path(path) if path else ()
    value = None if text is None else value_at(text, steps)
    if value is None and steps and (labels := answer(text, path)) is not None:
        value = value_at(labels, ())
    found = [] if value is None else list(_below(value, steps, recursive=bool(recursive), mode=mode))
    return found or (["{}"] if outer else [])


def _below(value: bytes, steps: Sequence[Step], *, recursive: bool, mode: str) -> Iterator[str]:
    """Yield the values directly inside an object or a list, and with `recursive` those inside these.

    A row of a null in a typed value has no field `value`, so that it is NULL.
    """
    typed, alone = mode.endswith(OF_TYPED), WITHOUT_THIS in mode
    plain = mode.removesuffix(OF_TYPED).removesuffix(WITHOUT_THIS).lower()
    end = b"}" if alone else b',"this":' + value + b"}"
    inner: list[tuple[Step, bytes]] = []
    if value[:1] == b"{":
        inner = [
            (key, bytes(one).strip()) for key, one in msgspec.json.decode(value, type=dict[str, msgspec.Raw]).items()
        ]
    elif value[:1] == b"[":
        inner = [(at, bytes(one).strip()) for at, one in enumerate(msgspec.json.decode(value, type=list[msgspec.Raw]))]
    for step, one in inner:
        named = isinstance(step, str)
        if plain == "both" or (plain == "object") == named:
            row = {"key": step if named else None, "index": None if named else step, "path": _shown([*steps, step])}
            fixed = msgspec.json.encode(row)[:-1]
            shown = b"" if typed and one == b"null" else b',"value":' + one
            yield (fixed + shown + end).decode()
        if recursive:
            yield from _below(one, [*steps, step], recursive=True, mode=mode)


def _shown(steps: Sequence[Step]) -> str:
    """Return a path as FLATTEN shows it: `a.b[0]`, and `['a b']` for a name that is not a plain one."""
    text = ""
    for step in steps:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step.isidentifier():
            text += f".{step}" if text else step
        else:
            text += f"['{step}']"
    return text


FUNCTIONS: Final = (
    OwnFunction(variant_texts, (pa.string(), pa.string()), pa.string(), VARIANT_TEXT),
    OwnFunction(variant_jsons, (pa.string(), pa.string()), pa.string(), VARIANT_JSON),
    OwnFunction(elements, (pa.string(),), pa.list_(pa.string()), ELEMENTS),
    OwnFunction(members, (pa.string(),), pa.list_(pa.string()), MEMBERS),
    OwnFunction(parsed_jsons, (pa.string(), pa.bool_()), pa.string(), PARSED_JSON),
    OwnFunction(scalars, (pa.string(),), pa.list_(pa.string()), SCALARS),
    OwnFunction(of_lists, (TEXTS,), pa.string(), OF_LIST),
    OwnFunction(flattened, (pa.string(), pa.string(), pa.bool_(), pa.bool_(), pa.string()), TEXTS, FLATTENED),
)
