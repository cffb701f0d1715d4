"""Rewrite AI functions from other vendors' spelling."""

from collections.abc import Iterator

from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit
from flightllm.dialect.vendors.aggregates import NAMES as AGGREGATES
from flightllm.dialect.vendors.aggregates import aggregate
from flightllm.dialect.vendors.arguments import PROMPTS, RENAMED, WITH_OPTIONS, arguments
from flightllm.dialect.vendors.calls import find_calls
from flightllm.dialect.vendors.embeddings import NAMES as EMBEDDINGS
from flightllm.dialect.vendors.embeddings import embedding, is_ours
from flightllm.dialect.vendors.flock import NAMES as FLOCK
from flightllm.dialect.vendors.flock import flock
from flightllm.dialect.vendors.names import OURS, named
from flightllm.dialect.vendors.paths import path
from flightllm.dialect.vendors.postgres import text_path
from flightllm.dialect.vendors.refused import REFUSED, refuse
from flightllm.dialect.vendors.sentiment import has_sentiment, sentiment
from flightllm.dialect.vendors.tables import NAMES as TABLES
from flightllm.dialect.vendors.tables import returns_rows, table

_TABLES = (*OURS, *REFUSED, *RENAMED, *WITH_OPTIONS, *AGGREGATES, *EMBEDDINGS, *FLOCK, *TABLES)
_SCHEMAS = ("ai", "ml", "cortex", "google_ml", "azure_ai", "azure_openai", "azure_cognitive")
FLAGGED = frozenset(("ai_filter", "ai_fix_grammar", "ai_mask"))
"""Function names that need an edit only with an object of options, or with a flag for errors."""
FLAGS = frozenset(("true", "false", "map", "named_struct", "object_construct"))
"""Words of such an object or flag."""
NAMES = frozenset([*_SCHEMAS, *(name for name in _TABLES if "." not in name)]) - FLAGGED
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
        if call.name in FLOCK:
            yield from flock(call)
            continue
        if call.name in EMBEDDINGS:
            if not is_ours(call):
                yield from embedding(call)
            continue
        if call.name.removeprefix("cortex.") in AGGREGATES:
            yield from aggregate(call)
            continue
        if returns_rows(call):
            yield from table(call)
            continue
        if has_sentiment(call):
            yield from sentiment(call)
            continue
        refuse(call)
        given = list(arguments(call))
        dropped += [edit for edit in given if not edit.text]
        yield from text_path(call)
        yield from given
        flagged = call.named("on_error") is not None or any("on_error =>" in edit.text for edit in given)
        yield from path(call, has_errors=flagged)
        yield from named(call)
