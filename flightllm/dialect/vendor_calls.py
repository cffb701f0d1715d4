"""Rewrite AI functions from other vendors' spelling."""

from collections.abc import Iterator

from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit
from flightllm.dialect.vendors.arguments import PROMPTS, RENAMED, WITH_OBJECT, arguments
from flightllm.dialect.vendors.calls import find_calls
from flightllm.dialect.vendors.names import OURS, named
from flightllm.dialect.vendors.paths import path
from flightllm.dialect.vendors.refused import REFUSED, refuse

_TABLES = (*OURS, *REFUSED, *RENAMED, *WITH_OBJECT, "ai_translate", "ai_summarize")
NAMES = frozenset(["ai", "cortex", *(name for name in _TABLES if "." not in name)])
"""Function names that can need an edit, whatever their arguments are."""
PROMPTED = frozenset(PROMPTS)
"""Functions whose prompt can be a tuple."""


def vendor_calls(source: Source) -> Iterator[Edit]:
    """Rewrite `SELECT AI.GENERATE(('Sum up: ', body)).result` as `SELECT ai_gen(('Sum up: ' || body))`.

    Raises:
        SqlError: a call would return other values than the vendor's; the message says what to write.
    """
    dropped: list[Edit] = []
    for call in find_calls(source):
        if any(edit.start <= call.start < edit.end for edit in dropped):
            continue
        refuse(call)
        given = list(arguments(call))
        dropped += [edit for edit in given if not edit.text]
        yield from given
        yield from path(call)
        yield from named(call)
