"""The embedded engine: sharing prefixes changes no token, constraints hold, limits give errors."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from flightllm.config import EngineConfig
from flightllm.engines import Engine, create_engine
from flightllm.errors import AICallError, ConfigError, EngineUnavailableError
from flightllm.llm.engine import Choice, Completion, Constraint, JsonSchema, Parameters, Regex, Request

torch = pytest.importorskip("torch", reason="the extra 'local' is not installed")
transformers = pytest.importorskip("transformers", reason="the extra 'local' is not installed")

MakeRequests = Callable[..., list[Request]]
CONSTRAINTS: list[Constraint] = [
    None,
    Choice(("Yes", "No")),
    Choice(("good", "good enough", "bad")),
    Regex("[0-9]{1,3}"),
]


def run(engine: Engine, requests: list[Request]) -> list[Completion]:
    """Run requests to the end, in request order."""
    return sorted(engine.generate(iter(requests), lambda: False), key=lambda completion: completion.id)


def load(model_path: Path, window: int = 64, **options: object) -> Engine:
    """Load the model on CPU."""
    return create_engine(EngineConfig("local", str(model_path), window, {"device": "cpu", **options}))


@pytest.fixture(scope="module")
def engine(model_path: Path) -> Iterator[Engine]:
    """Return an engine with full batches."""
    found = load(model_path)
    yield found
    found.close()


@pytest.fixture(scope="module")
def one_by_one(model_path: Path) -> Iterator[Engine]:
    """Return an engine that never batches, and so never pads."""
    found = load(model_path, window=1, batch_rows=1)
    yield found
    found.close()


def mixed_requests(parameters: Parameters) -> list[Request]:
    """Make prompts of very different lengths: sorted groups with prefixes of their own, then strangers."""
    texts = [
        f"Judge film {group}. " + "It was long and quiet. " * (4 * group) + f"Row {row}: " + "why? " * (row % 5)
        for group in range(5)
        for row in range(7)
    ]
    texts += ["x", "An entirely different question about trains.", "y " * 300]
    return [Request(number, text, parameters, "f", "", ()) for number, text in enumerate(texts)]


@pytest.mark.slow
@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=str)
def test_sharing_prefixes_changes_no_answer(engine: Engine, one_by_one: Engine, constraint: Constraint) -> None:
    """Batched with shared prefixes, every answer is the one a prompt gets alone."""
    requests = mixed_requests(Parameters(max_tokens=6, constraint=constraint))
    together, alone = run(engine, requests), run(one_by_one, requests)
    assert [completion.text for completion in together] == [completion.text for completion in alone]
    for left, right in zip(together, alone, strict=True):
        assert left.probabilities == pytest.approx(right.probabilities, abs=1e-4)


def test_tokens_equal_those_of_transformers(engine: Engine, model_path: Path) -> None:
    """Greedy answers are those of transformers' own `generate` on the whole prompt."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(model_path)
    model = transformers.AutoModelForCausalLM.from_pretrained(model_path, dtype=torch.float32)
    requests = mixed_requests(Parameters(max_tokens=8))[::6]
    for request, completion in zip(requests, run(engine, requests), strict=True):
        message = [{"role": "user", "content": request.prompt}]
        ids = tokenizer.apply_chat_template(message, add_generation_prompt=True, return_tensors="pt", return_dict=True)
        whole = model.generate(**ids, max_new_tokens=8, do_sample=False)[0]
        prompt_tokens = ids["input_ids"].shape[1]
        assert completion.prompt_tokens == prompt_tokens
        assert completion.text == tokenizer.decode(whole[prompt_tokens:], skip_special_tokens=True)


