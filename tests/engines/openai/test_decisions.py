"""The engine for decision endpoints, against a stand-in over HTTP that checks each body by the documented rules."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

import pytest

from flightllm.config import EngineConfig
from flightllm.engines import Engine, create_engine
from flightllm.engines.observed import Learned
from flightllm.engines.predict import PredictingEngine
from flightllm.engines.prompt_parts import PromptParts
from flightllm.engines.trial import try_out
from flightllm.errors import ConfigError, EngineError
from flightllm.llm.engine import Choice, Completion, JsonSchema, Parameters, Request
from tests.decision_endpoint import Rules, billed, decision_endpoint
from tests.endpoints import Endpoint, refuse

pytest.importorskip("openai", reason="the extra 'openai' is not installed")
from openai.types import Decision
from openai.types.decision_create_params import DecisionCreateParams
from pydantic import TypeAdapter

YES_NO = Choice(("Yes", "No"))
COLOURS = Choice(("red", "green", "blue"))


@contextmanager
def deciding(rules: Rules | None = None, **options: object) -> Iterator[tuple[Engine, Endpoint]]:
    """Run a decision endpoint and an engine on it."""
    with decision_endpoint(rules) as endpoint:
        given = {"base_url": endpoint.url, "api": "decisions", **options}
        engine = create_engine(EngineConfig("openai", "gpt-6-luna", 8, given))
        try:
            yield engine, endpoint
        finally:
            engine.close()


def ask(number: int, function: str, question: str, constraint: Any, text: str, **more: Any) -> Request:
    """Return a request as the operator makes it."""
    parameters = Parameters(16, constraint=constraint, probability=more.pop("probability", True))
    prompt = f"{question}\n\nt: {text}\nAnswer:"
    return Request(number, prompt, parameters, function, question, (("t", text),), **more)


def run(engine: Engine, requests: list[Request]) -> list[Completion]:
    """Run requests to the end, in request order."""
    return sorted(engine.generate(iter(requests), lambda: False), key=lambda completion: completion.id)


def three(text: str, start: int = 0) -> list[Request]:
    """Return a question of each type about one text."""
    return [
        ask(start, "ai_filter", "Is it red?", YES_NO, text),
        ask(start + 1, "ai_classify", "Which colour?", COLOURS, text),
        ask(start + 2, "ai_score", "How good?", Choice(tuple("12345")), text),
    ]


def test_questions_about_one_content_go_together() -> None:
    """A filter is a predicate, a label a choice, a rating a score; each row is one request with its three questions."""
    texts = [f"a red rose of size {n}" for n in range(1, 6)]
    with deciding() as (engine, endpoint):
        found = run(engine, [one for n, text in enumerate(texts) for one in three(text, 3 * n)])
    assert [one.text for one in found] == [word for n in range(1, 6) for word in ("Yes", "red", str(n))]
    assert found[0].probabilities == pytest.approx((0.9, 0.1))
    assert found[1].probabilities == pytest.approx((0.8, 0.1, 0.1), abs=1e-3)
    assert found[2].probabilities == pytest.approx((8 / 12, *(1 / 12,) * 4))
    assert len(endpoint.bodies) == len(texts)
    assert endpoint.paths == ["/v1/decisions"] * 5
    for body in endpoint.bodies:
        TypeAdapter(DecisionCreateParams).validate_python(body)
        assert body["input"].startswith("t: a red rose")
        assert [one["type"] for one in body["questions"]] == ["predicate", "choice", "score"]
    tokens = [sum(one.prompt_tokens for one in found[n : n + 3]) for n in range(0, 15, 3)]
    assert tokens == [billed(body) for body in endpoint.bodies]
    assert all(one.completion_tokens == 0 and not one.estimated for one in found)


def test_the_stand_in_answers_as_the_package_reads() -> None:
    """The official package reads the stand-in's answers: the stand-in is no invention of ours."""
    from openai import OpenAI

    asked: Any = [
        {"type": "predicate", "name": "a", "instructions": "Is it red?"},
        {"type": "choice", "name": "b", "instructions": "Which?", "choices": [{"value": "x"}, {"value": "y"}]},
        {"type": "score", "name": "c", "instructions": "How?", "levels": [{"label": "low"}, {"label": "high"}]},
    ]
    with decision_endpoint() as endpoint:
        client = OpenAI(base_url=endpoint.url, api_key="none")
        found = client.decisions.create(model="gpt-6-luna", input="it is red", questions=asked)
        client.close()
    Decision.model_validate(found.model_dump(), strict=True)
    assert [one.type for one in found.answers] == ["predicate", "choice", "score"]


