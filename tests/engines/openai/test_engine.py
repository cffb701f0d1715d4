"""The HTTP engine: retries, limits and what it does when an endpoint does not take something.

Against a real HTTP server that answers as told; the contract tests run against a real inference server.
"""

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from flightllm.common.text import shared_start
from flightllm.config import EngineConfig
from flightllm.engines import Engine, create_engine
from flightllm.engines.openai.answers import EndpointAnswer
from flightllm.engines.openai.wire import share_out
from flightllm.engines.predict import tokenizing
from flightllm.errors import CancelledError, ConfigError, EngineError, EngineUnavailableError
from flightllm.kvcache.eviction.hint import ReuseHint, read_hint
from flightllm.llm.engine import (
    Choice,
    Completion,
    JsonSchema,
    KvEventsAddress,
    Parameters,
    PrefixCache,
    Regex,
    Request,
    Reuse,
    cache_salt,
)
from tests.endpoint_process import EndpointProcess
from tests.endpoints import Body, Endpoint, Reply, answer, endpoint_of, refuse

pytest.importorskip("openai", reason="the extra 'openai' is not installed")
from flightllm.engines.openai.engine import OpenAIEngine
from flightllm.engines.openai.options import OpenAIOptions, read_openai_options
from flightllm.engines.openai.usage import Usage

MakeRequests = Callable[..., list[Request]]


@contextmanager
def serving(behave: Callable[[str, Body, int], Reply], **options: object) -> Iterator[tuple[Engine, Endpoint]]:
    """Run an endpoint and an engine on it."""
    with endpoint_of(behave) as endpoint:
        engine = create_engine(EngineConfig("openai", "any", 8, {"base_url": endpoint.url, **options}))
        try:
            yield engine, endpoint
        finally:
            engine.close()


def run(engine: Engine, requests: list[Request]) -> list[Completion]:
    """Run requests to the end, in request order."""
    return sorted(engine.generate(iter(requests), lambda: False), key=lambda completion: completion.id)


def test_room_that_the_endpoint_does_not_have(make_requests: MakeRequests) -> None:
    """Where an endpoint rejects so long an answer, less is asked for, down to what the call asks for itself."""

    def behave(path: str, body: Body, _: int) -> Reply:
        if body["max_tokens"] > 600:
            return refuse(400, "max_tokens is too large: this model supports at most 600 completion tokens")
        return answer(path, body)

    with serving(behave) as (engine, endpoint):
        [request] = make_requests(1, Parameters(max_tokens=512))
        [found] = run(engine, [replace(request, max_tokens=8_192)])
        assert (found.error, [body["max_tokens"] for body in endpoint.bodies]) == (None, [8_192, 2_048, 512])
        [found] = run(engine, [replace(request, parameters=Parameters(max_tokens=700))])
        assert "too large" in (found.error or "")


VLLM_TOO_LARGE = (
    "'max_tokens' or 'max_completion_tokens' is too large: {}. This model's maximum context length is 4096 tokens and"
    " your request has 20 input tokens"
)


def test_room_that_vllm_does_not_have(make_requests: MakeRequests) -> None:
    """VLLM names both keys where an answer is too long for its context: less is asked for, under the same key."""

    def behave(path: str, body: Body, _: int) -> Reply:
        most = body.get("max_tokens") or body["max_completion_tokens"]
        return refuse(400, VLLM_TOO_LARGE.format(most)) if most > 4_000 else answer(path, body)

    with serving(behave) as (engine, endpoint):
        [request] = make_requests(1, Parameters(max_tokens=512))
        [found] = run(engine, [replace(request, max_tokens=8_192)])
        assert found.error is None
        assert [body["max_tokens"] for body in endpoint.bodies] == [8_192, 2_048]


def test_chat_is_the_default(make_requests: MakeRequests) -> None:
    """One chat message per prompt, with the parameters; usage comes back."""
    with serving(lambda path, body, _: answer(path, body)) as (engine, endpoint):
        requests = make_requests(3, Parameters(max_tokens=9, temperature=0.5))
        completions = run(engine, requests)
    assert [one.text for one in completions] == [f"text {len(request.prompt)}" for request in requests]
    assert {(one.prompt_tokens, one.cached_tokens, one.completion_tokens) for one in completions} == {(10, 3, 2)}
    assert endpoint.paths == ["/v1/chat/completions"] * 3
    assert endpoint.bodies[0]["max_tokens"] == 9
    assert endpoint.bodies[0]["temperature"] == 0.5


