"""What providers say when they do not answer, and what becomes of it. The bodies are those of their documentation."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest

from flightllm.config import EngineConfig
from flightllm.engines import create_engine
from flightllm.errors import EngineError, EngineUnavailableError
from flightllm.llm.engine import Request
from tests.endpoints import Body, Endpoint, Reply, answer, endpoint_of
from tests.servers import await_true

pytest.importorskip("openai", reason="the extra 'openai' is not installed")
from flightllm.engines.openai.engine import OpenAIEngine
from flightllm.engines.openai.faults import is_over_context
from flightllm.engines.openai.options import OpenAIOptions

MakeRequests = Callable[..., list[Request]]
KEY = "sk-secret-0123456789"
CASES: list[tuple[int, Any, type[Exception], str]] = [
    (
        429,
        {"error": {"message": "You exceeded your current quota.", "type": "x", "code": "insufficient_quota"}},
        EngineError,
        "no quota left .HTTP 429.: You exceeded your current quota",
    ),
    (402, {"error": {"message": "Insufficient Balance"}}, EngineError, "no quota left .HTTP 402.: Insufficient Bal"),
    (
        400,
        {"error": {"type": "invalid_request_error", "message": "Your credit balance is too low"}},
        EngineError,
        "no quota left .HTTP 400.: Your credit balance",
    ),
    (
        429,
        [{"error": {"code": 429, "message": "You exceeded your current quota. Please retry in 25.1s."}}],
        EngineUnavailableError,
        "limits the rate .HTTP 429.: You exceeded your current quota. Please retry",
    ),
    (
        429,
        {"error": {"message": "Rate limit reached for tokens per day. Please try again in 2m3s.", "code": "rate"}},
        EngineUnavailableError,
        "limits the rate .HTTP 429.: Rate limit reached",
    ),
    (401, {"error": {"message": f"Incorrect API key provided: {KEY}."}}, EngineError, "rejects the API key .HTTP 401"),
    (403, {"error": {"message": "No logprobs for this key"}}, EngineError, "denies access .HTTP 403.: No logpr"),
    (403, {"error": {"message": "Project has no access"}}, EngineError, "denies access .HTTP 403.: Project has"),
    (
        404,
        {"error": {"message": "The model `any` does not exist.", "code": 404}},
        EngineError,
        "has no model 'any' .HTTP 404.: The model `any`",
    ),
    (404, {"error": {"code": "DeploymentNotFound", "message": "x"}}, EngineError, "has no model 'any'"),
    (400, {"object": "error", "message": "Invalid model: any", "type": "invalid_model"}, EngineError, "has no model"),
    (400, {"error": {"message": "any is not a valid model ID", "code": 400}}, EngineError, "has no model 'any'"),
    (
        404,
        {"detail": "Not Found"},
        EngineError,
        "no API at /v1/chat/completions .HTTP 404.: Not Found; correct base_u",
    ),
    (503, {"error": "Loading model"}, EngineUnavailableError, "overloaded or gone .HTTP 503.: Loading model"),
]


def engine_on(endpoint: Endpoint, **options: object) -> OpenAIEngine:
    """Make an engine on an endpoint."""
    engine = create_engine(EngineConfig("openai", "any", 4, {"base_url": endpoint.url, **options}))
    assert isinstance(engine, OpenAIEngine)
    return engine


@pytest.mark.parametrize("case", CASES)
def test_faults(
    case: tuple[int, Any, type[Exception], str], make_requests: MakeRequests, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each body ends the query with its own words and advice, never with the key."""
    status, body, error, said = case
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with endpoint_of(lambda *_: (status, body, {})) as endpoint:
        engine = engine_on(endpoint, max_retries=0)
        with pytest.raises(error, match=said) as raised:
            list(engine.generate(iter(make_requests(2)), lambda: False))
        engine.close()
    assert KEY not in str(raised.value)
    assert isinstance(raised.value, EngineUnavailableError) == (error is EngineUnavailableError)


