"""The engine of the Messages API, against a real HTTP server with the documented rules, or with faults."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from flightllm.config import EngineConfig
from flightllm.engines import Engine, create_engine
from flightllm.errors import ConfigError, EngineError
from flightllm.llm.engine import Choice, Completion, JsonSchema, Parameters, Request
from flightllm.llm.prompt_formats import INSTRUCT, Question
from tests.messages_api import MessagesApi, Reply, message, serving, words

pytest.importorskip("anthropic", reason="the extra 'anthropic' is not installed")

MakeRequests = Callable[..., list[Request]]
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


@contextmanager
def asking(api: MessagesApi, model: str = "claude-sonnet-4-5", **options: object) -> Iterator[Engine]:
    """Run the server and an engine on it."""
    with serving(api):
        given = {"base_url": api.url, "api_key_env": "", **options}
        engine = create_engine(EngineConfig("anthropic", model, 8, given))
        try:
            yield engine
        finally:
            engine.close()


def run(engine: Engine, requests: list[Request]) -> list[Completion]:
    """Run requests to the end, in request order."""
    return sorted(engine.generate(iter(requests), lambda: False), key=lambda completion: completion.id)


def in_order(texts: list[str], instruction: str) -> list[Request]:
    """Return the requests of one query: they share the instruction, and each knows it."""
    found = []
    for number, text in enumerate(texts):
        prompt = INSTRUCT.render(instruction, Question("", instruction, ""), [("t", text)])
        end = prompt.index(f"t: {text}")
        shared = end if len(texts) > 1 else 0
        found.append(
            Request(number, prompt, Parameters(), "ai_gen", instruction, (("t", text),), ends=(end,), shared=shared)
        )
    return found


def test_answers_and_tokens(make_requests: MakeRequests) -> None:
    """Each prompt goes out as a system text and a user's text, and gets the text and the reported tokens."""
    with asking(MessagesApi()) as engine:
        [one, *_] = found = run(engine, make_requests(12))
    assert [each.text for each in found] == ["fine"] * 12
    assert one.prompt_tokens > 20
    assert one.completion_tokens == 3
    assert "anthropic (claude-sonnet-4-5 at" in engine.name


@pytest.mark.parametrize(
    "model", ["claude-haiku-4-5", "claude-3-5-haiku-20241022", "claude-opus-4-8", "claude-opus-5-5"]
)
@pytest.mark.parametrize(
    "constraint", [Choice(("no", "fine")), JsonSchema('{"type": "array", "items": {"type": "string", "maxLength": 9}}')]
)
def test_constraints(model: str, constraint: Choice | JsonSchema, make_requests: MakeRequests) -> None:
    """Each model gets a constraint in the form that it takes, without a rejected request."""
    api = MessagesApi()
    parameters = Parameters(constraint=constraint, seed=7, top_p=0.9, probability=True)
    with asking(api, model) as engine:
        found = run(engine, make_requests(4, parameters))
    assert {one.text for one in found} <= {"fine", '["fine"]'}
    assert not api.refused
    form = {"tools"} if "3-5" in model else {"output_config"}
    assert isinstance(constraint, Choice) or form & api.bodies[0].keys()


def test_forms_are_learned(make_requests: MakeRequests) -> None:
    """An endpoint that takes no format gets a tool; without tools, it gets words."""

    def gateway(body: dict[str, object], _: int) -> Reply | None:
        for name in ("output_config", "tools"):
            if name in body:
                error = {"type": "invalid_request_error", "message": f"{name}: Extra inputs are not permitted"}
                return 400, {"type": "error", "error": error}, {}
        return words('["no"]')

    api = MessagesApi(gateway)
    parameters = Parameters(constraint=JsonSchema('{"type": "array", "items": {"type": "string"}}'))
    with asking(api) as engine:
        found = run(engine, make_requests(20, parameters))
        assert [one.text for one in found] == ['["no"]'] * 20
        before = len(api.bodies)
        run(engine, make_requests(5, parameters))
    assert len(api.bodies) == before + 5


def test_labels_in_words_until_the_model_breaks_them(make_requests: MakeRequests) -> None:
    """A label costs few tokens in words; a model that says more than a label is asked for JSON from then on."""
    talks = MessagesApi(lambda body, _: None if "output_config" in body else words("Well, that is hard to say."))
    with asking(talks) as engine:
        found = run(engine, make_requests(20, Parameters(constraint=Choice(("fine", "bad")))))
        before = len(talks.bodies)
        run(engine, make_requests(5, Parameters(constraint=Choice(("fine", "bad")))))
    assert [one.text for one in found] == ["fine"] * 20
    assert len(talks.bodies) == before + 5


@pytest.mark.parametrize("model", ["claude-haiku-4-5", "claude-sonnet-4-6", "claude-opus-4-8", "claude-fable-5"])
@pytest.mark.parametrize("level", ["off", "low", "high"])
def test_thinking(model: str, level: str, make_requests: MakeRequests) -> None:
    """Each level of thinking goes out in a form that the model takes."""
    api = MessagesApi()
    with asking(api, model) as engine:
        found = run(engine, make_requests(2, Parameters(reasoning=level, constraint=Choice(("fine", "no")))))
    assert [one.text for one in found] == ["fine", "fine"]
    assert not api.refused


