"""The figures of a promise, which each way to keep one fills in."""

from typing import Any, Final, TypedDict, Unpack


class PromiseFigures(TypedDict, total=False):
    """Figures that a call site has; `CallRecord.promise` says what they mean."""

    targets: str
    proxy: str
    rows: int
    prompts: int
    known: int
    asked: int
    asked_prompts: int
    taught_prompts: int
    sampled_prompts: int
    accepted: int
    rejected: int
    unanswered: int
    errors: int
    false_rejects: int
    false_accepts: int
    unseen_errors: int
    unseen_false_rejects: int
    unseen_false_accepts: int
    recall: float | None
    precision: float | None
    accuracy: float | None
    delta: float
    held: bool
    useless: bool
    reason: str


_NOTHING: Final[PromiseFigures] = {
    "proxy": "none",
    "taught_prompts": 0,
    "sampled_prompts": 0,
    "recall": None,
    "precision": None,
    "accuracy": None,
    "delta": 0.0,
    "errors": 0,
    "useless": False,
}
"""The figures of a call site where no proxy decides."""


def promise_figures(**found: Unpack[PromiseFigures]) -> dict[str, Any]:
    """Return the figures of a call site. Where no other is given, no proxy decides, and nothing is certified."""
    return {**_NOTHING, **found}
