"""The embedded engine with a model that thinks: no thought is in a value, and constraints hold for the answer alone."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from flightllm.config import EngineConfig
from flightllm.engines import Engine, create_engine
from flightllm.llm.engine import Choice, Completion, Constraint, Parameters, Regex, Request
from tests.thinking_models import ALWAYS, PROMPTS, make_thinking_model

pytest.importorskip("torch", reason="the extra 'local' is not installed")
YES_NO = Choice(("Yes", "No"))


def answers(engine: Engine, mode: str | None, constraint: Constraint = None, max_tokens: int = 20) -> list[Completion]:
    """Ask the engine all of the prompts."""
    parameters = Parameters(max_tokens, constraint=constraint, reasoning=mode)
    requests = [Request(number, text, parameters, "f", "", ()) for number, text in enumerate(PROMPTS)]
    return sorted(engine.generate(iter(requests), lambda: False), key=lambda one: one.id)


def load(folder: Path, reasoning: str | None = None, **options: object) -> Engine:
    """Load a model on CPU."""
    return create_engine(EngineConfig("local", str(folder), 8, {"device": "cpu", **options}, reasoning=reasoning))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a model that ends some thoughts with the mark, where it would end a sentence."""
    return make_thinking_model(tmp_path_factory.mktemp("marking") / "model", like=".")


@pytest.fixture(scope="module")
def engine(folder: Path) -> Iterator[Engine]:
    """Return an engine on that model."""
    found = load(folder)
    yield found
    found.close()


@pytest.mark.parametrize("constraint", [None, YES_NO, Regex("[0-9]{1,3}")], ids=str)
def test_answers_after_a_thought(engine: Engine, constraint: Constraint) -> None:
    """A model that thinks first gives a whole answer, without its thought, whose tokens are counted apart."""
    for one in answers(engine, "low", constraint):
        assert one.error is None
        assert one.text is not None
        assert "think" not in one.text
        assert 0 < one.reasoning_tokens < one.completion_tokens
        if isinstance(constraint, Choice):
            assert one.text in constraint.options
            assert one.probabilities is not None
        if isinstance(constraint, Regex):
            assert one.text.isdigit()


def test_no_thought_by_default(engine: Engine) -> None:
    """Unless asked to think the model answers at once, and its revision tells so."""
    assert engine.revision.endswith(" reasoning=off")
    for asked in (None, "off"):
        assert [one.reasoning_tokens for one in answers(engine, asked, YES_NO)] == [0, 0, 0]


def test_the_models_default_is_to_think(folder: Path) -> None:
    """A model set to think does so for calls that say nothing; those that say `off` go before it."""
    engine = load(folder, "low")
    assert engine.revision.endswith(" reasoning=low")
    assert all(one.reasoning_tokens for one in answers(engine, None, YES_NO))
    assert not any(one.reasoning_tokens for one in answers(engine, "off", YES_NO))
    engine.close()


def test_thoughts_change_no_other_rows_answer(folder: Path, engine: Engine) -> None:
    """Each row's thought and answer is the one it has alone, whatever rows think beside it."""
    alone = load(folder, batch_rows=1)
    for constraint in (None, YES_NO):
        texts = [(one.text, one.reasoning_tokens) for one in answers(engine, "low", constraint)]
        assert texts == [(one.text, one.reasoning_tokens) for one in answers(alone, "low", constraint)]
    alone.close()


def test_a_thought_without_an_end(tmp_path: Path) -> None:
    """A model that never ends its thought gives an error that says what to write, and no thought as a value."""
    engine = load(make_thinking_model(tmp_path / "model", ALWAYS, ends=False), max_model_len=90)
    for constraint in (None, YES_NO):
        for one in answers(engine, "low", constraint, 4):
            assert one.text is None
            assert one.error is not None
            assert "write reasoning => 'off', or a larger max_tokens" in one.error
            assert one.reasoning_tokens == one.completion_tokens > 0
    assert [one.error for one in answers(engine, "off", YES_NO, 4)] == [None] * 3
    engine.close()


def test_no_room_to_think(folder: Path) -> None:
    """A prompt that fits the context alone is answered without a thought, and an error if one is asked for."""
    engine = load(folder, max_model_len=60)
    first, second, _ = answers(engine, "low", YES_NO, 4)
    assert first.error is None
    assert second.error == "the prompt leaves the model 16 tokens to think and to answer: write reasoning => 'off'"
    assert [one.error for one in answers(engine, "off", YES_NO, 4)] == [None] * 3
    engine.close()
