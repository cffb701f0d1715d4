"""Rewrite a call around its values: these stay in their places, so calls inside them can be rewritten too."""

from collections.abc import Iterator, Sequence

from flightllm.dialect.text import Edit
from flightllm.dialect.vendors.calls import VendorCall
from flightllm.dialect.vendors.objects import Value


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
