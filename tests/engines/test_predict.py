"""The predicting engine: what it counts is what the engine it stands for then reports."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from hashlib import blake2b
from typing import cast

import pytest

from flightllm.engines.fake.engine import FakeEngine, FakeOptions
from flightllm.engines.observed import Learned, asked_by
from flightllm.engines.predict import EnoughError, PredictingEngine, PromptTokens
from flightllm.errors import CancelledError
from flightllm.llm.engine import Choice, Completion, Engine, JsonSchema, Parameters, PrefixCache, Request

YES_NO = Parameters(8, constraint=Choice(("Yes", "No")))
INSTRUCTION = "Say whether the text below is about one of the things that we care about most of all. " * 2


def requests(count: int, parameters: Parameters = YES_NO, groups: int = 5) -> list[Request]:
    """Make prompts in groups that share a long beginning."""
    made = []
    for i in range(count):
        fields = (("a", f"group {i * groups // count} " * 20), ("b", f"text {i}"))
        prompt = f"{INSTRUCTION}\n\n{''.join(f'{n}: {v}{chr(10)}' for n, v in fields)}Answer:"
        made.append(Request(i, prompt, parameters, "ai_filter", INSTRUCTION, fields))
    return made


def ask(engine: FakeEngine | PredictingEngine, asked: list[Request]) -> list[Completion]:
    """Return the completions in the order of the requests."""
    return sorted(engine.generate(iter(asked), lambda: False), key=lambda completion: completion.id)


def shares(completions: list[Completion]) -> tuple[int, float]:
    """Return the prompts' tokens and the share of them that was cached."""
    tokens = sum(completion.prompt_tokens for completion in completions)
    return tokens, sum(completion.cached_tokens for completion in completions) / tokens


@pytest.mark.parametrize("blocks", [40, 2_000])
@pytest.mark.parametrize("exact", [10_000, 50, 1])
def test_hits_and_tokens(blocks: int, exact: int) -> None:
    """Tokens and hit rates agree, also where most prompts are measured by their characters."""
    engine = FakeEngine("demo", 8, FakeOptions(cache_blocks=blocks))
    predicted = shares(ask(PredictingEngine(engine, Learned(), 8, PromptTokens(engine, exact)), requests(200)))
    actual = shares(ask(engine, requests(200)))
    assert predicted[0] == pytest.approx(actual[0], rel=0.01)
    assert predicted[1] == pytest.approx(actual[1], abs=0.05)
    assert engine.sent == 200


def test_no_cache_no_hits() -> None:
    """An engine without a prefix cache is predicted to have no hits."""
    engine = FakeEngine("demo", 8, FakeOptions())
    assert shares(ask(PredictingEngine(engine, Learned(), 8), requests(20)))[1] == 0


def test_answers_fit_the_constraint() -> None:
    """Answers are valid under the constraint, the same for the same fields in any order, and mixed."""
    engine = PredictingEngine(FakeEngine("demo", 8, FakeOptions()), Learned(), 8)
    asked = requests(200)
    answers = ask(engine, asked)
    counts = Counter(completion.text for completion in answers)
    assert set(counts) == {"Yes", "No"}
    assert 60 < counts["Yes"] < 140
    turned = [replace(request, fields=request.fields[::-1]) for request in asked]
    assert [c.text for c in ask(engine, turned)] == [c.text for c in answers]
    schema = Parameters(constraint=JsonSchema('{"type": "integer", "minimum": 1, "maximum": 3}'))
    assert {c.text for c in ask(engine, requests(50, schema))} == {"1", "2", "3"}


def test_probabilities_only_where_the_engine_gives_them() -> None:
    """An engine that gives no probabilities is predicted to give none; others give them with each answer."""

    class Silent(FakeEngine):
        gives_probabilities = False

    asked = requests(3, replace(YES_NO, probability=True))
    for kind, given in ((FakeEngine, True), (Silent, False)):
        engine = PredictingEngine(kind("demo", 8, FakeOptions()), Learned(), 8)
        assert [one.probabilities is not None for one in ask(engine, asked)] == [given] * 3


def test_answers_as_learned() -> None:
    """Where answers of the call site are known, predicted ones are like these, and as long."""
    learned = Learned()
    asked = asked_by(requests(1)[0])
    for i in range(100):
        learned.observe(asked, Completion(i, "Yes" if i % 10 == 0 else "No", None, 10, 0, 3))
    learned.observe(asked, Completion(100, None, "failed"))
    engine = PredictingEngine(FakeEngine("demo", 8, FakeOptions()), learned, 8)
    answers = ask(engine, requests(500))
    assert 20 <= sum(completion.text == "Yes" for completion in answers) <= 80
    assert {completion.completion_tokens for completion in answers} == {3}
    assert engine.sites[asked].learned


