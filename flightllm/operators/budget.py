"""What one query may spend on calls: checked against the estimate before the first, kept to while running."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from flightllm.access.ledger import Ledger
from flightllm.access.store import Allowance
from flightllm.access.tables import today
from flightllm.errors import BudgetExceededError
from flightllm.model.cost import Prices, Work
from flightllm.model.engine import Choice, Completion, Request
from flightllm.model.thinking import UNTHINKING, most_thought

_INSTEAD = "set it higher or to 'none', or let fewer rows reach the call; EXPLAIN shows what each call would take"


def check_prices(limits: Allowance, prices: Prices | None, model: str | None = None) -> None:
    """Check that a limit on the cost can be kept to by a model, None being the server's own.

    Raises:
        BudgetExceededError: it has no prices.
    """
    if limits.cost is not None and prices is None:
        where = "the server's configuration" if model is None else f"the model {model!r}"
        place = "its section [engine]" if model is None else "its OPTIONS"
        raise BudgetExceededError(
            f"flightllm.max_cost needs prices, which {where} does not have: set price_input and price_output in"
            f" {place}, or limit flightllm.max_tokens instead"
        )


def check_estimate(limits: Allowance, estimate: Work, cost: float) -> None:
    """Check an estimate of a whole query, and its cost, before its first call.

    Raises:
        BudgetExceededError: it is above a limit, with the estimate and what to do.
    """
    above = _exceeded(limits, estimate.calls, estimate.tokens, cost)
    if above is not None:
        raise BudgetExceededError(f"not run: the estimate for the query is {above}: {_INSTEAD}")


def _exceeded(limits: Allowance, calls: int, tokens: int, cost: float) -> str | None:
    """Return which of the settings `max_calls`, `max_tokens` and `max_cost` these figures exceed, or None."""
    found = limits.exceeded(calls, tokens, cost)
    if found is None:
        return None
    name, value, most = found
    if name == "cost":
        return f"a cost of {value:,.6g} where flightllm.max_cost is {most:,.6g}"
    return f"{value:,} {name} where flightllm.max_{name} is {most:,}"


@dataclass(frozen=True, slots=True)
class Reservation:
    """The most that a request on its way can take."""

    tokens: int
    cost: float
    day: str = field(default_factory=today)
    """When it was made; its user's spending counts by day."""


class Account:
    """What a query spent and what requests on their way may still take, whatever model they are for.

    Never above the limits. Safe for several threads.
    """

    def __init__(self, limits: Allowance, *, fail: bool = False, ledger: Ledger | None = None) -> None:
        self.limits = limits
        self._ledger = ledger
        self._fail = fail
        self._lock = threading.Lock()
        self._calls = 0
        self._tokens = 0
        self._cost = 0.0
        self._open = 0
        self._refusal: str | None = None

    @property
    def refusal(self) -> str | None:
        """Return why no more requests may be sent in this query, or None while some may."""
        return self._refusal

    def take(self, reservation: Reservation, *, waits: bool) -> bool:
        """Hold what a request may take, where that is within the limits; see `Budget.take`."""
        with self._lock:
            if self._refusal is not None:
                return False
            calls, tokens = self._calls + 1, self._tokens + reservation.tokens
            cost = self._cost + reservation.cost
            above = _exceeded(self.limits, calls, tokens, cost)
            if above is None:
                above = None if self._ledger is None else self._ledger.take(1, reservation.tokens, reservation.cost)
                if above is None:
                    self._calls, self._tokens, self._cost = calls, tokens, cost
                    self._open += 1
                    return True
                why = f"the day's budget is spent: {above}"
            else:
                why = f"the query's budget is spent: one more call could make it {above}"
            out_of_calls = self.limits.calls is not None and calls > self.limits.calls
            if not self._open or not waits or out_of_calls:
                self._refusal = why
        if self._refusal is not None and self._fail:
            raise BudgetExceededError(f"{self._refusal}; {_INSTEAD}. Answers already received are kept")
        return False

    def settle(self, reservation: Reservation, tokens: int, cost: float, calls: int = 1) -> None:
        """Count what a request took in place of what was held for it; nothing where it was stopped.

        `calls` is 0 for one that was never sent.
        """
        with self._lock:
            self._open -= 1
            self._calls += calls - 1
            self._tokens += tokens - reservation.tokens
            self._cost += cost - reservation.cost
        if self._ledger is not None:
            self._ledger.settle(
                reservation.day, tokens, cost, calls, held_tokens=reservation.tokens, held_cost=reservation.cost
            )

    def close(self) -> None:
        """Bring to disk what was spent."""
        if self._ledger is not None:
            self._ledger.write()

    @property
    def counts_tokens(self) -> bool:
        """Tell whether requests must hold tokens or cost before they are sent."""
        limits = [self.limits.tokens, self.limits.cost]
        if self._ledger is not None:
            limits += [self._ledger.allowance.tokens, self._ledger.allowance.cost]
        return any(limit is not None for limit in limits)


