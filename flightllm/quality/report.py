"""The numbers that an operator reports about its promise; a recount can check them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Report:
    """State what was asked, accepted and rejected, and what is certified. Counts are rows where they do not say units.

    Errors found are rows that the cheap model would have decided otherwise than the oracle did; they were corrected.
    Certified unseen errors are upper bounds, which hold together with probability 1 - `delta`.
    A certified rate is absent where no target bounds its errors.
    """

    rows: int
    units: int
    known_rows: int
    accepted: int
    rejected: int
    asked_units: int
    asked_rows: int
    sampled_units: int
    found_false_rejects: int
    found_false_accepts: int
    unseen_false_rejects: int
    unseen_false_accepts: int
    recall: float | None
    precision: float | None
    accuracy: float | None
    delta: float
    held: bool
    useless: bool
    reason: str


@dataclass(frozen=True)
class LabelReport:
    """State the same of labels of several classes; `recalls` and `precisions` have one entry a class, or no entry."""

    rows: int
    units: int
    known_rows: int
    asked_units: int
    asked_rows: int
    sampled_units: int
    found_errors: int
    unseen_errors: int
    accuracy: float
    recalls: tuple[float, ...]
    precisions: tuple[float, ...]
    delta: float
    held: bool
    useless: bool
    reason: str
