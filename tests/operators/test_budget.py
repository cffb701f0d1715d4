"""A query's budget: reserved before sending, settled after, never exceeded."""

from dataclasses import replace

import pytest

from flightllm.access.store import Allowance
from flightllm.errors import BudgetExceededError
from flightllm.llm.cost import Prices, Work
from flightllm.llm.engine import Choice, Completion, Parameters, Request
from flightllm.operators.budget import Account, RequestBudget, check_estimate, check_prices

REQUEST = Request(0, "x" * 100, Parameters(10), "f", "i", ())
PRICES = Prices(1.0, 0.1, 10.0)


def budget(limits: Allowance, *, fail: bool = False) -> RequestBudget:
    """Return a budget whose prompts have as many tokens as characters."""
    return RequestBudget(Account(limits, fail=fail), PRICES, len, len)


def test_calls() -> None:
    """No more calls than allowed, whatever settles; then the reason says which limit it was."""
    spent = budget(Allowance(calls=2))
    taken = [spent.take(REQUEST) for _ in range(3)]
    assert [bool(reservation) for reservation in taken] == [True, True, False]
    assert spent.refusal
    assert "3 calls where flightllm.max_calls is 2" in spent.refusal


def test_tokens_come_back() -> None:
    """A request waits for what those on their way hold, and goes when they took less."""
    spent = budget(Allowance(tokens=200))
    first = spent.take(REQUEST)
    assert first
    assert spent.take(REQUEST) is None
    assert spent.refusal is None
    spent.settle(first, Completion(0, "a", None, 60, 0, 2))
    second = spent.take(REQUEST)
    assert second
    spent.settle(second, Completion(0, "a", None, 100, 0, 10))
    assert spent.take(REQUEST) is None
    assert spent.refusal
    assert "flightllm.max_tokens is 200" in spent.refusal
    assert spent.take(replace(REQUEST, prompt="x")) is None, "once refused, nothing follows"


def test_cost() -> None:
    """The cost is reserved at the dearer price and settled at the true one."""
    spent = budget(Allowance(cost=300e-6))
    first = spent.take(REQUEST)
    assert first
    assert first.cost == pytest.approx(200e-6)
    assert spent.take(REQUEST) is None
    spent.settle(first, Completion(0, "a", None, 100, 90, 1))
    assert spent.take(REQUEST)


def test_answers_to_their_end() -> None:
    """A choice may take more tokens than `max_tokens`: it is reserved with its longest option."""
    parameters = Parameters(2, constraint=Choice(("No", "a" * 50)))
    taken = budget(Allowance(tokens=1_000)).take(replace(REQUEST, parameters=parameters))
    assert taken
    assert taken.tokens == 100 + 51


def test_a_bound_of_its_own() -> None:
    """A request that has a bound of its own is reserved with that."""
    taken = budget(Allowance(tokens=1_000)).take(replace(REQUEST, max_tokens=300))
    assert taken
    assert taken.tokens == 100 + 300


@pytest.mark.parametrize(("level", "more"), [("off", 0), ("low", 512), ("high", 8_192)])
def test_thoughts(level: str, more: int) -> None:
    """What a model can think before its answer is reserved too."""
    parameters = replace(REQUEST.parameters, reasoning=level)
    taken = budget(Allowance(tokens=100_000)).take(replace(REQUEST, parameters=parameters, max_tokens=300))
    assert taken
    assert taken.tokens == 100 + 300 + more


def test_thoughts_of_an_engine() -> None:
    """An engine that tells how long its thoughts can be has these reserved, also where none is asked for."""
    told = RequestBudget(
        Account(Allowance(tokens=100_000)), PRICES, len, len, "low", lambda mode, limit: len(mode) * limit
    )
    taken = told.take(replace(REQUEST, max_tokens=300))
    assert taken
    assert taken.tokens == 100 + 300 + 3 * 300


def test_failing() -> None:
    """Where the session wants it so, what is spent fails the query; waiting does not."""
    spent = budget(Allowance(tokens=200), fail=True)
    first = spent.take(REQUEST)
    assert first
    assert spent.take(REQUEST) is None
    spent.settle(first, Completion(0, "a", None, 100, 0, 10))
    with pytest.raises(BudgetExceededError, match=r"budget is spent.*max_tokens is 200"):
        spent.take(REQUEST)


def test_no_limits() -> None:
    """Without limits nothing is refused."""
    spent = RequestBudget(Account(Allowance()), None, len, len)
    assert all(spent.take(REQUEST) for _ in range(100))


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        (Allowance(calls=9), r"not run: .* 10 calls where flightllm.max_calls is 9"),
        (Allowance(tokens=1_100), r"1,200 tokens where flightllm.max_tokens is 1,100"),
        (Allowance(cost=0.001), r"a cost of 0.003 where flightllm.max_cost is 0.001"),
    ],
)
def test_estimate_above(limits: Allowance, text: str) -> None:
    """An estimate above a limit is refused with both figures; one at the limit is not."""
    estimate = Work(10, 1_000, 0, 200)
    with pytest.raises(BudgetExceededError, match=text):
        check_estimate(limits, estimate, PRICES.price(estimate))
    check_estimate(Allowance(10, 1_200, 0.003), estimate, PRICES.price(estimate))
    with pytest.raises(BudgetExceededError, match="the query is at least 10 calls where"):
        check_estimate(Allowance(9), estimate, 0.0, is_whole=False)


def test_cost_without_prices() -> None:
    """A limit on the cost needs prices."""
    with pytest.raises(BudgetExceededError, match="price_input"):
        check_prices(Allowance(cost=1.0), None)
    check_prices(Allowance(cost=1.0), PRICES)
    check_prices(Allowance(calls=1), None)
