"""What the production engine makes of vLLM's outputs, without vLLM."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from flightllm.engines.vllm.engine import VllmEngine, _completion
from flightllm.llm.engine import Parameters, Regex, Request
from flightllm.llm.tokenizer import PromptEncoder
from tests.chat_templates import encoder_of
from tests.thinking_models import SWITCHING

pytest.importorskip("transformers", reason="the extra 'local' is not installed")

MakeRequests = Callable[..., list[Request]]


class Reading(VllmEngine):
    """The part of the engine that reads outputs."""

    def __init__(self, encoder: PromptEncoder) -> None:
        self._encoder = encoder


def ended(ids: Sequence[int], reason: str | None = "length") -> SimpleNamespace:
    """Return a request's output of these tokens."""
    output = SimpleNamespace(token_ids=ids, text="", finish_reason=reason, logprobs=None)
    return SimpleNamespace(outputs=[output], num_cached_tokens=0)


@pytest.mark.parametrize(
    ("final", "error"),
    [
        (ended([]), "vLLM ended the request without an answer"),
        (ended([], "abort"), "vLLM ended the request with the reason 'abort'"),
        (SimpleNamespace(outputs=[]), "vLLM ended the request without an answer"),
        (None, "vLLM ended the request without an answer"),
        (ended([1]), None),
    ],
    ids=["no token", "aborted", "no output", "nothing", "a token"],
)
def test_a_request_that_ends_without_a_token(
    make_requests: MakeRequests, final: SimpleNamespace | None, error: str | None
) -> None:
    """A request that vLLM ends without a token has an error of its own."""
    assert _completion(make_requests(1)[0], 3, final).error == error


def test_an_answer_after_a_thought_is_decoded_once(
    make_requests: MakeRequests, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tokens of an answer that can have a thought are decoded with their marks only; other answers at once."""
    encoder = encoder_of(SWITCHING, tmp_path / "model")
    asked: list[Sequence[int]] = []
    real = encoder.written

    def written(ids: Sequence[int], prompt: Sequence[int]) -> str | None:
        asked.append(ids)
        return real(ids, prompt)

    monkeypatch.setattr(encoder, "written", written)
    engine, [request] = Reading(encoder), make_requests(1)
    ids = encoder.continuation("Yes")
    assert engine._read(request, [], ended(ids)).text == "Yes"
    assert asked == []
    constrained = replace(request, parameters=Parameters(constraint=Regex("Yes")))
    assert engine._read(constrained, [], ended(ids)).text == "Yes"
    assert asked == [ids]
