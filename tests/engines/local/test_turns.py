"""Batches of the local engine: the blocks they begin with, and what of them is worth keeping."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from flightllm.common.text import shared_start
from flightllm.engines.kv_hints import Hints
from flightllm.engines.local.turns import BLOCK_TOKENS, Turn, block_keys, plan_turn
from flightllm.llm.engine import Request, Reuse
from flightllm.llm.tokenizer import PromptEncoder

MakeRequests = Callable[..., list[Request]]
TOKENS = list(range(3 * BLOCK_TOKENS + 5))


@pytest.fixture(scope="module")
def hints(model_path: Path) -> Hints:
    """Return what counts tokens."""
    return Hints(PromptEncoder(model_path))


def turn(requests: Sequence[Request], prompts: Sequence[Sequence[int]], prefix: int, hints: Hints) -> Turn:
    """Return the turn of prompts, each checked to be longer than what they share."""
    assert all(len(prompt) > prefix for prompt in prompts)
    return plan_turn(requests, prompts, prefix, hints)


def test_keys() -> None:
    """A block's key stands for all tokens up to its end, and for the tenant."""
    keys = block_keys(TOKENS, "")
    assert len(keys) == len(set(keys)) == 4
    assert block_keys(TOKENS[: 2 * BLOCK_TOKENS], "") == keys[:2]
    assert not set(block_keys([9, *TOKENS[1:]], "")) & set(keys)
    assert not set(block_keys(TOKENS, "acme")) & set(keys)


def test_blocks(make_requests: MakeRequests, hints: Hints) -> None:
    """Of a lone prompt full blocks are kept, of a batch all that its prompts share."""
    one, other = make_requests(2)
    alone = turn([one], [TOKENS], 0, hints)
    assert (len(alone.use.keys), alone.worth) == (3, len(TOKENS) - 1)
    shared = BLOCK_TOKENS + 7
    both = turn([one, other], [TOKENS, TOKENS[:-2]], shared, hints)
    assert (len(both.use.keys), both.worth) == (2, shared)


def test_what_is_ahead(make_requests: MakeRequests, hints: Hints, model_path: Path) -> None:
    """Of a lone prompt what those that follow have too is worth keeping, and the policy is told of those blocks."""
    one, other = make_requests(2)
    ids = PromptEncoder(model_path).encode([one.prompt])[0]
    shared = shared_start(one.prompt, other.prompt)
    known = replace(one, reuse=Reuse("site", "query", 3, shared))
    found = turn([known], [ids], 0, hints)
    assert found.use.ahead is not None
    assert 0 < found.use.ahead == found.worth // BLOCK_TOKENS
    assert (found.use.kind, found.use.query, found.use.number) == ("site", "query", 3)
    nothing = turn([replace(one, reuse=Reuse("site", "query", 3, 0))], [ids], 0, hints)
    assert (nothing.use.ahead, nothing.worth) == (0, 0)
    unknown = turn([replace(one, reuse=Reuse("site", "query", 3, None))], [ids], 0, hints)
    assert (unknown.use.ahead, unknown.worth) == (None, len(ids) - 1)


def test_a_batch_that_goes_on(make_requests: MakeRequests, hints: Hints, model_path: Path) -> None:
    """Where later prompts have all that a batch shares, all of its blocks are ahead, the last short one too."""
    requests = make_requests(2)
    prompts = PromptEncoder(model_path).encode([one.prompt for one in requests])
    reuse = Reuse("", "", 1, shared_start(requests[0].prompt, requests[1].prompt))
    prefix = BLOCK_TOKENS + 3
    found = turn([requests[0], replace(requests[1], reuse=reuse)], prompts, prefix, hints)
    assert found.use.ahead == len(found.use.keys) == 2
