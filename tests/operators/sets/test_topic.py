"""Topics that the model finds in the rows."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flightllm.errors import InvalidInputError
from flightllm.llm.engine import Choice, Request
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import ask, explained, open_database, small_database
from tests.using_engines import Scripted, using

KINDS = {"late": "delivery", "broken": "damage", "price": "costs", "login": "account"}
SQL = "SELECT ai_topic(text, k => 4) AS topic, count(*) AS n FROM notes GROUP BY 1 ORDER BY 2 DESC, 1"


def topics_of(request: Request) -> str:
    """Propose the topics of a sample, except that costs are overlooked at first; else assign one."""
    text = request.fields[-1][1]
    found = [topic for word, topic in KINDS.items() if word in text]
    if isinstance(request.parameters.constraint, Choice):
        options = request.parameters.constraint.options
        return found[0] if found and found[0] in options else "other"
    known = "These topics are known" in text
    return json.dumps({"topics": [topic for topic in found if known or topic != "costs"]})


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Return a database with notes of four kinds, some about nothing, and a NULL."""
    words = [*KINDS, "late", "late", "nothing"]
    texts = [f"note {n} is about {words[n % 7]}" for n in range(70)]
    pq.write_table(pa.table({"text": pa.array([*texts, None], pa.string())}), tmp_path / "notes.parquet")
    with closing(open_database(tmp_path, tables={"notes": tmp_path / "notes.parquet"})) as found:
        yield found


def session_of(database: Database, answer: Callable[[Request], str] = topics_of) -> tuple[Session, Scripted]:
    """Return a session whose engine proposes and assigns topics."""
    engine = Scripted(answer)
    return using(database, engine).session(), engine


def test_topics_of_all_rows(database: Database) -> None:
    """The texts that fit no topic are looked at again, and a second run takes all answers from the cache."""
    session, engine = session_of(database)
    found = ask(session, SQL)
    counts = {row["topic"]: row["n"] for row in found.rows}
    assert counts == {"delivery": 30, "account": 10, "damage": 10, "costs": 10, "other": 10, None: 1}
    assert len(engine.asked) == 1 + 70 + 1 + 20
    again = ask(session, SQL)
    assert (again.calls, again.rows) == (0, found.rows)


def test_the_order_of_rows_changes_nothing(database: Database) -> None:
    """The sample depends on the texts alone."""
    asked = []
    for order in ("text", "text DESC"):
        session, engine = session_of(database)
        session.update("SET flightllm.cache = 'off'")
        ask(session, SQL.replace("notes", f"(SELECT * FROM notes ORDER BY {order})"))
        asked.append(sorted(request.prompt for request in engine.asked))
    assert asked[0] == asked[1]


@pytest.mark.parametrize("answer", ['{"topics": []}', "none", '{"topics": [" ", "other", "OTHER"]}'])
def test_no_topic(database: Database, answer: str) -> None:
    """Without a topic, the rows have an error and no made-up label."""
    session, _ = session_of(database, lambda _: answer)
    found = ask(
        session, "SELECT DISTINCT ai_topic(text, on_error => 'struct') AS topic FROM notes WHERE text IS NOT NULL"
    )
    (row,) = found.rows
    assert row["topic"]["value"] is None
    assert "the texts have no topics" in row["topic"]["error"]


def test_explain_predicts_the_calls(database: Database) -> None:
    """The prediction has a proposal and a prompt for each text, and asks nothing."""
    session, engine = session_of(database)
    told = str(explained(session, SQL))
    assert not engine.asked
    assert "70 texts assigned" in told
    assert "3 topics from a sample" in str(explained(session, f"ANALYZE {SQL}"))


def test_explain_knows_the_topics(database: Database) -> None:
    """The forecast of a second run asks nothing, because it reads the topics that the first run found."""
    session, _ = session_of(database)
    ask(session, SQL)
    session.set_option("max_calls", "1")
    assert explained(session, SQL)["total"].splitlines()[1].split()[2] == "0"
    assert ask(session, SQL).calls == 0


@pytest.mark.parametrize("where", ["false", "text IS NULL"])
def test_no_text(database: Database, where: str) -> None:
    """No row and rows of NULL need no topic."""
    session, engine = session_of(database)
    found = ask(session, f"SELECT ai_topic(text) AS topic FROM notes WHERE {where}")
    assert {row["topic"] for row in found.rows} <= {None}
    assert not engine.asked


def test_a_very_long_text(database: Database) -> None:
    """A sample shows the beginning of a text only."""
    session, engine = session_of(database)
    ask(session, "SELECT ai_topic(repeat(text || ' ', 2000)) FROM notes WHERE text IS NOT NULL LIMIT 5")
    assert len(engine.asked[0].prompt) < 30_000


def test_a_small_context_has_a_smaller_sample(tmp_path: Path) -> None:
    """A sample of 60 texts would be four times the context, and the engine refuses such a prompt."""
    log = tmp_path / "log.jsonl"
    with closing(small_database(tmp_path, {"context_tokens": 1_024, "log_path": str(log)})) as database:
        session = database.session()
        rows = "FROM generate_series(1, 90)"
        session.update(f"CREATE TABLE long AS SELECT repeat('word ' || value || ' ', 40) AS t {rows}")
        assert len(ask(session, "SELECT ai_topic(t, k => 3) FROM long").rows) == 90
    first = json.loads(log.read_text(encoding="utf-8").splitlines()[0])["prompt"]
    assert 8 < first.count("- word") < 60


@pytest.mark.parametrize(
    ("options", "error"),
    [("k => 0", "k must be"), ("k => 51", "k must be"), ("other => ' '", "other must be the topic")],
)
def test_wrong_options(database: Database, options: str, error: str) -> None:
    """A wrong option is refused with a sentence that names it."""
    session, _ = session_of(database)
    with pytest.raises(InvalidInputError, match=error):
        ask(session, f"SELECT ai_topic(text, {options}) FROM notes")


def test_no_more_than_k(database: Database) -> None:
    """The schema allows k topics. Of a model that writes more all the same, the first ones count."""
    asked: list[str] = []

    def many(request: Request) -> str:
        if isinstance(request.parameters.constraint, Choice):
            return request.parameters.constraint.options[0]
        asked.append(str(request.parameters.constraint))
        return json.dumps({"topics": [f"topic {number}" for number in range(17)]})

    session, engine = session_of(database, many)
    found = ask(session, SQL.replace("k => 4", "k => 3"))
    assert {row["topic"] for row in found.rows} == {"topic 0", None}
    assert re.search(r"maxItems\W+3\b", asked[0])
    assert len(engine.asked) == 1 + 70
