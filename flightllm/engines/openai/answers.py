"""Parse the response bodies of an OpenAI-compatible endpoint, without trust in any value: answers, tokens and vectors.

Endpoints differ and break. A body can be a login page, be cut short, or have values of any type in any place. So each
parsed value is checked, and an error says what is wrong.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flightllm.common.text import excerpt, well_formed
from flightllm.engines.finish_reasons import BROKEN, FILTERED, LENGTH, read_finish
from flightllm.engines.openai.usage import Usage, read_usage

_THOUGHTS = frozenset({"thinking", "reasoning", "redacted_thinking"})
"""Types of the parts of a message that hold thoughts."""
_NO_TEXT = "the endpoint returned no text"


class MalformedError(Exception):
    """An error for a part of a body that violates the protocol; the message says what is wrong."""


class ErrorBodyError(MalformedError):
    """An error for a body that is itself an error, sent with the status of a success."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        failure = document.get("error")
        message = failure.get("message") if isinstance(failure, dict) else failure
        super().__init__(f"the body is an error: {excerpt(message) if isinstance(message, str) else 'no message'}")
        self.document = document


class MiscountError(MalformedError):
    """An error for a body whose answers do not match the prompts one to one."""


@dataclass(frozen=True, slots=True)
class EndpointAnswer:
    """The answer to one prompt: a text or an error, the finish reason, and the text of a refusal.

    `logprobs` are the log probabilities of the answer's tokens, as in the body. `probabilities` are those of the
    options of a choice.
    """

    text: str | None
    error: str | None = None
    finish_reason: str = "stop"
    refusal: str | None = None
    reasoning: str = ""
    """The model's thought, where the endpoint returns it separately."""
    logprobs: object = field(default=None, compare=False, repr=False)
    probabilities: tuple[float, ...] | None = None
    passes: bool = False
    """Whether the error can pass: the same prompt can get an answer at the next try."""
    empty: str = field(default="", compare=False)
    """The form of an empty answer: what kind of content the message has, and where it has a text."""
    texts_elsewhere: tuple[str, ...] = field(default=(), compare=False)
    """The texts of an empty answer in other places: a thought, or the arguments of a tool call."""


def read_chat(body: bytes, *, thinks: bool = True) -> tuple[list[EndpointAnswer], Usage]:
    """Parse the body of a chat completion, which answers one prompt.

    With `thinks` false, the request has switched thoughts off. Some parsers of thoughts then put the answer in the
    place of the thought and leave the content empty.

    Raises:
        MalformedError: the body is not a chat completion.
    """
    document = read_document(body)
    [choice] = _choices(document, 1)
    message = choice.get("message")
    if message is None and isinstance(choice.get("text"), str):
        message = {"content": choice["text"]}  # some endpoints answer a chat in the form of a completion
    if not isinstance(message, dict):
        raise MalformedError(f"choices[0].message is {_kind(message)}, not an object")
    thought = _reasoning(message)
    if not thinks and thought.strip() and message.get("content") in (None, "", []):
        message, thought = {**message, "content": thought}, ""
    answer = replace(_answer(choice, message, "content"), reasoning=thought)
    if (
        not (answer.text or "").strip()
        and not answer.refusal
        and answer.finish_reason not in {LENGTH, FILTERED, BROKEN}
    ):
        return [_empty(answer, message)], read_usage(document)
    return [answer], read_usage(document)


def _empty(answer: EndpointAnswer, message: Mapping[str, Any]) -> EndpointAnswer:
    """Return an answer without a text as an error that says what the message has, with the texts in other places."""
    content = message.get("content")
    places = {name: _thought(message.get(name)) for name in ("reasoning_content", "reasoning")}
    places |= {"tool_calls[0].function.arguments": _arguments(message)}
    if isinstance(content, dict):
        places |= {"content": json.dumps(content)}
    elif isinstance(content, list):
        places |= {"content": _thought(content, alone=True)}
    found = {name: text for name, text in places.items() if text.strip()}
    form = f"content is {_kind(content)}"
    if isinstance(content, str | list) and not found.get("content"):
        form = f"content is an empty {'text' if isinstance(content, str) else 'list'}"
    others = [name for name in found if name != "content"]
    if others:
        form += f", and {' and '.join(others)} has a text"
    elif "content" in found:
        form += " that has only thoughts" if isinstance(content, list) else ""
    error = f"{_NO_TEXT}: {form}" if answer.error in {None, _NO_TEXT} else answer.error
    texts = tuple(dict.fromkeys(map(well_formed, found.values())))
    return replace(answer, text=None, error=error, passes=True, logprobs=None, empty=form, texts_elsewhere=texts)