def test_too_few_answers_say_nothing() -> None:
    """A handful of answers is no base for a prediction."""
    learned = Learned()
    asked = asked_by(requests(1)[0])
    for i in range(3):
        learned.observe(asked, Completion(i, "Yes"))
    assert learned.answers(asked) is None


def test_free_text_takes_all_its_tokens() -> None:
    """A text of unknown length is predicted as long as it may be."""
    engine = PredictingEngine(FakeEngine("demo", 8, FakeOptions()), Learned(), 8)
    assert {c.completion_tokens for c in ask(engine, requests(5, Parameters(32)))} == {32}


@pytest.mark.parametrize(
    ("earlier", "tokens", "now", "predicted"), [(4_000, 30, 64, 30), (64, 60, 4_000, 60), (4_000, 900, 64, 64)]
)
def test_length_of_a_free_text(earlier: int, tokens: int, now: int, predicted: int) -> None:
    """A new call's text is as long as the function's earlier ones, whatever bound they had, up to its own bound."""
    learned = Learned()
    asked = asked_by(replace(requests(1)[0], instruction="Another call.", parameters=Parameters(earlier)))
    for i in range(20):
        learned.observe(asked, Completion(i, "A text.", None, 10, 0, tokens))
    engine = PredictingEngine(FakeEngine("demo", 8, FakeOptions()), learned, 8)
    assert {c.completion_tokens for c in ask(engine, requests(5, Parameters(now)))} == {predicted}


def test_orders_of_fields() -> None:
    """It counts how often the fields came in which order, per call site."""
    engine = PredictingEngine(FakeEngine("demo", 8, FakeOptions()), Learned(), 8)
    asked = requests(10)
    ask(engine, [*asked[:7], *(replace(r, fields=r.fields[::-1]) for r in asked[7:])])
    [site] = engine.sites.values()
    assert site.orders.most_common() == [(("a", "b"), 7), (("b", "a"), 3)]
    assert not site.learned


def test_pauses() -> None:
    """None among the requests is no end; what waits is answered meanwhile."""
    engine = PredictingEngine(FakeEngine("demo", 8, FakeOptions()), Learned(), 8)
    first, second = requests(2)
    answered: list[int] = []

    def paused() -> Iterator[Request | None]:
        yield first
        while not answered:
            yield None
        yield second

    for completion in engine.generate(paused(), lambda: False):
        answered += [completion.id]
    assert answered == [0, 1]


def test_cancel() -> None:
    """A cancelled query stops."""
    engine = PredictingEngine(FakeEngine("demo", 8, FakeOptions()), Learned(), 8)
    with pytest.raises(CancelledError):
        list(engine.generate(iter(requests(3)), lambda: True))


@pytest.mark.parametrize("tokenizes", [True, False])
def test_prompts_that_do_not_fit(*, tokenizes: bool) -> None:
    """A prompt beyond the model's context fails as it will, and shares nothing. A tokenizer is not needed for it."""

    class Short(FakeEngine):
        has_tokenizer = tokenizes

        @property
        def context_tokens(self) -> int:
            return 50

    engine = PredictingEngine(Short("demo", 8, FakeOptions(cache_blocks=100)), Learned(), 8)
    short = replace(requests(1)[0], id=7, prompt="short")
    long, fits = ask(engine, [requests(1)[0], short])
    assert long.error
    assert "context limit" in long.error
    assert long.too_long
    assert fits.error is None


def test_turns() -> None:
    """Over some turns each prompt gets each answer as often as it is likely: a few prompts are no unlucky sample."""
    engines = [PredictingEngine(FakeEngine("demo", 8, FakeOptions()), Learned(), 8, turn=turn / 4) for turn in range(4)]
    answers = zip(*([c.text for c in ask(engine, requests(20))] for engine in engines), strict=True)
    assert {tuple(sorted(Counter(each).items())) for each in answers if None not in each} == {(("No", 2), ("Yes", 2))}


def test_bounded() -> None:
    """Beyond the most prompts that it may see it stops; those before are answered."""
    engine = PredictingEngine(FakeEngine("demo", 8, FakeOptions()), Learned(), 8, most=20)
    answered: list[Completion] = []
    with pytest.raises(EnoughError):
        answered.extend(engine.generate(iter(requests(50)), lambda: False))
    assert 8 <= len(answered) <= 20