class Budget:
    """An account as the requests to one model see it. Safe for several threads.

    `prompt_tokens` tells at most how many tokens a prompt has, `option_tokens` those of an option of a `Choice`.
    `reasoning` is how long the model thinks where a call does not say it; `thought` returns the most tokens of that, by
    the mode and the answer's limit.
    """

    def __init__(
        self,
        account: Account,
        prices: Prices | None,
        prompt_tokens: Callable[[str], int],
        option_tokens: Callable[[str], int],
        reasoning: str | None = None,
        thought: Callable[[str, int], int] = most_thought,
    ) -> None:
        self._account = account
        self._prices = prices
        self._prompt_tokens = prompt_tokens
        self._option_tokens = option_tokens
        self._reasoning = reasoning
        self._thought = thought
        self._longest_option: dict[Choice, int] = {}

    def take(self, request: Request, *, waits: bool = True) -> Reservation | None:
        """Reserve what a request may take, before it is sent; None where it must not be sent now.

        After None, `refusal` is the reason where it must never be sent; otherwise requests on their way hold what it
        would need: try again when one of them has settled. One that has none of its own to wait for (not `waits`) is
        refused, as those of others may settle only after it.

        Raises:
            BudgetExceededError: a limit is reached and the session wants the query to fail then.
        """
        reservation = self._reservation(request)
        return reservation if self._account.take(reservation, waits=waits) else None

    @property
    def refusal(self) -> str | None:
        """Return why no more requests may be sent in this query, or None while some may."""
        return self._account.refusal

    def settle(self, reservation: Reservation, completion: Completion) -> None:
        """Count what a request really took in place of what was reserved for it."""
        work = Work(1, completion.prompt_tokens, completion.cached_tokens, completion.completion_tokens)
        self._account.settle(reservation, work.tokens, 0.0 if self._prices is None else self._prices.price(work))

    def release(self, reservation: Reservation, *, sent: bool = True) -> None:
        """Give back what was reserved for a request that was stopped before its answer, or before it was sent."""
        self._account.settle(reservation, 0, 0.0, int(sent))

    def _reservation(self, request: Request) -> Reservation:
        if not self._account.counts_tokens:
            return Reservation(0, 0.0)
        prompt, answer = self._prompt_tokens(request.prompt), self._longest_answer(request)
        if self._prices is None:
            return Reservation(prompt + answer, 0.0)
        cost = max(self._prices.price(Work(1, prompt, cached, answer)) for cached in (0, prompt))
        return Reservation(prompt + answer, cost)

    def _longest_answer(self, request: Request) -> int:
        """Return the most tokens of an answer, and of the thought before it."""
        mode = request.parameters.reasoning or self._reasoning or UNTHINKING
        return self._longest_text(request) + self._thought(mode, request.limit)

    def _longest_text(self, request: Request) -> int:
        constraint = request.parameters.constraint
        if not isinstance(constraint, Choice):
            return request.limit
        if constraint not in self._longest_option:  # an option is always written to its end
            self._longest_option[constraint] = max(self._option_tokens(o) + 1 for o in constraint.options)
        return max(request.limit, self._longest_option[constraint])
