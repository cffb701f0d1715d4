"""Tell the page the prompts and answers behind one row of a result."""

import json
from contextlib import closing
from typing import Any

from flightllm.flight.core import Core
from flightllm.flight.results import give_up, pulled
from flightllm.web.calls import WebCall


def why(core: Core, call: WebCall, sql: str, row: list[str | None]) -> dict[str, Any]:
    """Return the prompts behind a row of a statement; it counts as a statement of the user, and asks no model.

    Raises:
        FlightLLMError: the statement is wrong, the row is not in its result, or its prompts cannot be told.
    """
    core.refuse_when_draining()
    session = call.session(core)
    recipient = core.recipient(call, session, {})
    result = core.run(call, session, lambda: session.why(sql, row), text=sql, discard=give_up)
    with closing(pulled(result, core.limits, core.slots, recipient)) as batches:
        texts = [text for batch in batches for text in batch.column(0).to_pylist()]
    told: dict[str, Any] = json.loads(texts[0])
    return told