def test_probabilities_only_where_asked() -> None:
    """A call without confidence gets the answer alone, as from other engines."""
    with deciding() as (engine, _):
        [found] = run(engine, [ask(0, "ai_filter", "Is it red?", YES_NO, "red", probability=False)])
    assert (found.text, found.probabilities) == ("Yes", None)


def test_answers_in_another_order() -> None:
    """Answers belong to the questions by name; without names, by place."""
    with deciding(Rules(change=lambda answers: answers[::-1])) as (engine, _):
        assert [one.text for one in run(engine, three("red 4"))] == ["Yes", "red", "4"]
    unnamed = Rules(change=lambda answers: [{**one, "name": None} for one in answers])
    with deciding(unnamed) as (engine, _):
        assert [one.text for one in run(engine, three("red 4"))] == ["Yes", "red", "4"]


def test_a_question_that_is_refused_fails_alone() -> None:
    """A refusal is that of its question: it has the model's refusal, and is not asked again."""
    with deciding(Rules(refuses="colour")) as (engine, endpoint):
        found = run(engine, three("red 4"))
    assert [one.text for one in found] == ["Yes", None, "4"]
    assert "refused" in (found[1].error or "")
    assert found[1].refusal
    assert len(endpoint.bodies) == 1


def test_a_question_that_is_rejected_fails_alone() -> None:
    """If the endpoint rejects the request for one question, the others have their answers."""
    with deciding(Rules(rejects="colour")) as (engine, endpoint):
        found = run(engine, [*three("red 4"), *three("red 5", 3)])
    assert [one.text for one in found] == ["Yes", None, "4", "Yes", None, "5"]
    assert "too long" in (found[1].error or "")
    assert [len(body["questions"]) for body in endpoint.bodies if "red 5" in body["input"]] == [3, 1, 2, 1, 1]


def test_a_missing_answer_is_asked_again_alone() -> None:
    """An answer that misses is asked again; if it misses again and again, its row has an error."""
    lost = Rules(change=lambda answers: answers[:-1] if len(answers) > 1 else answers)
    with deciding(lost) as (engine, endpoint):
        assert [one.text for one in run(engine, three("red 4"))] == ["Yes", "red", "4"]
    assert [len(body["questions"]) for body in endpoint.bodies] == [3, 1]


WRONG = [
    {"type": "choice", "name": "q1", "choice": "Yes", "probabilities": []},
    {"type": "predicate", "name": "q1", "probability": "high"},
    {"type": "predicate", "name": "q1", "probability": 1.5},
    {"type": "predicate", "name": "q1", "probability": True},
    {"type": ["predicate"], "name": "q1"},
    {"type": "predicate", "name": "q7", "probability": 0.5},
    None,
    7,
]


@pytest.mark.parametrize("wrong", WRONG, ids=[str(n) for n in range(len(WRONG))])
def test_wrong_shapes(wrong: object) -> None:
    """No wrong value is an answer: the row has an error that says what is wrong."""
    with deciding(Rules(change=lambda _: [wrong]), max_retries=0) as (engine, _):
        [found] = run(engine, [ask(0, "ai_filter", "Is it red?", YES_NO, "red")])
    assert found.text is None
    assert "answer" in (found.error or "") or "probability" in (found.error or "")


@pytest.mark.parametrize("wrong", [None, "yes", 3, [1, 2]])
def test_wrong_bodies(wrong: object) -> None:
    """A body without answers is an error of the rows, not of the query."""
    with deciding(Rules(change=lambda _: wrong), max_retries=0) as (engine, _):
        [found] = run(engine, [ask(0, "ai_filter", "Is it red?", YES_NO, "red")])
    assert (found.text, found.error is None) == (None, False)


def test_a_choice_that_is_no_option() -> None:
    """A label that is not among the options is no answer, even if it differs only in case."""
    changed = Rules(change=lambda answers: [{**one, "choice": "RED"} for one in answers])
    with deciding(changed, max_retries=0) as (engine, _):
        [found] = run(engine, [ask(0, "ai_classify", "Which?", COLOURS, "red")])
    assert (found.text, "not an option" in (found.error or "")) == (None, True)


