"""The columns of an evaluation's tables. The server makes the tables, and `flightllm evaluate` shows them.

This module imports no numpy, so that the command starts soon.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa

from flightllm.evaluation.truth import Kind

PARTS: Final = ("variants", "confusion", "agreement")
"""The tables of an evaluation, by the value of `part =>`; the first one is the default."""
NAMES: Final[Mapping[Kind, tuple[str, ...]]] = {
    "yes/no": ("accuracy", "precision", "recall", "f1", "ece"),
    "classes": ("accuracy", "precision", "recall", "f1", "ece"),
    "lists": ("jaccard", "accuracy"),
    "numbers": ("mae", "spearman"),
}
"""The figures of each kind of question."""
FIGURES: Final = tuple(dict.fromkeys(name for names in NAMES.values() for name in names))
"""The figures of all kinds of questions."""
VARIED: Final[Mapping[str, pa.DataType]] = {
    "model": pa.string(),
    "layout": pa.string(),
    "examples": pa.int64(),
    "calibrate": pa.string(),
    "proxy": pa.string(),
}
"""The columns in which variants differ."""


def figure_columns(names: Sequence[str]) -> Iterator[str]:
    """Yield the columns of figures: each value, and the ends of its interval."""
    for name in names:
        yield from (name, f"{name}_low", f"{name}_high")


def schema_of(part: str, figures: Sequence[str]) -> pa.Schema:
    """Return the schema of a part, for a question that has these figures."""
    if part == "confusion":
        texts = [(name, pa.string()) for name in ("label", "answer")]
        return pa.schema([("variant", pa.int64()), *VARIED.items(), *texts, ("rows", pa.int64()), *_numbers("share")])
    if part == "agreement":
        whole = [(name, pa.int64()) for name in ("variant", "other")]
        texts = [(name, pa.string()) for name in ("call", "other_call")]
        return pa.schema([*whole, *texts, ("n", pa.int64()), *_numbers("agreement", "kappa")])
    return _variants(figures)


def _variants(figures: Sequence[str]) -> pa.Schema:
    return pa.schema(
        [
            ("variant", pa.int64()),
            *VARIED.items(),
            *((name, pa.int64()) for name in ("n", "left_out", "failed")),
            *_numbers(*figures),
            *_numbers("agreement", "kappa"),
            ("price_per_1000", pa.float64()),
            ("seconds_per_1000", pa.float64()),
            *((name, pa.int64()) for name in ("tokens_per_1000", "calls", "cached")),
            ("worse_p", pa.float64()),
            ("frontier", pa.bool_()),
            ("chosen", pa.bool_()),
            ("note", pa.string()),
            ("call", pa.string()),
        ]
    )


def _numbers(*names: str) -> list[tuple[str, pa.DataType]]:
    return [(name, pa.float64()) for name in figure_columns(names)]