def test_temperature_and_top_p(make_requests: MakeRequests) -> None:
    """A model that takes one of both gets the one that was chosen."""
    api = MessagesApi()
    with asking(api) as engine:
        run(engine, make_requests(1, Parameters(temperature=1.0, top_p=0.5)))
        run(engine, make_requests(1, Parameters(temperature=0.5, top_p=0.5)))
        [wrong] = run(engine, make_requests(1, Parameters(temperature=1.5)))
    assert [(one.get("temperature"), one.get("top_p")) for one in api.bodies[:2]] == [(None, 0.5), (0.5, None)]
    assert "temperature: range" in str(wrong.error)


def test_a_row_that_always_fails(make_requests: MakeRequests) -> None:
    """A row with a lasting 429, 529 or 500 gets its own error, and the others their answers, each bought once."""
    for status, kind in ((429, "rate_limit_error"), (529, "overloaded_error"), (500, "api_error")):

        def failing(body: dict[str, object], _: int, status: int = status, kind: str = kind) -> Reply | None:
            error = {"type": kind, "message": "not now"}
            bad = "ROW7" in json.dumps(body)
            return (status, {"type": "error", "error": error}, {"retry_after": "0.01"}) if bad else None

        api = MessagesApi(failing)
        with asking(api, max_retries=2) as engine:
            requests = make_requests(12)
            requests[7] = replace(requests[7], prompt="ROW7")
            found = run(engine, requests)
        assert [one.error is None for one in found] == [number != 7 for number in range(12)]
        assert str(status) in str(found[7].error)
        assert sum("film number" in json.dumps(body) for body in api.bodies) == 11


@pytest.mark.parametrize(
    "first",
    [
        (529, OVERLOADED, {}),
        (200, OVERLOADED, {}),
        (200, b"", {}),
        (200, b"<html>busy</html>", {}),
        message([]),
        message(None),
        message([{"type": "text", "text": "x"}], "pause_turn"),
        (429, {"type": "error", "error": {"type": "rate_limit_error", "message": "slow"}}, {"retry_after": "0.01"}),
    ],
    ids=str,
)
def test_faults_that_pass(first: Reply, make_requests: MakeRequests) -> None:
    """A fault that passes, also inside a success, is tried again."""
    lock, seen = threading.Lock(), set[str]()

    def behave(body: dict[str, object], _: int) -> Reply | None:
        with lock:
            key = json.dumps(body["messages"])
            known = key in seen
            seen.add(key)
        return None if known else first

    with asking(MessagesApi(behave)) as engine:
        found = run(engine, make_requests(4))
    assert [one.text for one in found] == ["fine"] * 4


def test_refusals_and_cut_answers(make_requests: MakeRequests) -> None:
    """A refusal is an error of its row with the model's words; a text at max_tokens is partial."""
    replies = [
        message([], "refusal", stop_details={"type": "refusal", "category": None, "explanation": "harmful"}),
        message([{"type": "text", "text": "cut"}], "max_tokens"),
    ]
    with asking(MessagesApi(lambda _, number: replies[number])) as engine:
        refused = run(engine, make_requests(1))[0]
        cut = run(engine, make_requests(1))[0]
    assert (refused.text, refused.refusal, refused.finish_reason) == (None, "harmful", "content_filter")
    assert (cut.text, cut.partial) == ("cut", True)


