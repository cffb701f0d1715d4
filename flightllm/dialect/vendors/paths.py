"""Rewrite the path that vendors write after a call to get its value: functions here return the value itself."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from flightllm.common.names import quoted
from flightllm.dialect.text import Edit
from flightllm.dialect.vendors.calls import VendorCall
from flightllm.sql.arguments import read_constant
from flightllm.sql.calls import EXPRESSION_FOLLOWS
from flightllm.sql.tokens import TokenKind

_GENERATED = ("ai.generate", "ai.generate_text", "ai.generate_bool", "ai.generate_int", "ai.generate_double")
NUMBERS = {"ai.generate_int": "integer", "ai.generate_double": "number"}
"""For each function, the JSON Schema type of its result."""
_FIRST_FIELDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "ai_classify": ("labels",),
        "ai_extract": ("response",),
        "ai_sentiment": ("categories",),
        "ai_complete": ("choices",),
        "complete": ("choices",),
        "classify_text": ("label",),
    }
)
"""For each function of Snowflake, the fields of the object that it returns."""
_WORDS = (TokenKind.WORD, TokenKind.QUOTED)


def path(call: VendorCall, *, has_errors: bool = False) -> Iterator[Edit]:
    """Rewrite `AI_CLASSIFY(…):labels[0]` as `AI_CLASSIFY(…)`, `AI_EXTRACT(…):response.city` as `AI_EXTRACT(…)."city"`.

    With `has_errors`, a call returns a struct of its value and its error, and the path stays for a later step.

    Raises:
        SqlError: the path leads to a value that the function does not return.
    """
    name = call.name.removeprefix("cortex.") if call.name.startswith("cortex.ai_") else call.name
    after = _after(call)
    if name in _GENERATED:
        yield from _result(call, name, after)
        return
    steps, end = steps_after(call, after)
    if not steps or has_errors:  # the type of the answer decides what the path reads
        return
    tokens = call.source.tokens
    begin = tokens[call.first - (after - call.closing - 1)].start
    if _is_list_of_one(call, name, steps, end):
        yield Edit(begin, begin, "nullif([")  # no label is NULL, and no list with a NULL
        yield Edit(tokens[after - 1].end, tokens[end - 1].end, "], [CAST(NULL AS STRING)])")
    elif (place := _element(call, name, steps)) is not None:
        yield Edit(begin, begin, "array_element(")
        yield Edit(tokens[after - 1].end, tokens[end - 1].end, f", {place + 1})")
    else:
        yield Edit(tokens[after - 1].end, tokens[end - 1].end, _written(call, name, steps))


def _element(call: VendorCall, name: str, steps: list[str | int]) -> int | None:
    """Return the index, from 0, of the label that a path selects.

    The index is not written as a subscript, because dialects disagree about the first index of a subscript.
    """
    match name, steps:
        case "ai_classify", [str(labels), int(place)] if labels.lower() == "labels" and is_multi(call):
            return place
        case _:
            return None


def _is_list_of_one(call: VendorCall, name: str, steps: list[str | int], end: int) -> bool:
    """Return whether a path reads the list of labels of a call that returns one label.

    The text of such a list has other quotes here, so a cast of the list is refused.
    """
    match name, steps:
        case "ai_classify", [str(labels)] if labels.lower() == "labels":
            return not is_multi(call) and not call.source.is_symbol(end, "::")
        case _:
            return False


def _after(call: VendorCall) -> int:
    """Return the token after a call, and after parentheses that enclose only the call."""
    source, first, after = call.source, call.first, call.closing + 1
    while first and source.closing.get(first - 1) == after and not _calls(call, first - 2):
        first, after = first - 1, after + 1
    return after


def _calls(call: VendorCall, index: int) -> bool:
    """Return whether the parenthesis after a token can belong to a function call."""
    token = call.source.tokens[index] if index >= 0 else None
    return token is not None and token.kind in _WORDS and not token.is_word(*EXPRESSION_FOLLOWS)


def _result(call: VendorCall, name: str, after: int) -> Iterator[Edit]:
    """Rewrite the result of BigQuery's functions, which return a struct there."""
    source, end = call.source, after
    dotted = source.is_symbol(after, ".") and after + 1 < len(source.tokens)
    field = source.tokens[after + 1].text.lower() if dotted else ""
    if field == "status" and call.named("on_error") is None:
        yield from _status(call, after)
        return
    if field == "full_response":
        raise call.error(
            ".full_response is not returned here: leave it out; an unusable answer is NULL, and on_error => 'struct'"
            " returns {value, error}"
        )
    if not dotted and call.named("output_schema") is None and _is_read(call, after, "result"):
        if _is_read(call, after, "status"):
            raise call.error("only its own query knows the status: write the call again with .status after it, and AS")
        value = ".value" if name in NUMBERS else ""
        yield Edit(source.tokens[call.first].start, source.tokens[call.first].start, "named_struct('result', ")
        yield Edit(source.tokens[call.closing].end, source.tokens[call.closing].end, f"{value})")
        return
    if field == "result" and call.named("output_schema") is None:
        end = after + 2
    number = ".value" if name in NUMBERS else ""
    if end > after or number:
        yield Edit(source.tokens[after - 1].end, source.tokens[end - 1].end, number)


