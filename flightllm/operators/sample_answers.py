"""Ask about sampled rows before the first prompt of a pass, to compare two ways of asking."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from flightllm.operators.batches import PromptBatch
from flightllm.operators.call_context import CallContext, CallSite, ModelBinding, all_at_once
from flightllm.operators.call_executor import CallExecutor
from flightllm.operators.question_plan import QuestionPlan
from flightllm.operators.rows import given_fields

Values: TypeAlias = tuple[str | None, ...]
"""The values of a call's fields in one row."""
Asked: TypeAlias = dict[str, Any] | None
"""The value and the error of a call's answer; None for a row without a prompt."""


def sample_site(site: CallSite) -> CallSite:
    """Return the site that asks about each sampled row by itself; values are in the order of the call's fields."""
    ai = replace(site.ai, on_error="struct")
    fields = range(len(ai.fields))
    order = fields if site.keeps_field_order else sorted(fields, key=lambda f: site.order.index(site.arguments[f][0]))
    return replace(
        site,
        ai=ai,
        arguments=tuple((field,) for field in fields),
        order=tuple(order),
        when=None,
        guard=None,
        packing=None,
        asks_example=True,
    )


def answers_of(
    sites: Sequence[CallSite],
    sample: Sequence[Values],
    binding: ModelBinding,
    cancelled: Callable[[], bool],
    questions: Sequence[QuestionPlan] = (),
) -> list[list[Asked]]:
    """Return for each site the answers about the sampled rows. All sites have the same fields."""
    columns = [pa.array(values, pa.string()) for values in zip(*sample, strict=True)]
    rows = pa.RecordBatch.from_arrays(columns, [str(place) for place in range(len(columns))])
    batch = PromptBatch(rows, np.arange(len(sample)), list(sample))
    ranking = all_at_once(len(sites))
    context = CallContext(binding, binding.in_flight.open(), list(sites), ranking, prompts_counted=False)
    [done] = CallExecutor(context, questions).answer(iter([batch]), cancelled)
    return [list(done.answers[place]) for place in range(len(sites))]


def predicted_rows(binding: ModelBinding, sites: Sequence[CallSite], sample: Sequence[Values]) -> list[bool]:
    """Return for each row whether a dry run only predicts its answers, so that they agree by assumption."""
    if binding.asked_share is None:
        return [False] * len(sample)
    keys = []
    for site in sites:
        named = site.named(site.order)
        keys.append([site.keys.key(given_fields(named, values) or []) for values in sample])
    known = binding.cache.peek([key for some in keys for key in some])
    return [not all(some[place] in known for some in keys) for place in range(len(sample))]
