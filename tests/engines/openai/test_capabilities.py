"""The record of what an endpoint takes, without an endpoint: what each refusal teaches."""

from typing import Any

import pytest

from flightllm.engines.openai.answers import EndpointAnswer
from flightllm.engines.openai.capabilities import MOST_TRIES, Capabilities, Refusal, RequestAttempts
from flightllm.engines.openai.usage import Usage
from flightllm.engines.providers import PROVIDERS, UNKNOWN, named, provider_at, provider_of, thinking_steps, thinks
from flightllm.llm.engine import Choice, JsonSchema, Parameters

CHOICE = Parameters(3, constraint=Choice(("Yes", "No")))


def record(model: str = "any", provider: str = "") -> Capabilities:
    """Make a record that knows nothing yet."""
    return Capabilities(named(provider) or UNKNOWN, model, chat=True, constraints=True)


def test_log_probabilities_step_down_together() -> None:
    """Fewer are asked for where so many are refused, and then none at all."""
    known = record()
    extra: dict[str, Any] = {"logprobs": (True,), "top_logprobs": (20, 5)}
    asking = RequestAttempts(known, Parameters(3), extra=extra)
    assert asking.plan().body["top_logprobs"] == 20
    assert asking.refused(asking.plan(), Refusal("top_logprobs must be at most 5"))
    assert asking.plan().body["top_logprobs"] == 5
    assert asking.refused(asking.plan(), Refusal("no top_logprobs here"))
    assert not {"logprobs", "top_logprobs"} & asking.plan().body.keys()
    assert RequestAttempts(known, Parameters(3), extra=extra).plan().body.keys() == {"temperature"}


def test_one_bad_schema_spoils_no_other() -> None:
    """A refusal of a schema holds for it alone; one of the key holds for all schemas."""
    known = record(provider="ollama")
    first, second = (Parameters(9, constraint=JsonSchema(f'{{"type":"object","title":"{n}"}}')) for n in "ab")
    asking = RequestAttempts(known, first)
    assert asking.refused(asking.plan(), Refusal("Invalid schema for response_format 'answer'"))
    assert asking.plan().form.way == "object"
    assert RequestAttempts(known, second).plan().form.way == "schema"
    other = RequestAttempts(known, second)
    assert other.refused(other.plan(), Refusal("response_format json_schema is unknown", "response_format"))
    assert RequestAttempts(known, second).plan().form.way == "object"


def test_requests_in_flight_while_a_form_is_given_up() -> None:
    """A rejection without a name, of a form that another request has given up meanwhile, fails no row."""
    known = record(provider="ollama")
    first, late = RequestAttempts(known, CHOICE), RequestAttempts(known, CHOICE)
    early, plan = first.plan(), late.plan()
    assert first.refused(early, Refusal("bad request"))
    second = first.plan()
    assert second.place > early.place
    first.accepted(second)
    assert late.refused(plan, Refusal("bad request"))
    assert late.plan().place == second.place
    assert not late.refused(late.plan(), Refusal("bad request")), "now the prompt is the cause"


def test_a_bad_prompt_gives_up_no_form_that_others_use() -> None:
    """A prompt that passes only in a worse form leaves the better form to others, for which it works."""
    known = record(provider="ollama")
    bad, good = RequestAttempts(known, CHOICE), RequestAttempts(known, CHOICE)
    rejected, plan = bad.plan(), good.plan()
    assert bad.refused(rejected, Refusal("bad request"))
    good.accepted(plan)
    bad.accepted(bad.plan())
    assert RequestAttempts(known, CHOICE).plan().place == plan.place


def test_a_form_in_use_stays_known() -> None:
    """The record forgets the constraints that were used least recently, and no constraint of a running query."""
    known = record(provider="ollama")
    hot, cold, *others = (Choice((f"{n}",)) for n in range(1_026))
    for constraint in (hot, cold):
        known.accept(constraint, 1)
    for constraint in others:
        assert known.form_index(hot) == 1
        known.accept(constraint, 0)
    assert known.knows(hot)
    assert not known.knows(cold)


def test_tries_have_an_end() -> None:
    """An endpoint that refuses everything is given up after a few requests."""
    asking = RequestAttempts(record("gpt-5"), CHOICE)
    for _ in range(MOST_TRIES + 1):
        if not asking.refused(asking.plan(), Refusal("temperature, reasoning_effort and response_format: no")):
            break
    assert asking.tries <= MOST_TRIES


def test_a_rare_lapse_is_forgiven() -> None:
    """One answer in prose among many that kept to the constraint does not give up the form."""
    known = record(provider="vllm")
    for _ in range(100):
        known.note(CHOICE.constraint, 0, ignored=False)
    known.note(CHOICE.constraint, 0, ignored=True)
    assert RequestAttempts(known, CHOICE).plan().form.way == "structured"
    for _ in range(9):
        known.note(CHOICE.constraint, 0, ignored=True)
    assert RequestAttempts(known, CHOICE).plan().form.way != "structured"


