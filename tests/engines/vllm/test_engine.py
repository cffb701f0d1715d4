"""The production engine on CPU: a process that dies is told, wrong arguments are refused."""

import multiprocessing
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from flightllm.config import EngineConfig
from flightllm.engines import check_engine, create_engine
from flightllm.engines.vllm.engine import VllmEngine, VllmOptions, _engine_args
from flightllm.errors import ConfigError, EngineUnavailableError
from flightllm.llm.engine import Choice, Completion, Constraint, Engine, JsonSchema, Parameters, Regex, Request
from tests.engines.vllm.test_choices import SHAPES
from tests.packages import NEEDS_VLLM

pytestmark = [NEEDS_VLLM, pytest.mark.vllm]

MakeRequests = Callable[..., list[Request]]
CLOSED = "closed"


@pytest.mark.slow
def test_death_of_the_engine(model_path: Path, make_requests: MakeRequests) -> None:
    """When vLLM's process is killed, what was answered stands and the error names the engine; so does every later call.

    The engine has arguments of its own: no prefix cache, and a batch size that only `engine_args` names.
    """
    before = set(multiprocessing.active_children())
    options = {
        "kv_cache_memory_bytes": 16 << 20,
        "max_model_len": 2048,
        "enable_prefix_caching": False,
        "engine_args": {"max_num_batched_tokens": 2048},
    }
    engine = create_engine(EngineConfig("vllm", str(model_path), 2, options))
    [process] = set(multiprocessing.active_children()) - before
    stream = engine.generate(iter(make_requests(500, Parameters(max_tokens=1))), lambda: False)
    first = next(stream)
    assert first.error is None
    assert first.cached_tokens == 0
    process.kill()
    with pytest.raises(EngineUnavailableError, match=r"vllm \(.*died"):
        drain(stream)
    with pytest.raises(EngineUnavailableError):
        drain(engine.generate(iter(make_requests(1)), lambda: False))
    engine.close()
    with pytest.raises(EngineUnavailableError, match=CLOSED):
        drain(engine.generate(iter(make_requests(1)), lambda: False))


def test_wrong_engine_argument(model_path: Path) -> None:
    """An argument that vLLM does not know is a configuration error, before anything starts."""
    with pytest.raises(ConfigError, match=r"engine_args.*no_such_thing"):
        create_engine(EngineConfig("vllm", str(model_path), 2, {"engine_args": {"no_such_thing": 1}}))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tensor_parallel_size": 0}, "tensor_parallel_size: expected at least 1, got 0"),
        ({"max_num_batched_tokens": -1}, "max_num_batched_tokens: expected at least 0, got -1"),
        ({"lora": "/a", "kv_store": "grpc://h:1"}, "lora: a KV store does not support adapters"),
        ({"lora": "/nowhere"}, "lora: '/nowhere' is not a folder with an adapter_config.json"),
        ({"quantization": 8}, "quantization: expected str, got int 8"),
    ],
)
def test_wrong_options(model_path: Path, options: dict[str, object], message: str) -> None:
    """A value that vLLM cannot take is refused by its key, before anything starts."""
    with pytest.raises(ConfigError, match=rf"^\[engine\] {message}"):
        check_engine(EngineConfig("vllm", str(model_path), 2, options))


def test_options_reach_vllm(model_path: Path) -> None:
    """Each key is an argument of vLLM; what `engine_args` says of it goes first."""
    given = VllmOptions(quantization="fp8", tensor_parallel_size=2, max_num_batched_tokens=4096)
    arguments = _engine_args(model_path, 2, given, None, {})
    assert (arguments.quantization, arguments.tensor_parallel_size, arguments.enable_lora) == ("fp8", 2, False)
    assert arguments.max_num_batched_tokens == 4096
    others = replace(given, engine_args={"max_num_batched_tokens": 8192})
    assert _engine_args(model_path, 2, others, None, {}).max_num_batched_tokens == 8192


def drain(stream: Iterator[object]) -> None:
    """Read a stream to its end."""
    for _ in stream:
        pass


def test_tenants_share_no_prefixes(vllm_engine: Engine, make_requests: MakeRequests) -> None:
    """A prompt that one tenant sent is computed anew for another, and for the first one read from the cache."""

    def cached(tenant: str) -> int:
        [request] = make_requests(1, start=900)
        [completion] = vllm_engine.generate(iter([replace(request, tenant=tenant)]), lambda: False)
        return completion.cached_tokens

    assert cached("acme") == 0
    assert cached("acme") > 0
    assert cached("other") == 0


def ask(engine: Engine, request: Request, parameters: Parameters) -> Completion:
    """Return the answer to a prompt under other parameters."""
    [completion] = engine.generate(iter([replace(request, parameters=parameters)]), lambda: False)
    return completion


@pytest.mark.slow
@pytest.mark.parametrize("options", [("Yes", "No"), ("1", "10", "100")])
def test_probabilities_of_options(vllm_engine: Engine, make_requests: MakeRequests, options: tuple[str, ...]) -> None:
    """The options' probabilities sum to 1, each seen where it was drawn; they are told only where asked for."""
    [request] = make_requests(1)
    asked = Parameters(max_tokens=8, temperature=2.0, constraint=Choice(options), probability=True)
    seen: dict[str | None, set[tuple[float, ...]]] = {}
    for seed in range(200):
        completion = ask(vllm_engine, request, replace(asked, seed=seed))
        seen.setdefault(completion.text, set()).add(completion.probabilities or ())
        if len(seen) == len(options):
            break
    assert set(seen) == set(options)
    for listed in set.union(*seen.values()):
        assert len(listed) == len(options)
        assert sum(listed) == pytest.approx(1.0, abs=1e-3)
    assert ask(vllm_engine, request, replace(asked, probability=False)).probabilities is None


