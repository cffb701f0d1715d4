"""Rewrite a call around its values: these stay in their places, so calls inside them can be rewritten too."""

from collections.abc import Iterator, Sequence

from flightllm.dialect.text import Edit
from flightllm.dialect.vendors.calls import Given, VendorCall
from flightllm.dialect.vendors.objects import Value
from flightllm.sql.arguments import split_arguments


def around(call: VendorCall, parts: Sequence[str | Value]) -> Iterator[Edit]:
    """Replace a call by texts, and by values of the call, which must have the order that they have in the call."""
    tokens = call.source.tokens
    start, text = call.start, ""
    for part in parts:
        if isinstance(part, str):
            text += part
            continue
        yield Edit(start, tokens[part.first].start, text)
        start, text = tokens[part.last - 1].end, ""
    yield Edit(start, tokens[call.closing].end, text)


def written(call: VendorCall, value: Value) -> str:
    """Return the text of a value."""
    return call.source.text(value.first, value.last)


def unnamed_parts(call: VendorCall, given: Given) -> str:
    """Return the text of an argument; `STRUCT(a, 'b' AS c)` becomes `(a, 'b')`, as parts of a prompt have no names."""
    source = call.source
    if not source.is_word(given.first, "struct") or source.closing.get(given.first + 1) != given.last - 1:
        return call.text(given)
    parts = split_arguments(source.tokens, given.first + 2, given.last - 1, source.closing)
    texts = [source.text(first, last - 2 * source.is_word(last - 2, "as")) for first, last in parts]
    return f"({', '.join(texts)})" if len(texts) > 1 else texts[0]
