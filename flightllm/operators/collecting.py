"""A pass of a deferred statement: it takes the answers that are known, and lists the prompts without an answer."""

from collections.abc import Mapping
from typing import Protocol

from flightllm.engines.registry import OpenModel
from flightllm.llm.cost import Work
from flightllm.llm.engine import Engine
from flightllm.operators.budget import RequestBudget


class Collecting(Protocol):
    """The engines of one pass of a deferred statement."""

    def engine(self, model: OpenModel, scope: str, budget: RequestBudget | None) -> Engine:
        """Return the engine that stands for a model: it returns known answers and lists all other prompts.

        Statements of the same `scope` share answers; see `Rights.answers`. Each listed prompt takes from the `budget`.

        Raises:
            UnsupportedError: the model has no batch endpoint.
        """

    def spent(self) -> Mapping[str | None, Work]:
        """Return the work of earlier rounds of the statement, by model."""

    def leave(self) -> None:
        """Keep what the listed prompts can take beyond the pass, and release it from the budgets of the pass."""

    def finish(self) -> None:
        """Check at the end of a query that the pass has all answers.

        Raises:
            UnansweredError: a prompt has no answer yet, or the pass must not take effect.
        """