def test_rounded_probabilities_sum_to_one() -> None:
    """Two decimals for 40 options miss the sum 1: they are scaled. A sum that is far off tells nothing."""
    options = tuple(f"label{n}" for n in range(40))

    def rounded(answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for one in answers:
            for pair in one["probabilities"]:
                pair["probability"] = round(pair["probability"], 2)
        return answers

    with deciding(Rules(change=rounded)) as (engine, _):
        [found] = run(engine, [ask(0, "ai_classify", "Which?", Choice(options), "label7")])
    assert sum(found.probabilities or ()) == pytest.approx(1)
    assert found.text == "label7"
    far = Rules(change=lambda answers: [{**one, "probabilities": one["probabilities"][1:]} for one in answers])
    with deciding(far) as (engine, _):
        [found] = run(engine, [ask(0, "ai_classify", "Which?", COLOURS, "red")])
    assert (found.text, found.probabilities) == ("red", None)


def test_labels_of_all_kinds() -> None:
    """Labels with quotes, line breaks and other scripts stay as they are, and those that differ in case differ."""
    labels = ('say "hi"', "a\nb", "{x}", "正面", "Café", "Cafe\u0301", "yes", "Yes", "true", "q1", "null")
    with deciding() as (engine, endpoint):
        found = run(engine, [ask(n, "ai_classify", "Which?", Choice(labels), f"text {n}") for n in range(2)])
    assert [one.text for one in found] == [labels[0]] * 2
    assert all(len(one.probabilities or ()) == len(labels) for one in found)
    assert [one["value"] for one in endpoint.bodies[0]["questions"][0]["choices"]] == list(labels)


def test_labels_yes_and_no_are_labels() -> None:
    """Only ai_filter means the truth by Yes and No; another call that has them as labels is a choice."""
    with deciding() as (engine, endpoint):
        run(
            engine,
            [ask(0, "ai_classify", "Which?", YES_NO, "x"), ask(1, "ai_classify", "Year?", Choice(("1", "2")), "x")],
        )
    assert [one["type"] for one in endpoint.bodies[0]["questions"]] == ["choice", "choice"]


def test_a_rating_with_many_numbers_is_a_choice() -> None:
    """A score has at most ten levels; a rating from 0 to 10 has eleven numbers, and so is a choice."""
    numbers = Choice(tuple(map(str, range(11))))
    with deciding() as (engine, endpoint):
        [found] = run(engine, [ask(0, "ai_score", "How good?", numbers, "size 7")])
    assert (found.text, endpoint.bodies[0]["questions"][0]["type"]) == ("7", "choice")


def test_a_choice_of_one_option_needs_no_request() -> None:
    """Endpoints want two options. With one, the answer is known."""
    with deciding() as (engine, endpoint):
        found = run(engine, [ask(0, "ai_classify", "Which?", Choice(("a",)), "x"), *three("red 4", 1)])
    assert [one.text for one in found] == ["a", "Yes", "red", "4"]
    assert [len(body["questions"]) for body in endpoint.bodies] == [3]


def test_what_has_no_decision_is_refused_before_anything_is_sent() -> None:
    """A free text, a schema and too many labels have an error that says what to write instead."""
    many = Choice(tuple(f"l{n}" for n in range(1_000)))
    for constraint, word in ((None, "writes no text"), (JsonSchema("{}"), "writes no text"), (many, "at most 255")):
        with deciding() as (engine, endpoint):
            with pytest.raises(EngineError, match=word) as error:
                run(engine, [ask(0, "ai_gen", "Say", constraint, "x")])
            assert "model => 'NAME'" in str(error.value)
            assert not endpoint.bodies


def test_an_endpoint_without_decisions() -> None:
    """HTTP 404 ends the query with an error that says what to write instead; the trial says the same."""
    with deciding() as (engine, endpoint):
        endpoint.behave = lambda *_: refuse(404, "Not Found")
        for attempt in (lambda: run(engine, three("red 4")), lambda: try_out(engine)):
            with pytest.raises(EngineError, match=r"no API at /v1/decisions.*api = \"chat\""):
                attempt()


def test_the_trial_asks_a_decision() -> None:
    """The check before `serve` asks one question in the form of decisions."""
    with deciding() as (engine, endpoint):
        found, completion = try_out(engine)
    assert "has the model gpt-6-luna" in found
    assert completion.text in {"Yes", "No"}
    assert endpoint.paths == ["/v1/decisions"]


def test_rate_limits_and_failures_pass() -> None:
    """HTTP 429 and 503 are sent again, with all questions; nothing is asked twice after that."""
    first = [refuse(429, "slow down", Retry_After="0"), refuse(503, "busy")]
    with deciding(Rules(first=first)) as (engine, endpoint):
        assert [one.text for one in run(engine, three("red 4"))] == ["Yes", "red", "4"]
    assert [len(body["questions"]) for body in endpoint.bodies] == [3, 3, 3]


def test_more_questions_than_one_request_takes() -> None:
    """More questions than the limit go in several requests; a lower limit of the endpoint is learned once."""
    asked = [ask(n, "ai_filter", f"Number {n}, is it red?", YES_NO, "red") for n in range(12)]
    with deciding(Rules(questions=2)) as (engine, endpoint):
        assert [one.text for one in run(engine, asked)] == ["Yes"] * 12
        endpoint.bodies.clear()
        assert [one.text for one in run(engine, asked)] == ["Yes"] * 12
    assert [len(body["questions"]) for body in endpoint.bodies] == [2] * 6


def test_different_users_share_no_request() -> None:
    """A request has the questions of one user and tenant, so that nobody pays for another's content."""
    asked = [ask(n, "ai_filter", "Is it red?", YES_NO, "red", user=f"u{n % 2}", tenant="t") for n in range(4)]
    with deciding() as (engine, endpoint):
        run(engine, asked)
    assert [len(body["questions"]) for body in endpoint.bodies] == [1] * 4


def test_no_request_about_other_content_waits() -> None:
    """Requests that pause are answered before the pause ends, and the window bounds what is in flight."""
    pulled, answered = [], 0

    def pausing() -> Iterator[Request | None]:
        for n in range(40):
            request = ask(n, "ai_filter", "Is it red?", YES_NO, f"red {n // 2}")
            pulled.append(request)
            assert len(pulled) - answered <= 8 + 2
            yield request
            while n == 20 and answered < 21:
                yield None

    with deciding() as (engine, endpoint):
        for _ in engine.generate(pausing(), lambda: False):
            answered += 1
    assert answered == 40
    assert len(endpoint.bodies) <= 21


def test_false_usage_is_estimated() -> None:
    """An endpoint that reports no tokens does not void budgets."""
    with deciding() as (engine, endpoint):
        whole = endpoint.behave

        def without(path: str, body: dict[str, Any], number: int) -> Any:
            status, reply, headers = whole(path, body, number)
            return status, {**reply, "usage": None}, headers

        endpoint.behave = without
        found = run(engine, three("red 4"))
    assert all(one.estimated and one.prompt_tokens > 0 for one in found)


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({"api": "systemone"}, "/v1/systemone"),
        ({"provider": "openrouter"}, "/api/alpha/decisions"),
    ],
)
def test_the_map_of_questions(options: dict[str, object], path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """System One's form, as vLLM, OpenRouter and others have it: a map of questions and of answers."""
    monkeypatch.setenv("A_TEST_KEY", "secret-of-a-test")
    with deciding(None, api_key="env:A_TEST_KEY", **options) as (engine, endpoint):
        found = run(engine, three("red 4"))
    assert [one.text for one in found] == ["Yes", "red", "4"]
    assert found[2].probabilities == pytest.approx((1 / 12, 1 / 12, 1 / 12, 8 / 12, 1 / 12))
    assert endpoint.paths == [path]
    assert endpoint.bodies[0]["questions"]["q2"]["criteria"] == {"red": None, "green": None, "blue": None}


def test_options_and_extra_keys() -> None:
    """`extra_body` and `system_prompt` reach the endpoint; keys without a meaning here are errors."""
    more: dict[str, Any] = {"extra_body": {"safety_identifier": "me"}, "system_prompt": "Be strict."}
    with deciding(None, **more) as (engine, endpoint):
        run(engine, three("red 4"))
    assert endpoint.bodies[0]["safety_identifier"] == "me"
    assert endpoint.bodies[0]["questions"][0]["instructions"] == "Be strict.\n\nIs it red?"
    for key, value in (("prompts_per_request", 4), ("tokenizer", "gpt2")):
        with pytest.raises(ConfigError, match=f"{key}: leave it out"), deciding(None, **{key: value}):
            pass


def test_the_revision_differs_from_that_of_chat() -> None:
    """Another way of asking gives other answers, so the answer cache keeps them apart."""
    options = {"base_url": "http://127.0.0.1:9/v1"}
    revisions = set()
    for api in ("chat", "decisions"):
        engine = create_engine(EngineConfig("openai", "gpt-6-luna", 8, {**options, "api": api}))
        revisions.add(engine.revision)
        engine.close()
    assert len(revisions) == 2


def test_a_call_without_fields_is_about_its_prompt() -> None:
    """The content must not be empty."""
    request = replace(ask(0, "ai_filter", "Is red red?", YES_NO, ""), fields=(), prompt="Is red red?")
    with deciding() as (engine, endpoint):
        run(engine, [request])
    assert json.dumps(endpoint.bodies[0]["input"]) == '"Is red red?"'


def test_a_prediction_counts_the_content_once() -> None:
    """A dry run sends nothing; it counts the content once for all questions about it, and no token of answers."""
    text = "word " * 300
    requests = [one for n in range(4) for one in three(f"{text}{n}", 3 * n)]
    with deciding() as (engine, endpoint):
        predicting = PredictingEngine(engine, Learned(), 8)
        foretold = run(cast("Engine", predicting), requests)
        assert not endpoint.bodies
        found = run(engine, requests)
    assert len(endpoint.bodies) == 4
    total = sum(one.prompt_tokens for one in found)
    assert sum(one.prompt_tokens for one in foretold) == pytest.approx(total, rel=0.1)
    assert sum(one.completion_tokens for one in foretold) == 0


@pytest.mark.parametrize("api", ["decisions", "systemone"])
@pytest.mark.parametrize("status", [400, 404])
def test_the_trial_of_a_chat_finds_decisions(api: str, status: int) -> None:
    """If the model does not chat, the check before `serve` tells under which API it answers."""
    with deciding(None, api="auto") as (engine, endpoint):
        whole = endpoint.behave

        def one_api(path: str, body: dict[str, Any], number: int) -> Any:
            good = path.endswith(f"/{api}")
            return whole(path, body, number) if good else refuse(status, "This is not a chat model.")

        endpoint.behave = one_api
        try:
            said = try_out(engine)[1].error
        except EngineError as error:
            said = str(error)
    assert f'write api = "{api}"' in (said or "")


def test_the_trial_of_a_chat_that_fails_otherwise() -> None:
    """Without decisions, the error names none; with `api = "chat"`, no other API is tried."""
    for api, tried in (("auto", {"chat/completions", "decisions", "systemone"}), ("chat", {"chat/completions"})):
        with deciding(None, api=api) as (engine, endpoint):
            endpoint.behave = lambda *_: refuse(400, "no")
            _, completion = try_out(engine)
        assert "decisions" not in (completion.error or "decisions")
        assert {path.removeprefix("/v1/") for path in endpoint.paths} == tried


def test_a_prediction_finds_no_common_start_in_questions() -> None:
    """Each content comes before its questions, so the prompt cache finds nothing where contents differ."""
    long = "Is it so, as the guide of the house says in its first and in its second chapter, that it is red?"
    requests = [
        ask(2 * n + place, "ai_filter", f"{long} {place}", YES_NO, f"{n} roses") for n in range(20) for place in (0, 1)
    ]
    with deciding() as (engine, _):
        foretold = run(cast("Engine", PredictingEngine(engine, Learned(), 8)), requests)
        found = run(engine, requests)
    assert sum(one.cached_tokens for one in foretold) == 0
    total = sum(one.prompt_tokens for one in found)
    assert sum(one.prompt_tokens for one in foretold) == pytest.approx(total, rel=0.1)


def test_a_prompt_has_no_parts() -> None:
    """A question has no start to mark; to ask for the parts of a prompt changes no forecast of later prompts."""
    with deciding() as (engine, _):
        first, second, _ = [replace(one, ends=(3, 9), shared=3) for one in three("a red apple")]
        owner: Any = engine
        assert owner.parts_of(first) == PromptParts(owner.sent_text(first))
        forecast = PredictingEngine(engine, Learned(), 8)
        given = [forecast.parts_of(one) for one in (first, second, first)]
        assert [one.text for one in given] == [owner.sent_text(one) for one in (first, second, first)]
