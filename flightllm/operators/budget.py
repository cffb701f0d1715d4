"""Limit what one query spends on calls: check the estimate before the first call, and each call while it runs."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

from flightllm.access.ledger import Ledger
from flightllm.access.store import Allowance
from flightllm.access.tables import today
from flightllm.errors import BudgetExceededError
from flightllm.llm.cost import Prices, Work
from flightllm.llm.engine import Choice, Completion, Constraint, Request
from flightllm.llm.thinking import UNTHINKING, most_thought

_INSTEAD = "set it higher or to 'none', or let fewer rows reach the call; EXPLAIN shows what each call would take"


def check_prices(limits: Allowance, prices: Prices | None, model: str | None = None) -> None:
    """Check that a model has the prices that a limit on the cost needs; without a name, the server's own model.

    Raises:
        BudgetExceededError: the model has no prices.
    """
    if limits.cost is not None and prices is None:
        where = "the server's configuration" if model is None else f"the model {model!r}"
        place = "its section [engine]" if model is None else "its OPTIONS"
        raise BudgetExceededError(
            f"flightllm.max_cost needs prices, which {where} does not have: set price_input and price_output in"
            f" {place}, or limit flightllm.max_tokens instead"
        )


def check_estimate(limits: Allowance, estimate: Work, cost: float) -> None:
    """Check the estimated work of a whole query, and its cost, before the first call.

    Raises:
        BudgetExceededError: the estimate is above a limit. The message has the estimate and what to do.
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


@dataclass(slots=True)
class Reservation:
    """The most tokens and cost that a request in flight can take. Only its account changes it."""

    tokens: int
    cost: float
    day: str = field(default_factory=today)
    """The day on which it was made; the user's spending counts by day."""
    prompt_tokens: int = 0
    """The part of `tokens` that is for prompts."""
    tries: int = 1
    """How many times the endpoint can have charged for the request."""
    settled: bool = False


class Account:
    """Spending of a query over all models, and the most that its requests in flight can still take.

    The sum is never above the limits. Thread-safe.
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
        """Return why the query can send no more requests, or None while it can."""
        return self._refusal

    def take(self, reservation: Reservation, *, waits: bool) -> bool:
        """Reserve the most that a request can take, if that is within the limits; see `RequestBudget.take`."""
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
            raise BudgetExceededError(f"{self._refusal}; {_INSTEAD}. Answers already received stay cached")
        return False

    def settle(self, reservation: Reservation, tokens: int, cost: float, calls: int = 1) -> None:
        """Replace a request's reservation by the request's real figures; both are 0 if it was stopped.

        `calls` is 0 for a request that was never sent.
        """
        with self._lock:
            reservation.settled = True
            self._open -= 1
            self._calls += calls - 1
            self._tokens += tokens - reservation.tokens
            self._cost += cost - reservation.cost
        if self._ledger is not None:
            self._ledger.settle(
                reservation.day, tokens, cost, calls, held_tokens=reservation.tokens, held_cost=reservation.cost
            )

    def resend(self, reservation: Reservation, *, billed: bool) -> str | None:
        """Count one more try of a request in flight; return why it must not be sent, or None.

        If the endpoint can have charged for the try before (`billed`), reserve the most of one more try.
        """
        with self._lock:
            if reservation.settled:
                return "the query has ended"
            tokens = reservation.tokens // reservation.tries if billed else 0
            cost = reservation.cost / reservation.tries if billed else 0.0
            calls = self._calls + 1
            above = _exceeded(self.limits, calls, self._tokens + tokens, self._cost + cost)
            if above is not None:
                return f"the query's budget is spent: one more try could make it {above}"
            if self._ledger is not None and (above := self._ledger.take(1, tokens, cost)):
                return f"the day's budget is spent: {above}"
            self._calls, self._tokens, self._cost = calls, self._tokens + tokens, self._cost + cost
            if billed:
                reservation.prompt_tokens += reservation.prompt_tokens // reservation.tries
                reservation.tokens, reservation.cost = reservation.tokens + tokens, reservation.cost + cost
                reservation.tries += 1
        if self._ledger is not None:
            self._ledger.settle(today(), 0, 0.0, held_tokens=0, held_cost=0.0)
        return None

    def close(self) -> None:
        """Write the user's spending to disk."""
        if self._ledger is not None:
            self._ledger.write()

    @property
    def counts_tokens(self) -> bool:
        """Return whether requests must hold tokens or cost before they are sent."""
        limits = [self.limits.tokens, self.limits.cost]
        if self._ledger is not None:
            limits += [self._ledger.allowance.tokens, self._ledger.allowance.cost]
        return any(limit is not None for limit in limits)


