"""EXPLAIN's price of queries at Claude's native API, beside the bill of a server with the documented rules."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from flightllm.config import Config, EngineConfig
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.messages_api import MessagesApi, serving

pytest.importorskip("anthropic", reason="the extra 'anthropic' is not installed")

LONG = " ".join(f"Rule {number}: a note about topic {number} goes to the team of that topic." for number in range(110))
LABELS = ", ".join(f"'topic {number}'" for number in range(300))
INPUT, OUTPUT = 3.0, 15.0
"""The list prices of the model in dollars per million tokens."""


def notes(turn: int, count: int = 24) -> str:
    """Return a query of short notes; each turn has other notes."""
    first = 100 * turn
    said = f"'note ' || v || ' of turn {turn} is about a chair that is broken'"
    return f"SELECT v AS id, {said} AS note FROM generate_series({first + 1}, {first + count}) AS g(v)"


def questions(turn: int, count: int = 24, papers: int = 3) -> str:
    """Return a query of questions about a few long papers; each turn has other papers."""
    paper = f"'paper ' || v % {papers} || repeat(' tells how chairs are made and mended in {turn} shops.', 140)"
    said = "'question ' || v || ' about it'"
    return f"SELECT v AS id, {paper} AS paper, {said} AS question FROM generate_series(1, {count}) AS g(v)"


@contextmanager
def asking(api: MessagesApi, folder: Path, model: str = "claude-sonnet-4-5", **options: object) -> Iterator[Session]:
    """Run the server and a session on it."""
    with serving(api):
        given = {"base_url": api.url, "api_key_env": "", **options}
        config = Config(engine=EngineConfig("anthropic", model, 8, given), data_folder=folder)
        with closing(Database.open(config)) as database, closing(database.session()) as session:
            yield session


def rows(session: Session, sql: str) -> list[dict[str, object]]:
    """Return the rows of a statement."""
    return [row for batch in session.execute(sql).batches for row in batch.to_pylist()]


def predicted(session: Session, sql: str) -> dict[str, float]:
    """Return the predicted work of a statement."""
    [row] = rows(session, f"EXPLAIN (FORMAT JSON) {sql}")
    found: dict[str, float] = json.loads(str(row["plan"]))["total"]["predicted"]
    return found


@pytest.mark.parametrize(
    ("sql", "table", "most"),
    [
        pytest.param(f"SELECT id FROM t WHERE ai_filter('{LONG}', note)", notes, 0.3, id="instruction"),
        pytest.param(f"SELECT ai_classify(note, [{LABELS}]) FROM t", notes, 0.3, id="choice"),
        pytest.param(
            "SELECT id FROM t WHERE ai_filter('Is it in the paper?', paper, question)", questions, 0.6, id="field"
        ),
        pytest.param("SELECT id FROM t WHERE ai_filter('Is it about a chair?', note)", notes, 1.0, id="short"),
    ],
)
def test_explain_tells_the_bill(sql: str, table: Callable[[int], str], most: float, tmp_path: Path) -> None:
    """The predicted price is within 15 % of the bill at first: the tokenizer is unknown. Then it is within 2 %.

    The bill is never above that without any cache, and far below it where a shared start is long.
    """
    api = MessagesApi(say=lambda _: "topic 7" if "topic 299" in sql else "Yes")
    with asking(api, tmp_path) as session:
        for turn, allowed in enumerate([0.15, 0.02, 0.02]):
            session.update(f"CREATE OR REPLACE TABLE t AS {table(turn)}")
            told = predicted(session, sql)
            rows(session, sql)
            bill = api.price(INPUT, OUTPUT)
            assert told["price"] == pytest.approx(bill, rel=allowed)
            assert bill <= most * api.uncached(INPUT, OUTPUT)
            assert not api.refused
            api.bills.clear()


def test_examples_that_no_probability_judges(tmp_path: Path) -> None:
    """An API without probabilities cannot judge examples, so all prompts have them: the predicted price knows this."""
    shown = ", ".join(f"('{'chair ' * 100}{number}', 'Yes')" for number in range(3))
    asked = f"ai_filter('Is it about a chair?', note, examples => [{shown}, ('a fox', 'No')])"
    api = MessagesApi(say=lambda _: "Yes")
    with asking(api, tmp_path) as session:
        session.update(f"CREATE TABLE t AS {notes(0, 12)}")
        told = predicted(session, f"SELECT id FROM t WHERE {asked}")
        rows(session, f"SELECT id FROM t WHERE {asked}")
    assert told["price"] == pytest.approx(api.price(INPUT, OUTPUT), rel=0.15)


@pytest.mark.parametrize("model", ["claude-haiku-4-5", "claude-opus-4-7"])
def test_below_the_floor(model: str, tmp_path: Path) -> None:
    """A start that another model's cache would keep costs no write where the floor is higher."""
    api = MessagesApi(say=lambda _: "Yes")
    with asking(api, tmp_path, model) as session:
        session.update(f"CREATE TABLE t AS {notes(0, 10)}")
        rows(session, f"SELECT id FROM t WHERE ai_filter('{LONG[:4_000]}', note)")
    assert api.total("cache_creation_input_tokens") == 0
    assert "cache_control" not in json.dumps(api.bodies)


def test_several_calls_over_one_field(tmp_path: Path) -> None:
    """Calls whose prompts begin alike share one stored field; a call with a schema of its own shares nothing."""
    api = MessagesApi(say=lambda _: "Yes")
    with asking(api, tmp_path) as session:
        session.update(f"CREATE TABLE t AS {questions(0, 9, 9)}")
        calls = "ai_filter('Is it good?', paper) AS g, ai_classify(paper, ['Yes', 'b']) AS c"
        sql = f"SELECT {calls}, ai_extract(paper, ['topic']) AS s FROM t"
        told = predicted(session, sql)
        rows(session, sql)
        assert told["price"] == pytest.approx(api.price(INPUT, OUTPUT), rel=0.1)
        assert api.price(INPUT, OUTPUT) <= api.uncached(INPUT, OUTPUT)