@pytest.mark.slow
def test_seeds(vllm_engine: Engine, make_requests: MakeRequests) -> None:
    """The same seed draws the same text twice, another seed another one; `top_p` 0 draws the best tokens."""
    [request] = make_requests(1)
    drawing = Parameters(max_tokens=12, temperature=1.5, seed=1)
    assert ask(vllm_engine, request, drawing).text == ask(vllm_engine, request, drawing).text
    assert ask(vllm_engine, request, drawing).text != ask(vllm_engine, request, replace(drawing, seed=2)).text
    best = ask(vllm_engine, request, replace(drawing, temperature=0.0)).text
    assert ask(vllm_engine, request, replace(drawing, top_p=0.0)).text == best


@pytest.mark.slow
@pytest.mark.parametrize("options", SHAPES, ids=lambda options: options[0])
def test_a_single_token_answers_as_the_grammar_does(
    grammar_alone: Callable[[], object], vllm_engine: VllmEngine, make_requests: MakeRequests, options: tuple[str, ...]
) -> None:
    """Answers, probabilities and counts of prompt tokens are those of the grammar; most answers take one token."""
    asked = [
        Parameters(max_tokens=8, constraint=Choice(options)),
        Parameters(max_tokens=8, constraint=Choice(options), probability=True),
        Parameters(max_tokens=8, constraint=Choice(options), temperature=1.5, seed=7),
    ]
    single = vllm_engine._first(asked[0]) is not None
    found = [answers(vllm_engine, make_requests(12, one)) for one in asked]
    grammar_alone()
    for ours, theirs in zip(found, [answers(vllm_engine, make_requests(12, one)) for one in asked], strict=True):
        for our, their in zip(ours, theirs, strict=True):
            assert our.text in options
            assert (our.text, our.error, our.finish_reason) == (their.text, None, "stop")
            assert our.prompt_tokens == their.prompt_tokens
            assert (our.probabilities is None) == (their.probabilities is None)
            if our.probabilities is not None and their.probabilities is not None:  # of the others, one way tells more
                chosen = options.index(our.text or "")
                assert our.probabilities[chosen] == pytest.approx(their.probabilities[chosen])
    assert all(one.probabilities is not None for one in found[1])
    assert not single or sum(one.completion_tokens == 1 for one in found[0]) > 6


@pytest.fixture
def grammar_alone(vllm_engine: VllmEngine) -> Iterator[Callable[[], object]]:
    """Return a function that lets the engine answer every choice under a grammar until the test ends."""
    kept = vllm_engine._first_tokens
    yield lambda: setattr(vllm_engine, "_first_tokens", None)
    vllm_engine._first_tokens = kept


@pytest.mark.slow
def test_a_shared_first_token(
    vllm_engine: VllmEngine, make_requests: MakeRequests, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a token that several options share, the answer comes from the grammar, and both parts are counted."""
    asked = Parameters(max_tokens=8, constraint=Choice(("Yes", "No")))
    first = vllm_engine._first(asked)
    assert first is not None
    usual = answers(vllm_engine, make_requests(4, asked))
    monkeypatch.setattr(vllm_engine, "_first", lambda _: replace(first, options={}))
    shared = answers(vllm_engine, make_requests(4, asked))
    assert [one.text for one in shared] == [one.text for one in usual]
    assert [one.completion_tokens for one in usual] == [1] * 4
    assert min(one.completion_tokens for one in shared) >= 3


@pytest.mark.slow
@pytest.mark.parametrize(
    "constraint",
    [Choice(("1", "10", "100")), Regex("[0-9]{1,3}"), JsonSchema('{"type": "boolean"}')],
    ids=["choice", "regex", "json"],
)
def test_a_grammar_is_checked_once(
    vllm_engine: VllmEngine, make_requests: MakeRequests, monkeypatch: pytest.MonkeyPatch, constraint: Constraint
) -> None:
    """The grammar of a call site is checked once, whatever room its prompts leave; each call site has its grammar."""
    from vllm.v1.structured_output import backend_guidance

    checked: list[object] = []
    real = backend_guidance.validate_guidance_grammar

    def counted(given: object, **named: object) -> None:
        checked.append(given)
        real(given, **named)

    monkeypatch.setattr(backend_guidance, "validate_guidance_grammar", counted)
    for tokens in (9, 1_000_000):  # the second is more than the room behind any prompt
        requests = make_requests(20, Parameters(max_tokens=tokens, constraint=constraint), start=90)
        found = answers(vllm_engine, requests)
        assert [one.error for one in found] == [None] * 20
        assert len({one.prompt_tokens for one in found}) > 1
    assert len(checked) == 2


@pytest.mark.slow
def test_a_prompt_that_cannot_be_encoded_fails_alone(vllm_engine: VllmEngine, make_requests: MakeRequests) -> None:
    """Of prompts that are encoded together, only the one that the tokenizer rejects has an error."""
    requests = make_requests(6, Parameters(max_tokens=2))
    requests[2] = replace(requests[2], prompt="half a pair: \ud83d")
    found = answers(vllm_engine, requests)
    assert [one.error is None for one in found] == [True, True, False, True, True, True]
    assert "the prompt cannot be encoded" in (found[2].error or "")


def answers(engine: Engine, requests: list[Request]) -> list[Completion]:
    """Return the completions of requests in the order of the requests."""
    return sorted(engine.generate(iter(requests), lambda: False), key=lambda one: one.id)
