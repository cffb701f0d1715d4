"""The sizes of an aggregate's prompts."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from flightllm.config import EngineConfig
from flightllm.engines import create_engine
from flightllm.operators.sets.room import UNKNOWN_CONTEXT
from flightllm.session.database import Database
from tests.databases import ask, open_database
from tests.endpoints import Body, Reply, chat, endpoint_of, refuse
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


def test_a_context_of_the_endpoint(database: Database) -> None:
    """An endpoint without a tokenizer is asked within its `max_model_len`, and EXPLAIN predicts these calls."""
    pytest.importorskip("openai", reason="the extra 'openai' is not installed")
    limit, sizes = 3_000, list[int]()

    def behave(path: str, body: Body, number: int) -> Reply:
        del path
        tokens = -(-len(str(body["messages"][0]["content"])) // 4)
        sizes.append(tokens + int(body.get("max_tokens") or body["max_completion_tokens"]))
        return chat(f"note {number}") if sizes[-1] <= limit else refuse(400)

    with endpoint_of(behave) as endpoint:
        engine = create_engine(EngineConfig("openai", "any", 8, {"base_url": endpoint.url, "max_model_len": limit}))
        with closing(engine):
            session = using(database, engine).session()
            query = "SELECT ai_agg(t, 'What?') AS a FROM r"
            plan = str(ask(session, f"EXPLAIN {query}", cache="off").rows)
            sizes.clear()
            ((answer,),) = (row.values() for row in ask(session, query, cache="off").rows)
    assert answer.startswith("note ")
    assert 20 < len(sizes) < 60
    assert f"{len(sizes)} calls" in plan, plan


def test_thoughts_take_room(database: Database) -> None:
    """A model that thinks before it answers gets smaller prompts."""
    without, thinking = sent(database, ""), sent(database, ", reasoning => 'medium'")
    assert thinking[-1] < without[-1] - 1_000
