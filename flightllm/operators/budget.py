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


def check_estimate(limits: Allowance, estimate: Work, cost: float, *, is_whole: bool = True) -> None:
    """Check the estimated work of a query, and its cost, before the first call.

    If not `is_whole`, the query can need more than the estimate.

    Raises:
        BudgetExceededError: the estimate is above a limit. The message has the estimate and what to do.
    """
    above = _exceeded(limits, estimate.calls, estimate.tokens, cost)
    if above is not None:
        least = "" if is_whole else "at least "
        raise BudgetExceededError(f"not run: the estimate for the query is {least}{above}: {_INSTEAD}")


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
class Attempt:
    """The most that one try of a request can take."""

    prompt_tokens: int = 0
    answer_tokens: int = 0
    cost: float = 0.0

    @property
    def tokens(self) -> int:
        """Return the tokens of the prompt and its answer."""
        return self.prompt_tokens + self.answer_tokens


@dataclass(slots=True)
class Reservation:
    """The most tokens and cost that all tries of a request in flight can take. Only its account changes it."""

    attempt: Attempt
    """The last try. `tokens`, `cost` and `prompt_tokens` have it too."""
    tokens: int = field(init=False)
    cost: float = field(init=False)
    prompt_tokens: int = field(init=False)
    """The part of `tokens` that is for prompts."""
    day: str = field(default_factory=today)
    """The day on which it was made; the user's spending counts by day."""
    settled: bool = False
    before: tuple[Attempt, bool, int] | None = None
    """The try before the last one, whether it can have cost something, and the calls that the last one counted."""

    def __post_init__(self) -> None:
        self.tokens, self.cost = self.attempt.tokens, self.attempt.cost
        self.prompt_tokens = self.attempt.prompt_tokens

    @property
    def paid(self) -> tuple[int, float]:
        """Return the tokens and the cost of the tries before the last one."""
        return self.tokens - self.attempt.tokens, max(0.0, self.cost - self.attempt.cost)

    def replace(self, old: Attempt, new: Attempt) -> None:
        """Put the figures of one try in place of another's."""
        self.tokens += new.tokens - old.tokens
        self.cost += new.cost - old.cost
        self.prompt_tokens += new.prompt_tokens - old.prompt_tokens


class Account:
    """Spending of a query over all models, and the most that its requests in flight can still take.

    The sum is never above the limits. Thread-safe.
    """

    def __init__(
        self,
        limits: Allowance,
        *,
        fail: bool = False,
        ledger: Ledger | None = None,
        spent: Work | None = None,
        cost: float = 0.0,
    ) -> None:
        """`spent` and `cost` are what the query has taken before, such as in earlier rounds of a deferred statement."""
        self.limits = limits
        self._ledger = ledger
        self._fail = fail
        self._lock = threading.Lock()
        self._calls, self._tokens = (0, 0) if spent is None else (spent.calls, spent.tokens)
        self._cost = cost
        self._open = 0
        self._refusal: str | None = None

    @property
    def refusal(self) -> str | None:
        """Return why the query can send no more requests, or None while it can."""
        return self._refusal

    def take(self, reservation: Reservation, *, waits: bool, probe: bool = False) -> bool:
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
            if not probe and (not self._open or not waits or out_of_calls):
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

    def admit(self, reservation: Reservation, attempt: Attempt, *, again: bool, billed: bool) -> str | None:
        """Reserve the coming try of a request in flight; return why it must not be sent, or None.

        `again` says that the request was sent before: then one more call counts. If the endpoint can have charged for
        the try before (`billed`), the coming one is reserved beside it, and otherwise in its place.
        """
        with self._lock:
            if reservation.settled:
                return "the query has ended"
            held = Attempt() if billed else reservation.attempt
            tokens, cost = attempt.tokens - held.tokens, attempt.cost - held.cost
            calls = int(again)
            if not calls and tokens <= 0 and cost <= 0:  # the first try, as large as it was reserved
                reservation.before = None
                return None
            above = _exceeded(self.limits, self._calls + calls, self._tokens + tokens, self._cost + cost)
            if above is not None:
                return f"the query's budget is spent: one more try could make it {above}"
            if self._ledger is not None and (above := self._ledger.take(calls, tokens, cost)):
                return f"the day's budget is spent: {above}"
            self._add(calls, tokens, cost)
            reservation.replace(held, attempt)
            reservation.before = reservation.attempt, billed, calls
            reservation.attempt = attempt
        if self._ledger is not None and calls:
            self._ledger.settle(today(), 0, 0.0, held_tokens=0, held_cost=0.0)
        return None

    def retract(self, reservation: Reservation) -> None:
        """Take back what the last `admit` reserved: its try does not leave."""
        with self._lock:
            if reservation.settled or reservation.before is None:
                return
            (before, billed, calls), attempt = reservation.before, reservation.attempt
            held = Attempt() if billed else before
            tokens, cost = attempt.tokens - held.tokens, attempt.cost - held.cost
            self._add(-calls, -tokens, -cost)
            reservation.replace(attempt, held)
            reservation.attempt, reservation.before = before, None
        if self._ledger is not None:
            self._ledger.take_back(reservation.day, calls, tokens, cost)

    def _add(self, calls: int, tokens: int, cost: float) -> None:
        self._calls += calls
        self._tokens += tokens
        self._cost += cost

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

    def take(self, request: Request, *, waits: bool = True, probe: bool = False) -> Reservation | None:
        """Reserve what a request can take, before it is sent; return None if it must not be sent now.

        After None there are two cases. If `refusal` has a reason, the request must never be sent. Otherwise requests in
        flight hold the rest of the budget: try again when one of them has settled. A caller without requests in flight
        sets `waits` to False. It is refused and does not wait, because requests of other callers can settle only after
        its own. A `probe` is not refused, because its caller can send a smaller request instead.

        Raises:
            BudgetExceededError: a limit is reached, and the session wants the query to fail then.
        """
        reservation = self._reservation(request)
        return reservation if self._account.take(reservation, waits=waits, probe=probe) else None

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

    def admit(self, reservation: Reservation, answer: int, *, again: bool, billed: bool) -> str | None:
        """Reserve the coming try of a request, whose answer has at most `answer` tokens; see `Account.admit`."""
        attempt = reservation.attempt
        if self._account.counts_tokens and answer > attempt.answer_tokens:
            attempt = self._attempt(attempt.prompt_tokens, answer)
        return self._account.admit(reservation, attempt, again=again, billed=billed)

    def retract(self, reservation: Reservation) -> None:
        """Take back what the last `admit` reserved; see `Account.retract`."""
        self._account.retract(reservation)

    def release(self, reservation: Reservation, *, sent: bool = True, billed: bool = False) -> None:
        """Settle a request that was stopped before its answer, or before it was sent.

        If the endpoint can charge for it all the same (`billed`), the reservation counts as spent; otherwise, only the
        part for earlier tries does.
        """
        tokens, cost = (reservation.tokens, reservation.cost) if billed else reservation.paid
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
            return Reservation(Attempt())
        more_prompt, more_answer = self._further(request.parameters.constraint)
        prompt = self._prompt_tokens(request.prompt) + more_prompt
        answer = self._longest_answer(request) + more_answer
        return Reservation(self._attempt(prompt, answer))

    def _attempt(self, prompt: int, answer: int) -> Attempt:
        return Attempt(prompt, answer, self._most_cost(Work(1, prompt, 0, answer)))

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
