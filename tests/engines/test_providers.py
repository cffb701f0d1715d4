"""AI functions over endpoints with their providers' quirks: every function answers, and in few tries."""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from flightllm.config import CacheConfig, Config, EngineConfig, RecoveryConfig
from flightllm.engines import create_engine
from flightllm.errors import ConfigError, InvalidInputError
from flightllm.llm.engine import Choice, Completion, JsonSchema, Parameters, Request
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import ask, open_database, rows
from tests.endpoints import Body, Endpoint, refuse
from tests.engines.providers import PROVIDERS, THOUGHT, Quirks, named, provider

pytest.importorskip("openai", reason="the extra 'openai' is not installed")
from flightllm.engines.openai.engine import OpenAIEngine

REVIEWS = "(VALUES ('a wonderful film'), ('a dull film')) AS r(review)"
SQL = f"""SELECT ai_filter('Is {{review}} good?', review) AS good,
    ai_classify(review, ['positive', 'negative']) AS label,
    ai_score('How good?', review, low => 0, high => 10) AS score,
    ai_extract(review, ['city', 'year']) AS found, ai_gen('Write on {{review}}', review) AS text,
    ai_summarize(review) AS summary FROM {REVIEWS} ORDER BY review DESC"""
BY_NAME = {one.name: one for one in PROVIDERS}
KEYS = ("AZURE_OPENAI", "OPENAI", "GROQ", "DEEPSEEK", "OPENROUTER", "MISTRAL", "ANTHROPIC")


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set each provider's variable."""
    for name in KEYS:
        monkeypatch.setenv(f"{name}_API_KEY", f"key-of-{name}")


@contextmanager
def session_on(quirks: Quirks, folder: Path, **options: object) -> Iterator[tuple[Session, Endpoint]]:
    """Open a database whose engine asks an endpoint with quirks."""
    with provider(quirks) as endpoint:
        chosen = {"base_url": endpoint.url, "max_retries": 0, **dict(quirks.options), **options}
        config = Config(
            engine=EngineConfig("openai", quirks.model, 1, chosen),
            cache=CacheConfig(enabled=False),
            recovery=RecoveryConfig(on_engine_down="fail"),
            data_folder=folder,
        )
        with closing(Database.open(config)) as database, closing(database.session()) as session:
            yield session, endpoint


@pytest.mark.slow
@pytest.mark.parametrize("quirks", PROVIDERS, ids=lambda one: one.name)
def test_every_function_answers(quirks: Quirks, tmp_path: Path) -> None:
    """Two rows of six functions are all answered rightly, and asking again costs one request an answer."""
    with session_on(quirks, tmp_path) as (session, endpoint):
        first, second = ask(session, SQL, cache="off").rows
        assert (first["good"], first["label"], first["score"]) == (True, "positive", 8.0)
        assert (second["good"], second["label"], second["score"]) == (False, "negative", 2.0)
        assert first["found"] == {"city": "Rome", "year": "1999"}
        assert "A short text" in first["text"]
        assert "A short text" in first["summary"]
        assert THOUGHT not in first["text"] + first["summary"]
        assert len(endpoint.bodies) <= 30
        learned = len(endpoint.bodies)
        assert ask(session, SQL, cache="off").rows[0]["label"] == "positive"
        assert len(endpoint.bodies) - learned == 12


CHOICE = Parameters(3, constraint=Choice(("Yes", "No")))
CITY = JsonSchema(
    '{"type":"object","properties":{"city":{"type":"string","maxLength":9},"year":{"type":"string"}},'
    '"required":["city"],"additionalProperties":false}'
)


def request(parameters: Parameters, text: str = "wonderful: Yes or No?") -> Request:
    """Make one request."""
    return Request(0, text, parameters, "ai_filter", "", ())


@contextmanager
def engine_on(quirks: Quirks, **options: object) -> Iterator[tuple[OpenAIEngine, Endpoint]]:
    """Run an endpoint with quirks and an engine on it."""
    with provider(quirks) as endpoint:
        chosen = {"base_url": endpoint.url, "max_retries": 0, **dict(quirks.options), **options}
        engine = create_engine(EngineConfig("openai", quirks.model, 4, chosen))
        assert isinstance(engine, OpenAIEngine)
        try:
            yield engine, endpoint
        finally:
            engine.close()


def one(engine: OpenAIEngine, parameters: Parameters = CHOICE, text: str = "wonderful: Yes or No?") -> Completion:
    """Answer one request."""
    [found] = engine.generate(iter([request(parameters, text)]), lambda: False)
    return found


def way(body: Body) -> str:
    """Return how a request says its constraint."""
    kind = body.get("response_format", {}).get("type")
    keys = ("structured_outputs", "guided_choice", "regex", "grammar")
    return kind or next((key for key in keys if key in body), "words")