@pytest.mark.parametrize(
    ("status", "kind", "said", "told"),
    [
        (401, "authentication_error", "invalid x-api-key", "api_key"),
        (404, "not_found_error", "model: claude-none", "has no model"),
        (400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API.", "no quota left"),
        (403, "permission_error", "no access", "denies access"),
    ],
)
def test_errors_of_the_whole_call(status: int, kind: str, said: str, told: str, make_requests: MakeRequests) -> None:
    """A wrong key, model or account ends the query with the line to change."""
    reply: Reply = status, {"type": "error", "error": {"type": kind, "message": said}}, {}
    with asking(MessagesApi(lambda _body, _number: reply)) as engine, pytest.raises(EngineError, match=told):
        run(engine, make_requests(3))


def test_a_denied_row(make_requests: MakeRequests) -> None:
    """A 403 for one prompt, where others succeed, is an error of its row."""
    reply: Reply = 403, {"type": "error", "error": {"type": "permission_error", "message": "flagged"}}, {}
    api = MessagesApi(lambda body, _: reply if "ROW7" in json.dumps(body) else None)
    with asking(api) as engine:
        run(engine, make_requests(3))
        requests = make_requests(12)
        requests[7] = replace(requests[7], prompt="ROW7")
        found = run(engine, requests)
    assert [one.error is None for one in found] == [number != 7 for number in range(12)]


def test_no_usage_is_estimated(make_requests: MakeRequests) -> None:
    """Without a usage, the tokens are estimates, so that budgets hold."""
    with asking(MessagesApi(lambda _body, _number: message([{"type": "text", "text": "fine"}], usage=None))) as engine:
        [one] = run(engine, make_requests(1))
    assert one.estimated
    assert one.prompt_tokens > 20


def test_one_prompt_writes_a_start_and_the_others_read_it() -> None:
    """With a long instruction, one request writes it, and all others wait for it and read it."""
    instruction = "Say what the text is about. " + "Be brief and exact. " * 300
    api = MessagesApi()
    with asking(api) as engine:
        found = run(engine, in_order([f"row {number}" for number in range(20)], instruction))
    written = [one for one in found if one.written_tokens]
    assert len(written) == 1
    assert sum(one.cached_tokens == written[0].written_tokens for one in found) == 19
    assert all(one.prompt_tokens > one.cached_tokens + one.written_tokens for one in found)
    said = ["".join(block["text"] for block in body["system"]) for body in api.bodies]
    assert len(set(said)) == 1
    assert instruction.strip() in said[0]
    assert api.price(3, 15) < 0.3 * api.uncached(3, 15)


def test_nothing_is_marked_where_nothing_is_read() -> None:
    """A single prompt, a short start and `prompt_cache` `off` send plain texts: no write is paid for in vain."""
    long = "Say what the text is about. " * 300
    for texts, instruction, options in (
        (["one"], long, {}),
        (["one", "two"], "Say what it is.", {}),
        (["one", "two"], long, {"prompt_cache": "off"}),
    ):
        api = MessagesApi()
        with asking(api, **options) as engine:
            run(engine, in_order(texts, instruction))
        assert all("cache_control" not in json.dumps(body) for body in api.bodies)
        assert api.price(3, 15) == api.uncached(3, 15)


def test_an_endpoint_that_rejects_marks() -> None:
    """An endpoint that does not know `cache_control` gets the prompts without it, and answers all rows."""

    def gateway(body: dict[str, object], _number: int) -> Reply | None:
        error = {"type": "invalid_request_error", "message": "system.0.cache_control: Extra inputs are not permitted"}
        return (400, {"type": "error", "error": error}, {}) if "cache_control" in json.dumps(body) else None

    api = MessagesApi(gateway)
    with asking(api) as engine:
        found = run(engine, in_order([f"row {number}" for number in range(20)], "Say what the text is about. " * 300))
    assert [one.text for one in found] == ["fine"] * 20
    assert len(api.bodies) < 30


def test_an_endpoint_without_a_cache() -> None:
    """An endpoint that reports no reads gets no marks after a few tries."""

    def uncached(_body: dict[str, object], _number: int) -> Reply:
        usage = {"input_tokens": 900, "cache_creation_input_tokens": 2_000, "output_tokens": 2}
        return message([{"type": "text", "text": "fine"}], usage=usage)

    api = MessagesApi(uncached)
    with asking(api) as engine:
        run(engine, in_order([f"row {number}" for number in range(60)], "Say what the text is about. " * 300))
    assert sum("cache_control" in json.dumps(body) for body in api.bodies) < 20


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"prompt_cache": "on"}, "prompt_cache"),
        ({"api_key": "sk-ant-secret"}, "never the key itself"),
        ({"api": "chat"}, "unknown option"),
        ({"base_url": "api.anthropic.com"}, "base_url"),
        ({"headers": "x"}, "headers"),
    ],
)
def test_wrong_options(options: dict[str, object], told: str) -> None:
    """A wrong option is an error that names it."""
    with pytest.raises(ConfigError, match=told):
        create_engine(EngineConfig("anthropic", "claude-sonnet-4-5", 8, options))


def test_the_key(monkeypatch: pytest.MonkeyPatch, make_requests: MakeRequests) -> None:
    """The key goes out only in Anthropic's header, and a missing key names the variable to set."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "other")
    api = MessagesApi()
    with asking(api, api_key_env="ANTHROPIC_API_KEY", headers={"x-team": "a"}) as engine:
        run(engine, make_requests(1))
    assert api.headers[0]["x-api-key"] == "sk-test"
    assert api.headers[0]["x-team"] == "a"
    assert "authorization" not in api.headers[0]
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    with pytest.raises(ConfigError, match="ANTHROPIC_API_KEY"):
        create_engine(EngineConfig("anthropic", "claude-sonnet-4-5", 8, {}))


def test_check_and_models() -> None:
    """The check finds the model in the endpoint's list."""
    api = MessagesApi()
    with asking(api) as engine:
        said, wrong = engine.check()  # type: ignore[attr-defined]
        assert "has the model claude-sonnet-4-5" in said
        assert not wrong


def test_nobody_at_the_address(make_requests: MakeRequests) -> None:
    """Without a server, the error names the address to correct."""
    with serving(MessagesApi()) as api:
        url = api.url
    engine = create_engine(
        EngineConfig("anthropic", "claude-sonnet-4-5", 8, {"base_url": url, "api_key_env": "", "max_retries": 0})
    )
    try:
        engine.patience = 0.1  # type: ignore[attr-defined]
        with pytest.raises(EngineError, match="base_url"):
            run(engine, make_requests(1))
    finally:
        engine.close()