def _status(call: VendorCall, after: int) -> Iterator[Edit]:
    """Write the status of a call: its error, or an empty text if the call has no error."""
    tokens = call.source.tokens
    begin, closing = tokens[call.first - (after - call.closing - 1)].start, tokens[call.closing].start
    yield Edit(begin, begin, "coalesce(")
    yield Edit(closing, closing, ", on_error => 'struct'")
    yield Edit(tokens[after - 1].end, tokens[after + 1].end, ".error, '')")


def _is_read(call: VendorCall, after: int, field: str) -> bool:
    """Return whether the text reads a field, such as `result`, of the alias that follows a call."""
    source = call.source
    if not source.is_word(after, "as") or after + 1 >= len(source.tokens):
        return False
    alias = source.tokens[after + 1].text.lower()
    return any(
        token.text.lower() == alias and source.is_symbol(at + 1, ".") and source.is_word(at + 2, field)
        for at, token in enumerate(source.tokens)
    )


def steps_after(call: VendorCall, at: int) -> tuple[list[str | int], int]:
    """Read `:a.b[0]:c` or `['a'][0]` from a token on; return its steps and the token after it."""
    source = call.source
    if not source.is_symbol(at, ":") and not _begins_in_brackets(call, at):
        return [], at
    steps: list[str | int] = []
    while at + 1 < len(source.tokens):
        token, following = source.tokens[at], source.tokens[at + 1]
        if token.kind is TokenKind.SYMBOL and token.text in {":", "."} and following.kind in _WORDS:
            steps.append(following.text)
            at += 2
        elif token.is_symbol("[") and source.closing.get(at) == at + 2:
            constant = read_constant([following])
            value = constant.value if constant is not None else None
            if not isinstance(value, str | int):
                break
            steps.append(value)
            at += 3
        else:
            break
    return steps, at


def _begins_in_brackets(call: VendorCall, at: int) -> bool:
    """Return whether `['labels']` and the like follow a call: the first field of what the vendor returns.

    Other fields in brackets stay, because they can be those of the schema of an answer.
    """
    source = call.source
    if not source.is_symbol(at, "[") or source.closing.get(at) != at + 2:
        return False
    field = read_constant([source.tokens[at + 1]])
    return field is not None and field.value in _FIRST_FIELDS.get(call.name.removeprefix("cortex."), ())


def _written(call: VendorCall, name: str, steps: list[str | int]) -> str:
    """Return the replacement of a path."""
    folded = [step.lower() if isinstance(step, str) else step for step in steps]
    match name, folded:
        case ("ai_classify", ["labels" | "response", 0]) | ("cortex.classify_text", ["label"]):
            return ""
        case ("ai_sentiment", ["categories", 0, "sentiment"]) | (
            ("ai_complete" | "cortex.complete"),
            ["choices", 0, _],
        ):
            return ""
        case "ai_classify", ["labels"] if is_multi(call):
            return ""
        case "ai_extract", ["response", *fields] if all(isinstance(field, str) for field in fields):
            return "".join(f".{_field(str(step))}" for step in steps[1:])
        case "ai_classify", ["labels"]:
            raise call.error("it returns one label, not a list of labels: write :labels[0], or leave it out")
    shown = "".join(f"[{step}]" if isinstance(step, int) else f":{step}" for step in steps)
    raise call.error(
        f"{shown} does not exist, because functions here return the value itself: leave it out; write .field for a"
        " field of a struct"
    )


def _field(name: str) -> str:
    return name if name.isidentifier() and name.islower() else quoted(name)


def is_multi(call: VendorCall) -> bool:
    """Return whether a call of `ai_classify` returns all labels that fit."""
    tokens = call.source.tokens[call.opening : call.closing]
    for index, token in enumerate(tokens[:-2]):
        if token.text.lower() == "output_mode":
            return tokens[index + 2].text.lower() == "multi"
        if token.is_word("multi") and tokens[index + 1].is_symbol("=>"):
            return tokens[index + 2].is_word("true")
        if token.text.lower() in {"multilabel", "multi_label"}:
            return tokens[index + 2].text.lower() == "true"
    return False