WAYS = (
    ("openai gpt-4.1", ["json_schema"]),
    ("a gateway before gpt-5", ["structured_outputs"] * 3 + ["json_schema"] * 2),
    ("vllm", ["structured_outputs"]),
    ("vllm 0.8", ["structured_outputs", "guided_choice"]),
    ("sglang", ["regex"]),
    ("ollama", ["json_schema"]),
    ("llama.cpp", ["grammar"]),
    ("lm studio", ["json_schema"]),
    ("tgi", ["regex"]),
    ("groq", ["json_schema", "json_schema", "json_object"]),
    ("deepseek", ["json_object"]),
    ("anthropic", ["words"]),
    ("fences", ["structured_outputs"]),
)


@pytest.mark.parametrize(("name", "ways"), WAYS)
def test_ways_to_say_a_choice(name: str, ways: list[str]) -> None:
    """The endpoint sees the documented way first, then others where it does not keep to that; later the last alone."""
    with engine_on(BY_NAME[name]) as (engine, endpoint):
        found = one(engine)
        assert (found.text, found.error) == ("Yes", None)
        assert [way(body) for body in endpoint.bodies] == ways
        assert one(engine).text == "Yes"
        assert len(endpoint.bodies) == len(ways) + 1
        assert way(endpoint.bodies[-1]) == (ways[-1] if name != "fences" else "json_schema")


def test_refused_parameters_are_sent_once() -> None:
    """A gateway without a known name refuses four forms one after the other; the next request has none of them."""
    with engine_on(BY_NAME["a gateway before gpt-5"]) as (engine, endpoint):
        assert one(engine).text == "Yes"
        assert "max_tokens" in endpoint.bodies[0]
        assert "temperature" in endpoint.bodies[1]
        refused = len(endpoint.bodies)
        assert one(engine).text == "Yes"
        assert len(endpoint.bodies) == refused + 1
        last = endpoint.bodies[-1]
        assert not {"max_tokens", "temperature", "structured_outputs"} & set(last)
        assert last["max_completion_tokens"] > 300
        assert one(engine, replace(CHOICE, temperature=1.0)).text == "Yes"
        assert endpoint.bodies[-1]["temperature"] == 1.0  # only the value 0 was refused


def test_requests_at_the_same_time_learn_together() -> None:
    """What an endpoint rejects is sent no more often than once for each place of the window."""
    refuse_seed = Quirks("x", (named("seed", "Extra inputs are not permitted: seed", status=422),))
    with engine_on(refuse_seed) as (engine, endpoint):
        requests = [replace(request(Parameters(9, seed=1)), id=number) for number in range(40)]
        assert {found.error for found in engine.generate(iter(requests), lambda: False)} == {None}
        assert 1 <= sum("seed" in body for body in endpoint.bodies) <= 4


def test_sampling_is_sent_where_it_is_set() -> None:
    """`top_p` and `seed` go along only where they were chosen."""
    with engine_on(Quirks("x")) as (engine, endpoint):
        one(engine, Parameters(9))
        one(engine, Parameters(9, top_p=0.5, seed=7))
        assert not {"top_p", "seed"} & set(endpoint.bodies[0])
        assert (endpoint.bodies[1]["top_p"], endpoint.bodies[1]["seed"]) == (0.5, 7)


def test_a_temperature_out_of_range_is_told() -> None:
    """A value that nobody can take is not dropped in silence: the row says what the endpoint says."""
    limit = Quirks("x", (named("temperature", "temperature: range: 0..1", when=lambda value: value > 1),))
    with engine_on(limit) as (engine, endpoint):
        assert "temperature: range" in (one(engine, Parameters(9, temperature=1.5)).error or "")
        assert len(endpoint.bodies) == 1


def test_a_prompt_that_is_refused_spoils_nothing() -> None:
    """Once a form was accepted, a refusal without a reason is the prompt's: it costs one request and no form."""
    long = Quirks("x", (lambda body: refuse(400, "too long") if "endless" in str(body) else None,), ("json_schema",))
    with engine_on(replace(long, options=(("provider", "ollama"),))) as (engine, endpoint):
        assert one(engine).text == "Yes"
        assert "too long" in (one(engine, text="endless").error or "")
        assert len(endpoint.bodies) == 2
        assert one(engine).text == "Yes"
        assert way(endpoint.bodies[-1]) == "json_schema"


THINKING = (
    ("openai gpt-5-nano", {"reasoning_effort": "minimal"}, 1_024, 300),
    ("vllm, qwen3", {"chat_template_kwargs": {"enable_thinking": False, "thinking": False}}, 0, 0),
    ("ollama, thinking", {"reasoning_effort": "none"}, 0, 0),
    ("openrouter", {"reasoning": {"effort": "none", "exclude": True}}, 0, 0),
)


