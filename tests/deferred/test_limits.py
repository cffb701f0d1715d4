"""The limits of deferred statements: what a round can take is reserved before it is sent, and booked as it ends."""

from pathlib import Path

import pytest

from flightllm.access.store import Allowance, User
from flightllm.access.tables import today
from flightllm.common.principal import Principal
from flightllm.errors import BudgetExceededError
from flightllm.execution.deferral import DeferredStatement, Forecast
from flightllm.session.database import Database
from tests.batch_endpoint import batch_provider
from tests.deferred.test_deferral import ROWS, deferred, ended, opened, rows_of, state_of
from tests.servers import await_true

_ANN = Principal("ann", "admin")
_SQL = "SELECT ai_gen('Say', x) AS a FROM t"
_THREE = "SELECT ai_gen('Third', ai_gen('Second', ai_gen('First', x))) AS a FROM t"


def _run(database: Database, sql: str, **settings: str) -> dict[str, object]:
    """Run a deferred statement to its end, without the check of its estimate."""
    who = database.session().principal
    statement = DeferredStatement(sql, None, settings, ("public",), who, is_update=False)
    return ended(database, database.deferred.create(statement, Forecast(ROWS, None, None)))


def _spent(database: Database, user: str = "ann") -> tuple[int, int, float]:
    ledger = database.access.ledger(Principal(user, "admin"))
    assert ledger is not None
    ledger.write()
    return database.access.store.spent(user, today())


@pytest.mark.slow
def test_rounds_share_a_limit(tmp_path: Path) -> None:
    """What earlier rounds have taken is not free for a later one: the limit leaves the last call without answers."""
    with batch_provider() as provider, opened(tmp_path, provider) as database:
        row = _run(database, _THREE, max_calls=str(2 * ROWS), on_budget="null")
        assert (row["state"], row["rows"]) == ("done", ROWS)
        assert row["error"] == (
            f"the query's budget is spent: one more call could make it {2 * ROWS + 1} calls where flightllm.max_calls"
            f" is {2 * ROWS}; the other rows have NULL"
        )
        assert sum(provider.asked.values()) == 2 * ROWS


@pytest.mark.slow
@pytest.mark.parametrize("over", ["max_calls", "max_tokens", "max_cost"])
def test_a_round_beyond_a_limit_is_not_sent(over: str, tmp_path: Path) -> None:
    """A round that could pass a limit fails the statement before it is sent; the answers that came stay."""
    with batch_provider() as provider, opened(tmp_path, provider) as database:
        whole = _run(database, "SELECT ai_gen('First', x) AS a FROM t")
        tokens = sum(len(prompt.split()) + 2 for prompt in provider.asked)
        database.cache.clear()
        provider.asked.clear()
        most = {"max_calls": str(ROWS), "max_tokens": str(tokens + 1_000), "max_cost": f"{whole['price']}"}[over]
        row = _run(database, _THREE, **{over: most, "on_budget": "fail"})
        assert row["state"] == "failed"
        assert f"flightllm.{over}" in str(row["error"])
        taken = {
            "max_calls": sum(provider.asked.values()),
            "max_tokens": sum(len(prompt.split()) + 2 for prompt in provider.asked),
            "max_cost": float(str(row["price"] or 0)),
        }
        assert taken[over] <= float(most)
        if over == "max_calls":
            assert taken[over] == ROWS
            rows_of(database.session(), "SELECT ai_gen('First', x) AS a FROM t")
            assert not provider.chats


def test_answers_that_are_known_take_nothing(tmp_path: Path) -> None:
    """A statement that takes exactly the day's budget ends: its passes read answers after the budget is spent."""
    with batch_provider() as provider, opened(tmp_path, provider) as database:
        database.access.store.add_user(User("ann", "admin", allowance=Allowance(calls=2 * ROWS)))
        sql = "SELECT ai_gen('Second', ai_gen('First', x)) AS a FROM t"
        row = ended(database, deferred(database.session(_ANN), sql))
        assert (row["state"], row["error"], row["rows"]) == ("done", None, ROWS)
        calls, _, cost = _spent(database)
        assert calls == row["answered"] == sum(provider.asked.values()) == 2 * ROWS
        assert cost == pytest.approx(row["price"])


@pytest.mark.slow
def test_a_round_holds_the_budget_of_the_day(tmp_path: Path) -> None:
    """Prompts in a job hold their part of the day's budget, also after a restart; then what they took is spent."""
    with batch_provider(looks=10_000) as provider:
        with opened(tmp_path, provider) as database:
            database.access.store.add_user(User("ann", "admin", allowance=Allowance(calls=ROWS + 4)))
            batch_id = deferred(database.session(_ANN), _SQL)
            await_true(lambda: state_of(database, batch_id)["state"] == "waiting" and bool(provider.jobs))
        with opened(tmp_path, provider) as database:
            session = database.session(_ANN)
            with pytest.raises(BudgetExceededError, match="at most 28 calls a day"):
                rows_of(session, "SELECT ai_gen('Tell', x) AS a FROM t", on_budget="fail")
            assert sum(provider.chats.values()) == 4
            provider.looks = 1
            assert ended(database, batch_id)["state"] == "done"
            assert _spent(database)[0] == ROWS + 4
            with pytest.raises(BudgetExceededError, match="at most 28 calls a day"):
                rows_of(session, "SELECT ai_gen('Tell', x) AS a FROM t", on_budget="fail")
        assert sum(provider.asked.values()) + sum(provider.chats.values()) == ROWS + 4


@pytest.mark.slow
def test_a_cancelled_statement_books_what_came(tmp_path: Path) -> None:
    """A cancelled statement gives back what it held, and books what its answers took."""
    with batch_provider(looks=10_000) as provider, opened(tmp_path, provider) as database:
        database.access.store.add_user(User("ann", "admin", allowance=Allowance(calls=ROWS + 1)))
        session = database.session(_ANN)
        batch_id = deferred(session, _SQL)
        await_true(lambda: bool(provider.jobs))
        database.deferred.cancel(batch_id, session.principal)
        assert ended(database, batch_id)["state"] == "cancelled"
        assert _spent(database)[0] == sum(provider.asked.values()) == 1
        rows_of(session, _SQL, on_budget="fail")
        assert _spent(database)[0] == ROWS


@pytest.mark.slow
def test_the_form_of_an_unknown_endpoint_is_paid(tmp_path: Path) -> None:
    """A prompt that is asked at once to see the endpoint's form takes from the limits too."""
    sql = "SELECT ai_classify(x, ['p', 'q']) AS c FROM t"
    with batch_provider() as provider, opened(tmp_path, provider, provider="", batch="on") as database:
        database.access.store.add_user(User("ann", "admin"))
        row = ended(database, deferred(database.session(_ANN), sql))
        assert row["state"] == "done"
        assert _spent(database)[0] == sum(provider.asked.values()) + sum(provider.chats.values())
