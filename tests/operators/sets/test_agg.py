"""Aggregates over a model: trees of calls whose cuts depend on the texts alone."""

import json
import random
import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flightllm.engines.fake.engine import FakeOptions
from flightllm.errors import AICallError, BudgetExceededError, FlightLLMError, SqlError
from flightllm.llm.engine import Request
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import ask, ask_both, explained, open_database, small_database
from tests.using_engines import Scripted, using

CONTEXT = 1_024
"""The tokens of the fake engine's context; four characters are a token."""
CALL = "ai_agg(t, 'What do they like?')"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Return a database on an engine with a small context, which fails larger prompts."""
    folder = tmp_path_factory.mktemp("agg")
    database = small_database(folder, {"context_tokens": CONTEXT, "log_path": str(folder / "log.jsonl")})
    session = database.session()
    session.update(
        """CREATE TABLE reviews AS SELECT value AS id, value % 3 AS product,
            'Review ' || (value * 7919 % 10007) || ': ' || repeat('it is good and ', value % 13) || 'fine.' AS t
            FROM generate_series(1, 400)"""
    )
    yield database
    database.close()


@pytest.fixture
def session(database: Database) -> Session:
    """Return a session without kept answers."""
    session = database.session()
    session.update("TRUNCATE system.cache")
    return session


def prompts(database: Database, since: int = 0) -> list[str]:
    """Return the prompts that the engine got."""
    log = Path(str(database._services.config.engine.options["log_path"]))
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    return [json.loads(line)["prompt"] for line in lines][since:]


def first(session: Session, sql: str, **settings: str) -> Any:
    """Return the only value of a query."""
    (row,) = ask(session, sql, **settings).rows
    return next(iter(row.values()))


def test_null_and_empty_groups(session: Session) -> None:
    """They are as with other aggregates: NULL for a group without texts, and one row without GROUP BY."""
    found = ask(session, "SELECT name, ai_agg(note, 'Likes?') AS a FROM people GROUP BY name").rows
    assert {row["name"]: row["a"] is None for row in found} == {
        "Ann": False, "Bob": False, None: False, "Dan": True, "Eve": False, "Fay": True,
    }  # fmt: skip
    assert first(session, "SELECT ai_agg(note, 'Likes?') AS a FROM people WHERE false") is None
    assert ask(session, "SELECT ai_agg(note, 'Likes?') FROM people WHERE false GROUP BY name").rows == []
    assert first(session, "SELECT ai_agg(CAST(NULL AS VARCHAR), 'Likes?') FROM people") is None


@pytest.mark.parametrize(
    ("sql", "calls"),
    [
        ("SELECT ai_agg(DISTINCT note, 'Likes?') AS a FROM people", 1),
        ("SELECT ai_agg(ALL note, 'Likes?') FILTER (WHERE id > 2) AS a FROM people", 1),
        ("SELECT name, ai_agg(note, 'Likes?') AS a FROM people GROUP BY ROLLUP (name)", 5),
        ("SELECT name FROM people GROUP BY name HAVING ai_agg(note, 'Likes?') IS NOT NULL", 4),
        ("SELECT name, count(*) FROM people GROUP BY name ORDER BY ai_agg(note, 'Likes?')", 4),
        ("SELECT upper(ai_agg(note, 'Likes?')) || '!' AS a, max(id) FROM people", 1),
        ("SELECT a FROM (SELECT name, ai_agg(id, 'Which?') AS a FROM people GROUP BY name) q", 6),
        ("SELECT ai_agg(day, 'When?') AS a, ai_agg(flag, 'Is it?') AS b, ai_agg(score, 'How?') AS c FROM people", 3),
        ("SELECT ai_agg(ai_gen('Shorter', note), 'Likes?') AS a FROM people", 5),
        ("SELECT ai_summarize_agg(note, max_words => 20) AS a FROM people", 1),
        ("WITH q AS (SELECT ai_summarize_agg(note) AS a FROM people) SELECT ai_gen('Shorter', a) FROM q", 2),
    ],
)
def test_places(session: Session, sql: str, calls: int) -> None:
    """An aggregate over a model stands where other aggregates do."""
    ran = ask(session, sql)
    assert ran.calls == calls
    assert ran.rows


def test_the_name_is_as_written(session: Session) -> None:
    """Its column has the name that the user wrote, and so has the call in EXPLAIN."""
    for call in ("ai_agg(DISTINCT note, 'a ''b''', max_tokens => 9)", "ai_summarize_agg(note, citations => id)"):
        assert ask(session, f"SELECT {call} FROM people WHERE false").table.schema.names == [call]
        assert call in explained(session, f"SELECT {call} FROM people")["ai operator s0"]


def test_names_beside_the_same_aggregate(session: Session) -> None:
    """The names are the user's, too, where another aggregate collects the same column."""
    call = "ai_agg(note, 'x')"
    for own in ("array_agg(note)", "string_agg(note, ', ')"):
        assert ask(session, f"SELECT {own}, {call} FROM people WHERE false").table.schema.names[1] == call
        with pytest.raises(
            SqlError, match=r"currently only .people\.name, \w+_agg\(people\.note.*, ai_agg\(note, 'x'\)"
        ):
            ask(session, f"SELECT id, {own}, {call} FROM people GROUP BY name")
    with pytest.raises(SqlError, match=r"currently only .people\.name, array_agg\(people\.note\)"):
        ask(session, "SELECT id, array_agg(note) FROM people GROUP BY name")
    with pytest.raises(SqlError, match=r"currently only .people\.name, ai_agg\(note, 'x', citations => id\)"):
        ask(session, "SELECT id, ai_agg(note, 'x', citations => id) FROM people GROUP BY name")