def test_no_quota_is_no_reason_to_try_again(make_requests: MakeRequests) -> None:
    """An empty account is asked once, whatever the retries; where only the rate is limited it is asked again."""

    def limited(code: str) -> Callable[[str, Body, int], Reply]:
        error = {"message": "You exceeded your current quota", "code": code}
        return lambda path, body, number: (
            answer(path, body) if number else (429, {"error": error}, {"Retry-After": "0"})
        )

    with endpoint_of(limited("insufficient_quota")) as endpoint:
        engine = engine_on(endpoint, max_retries=3)
        with pytest.raises(EngineError, match="no quota left"):
            list(engine.generate(iter(make_requests(1)), lambda: False))
        assert len(endpoint.bodies) == 1
        engine.close()
    with endpoint_of(limited("rate_limit_exceeded")) as endpoint:
        engine = engine_on(endpoint, max_retries=3)
        assert [one.error for one in engine.generate(iter(make_requests(1)), lambda: False)] == [None]
        assert len(endpoint.bodies) == 2
        engine.close()


@pytest.mark.parametrize(
    ("base_url", "reason"),
    [
        ("http://127.0.0.1:1/v1", "no server listens at this address"),
        ("http://no-such-host.invalid/v1", "the host name is unknown"),
    ],
)
def test_unreachable(base_url: str, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A closed port and an unknown name are told apart."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    engine = OpenAIEngine("any", 4, OpenAIOptions(base_url=base_url, max_retries=0))
    with pytest.raises(EngineUnavailableError, match=rf"cannot be reached: {reason}.*\[engine\] base_url"):
        engine.check()
    engine.close()


def test_no_tls() -> None:
    """An endpoint that speaks plain HTTP where base_url says https is told as that."""
    with endpoint_of(lambda path, body, _: answer(path, body)) as endpoint:
        options = OpenAIOptions(base_url=endpoint.url.replace("http:", "https:"), max_retries=0)
        engine = OpenAIEngine("any", 4, options)
        with pytest.raises(EngineUnavailableError, match="TLS fails"):
            engine.probe()
        engine.close()


def test_check_warns_of_what_passes() -> None:
    """A rate limit does not keep a server from starting, and is told."""
    with endpoint_of(lambda *_: (429, {"error": {"message": "slow down"}}, {})) as endpoint:
        engine = engine_on(endpoint)
        found, warning = engine.check()
        assert "answers, without a list of models" in found
        assert "limits the rate (HTTP 429): slow down" in warning
        assert len(endpoint.bodies) == 1
        engine.close()


def test_a_check_leaves_others_their_retries(make_requests: MakeRequests) -> None:
    """What an engine is asked while it is checked is tried again as ever, though the check itself is not."""
    others_done = Event()

    def behave(path: str, body: Body, number: int) -> Reply:
        if "water" in str(body):
            others_done.wait(20)
            return answer(path, body)
        return answer(path, body) if number > 1 else (503, {"error": "busy"}, {"Retry-After": "0"})

    with endpoint_of(behave) as endpoint, ThreadPoolExecutor(1) as pool:
        engine = engine_on(endpoint)
        checked = pool.submit(engine.check)
        await_true(lambda: len(endpoint.bodies) == 1)
        try:
            assert [one.error for one in engine.generate(iter(make_requests(1)), lambda: False)] == [None]
            assert len(endpoint.bodies) == 3
        finally:
            others_done.set()
        assert checked.result()[1] == ""
        engine.close()


@pytest.mark.parametrize(
    ("said", "long"),
    [
        ("This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.", True),
        ("Your input exceeds the context window of this model. Please adjust your input and try again.", True),
        ("prompt is too long: 210000 tokens > 200000 maximum", True),
        ("The decoder prompt (length 5000) is longer than the maximum model length of 4096.", True),
        ("the request exceeds the available context size (4096 tokens), try increasing it", True),
        ("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", True),
        ("Prompt contains 40000 tokens, too large for model with 32768 maximum context length", True),
        ("Input is too long for requested model.", True),
        ("Please reduce the length of the messages or completion.", True),
        ("`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens", True),
        ("The input (5000 tokens) is longer than the model's context length (4096 tokens).", True),
        ("Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 40001.", True),
        ("max_tokens is too large: 100000. This model supports at most 16384 completion tokens.", False),
        ("Invalid prompt: your prompt was flagged as violating our usage policy.", False),
        ("Invalid value for 'temperature': too large", False),
        ("The model `gpt-9` does not exist", False),
        ("Invalid schema for response_format: enum is too long", False),
    ],
)
def test_prompts_beyond_the_context(said: str, *, long: bool) -> None:
    """The words of vendors and servers for a prompt that is too long are told from those about other parts."""
    assert is_over_context(said) is long
