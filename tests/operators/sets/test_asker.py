"""Questions of a call over sets: they are asked as those of other calls."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from flightllm.errors import AnswerError
from flightllm.llm.engine import Completion, Request
from flightllm.operators.sets.asker import Asker, Reply
from flightllm.operators.sets.base import SetValues
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import ask, small_database
from tests.using_engines import Scripted, using

ASKED: list[list[Reply]] = []
"""The replies that the method of the tests got."""


def answers(values: SetValues, asker: Asker) -> Sequence[Any]:
    """Ask about four texts, two of them equal, for each group."""
    assert asker.call.over is not None
    question = asker.call.over.questions["one"]
    ASKED.append(asker.ask(question, [("a",), ("b",), ("a",), ("c",)]))
    assert asker.ask(question, []) == []
    return ["done" for _ in values.tuples]


@pytest.fixture(autouse=True)
def _method(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the method of `ai_agg` be the function above."""
    ASKED.clear()
    monkeypatch.setattr("flightllm.operators.sets.run.runner_of", lambda _: answers)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Return a database of small tables."""
    database = small_database(tmp_path_factory.mktemp("asker"))
    yield database
    database.close()


@pytest.fixture
def session(database: Database) -> Session:
    """Return a session without kept answers."""
    session = database.session()
    session.update("TRUNCATE system.cache")
    return session


SQL = "SELECT ai_agg(note, 'x'{}) AS a FROM people"


def test_replies_in_order(session: Session) -> None:
    """Equal prompts are sent once, and replies have the order of the prompts."""
    ran = ask(session, SQL.format(""))
    (replies,) = ASKED
    assert ran.calls == 3
    assert replies[0] == replies[2] != replies[1]
    assert all(reply.error is None and not reply.predicted for reply in replies)


def test_the_cache(session: Session) -> None:
    """Answers are kept, and taken from the cache by the next query."""
    ask(session, SQL.format(""))
    again = ask(session, SQL.format(""))
    assert (again.calls, again.cache_hits) == (0, 3)
    assert ASKED[0] == ASKED[1]


def test_a_dry_run_says_what_it_predicts(session: Session) -> None:
    """EXPLAIN asks nothing; its replies say whether an answer is known."""
    assert ask(session, f"EXPLAIN {SQL.format('')}").calls == 0
    assert all(reply.predicted for replies in ASKED for reply in replies)
    ask(session, SQL.format(""))
    ASKED.clear()
    ask(session, f"EXPLAIN {SQL.format('')}")
    assert not any(reply.predicted for reply in ASKED[0])


def test_failures(tmp_path: Path) -> None:
    """A failed prompt has its error; with `on_error => 'fail'` the query ends."""
    database = small_database(tmp_path, {"fail_containing": "texts: b"})
    ask(database.session(), SQL.format(""))
    (replies,) = ASKED
    assert [reply.error is None for reply in replies] == [True, False, True, True]
    with pytest.raises(AnswerError):
        ask(database.session(), SQL.format(", on_error => 'fail'"))
    database.close()


def test_the_record(database: Database) -> None:
    """The call site of the aggregate has the figures of all its questions."""

    def answer(request: Request) -> str:
        return request.fields[0][1]

    (site,) = ask(using(database, Scripted(answer)).session(), SQL.format(""), cache="off").record.call_rows()
    figures: Mapping[str, Any] = site
    assert {name: figures[name] for name in ("function", "calls", "rows", "failed_rows")} == {
        "function": "ai_agg", "calls": 3, "rows": 1, "failed_rows": 0,
    }  # fmt: skip


def test_a_refusal_is_remembered(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A prompt that an endpoint refuses is not sent again within the statement; the next statement sends it."""
    again: list[list[Reply]] = []

    def twice(values: SetValues, asker: Asker) -> Sequence[Any]:
        assert asker.call.over is not None
        one, other = asker.call.over.questions["one"], asker.call.over.questions["extract"]
        for _ in range(2):
            again.extend(asker.ask_each([(one, [("bad",), ("good",)]), (other, [("good",), ("bad",), ("good",)])]))
        return ["done" for _ in values.tuples]

    monkeypatch.setattr("flightllm.operators.sets.run.runner_of", lambda _: twice)
    engine = Failing(lambda request: request.fields[0][1])
    session = using(database, engine).session()
    for turn in (1, 2):
        ask(session, SQL.format(""), cache="off")
        sent = [(request.instruction, request.fields[0][1]) for request in engine.asked]
        assert len(sent) == 4 * turn
        assert len(set(sent)) == 4
    assert [[reply.value for reply in replies] for replies in again[:2]] == [[None, "good"], ["good", None, "good"]]
    assert again[:2] == again[2:4]
    assert "refuses" in str(again[0][0].error)


class Failing(Scripted):
    """An engine that refuses one text."""

    def generate(self, requests: Iterator[Request | None], cancelled: Callable[[], bool]) -> Iterator[Completion]:
        """Answer as scripted, or fail."""
        for completion in super().generate(requests, cancelled):
            failed = completion.text == "bad"
            yield Completion(completion.id, None, "the engine refuses it") if failed else completion
