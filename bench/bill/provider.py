"""One provider with one model: its cache, its chat template, and its dialect of the wire format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.bill.caches import Cache
from bench.bill.prompt import Prompt, Template


def _taken(_: Prompt) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider and a model.

    `name` is that of the product's option `provider`. `schema_counts` says that the schema of `response_format` is a
    part of the prompt, before the first message. `strict` says that the API accepts such schemas. `tells_writes` says
    that the API reports `cache_write_tokens`. `breakpoints` is how many prefixes a request can mark; 0 for a cache
    without marks. `implicit` says that the end of the newest message is a breakpoint without a mark.
    """

    name: str
    model: str
    cache: Callable[[], Cache]
    template: Template
    schema_counts: bool = False
    strict: bool = False
    tells_writes: bool = False
    check: Callable[[Prompt], str] = _taken
    names: tuple[str, ...] = ()
    """Further forms of `usage`: `hit_and_miss` for DeepSeek's two numbers."""
    logprobs: bool = False
    """Whether the API returns log probabilities for this model."""
    breakpoints: int = 0
    implicit: bool = False
    floor: int = 0

    @property
    def title(self) -> str:
        """Return the provider and the model for tables."""
        return f"{self.name} {self.model.rpartition('/')[2]}"