def test_many_prompts_in_one_request(make_requests: MakeRequests) -> None:
    """Lists of prompts are answered by index, and the sum of their tokens is kept."""
    with serving(lambda path, body, _: answer(path, body), prompts_per_request=4) as (engine, endpoint):
        requests = make_requests(10)
        completions = run(engine, requests)
    assert [one.text for one in completions] == [f"text {len(request.prompt)}" for request in requests]
    assert sorted(len(body["prompt"]) for body in endpoint.bodies) == [2, 4, 4]
    assert sum(one.prompt_tokens for one in completions) == 100
    assert sum(one.cached_tokens for one in completions) == 30


def test_lists_refused(make_requests: MakeRequests) -> None:
    """An endpoint that takes no list gets one prompt at a time, and is not asked again."""

    def behave(path: str, body: Body, _: int) -> Reply:
        return refuse(400, "prompt must be a string") if isinstance(body["prompt"], list) else answer(path, body)

    with serving(behave, prompts_per_request=8) as (engine, endpoint):
        assert all(one.error is None for one in run(engine, make_requests(8)))
        first = len(endpoint.bodies)
        assert all(one.error is None for one in run(engine, make_requests(8)))
        assert not any(isinstance(body["prompt"], list) for body in endpoint.bodies[first:])


def test_one_bad_prompt_in_a_list(make_requests: MakeRequests) -> None:
    """A prompt the endpoint rejects fails alone, and lists go on being used."""

    def behave(path: str, body: Body, _: int) -> Reply:
        return refuse(400, "too long") if "number 2\n" in "".join(body["prompt"]) else answer(path, body)

    with serving(behave, prompts_per_request=4) as (engine, endpoint):
        completions = run(engine, make_requests(4))
        assert [one.error is None for one in completions] == [True, True, False, True]
        assert "too long" in (completions[2].error or "")
        run(engine, make_requests(4, start=10))
        assert isinstance(endpoint.bodies[-1]["prompt"], list)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_retries(status: int, make_requests: MakeRequests) -> None:
    """Overload and server errors are tried again after the time the server asks for."""

    def behave(path: str, body: Body, number: int) -> Reply:
        return refuse(status, Retry_After="0.05") if number < 2 else answer(path, body)

    with serving(behave) as (engine, endpoint):
        assert [one.error for one in run(engine, make_requests(1))] == [None]
        assert len(endpoint.bodies) == 3


@pytest.mark.parametrize(
    ("status", "error", "message"),
    [
        (429, EngineUnavailableError, "limits the rate .HTTP 429., next after 0.01: no; lower max_in_flight"),
        (503, EngineUnavailableError, "overloaded or gone"),
        (401, EngineError, "rejects the API key"),
        (404, EngineError, "no API at /v1/chat/completions .HTTP 404.: no; correct base_url"),
    ],
)
def test_errors_of_the_whole_call(
    status: int, error: type[Exception], message: str, make_requests: MakeRequests
) -> None:
    """What no later prompt would escape ends the call, naming the engine."""
    with (
        serving(lambda *_: refuse(status, Retry_After="0.01"), max_retries=1) as (engine, _),
        pytest.raises(error, match=rf"openai \(any at .*{message}"),
    ):
        run(engine, make_requests(2))


def test_errors_of_one_row(make_requests: MakeRequests) -> None:
    """A server error that stays, on one prompt, is that row's error."""

    def behave(path: str, body: Body, _: int) -> Reply:
        return refuse(500) if "number 1\n" in body["messages"][0]["content"] else answer(path, body)

    with serving(behave, max_retries=0) as (engine, _):
        assert [one.error is None for one in run(engine, make_requests(3))] == [True, False, True]