@pytest.mark.parametrize("case", THINKING, ids=lambda case: case[0])
def test_thinking_is_switched_off(case: tuple[str, Body, int, int]) -> None:
    """A model that is known to think is told the provider's way to think the least, and gets tokens for the rest."""
    name, keys, allowance, spent = case
    with engine_on(BY_NAME[name]) as (engine, endpoint):
        found = one(engine)
        assert (found.text, found.reasoning_tokens) == ("Yes", spent)
        sent = endpoint.bodies[-1]
        assert {key: sent[key] for key in keys} == keys
        most: int = sent.get("max_completion_tokens") or sent["max_tokens"]
        assert allowance <= most < allowance + 64
        assert one(engine, replace(CHOICE, reasoning="high")).text == "Yes"
        assert endpoint.bodies[-1] | keys != endpoint.bodies[-1]


def test_the_configured_level_counts() -> None:
    """`reasoning` of the engine is what a call has that does not say its own, and is part of the revision."""
    quirks = BY_NAME["ollama, thinking"]
    with provider(quirks) as endpoint:
        config = EngineConfig("openai", quirks.model, 4, {"base_url": endpoint.url}, reasoning="medium")
        with closing(create_engine(config)) as engine:
            assert isinstance(engine, OpenAIEngine)
            assert one(engine).text == "Yes"
            assert one(engine, replace(CHOICE, reasoning="off")).text == "Yes"
            assert engine.revision.endswith(" medium")
        assert [body["reasoning_effort"] for body in endpoint.bodies] == ["medium", "none"]


def test_less_room_where_the_context_is_short() -> None:
    """A budget for thoughts that a model's context has no room for is halved until it fits, once for all."""
    short = named("max_tokens", "This model's maximum context length is 1000 tokens", when=lambda value: value > 1_000)
    with engine_on(replace(BY_NAME["thinks in content"], refusals=(short,))) as (engine, endpoint):
        assert one(engine).text == "Yes"
        assert max(body["max_tokens"] for body in endpoint.bodies) > 1_000
        tried = len(endpoint.bodies)
        assert one(engine).text == "Yes"
        assert len(endpoint.bodies) == tried + 1


def test_thoughts_that_eat_the_answer_get_room() -> None:
    """A model that nobody knew to think answers at the second try; the next request has the room at once."""
    with engine_on(BY_NAME["thinks in content"]) as (engine, endpoint):
        found = one(engine)
        assert found.text == "Yes"
        assert found.reasoning_tokens > 0
        assert "think" not in found.text
        assert endpoint.bodies[0]["max_tokens"] < 64
        assert endpoint.bodies[1]["max_tokens"] >= 1_024
        assert one(engine).text == "Yes"
        assert endpoint.bodies[-1]["max_tokens"] >= 1_024
    with engine_on(replace(BY_NAME["thinks in content"], thought_tokens=10**6)) as (engine, endpoint):
        found = one(engine)
        assert found.text is None
        assert "thoughts" in (found.error or "")
        assert len(endpoint.bodies) <= 7  # there is an end to it


def test_a_schema_in_strict_mode_and_back() -> None:
    """OpenAI gets every property required and nothing that strict mode lacks, at the first try."""
    with engine_on(BY_NAME["openai gpt-4.1"]) as (engine, endpoint):
        found = one(engine, Parameters(64, constraint=CITY), "city")
        assert json.loads(found.text or "") == {"city": "Rome", "year": "1999"}
        sent = endpoint.bodies[0]["response_format"]["json_schema"]
        assert sent["strict"]
        assert sent["schema"]["required"] == ["city", "year"]
        assert sent["schema"]["properties"]["year"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}
        assert len(endpoint.bodies) == 1


def test_azure() -> None:
    """The resource alone is enough: `/openai/v1`, or with `api_version` the deployment's path."""
    for version, path in (("", "/openai/v1/"), ("2024-10-21", "/openai/deployments/any/")):
        with provider(Quirks("x", honours=("json_schema",))) as endpoint:
            base = endpoint.url.removesuffix("/v1")
            options = {"base_url": base, "provider": "azure", "api_version": version}
            with closing(create_engine(EngineConfig("openai", "any", 1, options))) as engine:
                assert isinstance(engine, OpenAIEngine)
                assert one(engine).text == "Yes"
            query = f"?api-version={version}" if version else ""
            assert endpoint.paths == [f"{path}chat/completions{query}"]
            assert endpoint.headers[0]["api-key"] == "key-of-AZURE_OPENAI"
            assert endpoint.keys == [None]


