"""Ask a model a short question, to check that it answers."""

from dataclasses import replace

from flightllm.engines.extras import extras_of
from flightllm.errors import EngineError
from flightllm.llm.engine import Choice, Completion, Engine, Parameters, Request

QUESTION = Request(0, "Is water wet? Answer Yes or No.", Parameters(8, constraint=Choice(("Yes", "No"))), "", "", ())

PROBE = replace(QUESTION, parameters=Parameters(8))
"""The same question as a plain prompt: the endpoint's other forms do not matter."""


def try_out(engine: Engine) -> tuple[str, Completion]:
    """Ask an engine a short question; return a summary, and the completion, which can be an error.

    Raises:
        EngineError: the engine cannot answer; for an engine with an endpoint, the message says what to change.
    """
    own = extras_of(engine).try_out()
    if own is not None:
        return own
    for completion in engine.generate(iter([QUESTION]), lambda: False):
        return f"{engine.name} answers", completion
    raise EngineError(f"the engine {engine.name} returned no answer")