def test_timeout_and_cancel(make_requests: MakeRequests, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that hangs is an error of its row, also in a check; a cancelled query does not wait for it."""
    hang = threading.Event()

    def behave(path: str, body: Body, _: int) -> Reply:
        hang.wait(20)
        return answer(path, body)

    with serving(behave, timeout=0.2, max_retries=0) as (engine, _):
        assert "did not answer within 0.2 s" in (run(engine, make_requests(1))[0].error or "")
    with serving(behave, timeout=30) as (engine, endpoint):
        monkeypatch.setattr("flightllm.engines.openai.engine._CHECK_SECONDS", 0.3)
        assert isinstance(engine, OpenAIEngine)
        assert "did not answer within 0.3 s" in engine.check()[1]
        with pytest.raises(CancelledError):
            list(engine.generate(iter(make_requests(3)), lambda: len(endpoint.bodies) > 1))
        hang.set()


def test_unreachable(make_requests: MakeRequests) -> None:
    """No server at all: the engine is unavailable, and the error names the address and the line to change."""
    options: dict[str, object] = {"base_url": "http://127.0.0.1:1/v1", "max_retries": 0}
    engine = create_engine(EngineConfig("openai", "any", 8, options))
    said = r"at http://127\.0\.0\.1:1/v1\) cannot be reached: .*; the line to change is \[engine\] base_url"
    with pytest.raises(EngineUnavailableError, match=said):
        run(engine, make_requests(1))
    engine.close()
    with pytest.raises(EngineUnavailableError, match="closed"):
        run(engine, make_requests(1))


@pytest.mark.parametrize(
    ("constraint", "ways"),
    [
        (Choice(("Yes", "No")), ["structured_outputs", "response_format", "response_format", None]),
        (Regex("[0-9]"), ["structured_outputs", "response_format", "response_format", None]),
        (JsonSchema('{"type": "object"}'), ["response_format", "structured_outputs", "response_format", None]),
    ],
)
def test_constraints_degrade(
    constraint: Choice | Regex | JsonSchema, ways: list[str | None], make_requests: MakeRequests
) -> None:
    """A way to say a constraint that is refused gives place to the next, and stays given up."""

    def behave(path: str, body: Body, _: int) -> Reply:
        refused = "structured_outputs" in body or "response_format" in body
        return refuse(400, "unknown parameter") if refused else answer(path, body)

    def way(body: Body) -> str | None:
        return next((name for name in ("structured_outputs", "response_format") if name in body), None)

    with serving(behave) as (engine, endpoint):
        for _ in range(2):
            assert run(engine, make_requests(1, Parameters(constraint=constraint)))[0].error is None
        assert [way(body) for body in endpoint.bodies] == [*ways, None]


def test_newer_name_of_the_token_limit(make_requests: MakeRequests) -> None:
    """Models that want `max_completion_tokens` get it, after saying so once."""

    def behave(path: str, body: Body, _: int) -> Reply:
        return refuse(400, "use 'max_completion_tokens' instead") if "max_tokens" in body else answer(path, body)

    with serving(behave) as (engine, endpoint):
        assert run(engine, make_requests(1))[0].error is None
        assert run(engine, make_requests(1))[0].error is None
        assert ["max_tokens" in body for body in endpoint.bodies] == [True, False, False]


def test_limits_hold_requests_back(make_requests: MakeRequests) -> None:
    """With one request a minute, the second waits: the query can be cancelled meanwhile."""
    with serving(lambda path, body, _: answer(path, body), requests_per_minute=1) as (engine, endpoint):
        stop = threading.Event()
        stream = engine.generate(iter(make_requests(2)), stop.is_set)
        next(stream)
        stop.set()
        with pytest.raises(CancelledError):
            next(stream)
        assert len(endpoint.bodies) == 1


def test_token_limit_holds_requests_back(make_requests: MakeRequests) -> None:
    """Prompts beyond the tokens of a minute wait too."""
    with serving(lambda path, body, _: answer(path, body), tokens_per_minute=100) as (engine, endpoint):
        stop = threading.Event()
        stream = engine.generate(iter(make_requests(4)), stop.is_set)
        next(stream)
        stop.set()
        with pytest.raises(CancelledError):
            list(stream)
        assert len(endpoint.bodies) == 1


@pytest.mark.slow
def test_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_requests: MakeRequests) -> None:
    """The key comes from the named variable or file, which errors name; the hosted API needs one."""
    monkeypatch.setenv("MY_KEY", "from-environment")
    (tmp_path / "key").write_text("from-file\n")
    for options, expected in (
        ({"api_key_env": "MY_KEY"}, "Bearer from-environment"),
        ({"api_key_file": str(tmp_path / "key")}, "Bearer from-file"),
        ({"api_key": "env:MY_KEY"}, "Bearer from-environment"),
        ({"api_key": f"file:{tmp_path / 'key'}"}, "Bearer from-file"),
    ):
        with serving(lambda path, body, _: answer(path, body), **options) as (engine, endpoint):
            run(engine, make_requests(1))
            assert endpoint.keys == [expected]
            assert read_openai_options(options).key_reference == (
                "env:MY_KEY" if "env" in expected else f"file:{tmp_path}/key"
            )
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ConfigError, match="OPENAI_API_KEY is not set or empty"):
        create_engine(EngineConfig("openai", "any", 8, {}))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"base_url": "127.0.0.1:8000/v1"}, "base_url: expected http"),
        ({"api": "soap"}, "api: expected one of"),
        ({"api": "chat", "prompts_per_request": 3}, "one prompt at a time"),
        ({"api_key": "sk-1"}, "write env:NAME or file:PATH"),
        ({"api_key": "env:NOT_THERE_AT_ALL"}, "set the environment variable NOT_THERE_AT_ALL"),
        ({"api_key": "file:/not/there"}, r"api_key: the file cannot be read: No such file or directory$"),
        ({"kv_events": "tcp://localhost:5557"}, "kv_events: needs the tokenizer; write tokenizer ="),
        ({"tokenizer": "demo", "kv_events": "tcp://*:5557"}, "kv_events: expected an address to connect to"),
        (
            {"tokenizer": "demo", "kv_events": "tcp://host"},
            "kv_events: expected .* tcp://HOST:PORT or .*; got 'tcp://host'",
        ),
        (
            {"tokenizer": "demo", "kv_events": "tcp://h:5557", "kv_replay": "tcp://h:port"},
            "kv_replay: expected an address to connect to",
        ),
        ({"tokenizer": "demo", "kv_replay": "tcp://localhost:5558"}, "kv_replay: needs kv_events; write kv_events ="),
        ({"block_tokens": 0}, "block_tokens"),
        ({"tokenizer": "/no/such/model"}, "tokenizer: cannot read the tokenizer of '/no/such/model'"),
    ],
)
def test_wrong_options(options: dict[str, object], message: str) -> None:
    """Options that contradict each other are refused at start."""
    with pytest.raises(ConfigError, match=message):
        create_engine(EngineConfig("openai", "any", 8, options))


def test_what_vllm_takes_beside(make_requests: MakeRequests) -> None:
    """Priorities and tenants' salts are sent where the options say so, beside a constraint, apart where they differ."""
    choice = Parameters(constraint=Choice(("Yes", "No")))
    first, second, third = make_requests(3, choice)
    requests = [replace(first, priority=1, tenant="acme"), replace(second, priority=1, tenant="acme"), third]
    with serving(lambda path, body, _: answer(path, body), prompts_per_request=3) as (engine, endpoint):
        run(engine, requests)
        assert len(endpoint.bodies) == 1
        assert not {"priority", "cache_salt"} & set(endpoint.bodies[0])
    options = {"prompts_per_request": 3, "priority": True, "cache_salt": True}
    with serving(lambda path, body, _: answer(path, body), **options) as (engine, endpoint):
        run(engine, requests)
        assert [len(body["prompt"]) if isinstance(body["prompt"], list) else 1 for body in endpoint.bodies] == [2, 1]
        assert [body["priority"] for body in endpoint.bodies] == [1, 0]
        assert [body.get("cache_salt") for body in endpoint.bodies] == [cache_salt("acme"), None]
        assert all(body["structured_outputs"] == {"choice": ["Yes", "No"]} for body in endpoint.bodies)


def test_hints_for_a_kv_store(make_requests: MakeRequests) -> None:
    """Where vLLM keeps what recurs, it is told how many tokens that is: of prompts sent together, of all of them."""
    pytest.importorskip("transformers", reason="the extra 'cluster' is not installed")
    requests = [replace(one, recurs=length) for one, length in zip(make_requests(3), (100, 60, 0), strict=True)]
    options = {"tokenizer": "demo", "kv_hints": True, "prompts_per_request": 2}
    with serving(lambda path, body, _: answer(path, body), **options) as (engine, endpoint):
        run(engine, requests)
        exact = tokenizing(engine)
        assert exact is not None
        shorter, longer = exact.token_ids([requests[1].prompt[:60], requests[1].prompt])
        together = {"flightllm_kv_prefix": shared_start(shorter, longer)}
        hints = {isinstance(body["prompt"], list): body.get("vllm_xargs") for body in endpoint.bodies}
        assert hints == {True: together, False: None}


@pytest.mark.parametrize("kind", ["chat", "completions"])
def test_hints_for_eviction(make_requests: MakeRequests, kind: str) -> None:
    """Where vLLM evicts by a policy, it is told what later prompts need, in a form that its endpoints take."""
    pytest.importorskip("transformers", reason="the extra 'cluster' is not installed")
    [request] = make_requests(1)
    request = replace(request, recurs=60, reuse=Reuse("site", "query", 3, 60))
    options = {"tokenizer": "demo", "api": kind, "reuse_hints": True}
    with serving(lambda path, body, _: answer(path, body), **options) as (engine, endpoint):
        run(engine, [request, replace(request, reuse=None)])
        exact = tokenizing(engine)
        assert exact is not None
        shorter, longer = exact.token_ids([request.prompt[:60], request.prompt])
        hint = ReuseHint("site", "query", 3, shared_start(shorter, longer))
        told = [body["vllm_xargs"] for body in endpoint.bodies if "vllm_xargs" in body]
        assert told == [hint.extra_args()]
        assert all(isinstance(value, str | int | float) for value in told[0].values())
        assert read_hint(told[0]) == hint


def test_tokens_are_known_only_with_a_tokenizer() -> None:
    """Without the model's tokenizer tokens are estimated, and nobody takes them for exact."""
    pytest.importorskip("transformers", reason="the extra 'cluster' is not installed")
    text = "What is told here was true."
    with serving(lambda *_: refuse(500)) as (engine, _):
        assert isinstance(engine, OpenAIEngine)
        assert tokenizing(engine) is None
        assert engine.count_tokens(text) == 7
        assert (engine.kv_events, engine.separates_tenants) == (None, False)
        assert engine.prefix_cache == PrefixCache(16, 1_024, at_once=False)
    options = {"tokenizer": "demo", "kv_events": "tcp://h:1", "kv_replay": "tcp://h:2", "block_tokens": 32}
    with serving(lambda *_: refuse(500), **options, cache_blocks=9, cache_salt=True) as (engine, _):
        assert isinstance(engine, OpenAIEngine)
        exact = tokenizing(engine)
        assert exact is not None
        assert len(exact.token_ids([text])[0]) > engine.count_tokens(text)
        assert exact.context_tokens == 2_048
        assert (engine.kv_events, engine.separates_tenants) == (KvEventsAddress("tcp://h:1", "tcp://h:2"), True)
        assert engine.prefix_cache == PrefixCache(32, 9)


def test_usage_is_shared_out_in_full(make_requests: MakeRequests) -> None:
    """Token counts of one HTTP request add up over its prompts, also when there are none."""
    requests = make_requests(3)
    failed = [EndpointAnswer("a"), EndpointAnswer(None, "nothing"), EndpointAnswer("c")]
    assert [one.error for one in share_out(requests, failed, Usage())] == [None, "nothing", None]
    usage = Usage(prompt_tokens=100, completion_tokens=7)
    found = share_out(requests, [EndpointAnswer("a"), EndpointAnswer("bb"), EndpointAnswer("cccc")], usage)
    assert sum(one.prompt_tokens for one in found) == 100
    assert [one.completion_tokens for one in found] == [1, 2, 4]
    found = share_out(requests, [EndpointAnswer("a"), EndpointAnswer("b" * 50), EndpointAnswer("")], usage)
    assert [one.completion_tokens for one in found] == [1, 5, 1]


def test_probe() -> None:
    """An endpoint that answers anything but that it is overloaded is there; one that is gone is not."""
    with EndpointProcess() as process:
        engine = OpenAIEngine("any", 8, OpenAIOptions(base_url=process.url))
        engine.probe()  # it knows no list of models, and says so
        process.stop()
        with pytest.raises(EngineUnavailableError, match="cannot be reached"):
            engine.probe()
        engine.close()


def test_shared_revision() -> None:
    """Endpoints of one model have a revision in common, those of another model or way of asking have not."""
    revisions = [
        OpenAIEngine(model, 8, OpenAIOptions(base_url=url, api=api)).shared_revision
        for model, url, api in (("a", "http://x", "chat"), ("a", "http://y", "chat"), ("a", "http://x", "completions"))
    ]
    assert revisions[0] == revisions[1] != revisions[2]


def test_broken_list_is_asked_one_by_one(make_requests: MakeRequests) -> None:
    """A list whose answers are not one for each prompt costs no row its answer, where there are retries."""

    def behave(path: str, body: Body, _: int) -> Reply:
        status, reply, headers = answer(path, body)
        if isinstance(body["prompt"], list):
            for choice in reply["choices"]:
                choice["index"] = 0
        return status, reply, headers

    with serving(behave, prompts_per_request=4, max_retries=1) as (engine, endpoint):
        requests = make_requests(4)
        assert [one.text for one in run(engine, requests)] == [f"text {len(request.prompt)}" for request in requests]
        assert len(endpoint.bodies) == 5
        run(engine, make_requests(4))
        assert len(endpoint.bodies) == 9  # lists are not tried again
    with serving(behave, prompts_per_request=4, max_retries=0) as (engine, endpoint):
        assert all("index is wrong" in (one.error or "") for one in run(engine, make_requests(4)))
        assert len(endpoint.bodies) == 1


def test_a_failed_list_is_paid_for(make_requests: MakeRequests) -> None:
    """What a list took whose answers cannot be read counts at its rows, beside what each took alone."""

    def behave(path: str, body: Body, _: int) -> Reply:
        listed = isinstance(body["prompt"], list)
        return refuse(504, "late") if listed else answer(path, body)

    with serving(behave, prompts_per_request=4, max_retries=1) as (engine, _):
        found = run(engine, make_requests(4))
        assert [one.error for one in found] == [None] * 4
        assert all(one.estimated and one.prompt_tokens > 10 for one in found)
        assert all(one.most_completion_tokens > 2 for one in found)


def test_a_refused_row_of_a_list_counts_none(make_requests: MakeRequests) -> None:
    """If the budget refuses one row of a list, the rows before it take back what they reserved."""
    kept: list[int] = []
    requests = make_requests(4)
    for request in requests[:3]:
        request.dispatch.admit = lambda _, row=request.id: kept.append(row)  # type: ignore[misc]
        request.dispatch.retract = lambda row=request.id: kept.remove(row)  # type: ignore[misc]
    requests[3].dispatch.admit = lambda _: "the query's budget is spent"
    with serving(lambda path, body, _: answer(path, body), prompts_per_request=4) as (engine, endpoint):
        found = run(engine, requests)
        assert [one.error is None for one in found] == [True, True, True, False]
        assert "is not asked, because the query's budget is spent" in (found[3].error or "")
        assert sorted(kept) == sorted(one.id for one in requests[:3])
        assert len(endpoint.bodies) == 3


def test_body_too_large(make_requests: MakeRequests) -> None:
    """A body beyond `response_bytes` is an error of its row, and is not asked for again."""

    def behave(path: str, body: Body, number: int) -> Reply:
        status, reply, headers = answer(path, body)
        return status, {**reply, "more": "x" * 5_000} if number == 0 else reply, headers

    with serving(behave, response_bytes=4_000) as (engine, endpoint):
        [one] = run(engine, make_requests(1))
        assert "larger than response_bytes = 4,000" in (one.error or "")
        assert len(endpoint.bodies) == 1
        assert run(engine, make_requests(1))[0].error is None


def test_prompt_with_a_lone_surrogate(make_requests: MakeRequests) -> None:
    """A prompt that cannot be sent costs its own row only."""
    requests = make_requests(3)
    requests[1] = replace(requests[1], prompt="half \ud800")
    with serving(lambda path, body, _: answer(path, body), prompts_per_request=3) as (engine, _):
        found = run(engine, requests)
    assert [one.error is None for one in found] == [True, False, True]
    assert "lone surrogates" in (found[1].error or "")


def choosing(**options: object) -> Parameters:
    """Return the parameters of a choice between Yes and No."""
    return Parameters(max_tokens=4, constraint=Choice(("Yes", "No")), **options)  # type: ignore[arg-type]


def yes(path: str, body: Body, logprobs: object) -> Reply:
    """Answer Yes to each prompt, with log probabilities."""
    status, reply, headers = answer(path, body)
    for choice in reply["choices"]:
        choice["logprobs"] = logprobs
        if "message" in choice:
            choice["message"]["content"] = "Yes"
        else:
            choice["text"] = "Yes"
    return status, reply, headers


LISTED = {"Yes": math.log(0.6), "No": math.log(0.2), "Well": math.log(0.2)}
OF_CHAT = {
    "content": [
        {
            "token": "Yes",
            "logprob": LISTED["Yes"],
            "top_logprobs": [{"token": token, "logprob": logprob} for token, logprob in LISTED.items()],
        }
    ]
}
OF_TEXT = {"tokens": ["Yes"], "token_logprobs": [LISTED["Yes"]], "top_logprobs": [LISTED], "text_offset": [0]}


@pytest.mark.parametrize(
    ("options", "logprobs", "asked"),
    [
        ({}, OF_CHAT, {"logprobs": True, "top_logprobs": 20}),
        ({"prompts_per_request": 2}, OF_TEXT, {"logprobs": 20}),
    ],
)
def test_probabilities(options: Body, logprobs: Body, asked: Body, make_requests: MakeRequests) -> None:
    """Log probabilities are asked for where a call wants a probability, and come back normalised over the options."""
    with serving(lambda path, body, _: yes(path, body, logprobs), **options) as (engine, endpoint):
        [completion, _] = run(engine, make_requests(2, choosing(probability=True)))
        assert completion.probabilities == pytest.approx((0.75, 0.25))
        assert all(asked.items() <= body.items() for body in endpoint.bodies)
        before = len(endpoint.bodies)
        assert {one.probabilities for one in run(engine, make_requests(2, choosing()))} == {None}
        run(engine, make_requests(1, Parameters(probability=True)))
        assert not any("logprobs" in body for body in endpoint.bodies[before:])


@pytest.mark.parametrize(("most", "found"), [(5, (0.75, 0.25)), (0, None)])
@pytest.mark.parametrize("status", [400, 403])
def test_probabilities_refused(
    most: int, found: tuple[float, ...] | None, status: int, make_requests: MakeRequests
) -> None:
    """An endpoint that takes few log probabilities or none is asked for so many, and answers all the same."""

    def behave(path: str, body: Body, _: int) -> Reply:
        if body.get("top_logprobs", 0) > most:
            return refuse(status, "You are not allowed to request logprobs from this model.")
        return yes(path, body, OF_CHAT if "logprobs" in body else None)

    with serving(behave) as (engine, endpoint):
        for _ in range(2):
            [completion] = run(engine, make_requests(1, choosing(probability=True)))
            assert (completion.text, completion.error) == ("Yes", None)
            assert completion.probabilities == (found and pytest.approx(found))
        assert endpoint.bodies[-1].get("top_logprobs", 0) == most
        assert len(endpoint.bodies) == (3 if most else 4)


def test_sampling_is_sent_where_it_is_set(make_requests: MakeRequests) -> None:
    """`top_p` and `seed` go to the endpoint where a call has them, and else not at all."""
    with serving(lambda path, body, _: answer(path, body)) as (engine, endpoint):
        run(engine, make_requests(1, Parameters(top_p=0.5, seed=0)))
        run(engine, make_requests(1))
    assert [(body.get("top_p"), body.get("seed")) for body in endpoint.bodies] == [(0.5, 0), (None, None)]


@pytest.mark.parametrize("why", ["System role not supported", "Developer instruction is not enabled for this model"])
def test_system_role_refused(why: str, make_requests: MakeRequests) -> None:
    """Where there is no system role, its words begin the user's turn; the endpoint is asked once."""

    def behave(path: str, body: Body, _: int) -> Reply:
        return refuse(400, why) if body["messages"][0]["role"] == "system" else answer(path, body)

    with serving(behave, system_prompt="Be brief.") as (engine, endpoint):
        assert all(one.error is None for one in run(engine, make_requests(1)))
        assert all(one.error is None for one in run(engine, make_requests(3)))
    roles = [[one["role"] for one in body["messages"]] for body in endpoint.bodies]
    assert roles == [["system", "user"], *[["user"]] * 4]
    assert all(body["messages"][0]["content"].startswith("Be brief.\n\n") for body in endpoint.bodies[1:])


def test_json_that_the_endpoint_rejects(make_requests: MakeRequests) -> None:
    """A row whose JSON the endpoint rejects is asked again without a constraint; other rows keep theirs."""
    schema = JsonSchema('{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}')

    def behave(path: str, body: Body, number: int) -> Reply:
        if number == 0:
            return refuse(400, "Failed to generate JSON. Please adjust your prompt.")
        reply = answer(path, body)
        reply[1]["choices"][0]["message"]["content"] = '{"a": "x"}'
        return reply

    with serving(behave) as (engine, endpoint):
        for _ in range(2):
            assert [one.text for one in run(engine, make_requests(1, Parameters(constraint=schema)))] == ['{"a": "x"}']
    assert ["response_format" in body for body in endpoint.bodies] == [True, False, True]
