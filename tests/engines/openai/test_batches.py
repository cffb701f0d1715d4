"""The bodies of a batch's requests, and what the engine learns from their answers."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import pytest
from openai.types import BatchError

from flightllm.config import EngineConfig
from flightllm.engines.openai.batches import OpenAIBatches, refused_state
from flightllm.engines.openai.engine import OpenAIEngine, create
from flightllm.llm.batch_endpoint import JobState, LineResult
from flightllm.llm.cost import Work
from flightllm.llm.engine import Parameters, Request
from tests.batch_endpoint import batch_provider

LONG = "weigh each word of the guide\n" * 250


@pytest.fixture
def engine() -> Iterator[OpenAIEngine]:
    """Open an engine for a model whose provider charges for each prompt that it stores unasked."""
    with batch_provider() as provider:
        options = {"base_url": provider.url, "provider": "openai", "api_key_env": ""}
        opened = create(EngineConfig("openai", "gpt-5.6-luna", options=options))
        yield opened
        opened.close()


@pytest.fixture
def batches(engine: OpenAIEngine) -> OpenAIBatches:
    """Return the engine's batch endpoint."""
    assert engine.batches is not None
    return engine.batches


def request(question: str, start: str = LONG, *, shared: bool = True) -> Request:
    """Return a request whose prompt begins with a start that other prompts can share."""
    end = len(start)
    return Request(1, start + question, Parameters(), "f", "i", (), ends=(end,), shared=end if shared else 0)


def result(status: int, body: dict[str, Any]) -> LineResult:
    """Return an outcome of a request."""
    return LineResult("1", status, json.dumps(body).encode())


def parts(body: Any) -> list[dict[str, Any]]:
    """Return the parts of the last message of a body."""
    return cast("list[dict[str, Any]]", body["messages"][-1]["content"])


def test_a_shared_start_is_marked(batches: OpenAIBatches) -> None:
    """A body names the common key and marks the shared start; the provider must store nothing else."""
    body = batches.draft(request("one?")).body
    assert [(one["text"], "prompt_cache_breakpoint" in one) for one in parts(body)] == [(LONG, True), ("one?", False)]
    assert body["prompt_cache_options"] == {"mode": "explicit"}
    assert body["prompt_cache_key"] == batches.draft(request("two?")).body["prompt_cache_key"]


@pytest.mark.parametrize("asked", [request("one?", shared=False), request("one?", "short\n")])
def test_what_nothing_shares_is_not_stored(asked: Request, batches: OpenAIBatches) -> None:
    """Without a shared start that the cache can hold, the provider is told to store nothing."""
    body = batches.draft(asked).body
    assert body["messages"][-1]["content"] == asked.prompt
    assert body["prompt_cache_options"] == {"mode": "explicit"}


@pytest.mark.parametrize("name", ["prompt_cache_options", "prompt_cache_key", "prompt_cache_breakpoint"])
def test_a_rejected_key_is_left_out(name: str, batches: OpenAIBatches) -> None:
    """A request whose key for the cache is rejected is asked again without this key; its row does not fail."""
    first, second = request("one?"), request("two?")
    draft, other = batches.draft(first), batches.draft(second)
    refusal = result(400, {"error": {"message": f"Unknown parameter: '{name}'.", "code": None}})
    assert batches.read(first, draft.note, refusal, last=False) is None
    assert batches.read(second, other.note, refusal, last=False) is None
    assert name not in json.dumps(batches.draft(first).body)
    failed = batches.read(first, draft.note, refusal, last=True)
    assert failed is not None
    assert name in (failed.error or "")


def test_hits_on_marked_starts_change_no_rule(engine: OpenAIEngine, batches: OpenAIBatches) -> None:
    """The engine knows which starts a batch marked: hits on them fit the rules, and stores of them are counted."""
    usage = {"prompt_tokens": 1_510, "completion_tokens": 2, "total_tokens": 1_512}
    read = []
    for number in range(5):
        one = request(f"{number}?")
        details = {"cached_tokens": 1_500 if number else 0}
        message = {"role": "assistant", "content": "fine"}
        body = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
        given = result(200, {**body, "usage": {**usage, "prompt_tokens_details": details}})
        note = batches.draft(one).note
        read.append(batches.read(replace(one, shared=0), note, given, last=False))
    assert [one and one.text for one in read] == ["fine"] * 5
    stored = [one.written_tokens for one in read if one is not None]
    assert 1_400 < stored[0] < 1_510
    assert not any(stored[1:])
    assert engine.prefix_cache is not None
    assert engine.prefix_cache.breakpoints


def test_starts_that_nothing_reads_are_marked_no_more(batches: OpenAIBatches) -> None:
    """Where the prompts that followed read nothing, later jobs store nothing; the provider reports no stored tokens."""
    drafts = {number: batches.draft(request(f"{number}?")) for number in (1, 2, 3)}
    found = batches.lead(drafts)
    assert found is not None
    assert (found.ahead, found.changed) == ((1,), {})
    batches.learn(Work(2, 3_000, 1_400, 10))
    assert batches.lead(drafts) == found
    batches.learn(Work(2, 3_000, 0, 10))
    later = batches.lead(drafts)
    assert later is not None
    assert later.ahead == ()
    assert not any("prompt_cache_breakpoint" in one for draft in later.changed.values() for one in parts(draft.body))


OPENAI_FULL = (
    "Enqueued token limit reached for gpt-4o-mini in organization org-1. Limit: 2,000,000 enqueued tokens. Please"
    " try again once some in_progress batches have been completed."
)
AZURE_FULL = (
    "The number of enqueued tokens has surpassed the configured limit of 30K for the deployment 'gpt-4.1-batch'."
    " Please either increase the limit or try again once the current jobs have finished."
)


@pytest.mark.parametrize(
    ("message", "room"), [(OPENAI_FULL, 2_000_000), (AZURE_FULL, 30_000), ("Too many batches in progress", 0)]
)
def test_a_full_queue_is_known(message: str, room: int) -> None:
    """The words of each provider for a queue without room, and the room that it has in all."""
    state = refused_state(JobState(ended=True, word="failed"), [BatchError(code=None, message=message)])
    assert (state.queue_full, state.room, state.failure) == (True, room, message)


def test_lines_that_are_refused() -> None:
    """Errors of lines are rows' errors; an error that all lines share is one of the job."""
    job = JobState(ended=True, word="failed")
    wrong = BatchError(code="invalid_value", line=2, message="no", param="body.messages")
    [(place, body)] = refused_state(job, [wrong]).refused_lines
    assert (place, json.loads(body)["error"]["message"]) == (1, "no")
    model = BatchError(code="model_not_found", line=1, message="not supported by the Batch API", param="body.model")
    assert not refused_state(job, [model]).refused_lines
    assert not refused_state(job, [wrong, BatchError(message="billing limit")]).refused_lines
    assert not refused_state(job, [wrong, BatchError(message="billing limit")]).queue_full