def test_tokens_without_a_tokenizer() -> None:
    """An engine that cannot tell its tokens is asked to count them; blocks are cut by characters."""

    class Counting:
        prefix_cache = PrefixCache(4, None)

        def count_tokens(self, text: str) -> int:
            return len(text) // 5

    tokens = PromptTokens(cast("Engine", Counting()), 2)
    first, second, third = tokens.cut(["x" * 100, "x" * 50 + "y" * 50, "x" * 40])
    assert (first[0], second[0], third[0]) == (20, 20, 8)
    assert (len(first[1]), len(third[1])) == (5, 2)
    assert first[1][:2] == second[1][:2] == third[1][:2]
    assert first[1][3:] != second[1][3:]


def test_two_operators_at_once() -> None:
    """Two runs over one engine, one of which pauses while the other goes on, get their own answers each."""
    engine = PredictingEngine(FakeEngine("demo", 8, FakeOptions()), Learned(), 8)
    first = engine.generate(iter(requests(20)), lambda: False)
    begun = [next(first).id for _ in range(3)]
    assert sorted(c.id for c in engine.generate(iter(requests(30)), lambda: False)) == list(range(30))
    assert sorted([*begun, *(c.id for c in first)]) == list(range(20))


@pytest.mark.slow
@pytest.mark.vllm
@pytest.mark.parametrize("shuffled", [False, True])
def test_hits_of_vllm(vllm_engine: Engine, shuffled: bool) -> None:
    """On vLLM, whose cache holds a part of the prompts, tokens are exact and hits within 5 points."""
    asked = [replace(r, prompt=f"{shuffled} {r.prompt}") for r in requests(150, groups=30)]
    if shuffled:
        asked.sort(key=lambda request: blake2b(request.prompt.encode()).digest())
    predicted = shares(list(PredictingEngine(vllm_engine, Learned(), 8).generate(iter(asked), lambda: False)))
    actual = shares(list(vllm_engine.generate(iter(asked), lambda: False)))
    assert predicted[0] == actual[0]
    assert predicted[1] == pytest.approx(actual[1], abs=0.05)
    assert 0.2 < actual[1] < 0.95


def test_usual_lengths() -> None:
    """A free text is as long as usual, at most half of max_tokens, until answers of its function are known."""
    free = Parameters(60)
    asked = requests(2, free)
    usual = {("ai_filter", INSTRUCTION, free): lambda fields: 10 + 15 * fields[1][1].count("1")}

    def lengths(learned: Learned) -> list[int]:
        engine = PredictingEngine(FakeEngine("demo", 8, FakeOptions()), learned, 8, usual=usual)
        return [completion.completion_tokens for completion in ask(engine, asked)]

    learned = Learned()
    assert lengths(learned) == [10, 25]
    other = asked_by(replace(asked[0], function="ai_gen"))
    for i in range(20):
        learned.observe(other, Completion(i, "text", None, 10, 0, 3))
    assert lengths(learned) == [10, 25], "answers of other functions say nothing"
    own = asked_by(replace(asked[0], instruction="another"))
    for i in range(20):
        learned.observe(own, Completion(i, "text", None, 10, 0, 4))
    assert lengths(learned) == [4, 4]
    usual = dict.fromkeys(usual, lambda _: 90)
    long = PredictingEngine(FakeEngine("demo", 8, FakeOptions()), Learned(), 8, usual=usual)
    assert [completion.completion_tokens for completion in ask(long, asked)] == [30, 30]


def test_few_texts_of_the_same_instruction() -> None:
    """Four texts of an instruction are enough to predict the length of further ones, whatever other calls wrote."""
    free = Parameters(30)
    asked = requests(2, free)
    learned = Learned()
    for i in range(20):
        learned.observe(asked_by(replace(asked[0], instruction="another")), Completion(i, "text", None, 10, 0, 4))
    for i in range(4):
        learned.observe(asked_by(asked[0]), Completion(i, "text", None, 10, 0, 20 + i % 2))
    engine = PredictingEngine(FakeEngine("demo", 8, FakeOptions()), learned, 8)
    assert sorted(completion.completion_tokens for completion in ask(engine, asked)) == [20, 21]


def test_few_answers_of_the_same_instruction() -> None:
    """Four answers to an instruction already say which options are likely, and leave none impossible."""
    learned = Learned()
    asked = requests(600)
    for i in range(4):
        learned.observe(asked_by(asked[0]), Completion(i, "No", None, 10, 0, 1))
    engine = PredictingEngine(FakeEngine("demo", 8, FakeOptions()), learned, 8)
    answers = Counter(completion.text for completion in ask(engine, asked))
    assert 50 <= answers["Yes"] <= 150  # one of six
