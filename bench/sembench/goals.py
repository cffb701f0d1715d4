"""The goals of the ten questions, and whether a run reaches them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bench.sembench.forms import BEST, NATURAL, REPEATED
from bench.sembench.published import PUBLISHED

_PAIRS, _FEW, _COLD, _KEPT = 128, 30, 4_500, 2_200
_NEAR: Final = 1e-3
Figures = Mapping[str, Any]


def goals(cold: Mapping[str, Mapping[str, Figures]], kept: Figures, ceiling: Mapping[str, float]) -> Figures:
    """Return each goal with the figure and whether it is reached; those of questions that did not run are left out.

    `cold` has the figures of a model without errors by question and form, `kept` the totals with kept answers.
    """
    found: dict[str, Any] = {}
    for form, of in cold.get("Q7", {}).items():
        found[f"Q7 {form}: calls"] = _most(of["calls"], _PAIRS)
    for name in ("Q5", "Q6"):
        for form, one in cold.get(name, {}).items():
            found[f"{name} {form}: calls"] = _most(one["calls"], _FEW)
    if cold.keys() >= BEST.keys():
        for kind, forms_of in (("natural", dict.fromkeys(BEST, NATURAL)), ("best", BEST)):
            chosen = {name: cold[name][form] for name, form in forms_of.items()}
            found[f"all ten, {kind}, cold: calls"] = _most(sum(one["calls"] for one in chosen.values()), _COLD)
            tokens = sum(chosen[name]["tokens"] for name in PUBLISHED["ThalamusDB"])
            theirs = sum(one.tokens for one in PUBLISHED["ThalamusDB"].values())
            found[f"Q1 to Q8, {kind}: tokens"] = _most(tokens, theirs)
        if kept:
            found["all ten, best, answers kept: calls"] = _most(kept["calls"], _KEPT)
    for name, form, one in ((name, form, one) for name, some in cold.items() for form, one in some.items()):
        if (name, form) not in REPEATED:
            value, best = one["score"], ceiling[name]
            found[f"{name} {form}: score"] = {"value": value, "goal": round(best, 4), "reached": value >= best - _NEAR}
    return found


def _most(value: int, most: int) -> Figures:
    return {"value": value, "goal": most, "reached": value <= most}