def test_a_view(session: Session) -> None:
    """A view can have the aggregate."""
    session.update("CREATE OR REPLACE VIEW likes_of AS SELECT name, ai_agg(note, 'Likes?') AS a FROM people GROUP BY 1")
    assert len(ask(session, "SELECT * FROM likes_of WHERE a IS NOT NULL").rows) == 4


def test_one_call_where_all_fits(session: Session, database: Database) -> None:
    """A small group takes one call, whose prompt says how often each text occurs."""
    since = len(prompts(database))
    ran = ask(session, "SELECT ai_agg(note, 'Likes?') FROM people")
    (prompt,) = prompts(database, since)
    assert "(3 times) likes tea" in prompt
    assert ran.record.call_rows()[0]["calls"] == 1
    assert "1 group in one call each" in "".join(explained(session, "SELECT ai_agg(note, 'Z?') FROM people").values())


def test_no_prompt_over_the_context(session: Session, database: Database) -> None:
    """All prompts and their answers fit, also where one text is longer than the context."""
    since = len(prompts(database))
    long = "SELECT t FROM reviews UNION ALL SELECT repeat('A very long review. ', 2000)"
    assert first(session, f"SELECT ai_agg(t, 'What?') FROM ({long}) q") is not None
    sent = prompts(database, since)
    assert len(sent) > 30
    assert all(-(-len(prompt) // 4) + 100 < CONTEXT for prompt in sent)


def test_lines_in_texts(session: Session, database: Database) -> None:
    """Lines, which formats of prompts indent, count as they are sent."""
    since = len(prompts(database))
    assert first(session, "SELECT ai_agg(repeat('a' || chr(10), id * 99), 'What?') FROM people") is not None
    assert all(-(-len(prompt) // 4) + 100 < CONTEXT for prompt in prompts(database, since))


def test_the_prediction_is_exact(session: Session) -> None:
    """EXPLAIN knows the tree, and the number of calls is that of the run."""
    for sql in (f"SELECT {CALL} FROM reviews", f"SELECT product, {CALL} FROM reviews GROUP BY product"):
        plan = json.loads(ask(session, f"EXPLAIN (FORMAT json) {sql}").rows[0]["plan"])
        (call,) = plan["operators"][0]["calls"]
        assert plan["total"]["predicted"]["calls"] == ask(session, sql).calls > 10
        assert "leaves of up to" in call["steps"]


@settings(max_examples=20)  # an example runs two queries
@given(st.randoms(use_true_random=False), st.lists(st.integers(1, 400), min_size=1, max_size=80))
def test_the_order_of_rows_changes_no_prompt(chosen: random.Random, ids: Sequence[int]) -> None:
    """Rows in any order, and in any partition, give the same prompts."""
    texts = [f"Review {number}: {'good ' * (number % 40)}" for number in ids]
    shuffled = list(texts)
    chosen.shuffle(shuffled)
    assert _sent(texts) == _sent(shuffled)


_ORDERS: dict[str, Database] = {}


@pytest.fixture(scope="module", autouse=True)
def _empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Open the database of the property test once."""
    _ORDERS["it"] = open_database(tmp_path_factory.mktemp("orders"))
    yield
    _ORDERS.pop("it").close()


class Counting(Scripted):
    """An engine with a small context that notes its prompts."""

    @property
    def context_tokens(self) -> int:
        """Return a small context."""
        return CONTEXT


def _sent(texts: Sequence[str]) -> list[str]:
    engine = Counting(lambda request: f"a note of {len(request.prompt)}")
    session = using(_ORDERS["it"], engine).session()
    values = ", ".join(f"('{text}')" for text in texts)
    ask(session, f"SELECT {CALL} FROM (VALUES {values}) AS v(t)", cache="off")
    return sorted(request.prompt for request in engine.asked)


def test_an_edit_sends_few_calls(session: Session) -> None:
    """A new row changes its leaf and the notes above it; a deleted row takes the old answers, or as few new ones."""
    whole = ask(session, f"SELECT {CALL} FROM reviews").calls
    new = []
    for number in range(20):
        edited = f"SELECT t FROM reviews UNION ALL SELECT 'Review {number * 487}: new.'"
        new.append(ask(session, f"SELECT {CALL} FROM ({edited}) q").calls)
    assert sorted(new)[10] <= 4
    assert max(new) < whole / 2
    assert ask(session, f"SELECT {CALL} FROM reviews").calls == 0


def _words(words: int, _: Request) -> str:
    return "word " * words


def test_a_changed_answer_moves_no_cut(tmp_path: Path) -> None:
    """Other notes of other lengths make other prompts above them, but as many."""
    database = open_database(tmp_path)
    values = ", ".join(f"('Review {number} of all: {'good ' * (number % 20)}')" for number in range(300))
    counts = []
    for words in (1, 60):
        engine = Counting(partial(_words, words))
        ask(using(database, engine).session(), f"SELECT {CALL} FROM (VALUES {values}) AS v(t)", cache="off")
        counts.append(len(engine.asked))
    assert counts[0] == counts[1] > 10
    database.close()


def _citing(request: Request) -> str:
    """Cite the first and an invented number, in one sentence; and write a sentence without a number."""
    marks = re.findall(r"\[(\d+(?:, \d+)*)\]", request.fields[0][1])
    numbers = ", ".join(marks).split(", ")
    return f"They like it [{numbers[0]}, {numbers[-1]}, 9999]. Nobody says this."


def test_citations(tmp_path: Path) -> None:
    """Citations name rows of the group, through all levels; what nothing supports is dropped."""
    database = small_database(tmp_path)
    session = using(database, Counting(_citing)).session()
    found = first(session, "SELECT ai_agg(note, 'Likes?', citations => true) FROM people")
    assert found == {"value": "They like it [1, 2].", "citations": ["hates rain", "owns a cat"]}
    found = first(session, "SELECT ai_agg(note, 'Likes?', citations => id) FROM people WHERE id <> 3")
    assert found == {"value": "They like it [1, 2].", "citations": ["1", "5"]}
    session.update(
        "CREATE TABLE many AS SELECT value AS id, 'Review ' || value || repeat(' good', 20) AS t"
        " FROM generate_series(1, 300)"
    )
    plan = str(ask(session, "EXPLAIN SELECT ai_summarize_agg(t, citations => id) FROM many WHERE id > 100").rows)
    assert "at most these calls" in plan
    found = first(session, "SELECT ai_summarize_agg(t, citations => id) FROM many WHERE id > 100")
    assert found["value"] == "They like it [1, 2]."
    assert all(100 < int(key) <= 300 for key in found["citations"])
    database.close()


def _often(share: float, request: Request) -> str:
    """Cite two texts in a share of the notes of leaves, and in all notes above them."""
    marks = ", ".join(re.findall(r"\[(\d+(?:, \d+)*)\]", request.fields[0][1])).split(", ")
    chance = random.Random(request.prompt).random()  # noqa: S311 - a repeatable draw
    body = f"They like it {chance:.6f}"
    leaf = request.fields[0][0] == "texts"
    return f"{body} [{marks[0]}, {marks[-1]}]." if marks[0] and (not leaf or chance < share) else f"{body}."


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_calls_with_citations_are_foreseen(tmp_path: Path, share: float) -> None:
    """They are exact where all notes cite rows; else the answers of the first run tell how many do."""
    database = open_database(tmp_path)
    session = using(database, Counting(partial(_often, share))).session()
    found = []
    for turn in (7919, 6007):
        texts = f"SELECT 'Review ' || (value * {turn} % 10007) || repeat(' good', value % 30) AS t, value % 3 AS g"
        session.update(f"CREATE OR REPLACE TABLE many AS {texts} FROM generate_series(1, 400)")
        sql = "SELECT g, ai_agg(t, 'Likes?', citations => true) AS a FROM many GROUP BY g"
        plan = json.loads(ask(session, f"EXPLAIN (FORMAT json) {sql}").rows[0]["plan"])
        found.append((plan["total"]["predicted"]["calls"], ask(session, sql).calls))
        told = plan["operators"][0]["calls"][0]["steps"]
        assert ("at most these calls" if turn == 7919 else "as in earlier answers") in told
    (first_foreseen, first_made), (then_foreseen, then_made) = found
    assert first_foreseen >= first_made > 20
    assert first_foreseen == first_made or share < 1
    assert abs(then_foreseen - then_made) <= 0.1 * then_made
    assert then_foreseen == then_made or 0 < share < 1
    database.close()


def test_notes_without_a_number_take_no_further_call(tmp_path: Path) -> None:
    """A group whose notes cite no row has no answer, so nothing is asked about them."""
    database = open_database(tmp_path)
    engine = Counting(lambda _: "They like it.")
    session = using(database, engine).session()
    values = ", ".join(f"('Review {number} of all: {'good ' * (number % 20)}')" for number in range(100))
    sql = f"SELECT ai_agg(t, 'Likes?', citations => true, on_error => 'struct') FROM (VALUES {values}) AS v(t)"
    assert "has the number of a row" in first(session, sql)["error"]
    assert {request.fields[0][0] for request in engine.asked} == {"texts"}
    database.close()


def test_no_citation_is_a_failure(tmp_path: Path) -> None:
    """A text without any number of a row is no answer with citations."""
    database = small_database(tmp_path)
    session = using(database, Counting(lambda _: "They like it.")).session()
    call = "ai_agg(note, 'Likes?', citations => true, on_error => '{}')"
    assert first(session, f"SELECT {call.format('null')} FROM people") is None
    assert "has the number of a row" in first(session, f"SELECT {call.format('struct')} FROM people")["error"]
    database.close()


def test_a_failed_leaf_fails_its_group(tmp_path: Path) -> None:
    """No answer is silently about a part of a group; other groups have theirs."""
    database = small_database(tmp_path, {"context_tokens": CONTEXT, "fail_containing": "Review 7 "})
    session = database.session()
    session.update(
        "CREATE TABLE many AS SELECT value % 2 AS g, 'Review ' || value || repeat(' good', 20) AS t"
        " FROM generate_series(1, 200)"
    )
    call = "SELECT g, ai_agg(t, 'Likes?', on_error => '{}') AS a FROM many GROUP BY g ORDER BY g"
    even, odd = ask(session, call.format("struct")).rows
    assert even["a"]["error"] is None
    assert even["a"]["value"]
    assert odd["a"]["value"] is None
    assert "(1 of the " in odd["a"]["error"]
    assert [row["a"] is None for row in ask(session, call.format("null")).rows] == [False, True]
    with pytest.raises(FlightLLMError, match="fails prompts containing"):
        ask(session, call.format("fail"))
    database.close()


def test_a_limit_takes_some_groups(session: Session) -> None:
    """A LIMIT over groups asks about the groups that it needs."""
    all_groups = ask(session, f"SELECT id % 40 AS g, {CALL} AS a FROM reviews GROUP BY 1").calls
    session.update("TRUNCATE system.cache")
    some = ask(session, f"SELECT id % 40 AS g, {CALL} AS a FROM reviews GROUP BY 1 LIMIT 4")
    assert len(some.rows) == 4
    assert some.calls < all_groups / 3


def test_a_budget_below_the_estimate(session: Session) -> None:
    """A query that would pass its budget does not begin."""
    with pytest.raises(BudgetExceededError, match="the estimate for the query is 3"):
        ask(session, f"SELECT {CALL} AS a FROM reviews", max_calls="5")


def test_a_budget_that_is_reached(database: Database) -> None:
    """Where more rows reach the aggregate than expected, its group has no answer, and nothing beyond is asked."""
    session = using(database, Counting(lambda _: "Yes")).session()
    ran = ask(session, f"SELECT {CALL} AS a FROM reviews WHERE ai_filter('Is it?', t)", max_calls="425", cache="off")
    assert ran.calls == 425
    assert ran.rows == [{"a": None}]
    assert "flightllm.max_calls is 425" in str(ran.record.row()["error"])


def test_a_context_that_is_too_small(session: Session) -> None:
    """The error says what to write."""
    with pytest.raises(FlightLLMError, match="too small for two notes and an answer: write max_tokens => "):
        ask(session, "SELECT ai_agg(t, 'x', max_tokens => 600) FROM reviews")
    with pytest.raises(FlightLLMError, match="a shorter instruction"):
        ask(session, f"SELECT ai_agg(t, '{'x' * 5000}') FROM reviews")


def test_a_context_of_the_call(session: Session, database: Database) -> None:
    """The call can say the context of its model."""
    since = len(prompts(database))
    assert ask(session, "SELECT ai_agg(t, 'x', context_tokens => 512) FROM reviews").calls > 60
    assert all(len(prompt) < 2_048 for prompt in prompts(database, since))


def test_json(session: Session) -> None:
    """With a response format the answer is a struct, and has no citations."""
    sql = "SELECT ai_agg(t, 'Which?', response_format => ['best', 'worst'] {}) AS a FROM reviews"
    assert set(first(session, sql.format(""))) == {"best", "worst"}
    with pytest.raises(FlightLLMError, match="works for a text only"):
        ask(session, sql.format(", citations => true"))


def test_parameters(session: Session) -> None:
    """The instruction and other parts can be parameters."""
    given_texts = pa.RecordBatch.from_pydict({"0": ["Likes?"], "1": ["Ann"]})
    sql = "SELECT ai_agg(note, {}) FILTER (WHERE name = {}) AS a FROM people"
    assert ask(session, sql.format("$1", "$2"), given_texts).calls == 1
    assert ask(session, "SELECT ai_agg(note, ?) AS a FROM people WHERE name = ?", given_texts).calls == 0
    with pytest.raises(FlightLLMError, match=r"write \$1"):
        ask(session, sql.format("?", "?"), given_texts)


@pytest.mark.slow
@pytest.mark.parametrize("deleted", [False, True])
def test_two_hundred_edits(tmp_path: Path, *, deleted: bool) -> None:
    """One edit of 10,000 rows sends at most two calls more than the tree is deep, in the median of 200 edits."""
    database = open_database(tmp_path, {"context_tokens": 2_048})
    session = database.session()
    session.update(
        "CREATE TABLE r AS SELECT value AS id,"
        " 'Review ' || (value * 7919 % 10007) || ': ' || repeat('good ', value % 23) AS t"
        " FROM generate_series(1, 10000)"
    )
    ask(session, f"SELECT {CALL} FROM r")
    told = explained(session, f"SELECT {CALL} FROM r")["calls of s0"]
    depth = int(re.search(r"(\d+) levels", told)[1])  # type: ignore[index]
    new = []
    for number in range(200):
        more = f"SELECT t FROM r UNION ALL SELECT 'Review {number * 53}: quite new'"
        rows = f"SELECT t FROM r WHERE id <> {number * 49 + 1}" if deleted else more
        new.append(ask(session, f"SELECT {CALL} FROM ({rows}) q").calls)
    assert sorted(new)[100] <= depth + 2
    database.close()


def test_options_of_the_fake_engine() -> None:
    """The fake engine has no bound by default."""
    assert FakeOptions().context_tokens == 0


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT name, ai_agg(note, 'Likes?') AS a FROM people GROUP BY name",
        "SELECT product, ai_agg(t, 'Likes?') AS a FROM reviews GROUP BY product",
        "SELECT ai_agg(note, 'Likes?', on_error => 'struct') AS a FROM people WHERE false",
        "SELECT ai_summarize_agg(t, citations => id, on_error => 'struct') AS a FROM reviews WHERE id < 40",
    ],
)
def test_without_the_optimizer(session: Session, sql: str) -> None:
    """The rows are the same as batch functions."""
    on, off = ask_both(session, sql)
    assert on.calls == off.calls


def test_where_no_operator_can_take_it(session: Session) -> None:
    """A query that must run in one piece has the aggregate too."""
    sql = "SELECT unnest([1, 2]) AS n, a FROM (SELECT ai_agg(t, 'Likes?') AS a FROM reviews) q"
    assert ask(session, sql).table.num_rows == 2


def test_known_answers_are_predicted(session: Session) -> None:
    """EXPLAIN knows that a repeated query asks nothing, and that one new row changes its leaf and those above."""
    sql = f"SELECT {CALL} FROM reviews"
    ask(session, sql)
    edited = f"SELECT {CALL} FROM (SELECT t FROM reviews UNION ALL SELECT 'Review 99: new') q"
    for text in (sql, edited):
        plan = json.loads(ask(session, f"EXPLAIN (FORMAT json) {text}").rows[0]["plan"])
        assert plan["total"]["predicted"]["calls"] == ask(session, text).calls < 8


def test_in_a_function(session: Session) -> None:
    """A function of SQL has no group, so the aggregate in it is a clear error, and reads no row by itself."""
    session.update("CREATE OR REPLACE FUNCTION liked(t) AS ai_agg(t, 'What?')")
    with pytest.raises(FlightLLMError, match="works in a query only: write it in SELECT"):
        ask(session, "SELECT liked(note) FROM people")


@pytest.mark.parametrize(
    "call",
    [
        "ai_agg(note, 'Likes?', {})",
        "ai_summarize_agg(note, {})",
        "max(ai_topic(note, {}))",
        "max(ai_dedup(note, {}))",
        "approx_ai_count('Good? {{note}}', note, {})",
        "max(ai_compare('better', note, name, both_orders => true, {}))",
    ],
)
@pytest.mark.parametrize(
    "option", ["rows_per_request => 2", "questions_per_request => 2", "ordered => true", "fresh => true"]
)
def test_options_of_calls_about_each_row(session: Session, call: str, option: str) -> None:
    """An option that means nothing for a set is an error, not ignored."""
    with pytest.raises(AICallError, match=f"{option.split(maxsplit=1)[0]} is for calls that ask about each row"):
        ask(session, f"SELECT {call.format(option)} FROM people")