def _arguments(message: Mapping[str, Any]) -> str:
    """Return the arguments of the only tool call of a message as text; empty for no call, or several."""
    calls = message.get("tool_calls")
    one = calls[0] if isinstance(calls, list) and len(calls) == 1 else None
    function = one.get("function") if isinstance(one, dict) else None if calls else message.get("function_call")
    given = function.get("arguments") if isinstance(function, dict) else None
    return json.dumps(given) if isinstance(given, dict) else given if isinstance(given, str) else ""


def _reasoning(message: Mapping[str, Any]) -> str:
    """Return a thought from a field beside the answer, which has two names, or from the parts of the content."""
    found = (_thought(message.get(name)) for name in ("reasoning_content", "reasoning"))
    return next(filter(None, found), "") or _thought(message.get("content"), alone=True)


def _thought(value: object, *, alone: bool = False) -> str:
    """Return the text of a thought in any of its forms; with `alone`, only of parts whose type names a thought."""
    match value:
        case str():
            return "" if alone else value
        case list():
            return "".join(_thought(one, alone=alone) for one in value)
        case dict():
            if alone and value.get("type") not in _THOUGHTS:
                return ""
            texts = (_thought(value.get(key)) for key in ("thinking", "reasoning", "text", "summary"))
            return next(filter(None, texts), "")
        case _:
            return ""


def read_texts(body: bytes, count: int) -> tuple[list[EndpointAnswer], Usage]:
    """Parse the body of a completion of `count` prompts; the answers are in the order of the prompts.

    Raises:
        MalformedError: the body is not a completion.
        MiscountError: the body does not have one choice for each prompt.
    """
    document = read_document(body)
    return [_answer(choice, choice, "text") for choice in _choices(document, count)], read_usage(document)


def read_vectors(body: bytes, count: int) -> list[NDArray[np.float32] | MalformedError]:
    """Parse the body of embeddings of `count` texts; return a vector for each text, or why it cannot be read.

    Raises:
        MalformedError: the body has no embeddings, or no vector in it can be read.
        MiscountError: the body does not have one vector for each text.
    """
    found = [_vector_or_error(row.get("embedding")) for row in _in_order(read_document(body), "data", count)]
    errors = [one for one in found if isinstance(one, MalformedError)]
    if errors and len(errors) == count:
        raise errors[0]
    return found


def model_names(document: object) -> list[str]:
    """Return the names in a list of models, either OpenAI's object or a bare list; empty for any other document."""
    found = document.get("data") if isinstance(document, dict) else document
    rows = found if isinstance(found, list) else []
    names = [one.get("id") for one in rows if isinstance(one, dict)]
    return [name.removeprefix("models/") for name in names if isinstance(name, str)]  # Gemini adds this prefix


def model_owners(document: object) -> Iterator[str]:
    """Yield the owner of each model in a list of models."""
    found = document.get("data") if isinstance(document, dict) else document
    for one in found if isinstance(found, list) else []:
        owner = one.get("owned_by") if isinstance(one, dict) else None
        if isinstance(owner, str):
            yield owner


def read_document(body: bytes) -> dict[str, Any]:
    """Return the JSON object of a body.

    Raises:
        MalformedError: the body is not a JSON object, or is an error.
    """
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise MalformedError(_no_json(body, error)) from error
    if not isinstance(document, dict):
        raise MalformedError(f"the body is {_kind(document)}, not a JSON object")
    failure = document.get("error")
    if failure and not document.get("choices") and not document.get("data"):
        raise ErrorBodyError(document)
    return document


def _no_json(body: bytes, error: Exception) -> str:
    begin = body[:64].lstrip().lower()
    if not begin:
        return "the body is empty"
    if begin.startswith(b"<"):
        return "the body is an HTML or XML page, not JSON; check that base_url is right and needs no login"
    if begin.startswith((b"data:", b"event:", b":")):
        return "the body is a stream of events, not JSON"
    if isinstance(error, UnicodeDecodeError):
        return "the body is not UTF-8"
    return f"the body is not JSON: {excerpt(str(error), 100)}"


def _choices(document: Mapping[str, Any], count: int) -> list[dict[str, Any]]:
    return _in_order(document, "choices", count)


