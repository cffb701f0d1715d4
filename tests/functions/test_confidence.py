"""Answers with their probability: the struct's shape, its fields in SQL, and what keeps and shares it."""

import math
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as adbc
import numpy as np
import pyarrow as pa
import pytest

from flightllm.config import CacheConfig, Config, EngineConfig
from flightllm.errors import EngineError, SqlError
from flightllm.functions.confidence import joined
from flightllm.llm.engine import Choice
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import ask, small_database
from tests.endpoints import Body, Reply, answer, endpoint_of
from tests.servers import serving
from tests.udfs.test_shipped_functions import call

ASKED = "ai_filter('Is it nice?', note, confidence => true)"
STRUCT = pa.struct([("answer", pa.bool_()), ("confidence", pa.float64())])


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """Return a session over small tables on the fake engine."""
    with closing(small_database(tmp_path)) as database, closing(database.session()) as found:
        yield found


@pytest.mark.parametrize(
    ("expression", "type_", "text", "value"),
    [
        ("ai_filter('x', a, confidence => true)", pa.bool_(), "Yes", True),
        ("ai_classify(a, ['u', 'v'], confidence => true)", pa.string(), "V", "v"),
        ("ai_score('x', a, confidence => true)", pa.float64(), "7", 7.0),
        ("ai_score('x', a, low => 0, high => 5000, confidence => true)", pa.float64(), "70.5", 70.5),
        ("ai_sentiment(a, confidence => true)", pa.string(), "Mixed", "mixed"),
    ],
)
def test_shapes(expression: str, type_: pa.DataType, text: str, value: Any) -> None:
    """A function that chooses gives a struct of its answer and the probability; without the option all is as ever."""
    found, plain = call(expression), call(expression.replace(", confidence => true", ""))
    assert found.type == pa.struct([("answer", type_), ("confidence", pa.float64())])
    assert found.parameters.probability
    assert found.parse(joined(text, (0.25,))) == {"answer": value, "confidence": 0.25}
    assert found.parse(joined(text, None)) == {"answer": value, "confidence": None}
    assert (plain.type, plain.parse(text)) == (type_, value)
    expects = found.function == "ai_score" and isinstance(plain.parameters.constraint, Choice)
    assert plain.parameters.probability == expects
    with pytest.raises(ValueError, match=r"expected .*got 'Well'"):
        found.parse(joined("Well", (0.5,)))


def test_expected_numbers() -> None:
    """A rating is the expected value of the numbers where their probabilities are known, at temperature 0."""
    rating = "ai_score('x', a, low => 1, high => 5{})"
    kept = joined("4", (0.0, 0.1, 0.2, 0.4, 0.3))
    assert call(rating.format("")).parse(kept) == pytest.approx(3.9, abs=1e-3)
    assert call(rating.format("")).parse(joined("4", None)) == 4.0
    assert call(rating.format("")).parse(joined("4", (0.0, math.nan, math.nan, 0.4, 0.3))) == 4.0
    ratings = [call(rating.format("")).parse(joined("4", (0.1, p, 0.2, 0.3, 0.4 - p))) for p in np.linspace(0, 0.4, 99)]
    assert sum(ratings) == sum(reversed(ratings)) == sum(sorted(ratings))
    both = call(rating.format(", confidence => true")).parse(kept)
    assert both == {"answer": pytest.approx(3.9, abs=1e-3), "confidence": 0.4}
    for option in (", expected => false", ", temperature => 0.5"):
        plain = call(rating.format(option))
        assert (plain.parse("4"), plain.parameters.probability) == (4.0, False)
    with pytest.raises(ValueError, match="expected a number from 1 to 5"):
        call(rating.format("")).parse(joined("7", (0.0, 0.1, 0.2, 0.4, 0.3)))


@pytest.mark.parametrize("kept", ["Yes", "Yes\x1fx", "Yes\x1fnan", "Yes\x1f"])
def test_a_damaged_probability_is_unknown(kept: str) -> None:
    """A kept text whose probability cannot be read still gives its answer."""
    assert call("ai_filter('x', a, confidence => true)").parse(kept) == {"answer": True, "confidence": None}


