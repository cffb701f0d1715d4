"""One short question to a model, to see whether it answers."""

from flightllm.errors import EngineError
from flightllm.model.engine import Choice, Completion, Engine, Parameters, Request

QUESTION = Request(0, "Is water wet? Answer Yes or No.", Parameters(8, constraint=Choice(("Yes", "No"))), "", "", ())


def try_out(engine: Engine) -> tuple[str, Completion]:
    """Ask an engine one short question; return what was found where it is, and its answer or the error of it.

    Raises:
        EngineError: it cannot answer; an engine with an endpoint says what to change.
    """
    own = getattr(engine, "try_out", None)
    if callable(own):
        found: str
        completion: Completion
        found, completion = own()
        return found, completion
    for completion in engine.generate(iter([QUESTION]), lambda: False):
        return f"{engine.name} answers", completion
    raise EngineError(f"the engine {engine.name} gave no answer")
