"""The sizes of an aggregate's prompts."""

from collections.abc import Iterator
from typing import Any

import pytest

from flightllm.operators.sets.room import UNKNOWN_CONTEXT
from flightllm.session.database import Database
from tests.databases import ask, open_database
from tests.using_engines import Scripted, using


class Hosted(Scripted):
    """An engine behind an endpoint: neither its tokenizer nor its context is known."""

    has_tokenizer = False
    context_tokens: Any = None


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Return a database with a table of about 40,000 tokens."""
    database = open_database(tmp_path_factory.mktemp("room"))
    database.session().update(
        "CREATE TABLE r AS SELECT 'Text ' || value || repeat(' word', 30) AS t FROM generate_series(1, 1000)"
    )
    yield database
    database.close()


def sent(database: Database, options: str) -> list[int]:
    """Return the tokens of the prompts that a hosted engine gets, with the most tokens of their answers."""
    engine = Hosted(lambda _: "a note")
    ask(using(database, engine).session(), f"SELECT ai_agg(t, 'What?'{options}) FROM r", cache="off")
    return sorted(-(-len(one.prompt) // 4) + one.limit for one in engine.asked)


def test_an_unknown_context(database: Database) -> None:
    """Where nothing is known, prompts have a part of the assumed context, because tokens are estimated."""
    sizes = sent(database, "")
    assert 4 < len(sizes) < 10
    assert UNKNOWN_CONTEXT * 0.4 < sizes[-1] < UNKNOWN_CONTEXT * 0.85


def test_a_context_of_the_call(database: Database) -> None:
    """The call's context is taken, whether smaller or larger."""
    assert max(sent(database, ", context_tokens => 4000")) < 3_400
    assert len(sent(database, ", context_tokens => 200000")) == 1


def test_thoughts_take_room(database: Database) -> None:
    """A model that thinks before it answers gets smaller prompts."""
    without, thinking = sent(database, ""), sent(database, ", reasoning => 'medium'")
    assert thinking[-1] < without[-1] - 1_000
