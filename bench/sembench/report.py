"""The tables of a run, as text."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from bench.common import markdown
from bench.sembench.published import MODEL, PUBLISHED

HEADS: Final[Mapping[str, str]] = {
    "calls": "calls",
    "prompt_tokens": "tokens in",
    "cached_tokens": "of these cached",
    "completion_tokens": "tokens out",
    "seconds": "seconds",
    "dollars": "dollars",
    "score": "score",
}
"""The heads of the table by the names of the figures."""


def measured(cold: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    """Return the table of the figures, with a line for each form of a question."""
    rows = {f"{name} {form}": one for name, forms in cold.items() for form, one in forms.items()}
    return markdown("question, form", {head: partial(_shown, key) for key, head in HEADS.items()}, rows)


def published() -> str:
    """Return the published scores and tokens of other systems by question."""
    names = [f"Q{number}" for number in range(1, 11)]
    rows = {name: {system: some.get(name) for system, some in PUBLISHED.items()} for name in names}
    heads = {system: partial(_published, system) for system in PUBLISHED}
    return markdown(f"published, {MODEL}: tokens / score", heads, rows)


def _shown(key: str, figures: Mapping[str, Any]) -> str:
    value = figures.get(key)
    return "" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def _published(system: str, row: Mapping[str, Any]) -> str:
    one = row[system]
    return "–" if one is None else f"{one.tokens:,} / {one.score:.2f}"