@pytest.mark.slow
def test_prompts_without_a_chat_template(model_path: Path, tmp_path: Path) -> None:
    """A base model's prompts have no template and maybe nothing in common: padding alone still changes no answer."""
    for path in model_path.iterdir():
        if path.name != "chat_template.jinja":
            (tmp_path / path.name).symlink_to(path)
    requests = mixed_requests(Parameters(max_tokens=4))
    batched, single = load(tmp_path), load(tmp_path, window=1, batch_rows=1)
    assert [one.text for one in run(batched, requests)] == [one.text for one in run(single, requests)]
    assert run(batched, requests[:1])[0].prompt_tokens == batched.count_tokens(requests[0].prompt)
    assert run(batched, [Request(0, "", Parameters(), "f", "", ())])[0].error == "the prompt is empty"


def test_cached_tokens_are_those_not_computed(model_path: Path, make_requests: MakeRequests) -> None:
    """The first prompt computes the prefix, its neighbours report it, and a later call finds it still there."""
    fresh = load(model_path)
    first, *others = run(fresh, make_requests(10))
    assert first.cached_tokens == 0
    assert {completion.cached_tokens for completion in others} == {others[0].cached_tokens}
    assert 0 < others[0].cached_tokens < first.prompt_tokens
    again = run(fresh, make_requests(1))
    assert again[0].cached_tokens > 0
    fresh.close()


def test_confidence_is_a_probability(engine: Engine) -> None:
    """The chosen option is the likelier one: at least one half of two, and not always the same."""
    completions = run(engine, mixed_requests(Parameters(constraint=Choice(("Yes", "No")))))
    options = ("Yes", "No")
    for completion in completions:
        probabilities = dict(zip(options, completion.probabilities or (), strict=True))
        assert sum(probabilities.values()) == pytest.approx(1.0)
        assert max(options, key=probabilities.__getitem__) == completion.text
    assert len({completion.probabilities for completion in completions}) > 10


def test_answers_end_whole_within_the_token_limit(engine: Engine) -> None:
    """Even a model that would write strings forever returns complete JSON: it is steered to close in time."""
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "place": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
        "required": ["name", "tags", "place"],
    }
    parameters = Parameters(max_tokens=60, constraint=JsonSchema(json.dumps(schema)))
    for completion in run(engine, mixed_requests(parameters)[:8]):
        assert {"name", "tags", "place"} <= set(json.loads(completion.text or ""))
        assert completion.completion_tokens <= 60


def test_cut_answers_say_so(engine: Engine) -> None:
    """Each row of a batch ends at its own limit and says so; one that ends by itself before is whole."""
    limits = [2, 3, None, 1]
    [one] = mixed_requests(Parameters(max_tokens=64))[:1]
    rows = [replace(one, id=number, max_tokens=limit) for number, limit in enumerate(limits)]
    found = run(engine, rows)
    whole = found[2]
    assert [(one.completion_tokens, one.finish_reason) for one in found if one is not whole] == [
        (2, "length"),
        (3, "length"),
        (1, "length"),
    ]
    assert (whole.completion_tokens < 64, whole.finish_reason) == (True, "stop")
    assert all((whole.text or "").startswith(one.text or "") for one in found)
    exact = run(engine, [replace(one, max_tokens=whole.completion_tokens)])[0]
    assert (exact.text, exact.finish_reason) == (whole.text, "stop")


@pytest.mark.parametrize("constraint", [Choice(("Yes", "No")), JsonSchema('{"type": "object", "properties": {}}')])
def test_bounded_answers_are_whole(engine: Engine, constraint: Constraint) -> None:
    """An answer under a constraint is not cut, whatever its limit."""
    [found] = run(engine, mixed_requests(Parameters(max_tokens=8, constraint=constraint))[:1])
    assert found.finish_reason == "stop"


def test_temperature_draws(engine: Engine) -> None:
    """Above temperature 0 equal prompts get different answers, still within their constraint."""
    [one] = mixed_requests(Parameters(max_tokens=6, temperature=2.0))[:1]
    assert len({completion.text for completion in run(engine, [one] * 12)}) > 3
    [one] = mixed_requests(Parameters(max_tokens=6, temperature=2.0, constraint=Regex("[a-z]{2,4}")))[:1]
    assert all(re.fullmatch("[a-z]{2,4}", completion.text or "") for completion in run(engine, [one] * 12))