class RequestBudget:
    """An account as the requests to one model see it. Thread-safe.

    `prompt_tokens` returns an upper bound of a prompt's tokens. `option_tokens` returns an upper bound of the tokens of
    one option of a `Choice`. `reasoning` is the model's thinking mode where a call does not set one. `thought` returns
    the most tokens of thinking, for the mode and the answer's limit. `further` returns the most tokens that the engine
    adds to a prompt and to an answer, for a constraint.
    """

    def __init__(
        self,
        account: Account,
        prices: Prices | None,
        prompt_tokens: Callable[[str], int],
        option_tokens: Callable[[str], int],
        reasoning: str | None = None,
        thought: Callable[[str, int], int] = most_thought,
        further: Callable[[Constraint], tuple[int, int]] = lambda _: (0, 0),
    ) -> None:
        self._account = account
        self._prices = prices
        self._prompt_tokens = prompt_tokens
        self._option_tokens = option_tokens
        self._reasoning = reasoning
        self._thought = thought
        self._further = lru_cache(maxsize=64)(further)
        self._longest_option: dict[Choice, int] = {}

    def take(self, request: Request, *, waits: bool = True) -> Reservation | None:
        """Reserve what a request can take, before it is sent; return None if it must not be sent now.

        After None there are two cases. If `refusal` has a reason, the request must never be sent. Otherwise requests in
        flight hold the rest of the budget: try again when one of them has settled. A caller without requests in flight
        sets `waits` to False. It is refused and does not wait, because requests of other callers can settle only after
        its own.

        Raises:
            BudgetExceededError: a limit is reached, and the session wants the query to fail then.
        """
        reservation = self._reservation(request)
        return reservation if self._account.take(reservation, waits=waits) else None

    @property
    def refusal(self) -> str | None:
        """Return why the query can send no more requests, or None while it can."""
        return self._account.refusal

    def settle(self, reservation: Reservation, completion: Completion) -> None:
        """Replace the reservation of a request with what it really took; where that is unknown, with the most."""
        tokens = completion.prompt_tokens, completion.cached_tokens, completion.completion_tokens
        work = Work(1, *tokens, completion.written_tokens)
        if completion.estimated:
            cost = self._most_cost(work)
            answer = min(reservation.tokens - reservation.prompt_tokens, completion.most_completion_tokens)
            most = Work(1, reservation.prompt_tokens, 0, answer)
            self._account.settle(reservation, max(work.tokens, most.tokens), max(cost, self._most_cost(most)))
        else:
            self._account.settle(reservation, work.tokens, 0.0 if self._prices is None else self._prices.price(work))

    def resend(self, reservation: Reservation, *, billed: bool) -> str | None:
        """Count one more try of a request; see `Account.resend`."""
        return self._account.resend(reservation, billed=billed)

    def release(self, reservation: Reservation, *, sent: bool = True, billed: bool = False) -> None:
        """Settle a request that was stopped before its answer, or before it was sent.

        If the endpoint can charge for it all the same (`billed`), the reservation counts as spent.
        """
        tokens, cost = (reservation.tokens, reservation.cost) if billed else (0, 0.0)
        self._account.settle(reservation, tokens, cost, int(sent))

    def _most_cost(self, work: Work) -> float:
        """Return the price of some work, whatever part of the prompt the endpoint finds in its cache."""
        if self._prices is None:
            return 0.0
        prompt, answer = work.prompt_tokens, work.completion_tokens
        works = Work(1, prompt, 0, answer), Work(1, prompt, prompt, answer), Work(1, prompt, 0, answer, prompt)
        return max(map(self._prices.price, works))

    def _reservation(self, request: Request) -> Reservation:
        if not self._account.counts_tokens:
            return Reservation(0, 0.0)
        more_prompt, more_answer = self._further(request.parameters.constraint)
        prompt = self._prompt_tokens(request.prompt) + more_prompt
        answer = self._longest_answer(request) + more_answer
        cost = self._most_cost(Work(1, prompt, 0, answer))
        return Reservation(prompt + answer, cost, prompt_tokens=prompt)

    def _longest_answer(self, request: Request) -> int:
        """Return the most tokens of an answer and of the thinking before it."""
        mode = request.parameters.reasoning or self._reasoning or UNTHINKING
        return self._longest_text(request) + self._thought(mode, request.limit)

    def _longest_text(self, request: Request) -> int:
        constraint = request.parameters.constraint
        if not isinstance(constraint, Choice):
            return request.limit
        if constraint not in self._longest_option:  # the engine always writes an option to its end
            self._longest_option[constraint] = max(self._option_tokens(o) + 1 for o in constraint.options)
        return max(request.limit, self._longest_option[constraint])
