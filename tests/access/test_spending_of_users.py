"""What users spend on AI calls, and whose answers and prefixes they share."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flightllm.access.store import Allowance, User
from flightllm.access.tables import today
from flightllm.errors import BudgetExceededError
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import ask, open_database

ASK = "SELECT n, ai_gen('Say it.', n) AS answer FROM numbers"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Open a database with ten numbers, whose prompts are logged, and prices."""
    database = open_database(tmp_path, {"log_path": str(tmp_path / "prompts.jsonl")})
    admin = database.session()
    admin.update("CREATE TABLE numbers AS SELECT CAST(value AS TEXT) AS n FROM generate_series(1, 10)")
    admin.update("GRANT SELECT ON numbers TO user")
    yield database
    database.close()


def user(database: Database, name: str, **attributes: Any) -> Session:
    """Add a user and return a session of its own."""
    database.access.store.add_user(User(name, "user", **attributes))
    return database.session(database.access.store.user(name).principal)


def test_a_day_s_calls(database: Database) -> None:
    """The other rows have NULL, later queries fail before their first call, cached answers are free."""
    ann = user(database, "ann", allowance=Allowance(calls=4))
    answers = [row["answer"] for row in ask(ann, ASK).rows]
    assert sum(answer is not None for answer in answers) == 4
    with pytest.raises(BudgetExceededError, match="can spend at most 4 calls a day"):
        ask(ann, ASK.replace("it", "that"))
    assert ask(database.session(), ASK).calls == 6
    assert ask(user(database, "bob"), ASK).calls == 0


def test_tokens_are_held_before_they_are_spent(database: Database) -> None:
    """No day's limit is ever exceeded, also by queries that run at the same time."""
    ann = user(database, "ann", allowance=Allowance(tokens=2_500))
    ask(ann, ASK)
    calls, tokens, _ = database.access.store.spent("ann", today())
    assert calls > 0
    assert tokens <= 2_500


def test_spending_outlives_the_server(database: Database, tmp_path: Path) -> None:
    """What was spent is known after a restart, and an admin may raise the limit."""
    ask(user(database, "ann", allowance=Allowance(calls=10)), ASK)
    assert database.access.store.spent("ann", today())[0] == 10
    database.close()
    again = open_database(tmp_path)
    store = again.access.store
    ann = again.session(store.user("ann").principal)
    with pytest.raises(BudgetExceededError):
        ask(ann, ASK.replace("it", "that"))
    store.change_user(User("ann", "user", allowance=Allowance(calls=12)))
    assert ask(ann, ASK.replace("it", "that")).calls == 2
    again.close()


def test_failing_for_the_day(database: Database) -> None:
    """With on_budget = 'fail' the query fails where the day's budget ends."""
    ann = user(database, "ann", allowance=Allowance(calls=4))
    with pytest.raises(BudgetExceededError, match="the day's budget is spent"):
        ask(ann, ASK, on_budget="fail")


@pytest.mark.parametrize("statement", [f"CREATE TABLE kept AS {ASK}", f"INSERT INTO kept {ASK}"])
def test_nothing_is_stored_without_its_answers(database: Database, statement: str) -> None:
    """What stores rows fails where the day's budget ends and stores none, unless NULLs were asked for."""
    admin, ann = database.session(), user(database, "ann", allowance=Allowance(calls=4))
    admin.update("GRANT CREATE ON SCHEMA public TO user")
    if statement.startswith("INSERT"):
        ann.update("CREATE TABLE kept (n TEXT, answer TEXT)")
    with pytest.raises(BudgetExceededError, match="the day's budget is spent"):
        ann.update(statement)
    if statement.startswith("INSERT"):
        assert not ask(ann, "SELECT * FROM kept").rows
    database.access.store.change_user(User("ann", "user", allowance=Allowance(calls=6)))
    assert ann.update(statement.replace("it.", "that."), settings={"on_budget": "null"}) == 10
    answers = [row["answer"] for row in ask(ann, "SELECT * FROM kept").rows]
    assert sum(answer is not None for answer in answers) == 2


def test_answers_of_restricted_users_are_their_own(database: Database) -> None:
    """Whoever sees a part of a table learns nothing of what others asked, nor do they of it."""
    admin, ann, bob = database.session(), user(database, "ann"), user(database, "bob")
    admin.update("CREATE ROW FILTER ON numbers TO ann AS n <> '1'")
    assert ask(admin, ASK).calls == 10
    assert ask(bob, ASK).calls == 0
    assert (ask(ann, ASK).calls, ask(ann, ASK).calls) == (9, 0)
    admin.update("DROP ROW FILTER ON numbers FROM ann")
    assert ask(ann, ASK).calls == 0


@pytest.mark.parametrize("optimizer", ["on", "off"])
def test_prompts_carry_their_tenant(database: Database, tmp_path: Path, optimizer: str) -> None:
    """The engine learns whose prompts may share prefixes."""
    ask(user(database, "ann", tenant="acme"), ASK, optimizer=optimizer)
    ask(user(database, "bob"), ASK.replace("it", "that"), optimizer=optimizer)
    logged = [json.loads(line) for line in (tmp_path / "prompts.jsonl").read_text().splitlines()]
    assert [entry["tenant"] for entry in logged] == ["acme"] * 10 + [""] * 10