def test_prompt_beyond_the_context(model_path: Path) -> None:
    """The error names the limit and how long the prompt is; the answer is cut where the context ends."""
    small = load(model_path, max_model_len=64)
    long, short = run(small, [Request(i, "word " * n, Parameters(99), "f", "", ()) for i, n in enumerate((90, 20))])
    assert re.search(r"the prompt has \d+ tokens; the model's context limit is 64", long.error or "")
    assert short.error is None
    assert short.prompt_tokens + short.completion_tokens <= 64


def test_a_prompt_that_cannot_be_encoded_fails_alone(engine: Engine) -> None:
    """Of prompts that are encoded together, only the one that the tokenizer rejects has an error."""
    requests = mixed_requests(Parameters(max_tokens=2))[:6]
    requests[2] = replace(requests[2], prompt="half a pair: \ud83d")
    found = run(engine, requests)
    assert [one.error is None for one in found] == [True, True, False, True, True, True]
    assert "the prompt cannot be encoded" in (found[2].error or "")


def test_unknown_schema_feature(engine: Engine) -> None:
    """A constraint that cannot be enforced is an error of the call, not a crash."""
    with pytest.raises(AICallError, match="cannot be enforced"):
        run(engine, mixed_requests(Parameters(constraint=Regex("(unclosed")))[:1])


def test_two_callers_take_turns(model_path: Path, make_requests: MakeRequests) -> None:
    """Two streams over one engine can be read alternately: neither holds the model between batches."""
    shared = load(model_path, window=4)
    left = shared.generate(iter(make_requests(12)), lambda: False)
    right = shared.generate(iter(make_requests(12, start=100)), lambda: False)
    pairs = list(islice(zip(left, right, strict=True), 12))
    assert [(one.id, other.id) for one, other in pairs] == [(number, number + 100) for number in range(12)]
    shared.close()
    with pytest.raises(EngineUnavailableError, match="closed"):
        run(shared, make_requests(1))


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ("/nowhere/at/all", {}, "no folder"),
        ("demo", {"batch_row": 3}, "batch_row: unknown option.*batch_rows"),
        ("demo", {"batch_rows": 0}, "expected at least 1"),
    ],
)
def test_wrong_configuration(model: str, options: dict[str, object], message: str) -> None:
    """A missing model or a wrong option is an error that says what to write."""
    with pytest.raises(ConfigError, match=message):
        create_engine(EngineConfig("local", model, 8, options))


@pytest.mark.parametrize("constraint", [None, Choice(("good", "bad", "dull", "odd"))])
def test_seeds(engine: Engine, one_by_one: Engine, constraint: Constraint) -> None:
    """With a seed the same prompts get the same draws, batched or not; another seed gets others."""

    def texts(engine: Engine, seed: int) -> list[str | None]:
        parameters = Parameters(max_tokens=4, temperature=1.5, top_p=0.9, seed=seed, constraint=constraint)
        return [completion.text for completion in run(engine, mixed_requests(parameters)[:12])]

    first = texts(engine, 1)
    assert first == texts(engine, 1) == texts(one_by_one, 1)
    assert first != texts(engine, 2)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("options", [("Yes", "No"), ("good", "good enough", "bad")])
def test_confidences_tell_rows_apart(model_path: Path, dtype: str, options: tuple[str, ...]) -> None:
    """Options' logits have all digits of float32, also where the model's own have the three of bfloat16."""
    parameters = Parameters(constraint=Choice(options), probability=True)
    texts = [f"Is it good?\n\nreview: It has {number} scenes in {number % 3} towns.\nAnswer:" for number in range(16)]
    requests = [Request(number, text, parameters, "ai_filter", "q", ()) for number, text in enumerate(texts)]
    engine = load(model_path, dtype=dtype)
    found = [completion.probabilities for completion in run(engine, requests)]
    engine.close()
    assert len(set(found)) == len(texts)