def _in_order(document: Mapping[str, Any], key: str, count: int) -> list[dict[str, Any]]:
    """Return the objects of a list in the order of their indices, which must be 0 to `count` - 1, each once."""
    found = document.get(key)
    if not isinstance(found, list):
        raise MalformedError(f"{key} is {_kind(found)}, not a list")
    if len(found) != count:
        raise MiscountError(f"{key} has {len(found)} items for {count} prompts")
    ordered: list[dict[str, Any] | None] = [None] * count
    for place, one in enumerate(found):
        if not isinstance(one, dict):
            raise MalformedError(f"{key}[{place}] is {_kind(one)}, not an object")
        index = one.get("index")
        if index is None and count == 1:
            index = 0  # some endpoints omit the index
        if type(index) is not int or not 0 <= index < count or ordered[index] is not None:
            raise MiscountError(f"{key}[{place}].index is wrong: expected each number from 0 to {count - 1} once")
        ordered[index] = one
    return [one for one in ordered if one is not None]


def _answer(choice: Mapping[str, Any], holder: Mapping[str, Any], key: str) -> EndpointAnswer:
    """Parse one choice; `holder` has the text under `key`."""
    reason, word = read_finish(choice.get("finish_reason"))
    refusal = holder.get("refusal")
    if reason == FILTERED:
        said = f": {excerpt(refusal)}" if refusal and isinstance(refusal, str) else ""
        why = _filters(choice) or f"finish_reason {excerpt(word, 40)!r}"
        return EndpointAnswer(None, f"the endpoint's content filter stopped the answer ({why}){said}", reason)
    if reason == BROKEN:
        error = f"the endpoint aborted the answer (finish_reason {excerpt(word, 40)!r})"
        return EndpointAnswer(None, error, reason, passes=True)
    try:
        text = _text(holder.get(key), key)
    except _Refusal as said:
        text, refusal = None, str(said)
    except MalformedError as error:
        return EndpointAnswer(None, str(error), reason, passes=True)
    if refusal and isinstance(refusal, str) and not text:
        return EndpointAnswer(None, f"the model refused: {excerpt(refusal)}", reason, refusal)
    if text is None:
        cut = ": the model reached max_tokens before it wrote any" if reason == LENGTH else ""
        return EndpointAnswer(None, f"{_NO_TEXT}{cut}", reason, passes=reason != LENGTH)
    return EndpointAnswer(well_formed(text), None, reason, logprobs=choice.get("logprobs"))


def _filters(choice: Mapping[str, Any]) -> str:
    """Return the names of Azure's filters that removed the answer; empty if the body does not name them."""
    results = choice.get("content_filter_results")
    if not isinstance(results, dict):
        return ""
    return ", ".join(name for name, one in results.items() if isinstance(one, dict) and one.get("filtered") is True)


class _Refusal(Exception):  # noqa: N818 - not a failure: the model's own text
    """An answer that has a part of the type `refusal`; carries the refusal's text."""


def _text(content: object, key: str) -> str | None:
    """Return the text of an answer, which some endpoints send in parts; None if there is no text."""
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise MalformedError(f"{key} is {_kind(content)}, not a text")
    texts = []
    for place, part in enumerate(content):
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "refusal" and isinstance(part.get("refusal"), str):
            raise _Refusal(part["refusal"])
        if kind in _THOUGHTS:
            continue
        if kind not in {"text", "output_text"} or not isinstance(part.get("text"), str):
            raise MalformedError(f"{key}[{place}] is not a part of type text")
        texts.append(part["text"])
    return "".join(texts) if texts else None


def _vector_or_error(value: object) -> NDArray[np.float32] | MalformedError:
    try:
        return _vector(value)
    except MalformedError as error:
        return error


def _vector(value: object) -> NDArray[np.float32]:
    """Return one vector from a list of numbers, which can be texts, from this list as text, or from bytes in base64."""
    if isinstance(value, str) and value.startswith("["):
        with suppress(ValueError, RecursionError):
            value = json.loads(value)
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        with suppress(ValueError):
            value = [float(one) for one in value]
    if isinstance(value, str):
        try:
            raw = b64decode(value, validate=True)
            vector = np.frombuffer(raw, "<f4").astype(np.float32)
        except ValueError as error:
            raise MalformedError("an embedding is a text that is not a vector in base64") from error
    elif isinstance(value, list) and all(type(number) in {int, float} for number in value):
        vector = _numbers(value)
    else:
        raise MalformedError(f"an embedding is {_kind(value)}, not a list of numbers")
    if not len(vector):
        raise MalformedError("an embedding is empty")
    if not np.isfinite(vector).all():
        raise MalformedError("an embedding has numbers that are not finite")
    return vector


def _numbers(values: Sequence[float]) -> NDArray[np.float32]:
    try:
        with np.errstate(over="ignore"):
            return np.array(values, np.float64).astype(np.float32)
    except OverflowError as error:
        raise MalformedError("an embedding has numbers that are not finite") from error


def _kind(value: object) -> str:
    match value:
        case None:
            return "missing or null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list():
            return "a list"
        case _:
            return "an object"
