"""Read the names of Claude models: the floor of the cache, the forms of answers, thinking and sampling.

From Anthropic's documentation of autumn 2026. An endpoint that says otherwise is believed, see `capabilities`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from flightllm.engines.cache_rules import CacheRules, claude_rules
from flightllm.engines.providers import ALLOWANCES, ThinkingLevel, thinks

_NEW = re.compile(r"(?:^|[/.:@])(?:anthropic\.)?claude-([a-z]+)-(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)", re.IGNORECASE)
_OLD = re.compile(r"(?:^|[/.:@])(?:anthropic\.)?claude-(\d)(?:[-.](\d{1,2}))?(?!\d)-?([a-z]*)", re.IGNORECASE)
_LONG: Final = frozenset({("opus", 4, 5), ("opus", 4, 6), ("haiku", 4, 5)})
_ALWAYS_THINK: Final = frozenset({"fable", "mythos"})
_NOTHING: Final = ThinkingLevel((), "")
_OFF: Final = ThinkingLevel((), "none")
EFFORT: Final = "output_config.effort"
"""The key of the effort, with the path to it in the request's body."""


@dataclass(frozen=True, slots=True)
class Claude:
    """A model's family, such as `opus`, and its version; version 0 where the name does not tell it."""

    family: str
    major: int
    minor: int

    @property
    def version(self) -> tuple[int, int]:
        """Return the version for comparisons."""
        return self.major, self.minor

    @property
    def floor(self) -> int:
        """Return the fewest tokens of a start that the cache keeps; 1,024 for an unknown version."""
        if (self.family, self.major, self.minor) in _LONG:
            return 4_096
        if self.version == (4, 7) or (self.family == "haiku" and self.version < (4, 5)):
            return 2_048
        return 512 if self.version > (5, 0) or (self.major == 5 and self.family != "sonnet") else 1_024

    @property
    def takes_temperature(self) -> bool:
        """Return whether the model takes `temperature` and `top_p`: those before 4.7 do."""
        return self.version < (4, 7)

    @property
    def takes_format(self) -> bool:
        """Return whether the model takes a JSON Schema for its answer: those from 4.5 on do."""
        return not self.major or self.version >= (4, 5)

    @property
    def thinks(self) -> bool:
        """Return whether the model thinks unless a request switches this off."""
        return self.major >= 5 or self.family in _ALWAYS_THINK


def claude_of(model: str) -> Claude | None:
    """Return what a model's name tells; None for the name of another vendor's model."""
    if found := _NEW.search(model):
        return Claude(found[1].lower(), int(found[2]), int(found[3] or 0))
    if found := _OLD.search(model):
        return Claude(found[3].lower(), int(found[1]), int(found[2] or 0))
    name = model.lower()
    family = next((one for one in _ALWAYS_THINK if one in name), "")
    return Claude(family, 0, 0) if "claude" in name else None


def claude_rules_of(model: str) -> CacheRules | None:
    """Return the rules of a model's cache; None for another vendor's model."""
    claude = claude_of(model)
    return None if claude is None else claude_rules(claude.floor)


def thinking_levels(model: str, level: str) -> list[ThinkingLevel]:
    """Return the ways to ask a model for a level of thinking, the best first; the last one asks for nothing.

    The level `off` means the least that the model can do.
    """
    claude = claude_of(model)
    if level == "off":
        return _least(claude, model)
    effort = ThinkingLevel((("thinking", {"type": "adaptive"}), (EFFORT, level)), level)
    budget = ThinkingLevel((("thinking", {"type": "enabled", "budget_tokens": ALLOWANCES[level]}),), level)
    if claude is None or (claude.major and claude.version < (4, 6)):
        return [budget, _NOTHING]
    return [effort, budget, _NOTHING] if claude.version < (4, 7) else [effort, _NOTHING]


def _least(claude: Claude | None, model: str) -> list[ThinkingLevel]:
    disabled = ThinkingLevel((("thinking", {"type": "disabled"}),), "none")
    if claude is None:
        return [disabled, _NOTHING] if thinks(model) else [_OFF]
    if not claude.thinks:
        return [_OFF]
    low = ThinkingLevel(((EFFORT, "low"),), "low")
    if claude.family in _ALWAYS_THINK or claude.version >= (5, 5):
        return [low, _NOTHING]
    return [disabled, low, _NOTHING]