@pytest.mark.parametrize("optimizer", ["on", "off"])
def test_on_error(session: Session, optimizer: str) -> None:
    """A failure is a NULL struct, a struct with an error around the struct, or fails the query."""
    session.update("CREATE MODEL broken OPTIONS (engine 'fake', fail_every 1)")
    sql = ASKED.replace("true)", "true, model => broken, on_error => '{}')")
    sql = f"SELECT {sql} AS f FROM people WHERE id = 1"
    table = ask(session, sql.format("null"), optimizer=optimizer).table
    assert (table.schema.field("f").type, table["f"].to_pylist()) == (STRUCT, [None])
    table = ask(session, sql.format("struct"), optimizer=optimizer).table
    assert table.schema.field("f").type == pa.struct([("value", STRUCT), ("error", pa.string())])
    [found] = table["f"].to_pylist()
    assert found["value"] is None
    assert "fails one prompt in 1" in found["error"]
    with pytest.raises(EngineError, match="fails one prompt in 1"):
        ask(session, sql.format("fail"), optimizer=optimizer)


@pytest.mark.parametrize("optimizer", ["on", "off"])
@pytest.mark.parametrize("cache", ["on", "off"])
def test_the_same_wherever_it_comes_from(session: Session, optimizer: str, cache: str) -> None:
    """Rows that share a prompt, calls of one query, and cached answers have the same struct."""
    sql = f"SELECT id, {ASKED} AS f, ({ASKED}).confidence AS c FROM people ORDER BY id"
    first = ask(session, sql, optimizer=optimizer, cache=cache)
    found = {row["id"]: row["f"] for row in first.rows}
    assert found[1] == found[2] == found[8]
    assert found[4] is None
    assert 0.5 <= found[1]["confidence"] <= 1
    assert [row["c"] for row in first.rows] == [row["f"] and row["f"]["confidence"] for row in first.rows]
    again = ask(session, sql, cache="on")
    assert again.rows == first.rows
    assert ask(session, sql, cache="on").calls == 0


@pytest.mark.parametrize("field", ["['{}']", ".{}"])
@pytest.mark.parametrize("written", [ASKED, f"({ASKED})"])
def test_fields_in_clauses(session: Session, field: str, written: str) -> None:
    """The fields filter, join and sort like any column."""
    answered, confidence = (written + field.format(name) for name in ("answer", "confidence"))
    rows = ask(session, f"SELECT id, {ASKED} AS f FROM people").rows
    known = {row["id"]: row["f"] for row in rows if row["f"] is not None}
    least = sorted(one["confidence"] for one in known.values())[len(known) // 2]
    found = ask(session, f"SELECT id FROM people WHERE {confidence} >= {least} ORDER BY {confidence} DESC, id").rows
    wanted = sorted((i for i in known if known[i]["confidence"] >= least), key=lambda i: (-known[i]["confidence"], i))
    assert [row["id"] for row in found] == wanted
    assert len(wanted) < len(known)
    found = ask(session, f"SELECT id FROM people WHERE NOT {answered} AND id < 9").rows
    assert {row["id"] for row in found} == {i for i in known if not known[i]["answer"] and i < 9}
    joined = ask(session, f"SELECT count(*) AS n FROM people JOIN likes ON id = person_id AND {answered}").rows
    likes = [1, 1, 2, 3, 7, 7]
    assert joined == [{"n": sum(known[i]["answer"] for i in likes)}]


@pytest.mark.parametrize("optimizer", ["on", "off"])
@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT id FROM people WHERE {ASKED}",
        f"SELECT id FROM people WHERE id > 1 AND NOT {ASKED}",
        f"SELECT id FROM people JOIN likes ON id = person_id AND {ASKED}",
        f"SELECT note FROM people GROUP BY note HAVING {ASKED}",
    ],
)
def test_a_struct_is_no_condition(session: Session, sql: str, optimizer: str) -> None:
    """A struct in place of its answer is an error that says how to write the answer."""
    with pytest.raises(SqlError, match=r"returns a struct; write .answer after it, as in ai_filter\(…"):
        ask(session, sql, optimizer=optimizer)


def test_explain(session: Session) -> None:
    """A prediction has probabilities too, so that what is filtered by them is not predicted empty."""
    sql = f"SELECT ai_gen('Why?', note) FROM people WHERE {ASKED}['confidence'] > 0.5"
    assert "ai_filter" in str(ask(session, f"EXPLAIN {sql}").rows)