def test_what_goes_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """Further keys, headers, a query, an organization and a system prompt are sent, secrets by reference."""
    monkeypatch.setenv("GATE_TOKEN", "gate-secret")
    options: dict[str, object] = {
        "extra_body": '{"min_p": 0.1, "temperature": 0.3}',
        "headers": {"X-Gate-Token": "env:GATE_TOKEN", "X-Team": "data"},
        "query": {"route": "fast"},
        "organization": "org-1",
        "project": "proj-1",
        "system_prompt": "Be brief.",
    }
    with engine_on(Quirks("x"), **options) as (engine, endpoint):
        one(engine, Parameters(9))
        body, headers = endpoint.bodies[0], {key.lower(): value for key, value in endpoint.headers[0].items()}
        assert (body["min_p"], body["temperature"]) == (0.1, 0.3)
        assert body["messages"][0] == {"role": "system", "content": "Be brief."}
        assert (headers["x-gate-token"], headers["x-team"]) == ("gate-secret", "data")
        assert (headers["openai-organization"], headers["openai-project"]) == ("org-1", "proj-1")
        assert endpoint.paths[0].endswith("/chat/completions?route=fast")
        assert "min_p" in engine.revision
        assert "gate-secret" not in engine.revision


def test_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests go through `proxy`, or through the environment's: it sees the whole address."""
    with provider(Quirks("x")) as proxy:
        options = {"base_url": "http://far.invalid/v1", "max_retries": 0}
        place = proxy.url.removesuffix("/v1")
        monkeypatch.setenv("MY_PROXY", place)
        for chosen in (place, "env:MY_PROXY"):
            with closing(create_engine(EngineConfig("openai", "any", 1, {**options, "proxy": chosen}))) as engine:
                assert isinstance(engine, OpenAIEngine)
                assert one(engine, Parameters(9)).error is None
        monkeypatch.setenv("http_proxy", place)
        with closing(create_engine(EngineConfig("openai", "any", 1, options))) as engine:
            assert isinstance(engine, OpenAIEngine)
            assert one(engine, Parameters(9)).error is None
        assert proxy.paths == ["http://far.invalid/v1/chat/completions"] * 3


@pytest.mark.parametrize(
    ("options", "variable"),
    [
        ({"provider": "groq"}, "GROQ_API_KEY"),
        ({"base_url": "https://x.openai.azure.com"}, "AZURE_OPENAI_API_KEY"),
        ({"base_url": "https://api.mistral.ai/v1"}, "MISTRAL_API_KEY"),
    ],
)
def test_each_provider_has_its_key(options: dict[str, object], variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key of one provider is never sent to another: without its own variable the engine does not open."""
    monkeypatch.delenv(variable, raising=False)
    with pytest.raises(ConfigError, match=f"the environment variable {variable} is not set or empty"):
        create_engine(EngineConfig("openai", "any", 1, options))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"provider": "nobody"}, "provider: expected one of openai, azure, vllm"),
        ({"headers": {"Authorization": "Bearer x"}}, "headers: write Authorization as env:NAME"),
        ({"headers": {"X-Count": 1}}, "headers: X-Count must be a text"),
        (
            {"extra_body": "min_p"},
            r"extra_body: expected a section \[engine.extra_body\], or a text that is a JSON object",
        ),
        ({"proxy": "http://me:pw@proxy:1"}, "proxy: an address with a password must be env:NAME"),
        ({"proxy": "proxy:1"}, "proxy: expected http://HOST:PORT"),
    ],
)
def test_wrong_options(options: dict[str, object], said: str) -> None:
    """Wrong tables and secrets in the open are refused."""
    with pytest.raises(ConfigError, match=said):
        create_engine(EngineConfig("openai", "any", 1, {"base_url": "http://127.0.0.1:1/v1", **options}))


def test_create_model_takes_tables(tmp_path: Path) -> None:
    """In SQL a table is a JSON object in quotes; one with a secret in it is refused before it is kept."""
    with provider(Quirks("x", honours=("json_schema",))) as endpoint, closing(open_database(tmp_path)) as database:
        session = database.session()
        options = f"""engine 'openai', model 'any', base_url '{endpoint.url}', provider 'ollama'"""
        session.update(f"""CREATE MODEL mine OPTIONS ({options}, extra_body '{{"min_p": 0.1}}')""")
        assert rows(session, "SELECT ai_filter('wonderful?', model => 'mine') AS x") == [{"x": True}]
        assert endpoint.bodies[0]["min_p"] == 0.1
        with pytest.raises(InvalidInputError, match="holds a secret"):
            session.update(f"""CREATE MODEL other OPTIONS ({options}, headers '{{"Authorization": "Bearer x"}}')""")
        session.close()
