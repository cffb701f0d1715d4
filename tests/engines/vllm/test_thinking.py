"""vLLM with a model that thinks: it answers as the embedded engine does."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from flightllm.config import EngineConfig
from flightllm.engines import Engine, create_engine
from flightllm.llm.engine import Choice, Completion, Constraint, JsonSchema, Parameters, Regex, Request
from tests.packages import NEEDS_VLLM
from tests.thinking_models import PROMPTS, make_thinking_model

pytestmark = [NEEDS_VLLM, pytest.mark.vllm, pytest.mark.slow]
MODES = (None, "off", "low")


@pytest.fixture(scope="module", params=[".", None], ids=["marks", "ends"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a model that ends its thoughts with the mark, and one that ends its text instead."""
    return make_thinking_model(tmp_path_factory.mktemp("thinking") / "model", like=request.param)


@pytest.fixture(scope="module")
def engines(folder: Path) -> Iterator[tuple[Engine, Engine]]:
    """Return vLLM and the embedded engine on the same model."""
    options = {"kv_cache_memory_bytes": 16 << 20, "max_model_len": 2048, "dtype": "float32"}
    vllm = create_engine(EngineConfig("vllm", str(folder), 8, options))
    local = create_engine(EngineConfig("local", str(folder), 8, {"device": "cpu"}))
    yield vllm, local
    vllm.close()
    local.close()


def answers(engine: Engine, parameters: Parameters) -> list[Completion]:
    """Ask an engine all of the prompts."""
    requests = [Request(number, text, parameters, "f", "", ()) for number, text in enumerate(PROMPTS)]
    return sorted(engine.generate(iter(requests), lambda: False), key=lambda one: one.id)


@pytest.mark.parametrize(
    "constraint",
    [None, Choice(("Yes", "No")), Regex("[0-9]{1,3}"), JsonSchema('{"type": "boolean"}')],
    ids=["free", "choice", "regex", "json"],
)
def test_the_same_as_the_embedded_engine(engines: tuple[Engine, Engine], constraint: Constraint) -> None:
    """Values and tokens of thought are those of the embedded engine, in every mode."""
    vllm, local = engines
    assert vllm.revision.endswith(" reasoning=off")
    for mode in MODES:
        parameters = Parameters(20, constraint=constraint, reasoning=mode)
        for theirs, ours in zip(answers(vllm, parameters), answers(local, parameters), strict=True):
            assert theirs.error is None
            if isinstance(constraint, Choice):  # vLLM goes token by token, ours takes the most probable whole option
                assert theirs.text in constraint.options
            else:
                assert theirs.text == ours.text
            assert (theirs.prompt_tokens, theirs.reasoning_tokens) == (ours.prompt_tokens, ours.reasoning_tokens)
            assert (theirs.reasoning_tokens > 0) == (mode == "low")


def test_a_thought_without_an_end(tmp_path: Path) -> None:
    """A model that never ends its thought gives an error that says what to write."""
    folder = make_thinking_model(tmp_path / "model", ends=False)
    options = {"kv_cache_memory_bytes": 16 << 20, "max_model_len": 90, "dtype": "float32"}
    engine = create_engine(EngineConfig("vllm", str(folder), 8, options))
    for one in answers(engine, Parameters(4, constraint=Choice(("Yes", "No")), reasoning="low")):
        assert one.text is None
        assert one.error is not None
        assert "write reasoning => 'off'" in one.error
    engine.close()