@pytest.fixture(scope="module")
def cursor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Open a cursor on a server with the embedded model, and a table of notes."""
    pytest.importorskip("torch", reason="the extra 'local' is not installed")
    folder = tmp_path_factory.mktemp("local")
    with (
        serving(folder, kind="local", device="cpu") as server,
        adbc.connect(server.uri, autocommit=True) as connection,
        connection.cursor() as found,
    ):
        notes = ["The film is great.", "The film is awful.", "The cat sat.", None]
        found.adbc_ingest("notes", pa.table({"id": range(4), "note": notes}))
        yield found


def fetch(cursor: Any, sql: str) -> pa.Table:
    """Run a query over ADBC."""
    cursor.execute(sql)
    return cursor.fetch_arrow_table()


@pytest.mark.parametrize(
    ("asked", "type_"),
    [
        ("ai_filter('Is the film praised?', note, confidence => true)", pa.bool_()),
        ("ai_classify(note, ['film', 'animal'], confidence => true)", pa.string()),
        ("ai_score('How good is it?', note, confidence => true)", pa.float64()),
        ("ai_sentiment(note, confidence => true)", pa.string()),
    ],
)
def test_with_a_model(cursor: Any, asked: str, type_: pa.DataType) -> None:
    """Over ADBC and with a real model, each function gives its answer and a probability."""
    table = fetch(cursor, f"SELECT {asked} AS f, {asked.replace(', confidence => true', '')} AS p FROM notes")
    assert table.schema.field("f").type == pa.struct([("answer", type_), ("confidence", pa.float64())])
    rows = [row for row in table.to_pylist() if row["f"] is not None]
    assert len(rows) == 3
    near = pytest.approx if type_ == pa.float64() else lambda value: value
    assert all(row["f"]["answer"] == near(row["p"]) for row in rows)
    assert all(0 < row["f"]["confidence"] <= 1 for row in rows)
    assert len({row["f"]["confidence"] for row in rows}) == 3


def test_seeds_with_a_model(cursor: Any) -> None:
    """The same seed gives the same answers twice with the cache off, another one others; at temperature 0 all agree."""
    fetch(cursor, "SET flightllm.cache = off")

    def answers(options: str) -> list[object]:
        asked = f"ai_gen('Tell a story about this.', note, max_tokens => 12{options})"
        found: list[object] = fetch(cursor, f"SELECT {asked} AS a FROM notes ORDER BY id")["a"].to_pylist()
        return found

    drawn = ", temperature => 1.5, top_p => 0.95, seed => {}"
    assert answers(drawn.format(1)) == answers(drawn.format(1)) != answers(drawn.format(2))
    assert answers("") == answers(", seed => 5, top_p => 0.5") == answers(", temperature => 1.5, top_p => 0")


def test_an_endpoint_without_probabilities(tmp_path: Path) -> None:
    """Where the endpoint gives no log probabilities, the answer is there and its confidence is NULL."""
    pytest.importorskip("openai", reason="the extra 'openai' is not installed")

    def behave(path: str, body: Body, _: int) -> Reply:
        status, reply, headers = answer(path, body)
        reply["choices"][0]["message"]["content"] = "No"
        return status, reply, headers

    with endpoint_of(behave) as endpoint:
        engine = EngineConfig("openai", "any", 8, {"base_url": endpoint.url})
        config = Config(engine=engine, cache=CacheConfig(), data_folder=tmp_path)
        with closing(Database.open(config)) as database, closing(database.session()) as session:
            asked = "ai_filter('Nice?', column1, confidence => true)"
            table = ask(session, f"SELECT {asked} AS f FROM (VALUES ('a'), ('b'))").table
    assert table["f"].to_pylist() == [{"answer": False, "confidence": None}] * 2
    assert all(body["top_logprobs"] == 20 for body in endpoint.bodies)


@pytest.mark.parametrize("optimizer", ["on", "off"])
def test_fields_of_a_row_without_an_answer(session: Session, optimizer: str) -> None:
    """Where a row has no answer, every field of its struct is NULL, at any depth."""
    schema = '{"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "boolean"}}}}}'
    sql = f"SELECT {ASKED}.answer AS a, {ASKED}.confidence AS c, ai_extract(note, '{schema}')['a']['b'] AS b"
    found = ask(session, f"{sql} FROM people WHERE id = 4", optimizer=optimizer).rows
    assert found == [{"a": None, "c": None, "b": None}]
