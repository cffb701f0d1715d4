"""The server over HTTP, with the providers' official clients: what it bills, and how it says so."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from bench.bill.prices import bill, prices, without_cache
from bench.bill.providers import PROVIDERS
from bench.bill.server import serving

openai = pytest.importorskip("openai", reason="the extra 'openai' is not installed")
pytest.importorskip("genai_prices", reason="the extra 'openai' is not installed")

LONG = "The film is about a family that moves to the sea, and about the neighbours whom it meets there. " * 120
AUTOMATIC, BREAKPOINTS, ANTHROPIC = PROVIDERS[:3]


def said(text: str) -> list[dict[str, str]]:
    """Return messages with a long common start."""
    return [{"role": "system", "content": LONG}, {"role": "user", "content": text}]


def test_requests_that_overlap_share_nothing() -> None:
    """The second of two requests reads the common start only if the first one's answer has begun."""
    with serving(AUTOMATIC, seconds=0.3) as (endpoint, url):
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="none")

        def ask(text: str) -> Any:
            return client.chat.completions.create(model=AUTOMATIC.model, messages=said(text))

        with ThreadPoolExecutor(2) as users:
            together = list(users.map(ask, ("one", "two")))
        after = ask("three")
    assert [one.usage.prompt_tokens_details.cached_tokens for one in together] == [0, 0]
    assert after.usage.prompt_tokens_details.cached_tokens % 128 == 0
    assert after.usage.prompt_tokens_details.cached_tokens > 1_024
    at = prices(AUTOMATIC)
    assert bill(endpoint.ledger.usages, at) < without_cache(endpoint.ledger.usages, at)


def test_breakpoints_of_chat_completions() -> None:
    """A marked block is written and read; the usage says how many tokens."""
    with serving(BREAKPOINTS, seconds=0) as (_, url):
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="none")
        found = []
        for text in ("one", "two"):
            start = {"type": "text", "text": LONG, "prompt_cache_breakpoint": {"mode": "explicit"}}
            messages = [{"role": "system", "content": [start]}, {"role": "user", "content": text}]
            body = {"prompt_cache_options": {"mode": "explicit"}}
            answer = client.chat.completions.create(model=BREAKPOINTS.model, messages=messages, extra_body=body)
            found.append(answer.model_dump()["usage"]["prompt_tokens_details"])
    assert found[0]["cached_tokens"] == found[1]["cache_write_tokens"] == 0
    assert found[0]["cache_write_tokens"] == found[1]["cached_tokens"] > 1_024


def test_messages_of_anthropic() -> None:
    """The Messages API writes and reads marked blocks; the OpenAI-compatible API of Anthropic caches nothing."""
    anthropic = pytest.importorskip("anthropic", reason="anthropic is not installed")
    with serving(ANTHROPIC, seconds=0) as (endpoint, url):
        client = anthropic.Anthropic(base_url=url, api_key="none")
        system = [{"type": "text", "text": LONG, "cache_control": {"type": "ephemeral"}}]
        first, second = (
            client.messages.create(
                model=ANTHROPIC.model, max_tokens=9, system=system, messages=[{"role": "user", "content": text}]
            ).usage
            for text in ("one", "two")
        )
        other = openai.OpenAI(base_url=f"{url}/v1", api_key="none")
        for _ in range(2):
            other.chat.completions.create(model=ANTHROPIC.model, messages=said("one"))
    assert first.cache_creation_input_tokens == second.cache_read_input_tokens > 1_024
    assert first.cache_read_input_tokens == second.cache_creation_input_tokens == 0
    assert [one.read for one in endpoint.ledger.usages] == [0, second.cache_read_input_tokens, 0, 0]


def test_unknown_parameters_are_refused() -> None:
    """A provider without breakpoints refuses OpenAI's parameters of them, as its API does."""
    with serving(AUTOMATIC, seconds=0) as (endpoint, url):
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
        body = {"prompt_cache_options": {"mode": "explicit"}}
        with pytest.raises(openai.BadRequestError, match="Unknown parameter"):
            client.chat.completions.create(model=AUTOMATIC.model, messages=said("one"), extra_body=body)
    assert endpoint.ledger.usages == []
