"""Choose an order of fields for each row: first the field whose shared value saves the most tokens.

The rows that share this value form a group. Inside the group, the next field is chosen in the same way.

The algorithm is GGR (Liu et al., "Optimizing LLM Queries in Relational Data Analytics Workloads", MLSys 2025). Four
things differ. The table is not split into parts. Several scores for groups are tried. The best tree in which all rows
of a group have the same next field is tried too. Then prompts move to better places in the best tree.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from flightllm.prompt_order.base import CacheShape, Draft, Encoded
from flightllm.prompt_order.groups import GroupScore, Paths, build_groups
from flightllm.prompt_order.interleave import interleave
from flightllm.prompt_order.one_field import one_field_per_group
from flightllm.prompt_order.regroup import MOST_CELLS, regrouped
from flightllm.prompt_order.sequence import FlatDictionary, hit_tokens, measured, sort_rows
from flightllm.prompt_order.uniform import by_score, score_columns

_SCORES = (
    GroupScore(2.0, determined=True),
    GroupScore(3.0, determined=False),
    GroupScore(3.0, determined=True),
    GroupScore(8.0, determined=True),
    GroupScore(8.0, determined=False),
    GroupScore(1.0, determined=True),
)
_SCORES_BY_CELLS = ((100_000, 6), (500_000, 3))
"""Pairs (most cells of the table, number of scores to try). For larger tables, only the first score is tried."""


def greedy(encoded: Encoded, cache: CacheShape) -> Draft:
    """Return the best of the fixed order and the orders found here: the one with the most hits predicted for `cache`.

    Where running prompts do not share what they compute, leaders of groups go ahead.
    """
    found = {id(draft): draft for draft in _drafts(encoded, cache)}
    ready = {key: measured(encoded, interleave(encoded, draft, cache), cache) for key, draft in found.items()}
    best = max(ready, key=lambda key: hit_tokens(ready[key]))
    if not 1 < len(encoded.codes) <= MOST_CELLS // encoded.codes.shape[1]:
        return ready[best]
    again = interleave(encoded, regrouped(encoded, found[best], cache), cache)
    return max(ready[best], measured(encoded, again, cache), key=hit_tokens)


def _drafts(encoded: Encoded, cache: CacheShape) -> Iterator[Draft]:
    flat = FlatDictionary.of(encoded)
    count = next((scores for cells, scores in _SCORES_BY_CELLS if encoded.codes.size <= cells), 1)
    for score in _SCORES[:count]:
        paths = build_groups(encoded, flat, score)
        _append_other_fields(encoded, flat, paths)
        rows = sort_rows(flat.sequence(encoded.codes, paths.fields))
        yield Draft(rows, paths.fields[rows], "greedy")
    tree = one_field_per_group(encoded, cache)
    if tree is not None:
        yield tree
    yield by_score(encoded)


def _append_other_fields(encoded: Encoded, flat: FlatDictionary, paths: Paths) -> None:
    """Append the fields that rows still lack, beginning with the field whose values share the most tokens in the group.

    The other fields follow in the fixed order, which a score of each column decides.
    """
    columns = encoded.codes.shape[1]
    ranks = np.empty(columns, dtype=np.int64)
    ranks[score_columns(encoded)] = np.arange(1, columns + 1)
    if flat.overlaps is None:
        paths.append_rest(ranks)
        return
    shared = np.stack([_shared_by_group(encoded, flat, paths, column) for column in range(columns)], axis=1)
    best = np.argmax(np.where(shared > 0, shared, 0.0), axis=1)
    ranks_by_group = np.broadcast_to(ranks, shared.shape).copy()
    sharing = np.flatnonzero(shared.max(axis=1, initial=0.0) > 0)
    ranks_by_group[sharing, best[sharing]] = 0  # before all other fields, whose ranks begin at 1
    paths.append_rest(ranks_by_group[paths.group])


def _shared_by_group(encoded: Encoded, flat: FlatDictionary, paths: Paths, column: int) -> NDArray[np.float64]:
    """Return for each group how many tokens sorted neighbours among the values of `column` share, in total."""
    groups = int(paths.group.max(initial=-1)) + 1
    rows = np.flatnonzero(~paths.used[:, column] & (encoded.codes[:, column] >= 0))
    codes, group = encoded.codes[rows, column], paths.group[rows]
    order = np.argsort(group * len(encoded.weights[column]) + codes, kind="stable")
    numbers, group = flat.offsets[column] + codes[order], group[order]
    same = np.flatnonzero(group[1:] == group[:-1])
    tokens = flat.partial(numbers[same], numbers[same + 1])
    shared: NDArray[np.float64] = np.bincount(group[same], weights=tokens, minlength=groups).astype(np.float64)
    return shared
