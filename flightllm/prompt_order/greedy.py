"""Field orders that differ between rows: the field value shared by most tokens first, and so on inside each group.

After GGR (Liu et al., "Optimizing LLM Queries in Relational Data Analytics Workloads", MLSys 2025), without its split
of the table into parts, and with several tastes tried.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from flightllm.prompt_order.base import CacheShape, Draft, Encoded
from flightllm.prompt_order.groups import Paths, Taste, grow
from flightllm.prompt_order.measure import hit_tokens, measured
from flightllm.prompt_order.sequence import Flat, sort_rows
from flightllm.prompt_order.uniform import by_score, score_columns

_TASTES = (
    Taste(2.0, determined=True),
    Taste(3.0, determined=False),
    Taste(3.0, determined=True),
    Taste(8.0, determined=True),
    Taste(8.0, determined=False),
    Taste(1.0, determined=True),
)
_TRIED = ((100_000, 6), (500_000, 3))
"""Cells of a table up to which so many of the tastes are tried; larger tables are ordered by the first."""


def greedy(encoded: Encoded, cache: CacheShape, fixed: Draft | None = None) -> Draft:
    """Return the best of the orderings found, v1's among them, by the hits predicted for `cache`.

    `fixed` is v1's, measured, where it is already known.
    """
    found = [measured(encoded, draft, cache) for draft in _drafts(encoded)]
    return max([*found, fixed or measured(encoded, by_score(encoded), cache)], key=hit_tokens)


def _drafts(encoded: Encoded) -> Iterator[Draft]:
    flat = Flat.of(encoded)
    tried = next((tastes for cells, tastes in _TRIED if encoded.codes.size <= cells), 1)
    for taste in _TASTES[:tried]:
        paths = grow(encoded, flat, taste)
        _finish(encoded, flat, paths)
        places = sort_rows(flat.sequence(encoded.codes, paths.fields))
        yield Draft(places, paths.fields[places], "greedy")


def _finish(encoded: Encoded, flat: Flat, paths: Paths) -> None:
    """Give rows the fields they lack: first the one whose values begin most alike within the group, then by score."""
    columns = encoded.codes.shape[1]
    ranks = np.empty(columns, dtype=np.int64)
    ranks[score_columns(encoded)] = np.arange(1, columns + 1)
    if flat.overlaps is None:
        paths.append_rest(ranks)
        return
    alike = np.stack([_alike(encoded, flat, paths, column) for column in range(columns)], axis=1)
    best = np.argmax(np.where(alike > 0, alike, 0.0), axis=1)
    by_group = np.broadcast_to(ranks, alike.shape).copy()
    found = np.flatnonzero(alike.max(axis=1, initial=0.0) > 0)
    by_group[found, best[found]] = 0
    paths.append_rest(by_group[paths.group])


def _alike(encoded: Encoded, flat: Flat, paths: Paths, column: int) -> NDArray[np.float64]:
    """Return by group how many tokens its rows share within values of `column` that differ, once sorted by them."""
    groups = int(paths.group.max(initial=-1)) + 1
    rows = np.flatnonzero(~paths.used[:, column] & (encoded.codes[:, column] >= 0))
    codes, group = encoded.codes[rows, column], paths.group[rows]
    sort = np.argsort(group * len(encoded.weights[column]) + codes, kind="stable")
    numbers, group = flat.offsets[column] + codes[sort], group[sort]
    same = np.flatnonzero(group[1:] == group[:-1])
    tokens = flat.partial(numbers[same], numbers[same + 1])
    shared: NDArray[np.float64] = np.bincount(group[same], weights=tokens, minlength=groups).astype(np.float64)
    return shared
