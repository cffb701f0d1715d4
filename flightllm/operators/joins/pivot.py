"""Compare each value with one value only, where a predicate says that two values have the same or the other property.

With two classes of values, the answers about (l, q), (p, q) and (p, r) decide (l, r): as a factor, yes is 1 and no is
-1, and the answer about (l, r) is the product. This holds for "the same" and for "the opposite". The idea is from Wang
et al., "Leveraging transitive relations for crowdsourced joins" (SIGMOD 2013).
"""

import numpy as np

from flightllm.operators.joins.asked import NO_ANSWER, YES, PairOracle
from flightllm.operators.joins.candidates import Candidates
from flightllm.operators.joins.classes import ACCEPT, ASK, REJECT, Classes
from flightllm.operators.joins.values import Ints, Values


def pivot_prompts(candidates: Candidates, *, alike: bool) -> int:
    """Return how many questions the way needs; `alike` says that both sides have the same number of fields."""
    both = np.intersect1d(candidates.left, candidates.right) if alike else np.empty(0, np.int64)
    if len(both):
        return len(np.union1d(candidates.left, candidates.right))
    return len(candidates.left) + len(candidates.right) - 1


def by_pivot(candidates: Candidates, values: Values, oracle: PairOracle, *, alike: bool) -> Classes:
    """Return the classes of both sides: yes, no and no answer about the pair with the pivot.

    Raises:
        EngineError: the engine is gone, or a prompt failed and the call says `on_error => 'fail'`.
        BudgetExceededError: the budget is spent, and the session wants the query to fail then.
        CancelledError: the query was cancelled.
    """
    count = len(values.found)
    both = np.intersect1d(candidates.left, candidates.right) if alike else np.empty(0, np.int64)
    left, right = np.full(count, 2), np.full(count, 2)
    if len(both):
        pivot = _frequent(both, values.counts(0) + values.counts(1))
        every = np.union1d(candidates.left, candidates.right)
        left[every] = right[every] = _classes(oracle, every * count + pivot)
        middle = left[pivot]
    else:
        p, q = _frequent(candidates.left, values.counts(0)), _frequent(candidates.right, values.counts(1))
        left[candidates.left] = _classes(oracle, candidates.left * count + q)
        right[candidates.right] = _classes(oracle, p * count + candidates.right)
        middle = left[p]
    factor = {0: 1, 1: -1, 2: 0}
    verdict = np.full((3, 3), ASK, np.int8)
    for a in range(3):
        for b in range(3):
            product = factor[a] * factor[int(middle)] * factor[b]
            verdict[a, b] = ASK if not product else ACCEPT if product > 0 else REJECT
    return Classes(left, right, verdict)


def _classes(oracle: PairOracle, pairs: Ints) -> Ints:
    answers = oracle.ask(pairs)
    return np.where(answers == NO_ANSWER, 2, np.where(answers == YES, 0, 1)).astype(np.int64)


def _frequent(values: Ints, rows: Ints) -> int:
    """Return the value with the most rows."""
    return int(values[int(np.argmax(rows[values]))])