def test_two_names_of_the_token_limit() -> None:
    """Either name gives way to the other, and not back and forth."""
    known = record(provider="openai")
    asking = RequestAttempts(known, Parameters(3))
    assert known.tokens_key == "max_completion_tokens"
    assert asking.refused(asking.plan(), Refusal("Unrecognized request argument supplied: max_completion_tokens"))
    assert known.tokens_key == "max_tokens"


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("https://api.openai.com/v1", "openai"),
        ("https://mine.openai.azure.com/openai/v1", "azure"),
        ("http://127.0.0.1:11434/v1", "ollama"),
        ("http://gpu:8000/v1", "unknown"),
        ("https://notgroq.example/v1", "unknown"),
        ("https://api.groq.com/openai/v1", "groq"),
    ],
)
def test_providers_are_recognised(address: str, name: str) -> None:
    """By host or port where these tell; else by what the list of models says."""
    assert provider_at(address).name == name
    assert provider_of(iter(["vllm"])).name == "vllm"
    assert provider_of(iter(["me"])) is UNKNOWN


def test_names_are_unique() -> None:
    """Each provider is there once, and each of its ways to think ends with asking for nothing."""
    assert len({one.name for one in PROVIDERS}) == len(PROVIDERS)
    for one in PROVIDERS:
        for level in ("off", "low", "medium", "high"):
            assert thinking_steps(one.thinking, level, "any")[-1].body == ()


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("gpt-5-nano", True),
        ("openai/gpt-oss-20b", True),
        ("o3-mini", True),
        ("Qwen/Qwen3-8B", True),
        ("qwen3:8b", True),
        ("deepseek-reasoner", True),
        ("gemini-2.5-flash", True),
        ("gpt-4.1", False),
        ("gpt-4o-mini", False),
        ("Qwen/Qwen3-4B-Instruct-2507", False),
        ("Qwen/Qwen2.5-7B-Instruct", False),
        ("llama-3.3-70b-versatile", False),
        ("claude-sonnet-4-5", False),
    ],
)
def test_models_that_think(model: str, expected: bool) -> None:
    """Names of models that think are known; others are found out."""
    assert thinks(model) == expected


def test_a_long_prompt_takes_no_room_from_short_ones() -> None:
    """What a context has no room for behind a long prompt holds for such prompts, and only once one was answered."""
    known = record("gpt-5-mini")
    asking = RequestAttempts(known, CHOICE, "high", size=100_000)
    most = asking.plan().allowance
    for _ in range(3):
        assert asking.refused(asking.plan(), Refusal("This model's maximum context length is 30000 tokens"))
    plan = asking.plan()
    assert plan.allowance == most // 8
    assert RequestAttempts(known, CHOICE, "high", size=100_000).plan().allowance == most
    asking.accepted(plan)
    assert RequestAttempts(known, CHOICE, "high", size=200_000).plan().allowance == plan.allowance
    assert RequestAttempts(known, CHOICE, "high", size=100).plan().allowance == most


def test_a_key_changes_once() -> None:
    """A refusal that names both keys for the most tokens changes the key once, not at each try."""
    asking = RequestAttempts(record(), Parameters(3))
    refusal = Refusal("use max_tokens or max_completion_tokens as you like")
    tries = 0
    while asking.refused(asking.plan(), refusal):
        tries += 1
    assert tries <= 2


def test_a_model_that_thinks_when_told_has_room() -> None:
    """Claude does not think by itself; asked to, it has room for its budget beside the answer."""
    plan = RequestAttempts(record("claude-sonnet-4-5", "anthropic"), CHOICE, "high").plan()
    assert plan.options["thinking"]["budget_tokens"] < plan.tokens


@pytest.mark.parametrize("level", ["off", "low", "medium", "high"])
@pytest.mark.parametrize("provider", ["", *(one.name for one in PROVIDERS)])
@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "gpt-5-nano", "Qwen/Qwen3-8B", "gpt-4.1"])
def test_the_most_of_a_thought(model: str, provider: str, level: str) -> None:
    """What is said to be the most tokens of a thought is what a request leaves for it, at every provider and level."""
    known = record(model, provider)
    plan = RequestAttempts(known, Parameters(3), level).plan()
    assert known.most_thought(level) == plan.tokens - 3 - plan.form.more_tokens
    thinking = plan.options.get("thinking", {})
    assert thinking.get("budget_tokens", 0) in {0, known.most_thought(level)}


def test_the_most_of_a_thought_is_learned() -> None:
    """Where answers were cut in their thoughts, the most grows as what the next request leaves for them does."""
    known = record("gpt-5-mini")
    asking = RequestAttempts(known, Parameters(3))
    before = known.most_thought("off")
    _, again = asking.read(asking.plan(), EndpointAnswer("", finish_reason="length"), Usage())
    assert again
    assert known.most_thought("off") == asking.plan().allowance > before
