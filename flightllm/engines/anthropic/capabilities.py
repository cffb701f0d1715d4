"""Know the parameters that an endpoint with the Messages API takes: by the model's name, then by answers."""

from __future__ import annotations

from typing import Final

from flightllm.engines.anthropic.claude import claude_of, thinking_levels
from flightllm.engines.anthropic.forms import claude_forms
from flightllm.engines.openai.capabilities import Capabilities
from flightllm.engines.openai.wire import ConstraintForm
from flightllm.engines.providers import Provider, ThinkingLevel, provider_at
from flightllm.llm.engine import Constraint

_NEVER: Final = frozenset({"seed", "logprobs", "top_logprobs"})
"""Parameters that the Messages API does not have."""


class MessagesCapabilities(Capabilities):
    """The known capabilities of one endpoint and model; see `Capabilities`."""

    def __init__(self, model: str, address: str, *, constraints: bool) -> None:
        claude, at = claude_of(model), provider_at(address)
        super().__init__(Provider("anthropic" if claude else at.name), model, chat=True, constraints=constraints)
        self._sampling = claude is None or claude.takes_temperature
        self._forms_there = ("format", "tool") if claude is None or claude.takes_format else ("tool",)
        self.reasons = self.reasons or (claude is not None and claude.thinks)

    def _made(self, constraint: Constraint) -> list[ConstraintForm]:
        return list(claude_forms(constraint, self._forms_there if self.constraints else ()))

    def steps(self, level: str) -> list[ThinkingLevel]:
        """Return the ways to ask for a level of thinking; see `Capabilities.steps`."""
        return thinking_levels(self.model, level)

    def supports(self, name: str, value: object) -> bool:
        """Return whether to send a parameter with this value; see `Capabilities.supports`."""
        if name in _NEVER or (name in {"temperature", "top_p"} and not self._sampling):
            return False
        return super().supports(name, value)
