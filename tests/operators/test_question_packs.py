"""Several questions about one row in one request, at an endpoint that answers them well or badly."""

import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from flightllm.config import Config, EngineConfig, ModelsConfig
from flightllm.errors import FlightLLMError
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import Ran, ask, explained, small_database
from tests.endpoints import Body, Reply, endpoint_of, refuse

TEXTS = [f"item {number} is {'good' if number % 3 else 'bad'}" for number in range(12)]
LONG = " and it has been described at length by many people" * 8
CALLS = (
    "ai_classify(t, ['fine', 'poor'], on_error => 'struct') AS c,"
    " ai_filter('Is it even?', t, on_error => 'struct') AS f,"
    " ai_gen('Repeat the number.', t, on_error => 'struct') AS g"
)
SQL = f"SELECT id, {CALLS} FROM t ORDER BY id"
QUESTION = re.compile(r"Question ([A-Z]+)\n(.*?)(?=\n\nQuestion |\n\nAnswer each question by itself)", re.DOTALL)
Entries = list[tuple[str, Any]]


def written(entries: Entries) -> str:
    """Return an object with a key for each entry, also if two have one code."""
    return "{" + ", ".join(f'"{code}": {json.dumps(answer)}' for code, answer in entries) + "}"


@dataclass
class Model:
    """A model that answers each question right; `spoils` changes the entries of a pack, and `writes` writes them."""

    spoils: Callable[[Entries], Entries] = lambda entries: entries
    writes: Callable[[Entries], str] = written
    refuses: str = ""
    """A text in a prompt that a filter refuses."""
    fails: Callable[[str], bool] = lambda _: False
    characters: int = 4
    """The characters of a prompt's token."""
    bought: Counter[str] = field(default_factory=Counter)
    """How often each question was answered alone, and with others."""
    packs: list[int] = field(default_factory=list)
    bodies: list[Body] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def behave(self, path: str, body: Body, number: int) -> Reply:
        """Answer a chat."""
        del path, number
        prompt = "\n".join(one["content"] for one in body["messages"])
        self.bodies.append(body)
        if self.refuses and self.refuses in prompt:
            return refuse(400, "The content was flagged by the moderation policy.")
        if self.fails(prompt):
            return refuse(500, "broken", Retry_After="0")
        [item] = set(re.findall(r"^t: item (\d+)", prompt, re.MULTILINE))
        questions = QUESTION.findall(prompt)
        with self.lock:
            if questions:
                self.packs.append(len(questions))
            for _, text in questions or [("", prompt)]:
                self.bought[f"{'joined' if questions else 'alone'} {_kind(text)} {item}"] += 1
        if not questions:
            return self.reply(body, json.dumps(_right(prompt, int(item)))[1:-1], len(prompt) // self.characters)
        entries = [(code, _right(text, int(item))) for code, text in questions]
        return self.reply(body, self.writes(self.spoils(entries)), len(prompt) // self.characters)

    def reply(self, body: Body, text: str, prompt_tokens: int) -> Reply:
        """Return a text, cut at the limit of characters that stand for tokens."""
        schema = body.get("response_format", {}).get("json_schema", {}).get("schema", {})
        if list(schema.get("properties", {})) == ["answer"]:
            text = json.dumps({"answer": text})
        most = body.get("max_completion_tokens") or body["max_tokens"]
        usage = {"prompt_tokens": prompt_tokens, "completion_tokens": min(most, len(text) // 4)}
        usage["total_tokens"] = sum(usage.values())
        reason = "length" if len(text) // 4 > most else "stop"
        message = {"role": "assistant", "content": text[: 4 * most]}
        choices = [{"index": 0, "finish_reason": reason, "message": message}]
        return 200, {"id": "1", "model": "m", "choices": choices, "usage": usage}, {}


def _kind(text: str) -> str:
    return "c" if "label" in text else "f" if "even" in text else "g"


def _right(text: str, item: int) -> str:
    answers = {"c": "fine" if item % 3 else "poor", "f": "No" if item % 2 else "Yes", "g": f"number {item}"}
    return answers[_kind(text)]


@contextmanager
def session_at(folder: Path, model: Model, long: str = LONG, **options: Any) -> Iterator[Session]:
    """Open a session whose server's model is the endpoint, with a table of texts."""
    with endpoint_of(model.behave) as endpoint:
        given = {"base_url": endpoint.url, **options}
        engine = EngineConfig("openai", "m", 4, given, price_input=1.0, price_output=2.0)
        with closing(Database.open(Config(engine=engine, models=ModelsConfig(), data_folder=folder))) as database:
            session = database.session()
            rows = ", ".join(f"({number}, '{text}{long}')" for number, text in enumerate(TEXTS))
            session.update(f"CREATE OR REPLACE TABLE t AS SELECT * FROM (VALUES {rows}) AS v(id, t)")
            yield session


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Session, Model]]:
    """Return a session and its model."""
    model = Model()
    with session_at(tmp_path_factory.mktemp("served"), model) as session:
        yield session, model


def check(ran: Ran) -> None:
    """Check that each question of each row has its own right answer."""
    assert len(ran.rows) == len(TEXTS)
    for row in ran.rows:
        item = row["id"]
        assert row["c"] == {"value": "fine" if item % 3 else "poor", "error": None}
        assert row["f"] == {"value": item % 2 == 0, "error": None}
        assert row["g"] == {"value": f"number {item}", "error": None}


def test_joined(tmp_path: Path) -> None:
    """12 rows with three questions take 12 requests; answers are kept apart from single ones, which stand in."""
    model = Model()
    with session_at(tmp_path, model) as session:
        ran = ask(session, SQL, questions_per_request="8")
        check(ran)
        assert model.packs == [3] * 12
        counted = ran.record.row()
        assert (counted["calls"], counted["answered"], counted["packed"], counted["progress"]) == (12, 12, 24, 1.0)
        again = ask(session, SQL, questions_per_request="8")
        check(again)
        assert (again.calls, again.cache_hits) == (0, 36)
        alone = ask(session, SQL)
        check(alone)
        assert (alone.calls, alone.cache_hits) == (36, 0)


def test_at_most(tmp_path: Path) -> None:
    """With at most two questions in a request, three take two requests."""
    model = Model()
    with session_at(tmp_path, model, 4 * LONG) as session:
        check(ask(session, SQL, questions_per_request="2"))
    assert model.packs == [2] * 12
    assert set(model.bought.values()) == {1}


def test_option_of_a_call(tmp_path: Path) -> None:
    """A call's own number goes before the session's: 1 keeps it apart, and others can join without the setting."""
    model = Model()
    with session_at(tmp_path, model) as session:
        apart = "'Repeat the number.', t, questions_per_request => 1"
        check(ask(session, SQL.replace("'Repeat the number.', t", apart), questions_per_request="8"))
        assert model.packs == [2] * 12
        own = SQL.replace("on_error", "questions_per_request => 3, on_error")
        model.packs.clear()
        check(ask(session, own, cache="off"))
        assert model.packs == [3] * 12
        with pytest.raises(FlightLLMError, match="questions_per_request must be at most 100"):
            ask(session, own.replace("3", "101"))


def test_known_answers_are_not_asked(tmp_path: Path) -> None:
    """Of a row with a known answer, only the other questions go together."""
    model = Model()
    with session_at(tmp_path, model) as session:
        ask(session, "SELECT ai_filter('Is it even?', t) FROM t WHERE id < 5")
        check(ask(session, SQL, questions_per_request="8"))
    assert Counter(model.packs) == {2: 5, 3: 7}
    assert set(model.bought.values()) == {1}


@pytest.mark.parametrize(
    ("spoils", "most_alone"),
    [
        (lambda entries: entries[1:], 1),
        (lambda entries: [*entries, (entries[0][0], "poor"), (entries[0][0], "fine")], 1),
        (lambda entries: [*entries, entries[0], ("XYZ", "of no question")], 0),
        (lambda entries: entries[::-1], 0),
        (lambda entries: [("99", entries[0][1]), *entries[1:]], 1),
        (lambda entries: [(entries[0][0], ""), *entries[1:]], 1),
        (lambda entries: [*entries[:2], (entries[2][0], None)], 1),
        (lambda entries: [(a[0], b[1]) for a, b in zip(entries, entries[1:] + entries[:1], strict=True)], 3),
        (lambda entries: [(entries[0][0], entries[2][1]), entries[1], (entries[2][0], entries[0][1])], 3),
        (lambda entries: [entries[0], (entries[1][0], entries[2][1]), (entries[2][0], entries[1][1])], 3),
    ],
    ids=["skipped", "twice", "added", "reversed", "unknown", "empty", "null", "moved", "swapped", "swapped text"],
)
def test_spoilt_entries(served: tuple[Session, Model], spoils: Callable[[Entries], Entries], most_alone: int) -> None:
    """Whatever a model does with the entries, each question has its own answer; the bad ones are asked alone."""
    session, model = served
    model.spoils, model.bought = spoils, Counter()
    check(ask(session, SQL, questions_per_request="8", cache="off"))
    assert max(model.bought.values()) == 1
    alone = Counter(name.split()[2] for name in model.bought if name.startswith("alone"))
    assert max([count for item, count in alone.items() if count < 3] or [0]) <= most_alone


@pytest.mark.parametrize(
    "writes",
    [
        lambda entries: written(entries)[:-12],
        lambda entries: f"Here they are:\n```json\n{written(entries)}\n```",
        lambda entries: json.dumps([{"question": code, "answer": answer} for code, answer in entries]),
        lambda entries: json.dumps({f"Question {code}": answer for code, answer in entries}),
        lambda _: "I cannot do this.",
    ],
    ids=["cut", "fenced", "list", "worded", "text"],
)
def test_badly_written(tmp_path: Path, writes: Callable[[Entries], str]) -> None:
    """An answer that is not the object has its entries read, or its questions asked alone."""
    model = Model(writes=writes)
    with session_at(tmp_path, model) as session:
        check(ask(session, SQL, questions_per_request="8"))
    assert all(count == 1 for name, count in model.bought.items() if name.startswith("alone"))


def test_refused_row(tmp_path: Path) -> None:
    """A row that a filter refuses has an error for each question; the others have answers."""
    model = Model(refuses="item 7 ")
    with session_at(tmp_path, model) as session:
        ran = ask(session, SQL, questions_per_request="8")
    for row in ran.rows:
        errors = [row[name]["error"] for name in "cfg"]
        assert all(errors) if row["id"] == 7 else errors == [None] * 3


def test_endpoint_without_shared_requests(tmp_path: Path) -> None:
    """Where requests with several questions fail, the call gives them up, and says so."""
    model = Model(fails=lambda prompt: "questions about the same record" in prompt)
    with session_at(tmp_path, model, max_retries=0) as session:
        ran = ask(session, f"EXPLAIN ANALYZE {SQL}", questions_per_request="8")
        check(ask(session, SQL, questions_per_request="8"))
    text = next(row["plan"] for row in ran.rows if row["plan_type"].startswith("calls of"))
    assert "the first requests with several questions failed" in text


def test_budget(tmp_path: Path) -> None:
    """Requests count as calls, and questions beyond the budget are NULL."""
    model = Model()
    sql = SQL.replace("'struct'", "'null'")
    with session_at(tmp_path, model) as session:
        ran = ask(session, sql, questions_per_request="8", max_calls="12")
        assert (ran.calls, sum(row["g"] is None for row in ran.rows)) == (12, 0)
    with session_at(tmp_path / "tokens", Model(characters=1)) as session:
        ran = ask(session, sql, questions_per_request="8", max_tokens="5000", on_budget="null")
        counted = ran.record.row()
        assert 0 < sum(row["g"] is not None for row in ran.rows) < len(TEXTS)
        assert counted["prompt_tokens"] + counted["completion_tokens"] <= 5000


def test_filter(tmp_path: Path) -> None:
    """A filter's request has the questions of SELECT where that is cheaper; none of them is bought twice."""
    model = Model()
    sql = "SELECT id, ai_classify(t, ['fine', 'poor']) AS c, ai_gen('Repeat the number.', t) AS g FROM t"
    filtered = f"{sql} WHERE ai_filter('Is it even?', t) ORDER BY id"
    with session_at(tmp_path, model, 4 * LONG) as session:
        ran = ask(session, filtered, questions_per_request="8")
        assert [row["id"] for row in ran.rows] == [0, 2, 4, 6, 8, 10]
        assert [row["g"] for row in ran.rows] == [f"number {row['id']}" for row in ran.rows]
        assert model.packs == [3] * 12
        assert (ran.calls, ran.record.row()["packed"], ran.record.row()["distinct_prompts"]) == (12, 12, 24)
        full = ask(session, f"{sql} ORDER BY id", questions_per_request="8")
        assert (full.calls, len(full.rows)) == (0, 12)
    assert set(model.bought.values()) == {1}


@pytest.mark.parametrize(
    ("sql", "right"),
    [
        (
            "SELECT id, CASE WHEN ai_filter('Is it even?', t) THEN ai_gen('Repeat the number.', t) END AS a FROM t",
            [f"number {item}" if item % 2 == 0 else None for item in range(12)],
        ),
        (
            "SELECT id, 1 AS a FROM t WHERE ai_filter('Is it even?', t) OR ai_classify(t, ['fine', 'poor']) = 'fine'",
            [1 for item in range(12) if item % 2 == 0 or item % 3],
        ),
    ],
    ids=["case", "or"],
)
def test_conditions(tmp_path: Path, sql: str, right: list[Any]) -> None:
    """The request of a condition also has the questions that wait for it, and none of them is bought twice."""
    model = Model()
    with session_at(tmp_path, model, 4 * LONG) as session:
        ran = ask(session, f"{sql} ORDER BY id", questions_per_request="8")
        assert [row["a"] for row in ran.rows] == right
        shown = ask(session, f"EXPLAIN (ANALYZE, SAVINGS off) {sql}", questions_per_request="8", cache="off").rows
    assert model.packs == [2] * 24
    assert set(model.bought.values()) == {2}
    lines = next(row["plan"] for row in shown if row["plan_type"] == "total").splitlines()
    assert [line.split()[2] for line in lines[1:3]] == ["12", "12"]


def test_selective_filter(tmp_path: Path) -> None:
    """Where earlier queries show that a filter drops nearly all rows, its request has no other question."""
    model = Model()
    sql = "SELECT id, ai_gen('Repeat the number.', t) AS g FROM t WHERE ai_filter('Is it even?', t) ORDER BY id"
    with session_at(tmp_path, model) as session:
        session.update("CREATE TABLE odd AS SELECT 2 * id + 1001 AS id, 'item ' || (2 * id + 1001) || t AS t FROM t")
        ask(session, "SELECT count(*) FROM odd WHERE ai_filter('Is it even?', t)")
        ask(session, "SELECT count(*) FROM (SELECT t || ' ' AS t FROM odd) WHERE ai_filter('Is it even?', t)")
        text = explained(session, "(SAVINGS off) " + sql)
        assert not any("questions:" in plan for plan in text.values())
        shown = ask(session, f"EXPLAIN (SAVINGS off) {sql}", questions_per_request="8").rows
        line = next(row["plan"] for row in shown if row["plan_type"].startswith("calls of"))
        assert "questions: one after another: in one request they cost" in line
        assert "% of the rows do not need the last ones" in line
        ask(session, sql, questions_per_request="8")
    assert model.packs == []


def test_unanswered_questions_of_dropped_rows(tmp_path: Path) -> None:
    """A question that was asked for a later step and left out is asked again only for rows that reach the step."""
    model = Model(lambda entries: entries[:1])
    sql = "SELECT id, ai_gen('Repeat the number.', t) AS g FROM t WHERE ai_filter('Is it even?', t) ORDER BY id"
    with session_at(tmp_path, model) as session:
        ran = ask(session, sql, questions_per_request="8")
    assert [row["g"] for row in ran.rows] == [f"number {item}" for item in range(0, 12, 2)]
    alone = {name for name in model.bought if name.startswith("alone g")}
    assert alone == {f"alone g {item}" for item in range(0, 12, 2)}


def test_options(tmp_path: Path) -> None:
    """Calls with other options never share a request; EXPLAIN says why a call is asked by itself."""
    session = small_database(tmp_path, price=1.0).session()
    session.update(f"CREATE TABLE t AS SELECT id, note || '{LONG}' AS t FROM people")
    calls = [
        ("ai_gen('Say', t)", "one request saves only"),
        ("ai_gen('Tell', t)", "one request saves only"),
        ("ai_gen('Say', t, temperature => 1)", "no other call has the same fields and options"),
        ("ai_gen('Say', id, t)", ""),
        ("ai_gen('Say', t, fresh => true)", "fresh => true"),
        ("ai_gen('Say', t, rows_per_request => 4)", "several rows share a request"),
        ("ai_classify(t, ['a', 'b'], confidence => true)", "probabilities"),
    ]
    sql = f"EXPLAIN (SAVINGS off) SELECT {', '.join(call for call, _ in calls)} FROM t"
    shown = ask(session, sql, questions_per_request="4").rows
    parts = "\n\n".join(row["plan"] for row in shown if row["plan_type"].startswith("calls of")).split("\n\n")
    for (call, reason), part in zip(calls, parts, strict=True):
        assert part.startswith(call)
        line = next((line for line in part.splitlines() if line.startswith("questions: ")), "")
        assert reason in line
        assert bool(line) == bool(reason)


@pytest.mark.parametrize("layout", ["instruction", "fields"])
@pytest.mark.parametrize("dedup", ["on", "off"])
def test_functions(tmp_path: Path, layout: str, dedup: str) -> None:
    """For each kind of answer, shared requests of the fake engine give what single prompts give."""
    sql = (
        "SELECT id, ai_classify(t, ['a', 'b', 'c']) AS c, ai_filter('Good? {t}', t) AS f, ai_score('How?', t) AS s,"
        " ai_extract(t, ['who', 'what']) AS e, ai_gen('Say', t) AS g, CASE WHEN ai_filter('Bad?', t) THEN"
        " ai_gen('Tell', t) END AS w FROM t WHERE ai_filter('Long? {t}', t) ORDER BY id"
    )
    found = []
    for questions in ("off", "8", "3"):
        session = small_database(tmp_path / questions, price=1.0).session()
        session.update(f"CREATE TABLE t AS SELECT id, note || '{LONG}' AS t FROM people")
        found.append(ask(session, sql, questions_per_request=questions, layout=layout, dedup=dedup))
    assert found[1].rows == found[2].rows == found[0].rows
    assert found[1].calls < found[0].calls


def test_layout_by_price(tmp_path: Path) -> None:
    """With `layout = 'auto'`, shared requests begin with the questions, which a cache then serves to other rows."""
    model = Model()
    with session_at(tmp_path, model, provider="openai", api_key_env="") as session:
        check(ask(session, SQL, questions_per_request="8", layout="auto"))
    starts = {body["messages"][0]["content"] for body in model.bodies}
    assert len(starts) == 1
    assert "Question " in starts.pop()


def test_limit(tmp_path: Path) -> None:
    """A LIMIT gets its rows."""
    session = small_database(tmp_path, price=1.0).session()
    session.update(f"CREATE TABLE t AS SELECT id, note || '{LONG}' AS t FROM people")
    sql = "SELECT ai_gen('Say', t) AS g FROM t WHERE ai_filter('Good? {t}', t) LIMIT 2"
    joined = ask(session, sql, questions_per_request="3")
    assert len(joined.rows) == len(ask(session, sql, cache="off").rows)


def test_errors_fail_the_statement(tmp_path: Path) -> None:
    """`on_error => 'fail'` fails the statement for a question that fails alone too."""
    session = small_database(tmp_path, {"fail_containing": "owns a cat"}, price=1.0).session()
    session.update(f"CREATE TABLE t AS SELECT id, note || '{LONG}' AS t FROM people")
    sql = "SELECT t, ai_gen('Say', t) AS a, ai_gen('Tell', t, on_error => 'null') AS b FROM t"
    ran = ask(session, sql, questions_per_request="8")
    assert all((row["a"] is None) == (row["t"] is None or "owns a cat" in row["t"]) for row in ran.rows)
    with pytest.raises(FlightLLMError, match="owns a cat"):
        ask(session, sql.replace("'Say', t", "'Say', t, on_error => 'fail'"), questions_per_request="8")


def test_setting() -> None:
    """A wrong value says what to write."""
    from flightllm.config.session_settings import Settings

    assert Settings().with_values({"questions_per_request": "off"}).questions_per_request == 1
    assert Settings().with_values({"questions_per_request": "auto"}).as_text()["questions_per_request"] == "auto"
    with pytest.raises(FlightLLMError, match="'off', 'auto' or a whole number of questions from 1 to 100"):
        Settings().with_values({"questions_per_request": "0"})


def test_two_queries_at_once(tmp_path: Path) -> None:
    """Of two queries at the same time, one asks a question and the other waits, also for questions asked ahead."""
    model = Model()
    sqls = [
        "SELECT id, ai_gen('Repeat the number.', t) AS g FROM t WHERE ai_filter('Is it even?', t) ORDER BY id",
        "SELECT id, ai_gen('Repeat the number.', t) AS g, ai_filter('Is it even?', t) AS f FROM t ORDER BY id",
    ] * 2
    with session_at(tmp_path, model, 4 * LONG) as session, ThreadPoolExecutor(len(sqls)) as pool:
        asked = [pool.submit(ask, session, sql, questions_per_request="8") for sql in sqls]
        for sql, ran in zip(sqls, asked, strict=True):
            numbers = range(0, 12, 2) if "WHERE" in sql else range(12)
            assert [row["g"] for row in ran.result().rows] == [f"number {item}" for item in numbers]
    assert set(model.bought.values()) == {1}
