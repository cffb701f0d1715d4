"""Count the prompts of a call with a `label_budget`, where its model is asked about every row."""

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias

from flightllm.functions.call import AICall
from flightllm.observe.promise_figures import promise_figures
from flightllm.operators.rows import Response

UNPAID: Final = Response(None)
"""The response to a prompt that the label budget does not pay for: the answer is NULL, and no failure."""
SPENT: Final = "The label budget is spent."
Fate: TypeAlias = Literal["asked", "known", "left"]
"""The model was asked about a row, its answer was known, or nobody was asked."""


class LabelBudget:
    """The prompts that a call's model can get in one query, over all batches and waves. Thread-safe."""

    def __init__(self, call: AICall, most: int, warn: Callable[[str], None]) -> None:
        """`warn` gets what the result lacks, once the budget has refused a prompt."""
        self._call = call
        self._most = most
        self._warn = warn
        self._taken = self._refused = 0
        self._rows = Counter[str]()
        self._lock = threading.Lock()

    def take(self) -> bool:
        """Pay for one more prompt; return False if the budget is spent."""
        with self._lock:
            if self._taken < self._most:
                self._taken += 1
                return True
            self._refused += 1
        self._warn(f"{self._call.text}: the promise {self._call.promise} is not held, and rows are NULL: {SPENT}")
        return False

    def count(self, fate: Fate, rows: int) -> None:
        """Count the rows of one prompt."""
        with self._lock:
            self._rows[fate] += rows

    def figures(self) -> dict[str, Any] | None:
        """Return the figures of a promise that is not held, see `CallRecord.promise`; None while all rows are paid."""
        with self._lock:
            if not self._refused:
                return None
            rows = self._rows
            return promise_figures(
                targets=str(self._call.promise),
                rows=rows.total(),
                prompts=self._taken + self._refused,
                known=rows["known"],
                asked=rows["asked"],
                asked_prompts=self._taken,
                unanswered=rows["left"],
                unseen_errors=rows["left"],
                held=False,
                reason=SPENT,
            )
