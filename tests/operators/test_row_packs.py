"""Several rows in one request, at an endpoint that answers packs well or badly."""

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
from tests.databases import Ran, ask, open_database, small_database
from tests.endpoints import Body, Reply, endpoint_of, refuse

TEXTS = [f"word{number} is here" for number in range(24)]
SQL = "SELECT id, ai_gen('Repeat the word.', t, on_error => 'struct') AS a FROM t ORDER BY id"
ROW = re.compile(r"^Row ([A-Z]+)\n(?:text|t): (.*)$", re.MULTILINE)
Entries = list[dict[str, Any]]


def written(entries: Entries) -> str:
    """Return an object with a key for each entry, also if two have one code."""
    return "{" + ", ".join(f'"{entry["row"]}": {json.dumps(entry["answer"])}' for entry in entries) + "}"


@dataclass
class Model:
    """A model that answers each row right; `spoils` changes the entries of a pack, and `writes` writes them."""

    spoils: Callable[[Entries], Entries] = lambda entries: entries
    writes: Callable[[Entries], str] = written
    refuses: str = ""
    """A text in a prompt that a filter refuses."""
    bought: Counter[str] = field(default_factory=Counter)
    """How often each row was answered alone, and in packs."""
    packs: list[int] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def behave(self, path: str, body: Body, number: int) -> Reply:
        """Answer a chat."""
        del path, number
        prompt = "\n".join(one["content"] for one in body["messages"])
        if self.refuses and self.refuses in prompt:
            return refuse(400, "The content was flagged by the moderation policy.")
        rows = ROW.findall(prompt)
        if "There are several rows" not in prompt:
            [text] = re.findall(r"^t: (.*)$", prompt, re.MULTILINE)
            with self.lock:
                self.bought[f"alone {text}"] += 1
            return self.reply(body, _right(text), len(prompt) // 4)
        with self.lock:
            self.packs.append(len(rows))
            self.bought.update(f"packed {text}" for _, text in rows)
        entries = [{"row": code, "answer": _right(text)} for code, text in rows]
        return self.reply(body, self.writes(self.spoils(entries)), len(prompt) // 4)

    def reply(self, body: Body, text: str, prompt_tokens: int) -> Reply:
        """Return a text, cut at the limit of characters that stand for tokens."""
        most = body.get("max_completion_tokens") or body["max_tokens"]
        usage = {"prompt_tokens": prompt_tokens, "completion_tokens": min(most, len(text) // 4)}
        usage["total_tokens"] = sum(usage.values())
        reason = "length" if len(text) // 4 > most else "stop"
        message = {"role": "assistant", "content": text[: 4 * most]}
        choices = [{"index": 0, "finish_reason": reason, "message": message}]
        return 200, {"id": "1", "model": "m", "choices": choices, "usage": usage}, {}


def _right(text: str) -> str:
    return f"the {text.split(maxsplit=1)[0]}"


@contextmanager
def session_at(folder: Path, model: Model) -> Iterator[Session]:
    """Open a session whose server's model is the endpoint, with a table of texts."""
    with endpoint_of(model.behave) as endpoint:
        engine = EngineConfig("openai", "m", 4, {"base_url": endpoint.url}, price_input=1.0, price_output=2.0)
        with closing(Database.open(Config(engine=engine, models=ModelsConfig(), data_folder=folder))) as database:
            session = database.session()
            rows = ", ".join(f"({number}, '{text}')" for number, text in enumerate(TEXTS))
            session.update(f"CREATE OR REPLACE TABLE t AS SELECT * FROM (VALUES {rows}) AS v(id, t)")
            yield session


def check(ran: Ran, *, but: str = "") -> None:
    """Check that each row has its own right answer; a row whose text begins with `but` has an error."""
    for row in ran.rows:
        text = TEXTS[row["id"]]
        if but and text.startswith(but):
            assert row["a"]["value"] is None
            assert row["a"]["error"]
        else:
            assert row["a"] == {"value": _right(text), "error": None}
    assert len(ran.rows) == len(TEXTS)


def test_packs(tmp_path: Path) -> None:
    """24 rows take 3 requests of 8; counters count requests, tokens of all of them, and every prompt."""
    model = Model()
    with session_at(tmp_path, model) as session:
        ran = ask(session, SQL, rows_per_request="8")
        check(ran)
        assert model.packs == [8, 8, 8]
        counted = ran.record.row()
        assert (counted["calls"], counted["answered"], counted["distinct_prompts"], counted["packed"]) == (3, 3, 24, 21)
        assert counted["progress"] == 1.0
        again = ask(session, SQL, rows_per_request="8")
        check(again)
        assert (again.calls, again.cache_hits) == (0, 24)
        alone = ask(session, SQL)  # answers of packs are not those of single prompts
        check(alone)
        assert (alone.calls, alone.cache_hits) == (24, 0)


def test_single_answers_are_reused(tmp_path: Path) -> None:
    """Packs use answers to single prompts, and ask only for the other rows."""
    model = Model()
    with session_at(tmp_path, model) as session:
        ask(session, SQL.replace("ORDER BY", "WHERE id < 10 ORDER BY"))
        ran = ask(session, SQL, rows_per_request="7")
        check(ran)
        assert (ran.calls, ran.cache_hits, sorted(model.packs)) == (2, 10, [7, 7])


def test_two_queries_at_once(tmp_path: Path) -> None:
    """Of two queries at the same time, one asks about a row and the other waits for the answer."""
    model = Model()
    with session_at(tmp_path, model) as session, ThreadPoolExecutor(2) as pool:
        both = [pool.submit(ask, session, SQL, rows_per_request="5") for _ in range(2)]
        for ran in both:
            check(ran.result())
    assert set(model.bought.values()) == {1}


def test_failing_endpoint(tmp_path: Path) -> None:
    """Requests that the endpoint cannot serve for a while are sent again as they are."""
    model = Model()
    failed: list[int] = []

    def behave(path: str, body: Body, number: int) -> Reply:
        if len(failed) < 2:
            failed.append(number)
            return refuse(503, "overloaded", Retry_After="0")
        return Model.behave(model, path, body, number)

    model.behave = behave  # type: ignore[method-assign]
    with session_at(tmp_path, model) as session:
        check(ask(session, SQL, rows_per_request="8"))
    assert model.packs == [8, 8, 8]


def test_endpoint_without_packs(tmp_path: Path) -> None:
    """Where each request with several rows fails, the call soon asks each row by itself, and says why."""
    model = Model()
    requests: list[Body] = []

    def behave(path: str, body: Body, number: int) -> Reply:
        requests.append(body)
        if any("There are several rows" in one["content"] for one in body["messages"]):
            return refuse(400, "The schema is too complex.")
        return Model.behave(model, path, body, number)

    model.behave = behave  # type: ignore[method-assign]
    with session_at(tmp_path, model) as session:
        sql = SQL.replace("ORDER BY", "WHERE id < 8 ORDER BY")
        shown = ask(session, f"EXPLAIN ANALYZE {sql}", rows_per_request="8").rows
    text = next(line["plan"] for line in shown if line["plan_type"].startswith("calls of"))
    assert "the first requests with several rows failed" in text
    assert "left out" not in text
    asked = [body["messages"][-1]["content"] for body in requests]
    assert sum("t: word" in one and "Row " not in one for one in asked) == 8


def test_option_of_a_call(tmp_path: Path) -> None:
    """A call's own number goes before the session's."""
    model = Model()
    with session_at(tmp_path, model) as session:
        own = SQL.replace("on_error", "rows_per_request => 12, on_error")
        check(ask(session, own))
        assert model.packs == [12, 12]
        check(ask(session, own.replace("12", "1"), rows_per_request="8"))
        assert model.packs == [12, 12]


@pytest.mark.parametrize(
    ("spoils", "most_alone"),
    [
        (lambda entries: entries[1:], 3),
        (lambda entries: [*entries, {"row": entries[0]["row"], "answer": "another"}], 3),
        (lambda entries: [*entries, entries[0], {"row": "XYZ", "answer": "of no row"}], 0),
        (lambda entries: entries[::-1], 0),
        (lambda entries: [{**entries[0], "row": "99"}, *entries[1:]], 3),
        (lambda entries: [{**entries[0], "answer": ""}, *entries[1:]], 3),
        (lambda entries: [{**entries[0], "answer": None}, *entries[1:]], 3),
        (lambda entries: [*entries[2:], *entries[:2]], 0),
    ],
    ids=["skipped", "twice", "added", "reversed", "unknown", "empty", "null", "moved"],
)
def test_spoilt_entries(tmp_path: Path, spoils: Callable[[Entries], Entries], most_alone: int) -> None:
    """A row without one clear answer is asked by itself, once; the others keep the answers of their pack."""
    model = Model(spoils)
    with session_at(tmp_path, model) as session:
        ran = ask(session, SQL, rows_per_request="8")
        check(ran)
        assert model.packs == [8, 8, 8]
        assert ran.calls == 3 + most_alone
        assert max(model.bought.values()) == 1
        assert ran.record.row()["failed_rows"] == 0


def test_broken_json(tmp_path: Path) -> None:
    """Entries before the place where the JSON breaks count; the other rows are asked again."""
    model = Model(writes=lambda entries: written(entries)[: -len(entries) * 4])
    with session_at(tmp_path, model) as session:
        ran = ask(session, SQL, rows_per_request="8")
        check(ran)
        assert ran.record.row()["progress"] == 1.0


def test_no_json(tmp_path: Path) -> None:
    """A model that cannot write packs is asked about each row by itself soon, and EXPLAIN ANALYZE says so."""
    model = Model(writes=lambda _: "Sorry, I can only do one at a time.")
    with session_at(tmp_path, model) as session:
        shown = ask(session, f"EXPLAIN ANALYZE {SQL}", rows_per_request="4").rows
        text = next(line["plan"] for line in shown if line["plan_type"].startswith("calls of"))
        assert "each row by itself: the model left out too many rows" in text
        assert len(model.packs) < 19
        check(ask(session, SQL, rows_per_request="4"))
        assert max(count for name, count in model.bought.items() if name.startswith("alone")) == 1


def test_one_bad_row(tmp_path: Path) -> None:
    """Content that a filter refuses fails its own row; its pack is halved, and each other row has its answer."""
    model = Model(refuses="word13 ")
    with session_at(tmp_path, model) as session:
        ran = ask(session, SQL, rows_per_request="8")
        check(ran, but="word13 ")
        assert ran.record.row()["failed_rows"] == 1
        assert max(model.bought.values()) == 1


def test_cut_at_the_limit(tmp_path: Path) -> None:
    """Answers that are cut at the limit of tokens are asked again in smaller packs."""
    long = "x" * 120
    model = Model(lambda entries: [{**e, "answer": e["answer"] + (long if len(entries) > 2 else "")} for e in entries])
    with session_at(tmp_path, model) as session:
        ran = ask(session, SQL.replace("on_error", "max_tokens => 8, on_error"), rows_per_request="8")
        assert all(row["a"]["error"] is None for row in ran.rows)
        assert all(row["a"]["value"].startswith(_right(TEXTS[row["id"]])) for row in ran.rows)


def test_budget(tmp_path: Path) -> None:
    """Requests count as calls; tokens of a request that failed count too; the query never goes above a limit."""
    model = Model()
    with session_at(tmp_path, model) as session:
        ran = ask(
            session, SQL.replace("on_error => 'struct'", "on_error => 'null'"), rows_per_request="8", max_calls="3"
        )
        assert (ran.calls, [row["a"] for row in ran.rows].count(None)) == (3, 0)
    with session_at(tmp_path / "tokens", model) as session:
        ran = ask(session, SQL, rows_per_request="8", max_tokens="1500", on_budget="null")
        assert sum(row["a"]["value"] is not None for row in ran.rows) > 0
        counted = ran.record.row()
        assert counted["prompt_tokens"] + counted["completion_tokens"] <= 1500


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("ai_gen('Say', t, fresh => true)", "fresh => true"),
        ("ai_classify(t, ['a', 'b'], confidence => true)", "probabilities"),
        ("ai_gen('Say', t)", "layout"),
    ],
)
def test_why_alone(tmp_path: Path, call: str, reason: str) -> None:
    """EXPLAIN says why a call asks about each row by itself."""
    session = small_database(tmp_path).session()
    session.update("CREATE TABLE t AS SELECT id, note AS t FROM people")
    settings = {"layout": "fields"} if reason == "layout" else {}
    shown = ask(session, f"EXPLAIN SELECT {call} FROM t", rows_per_request="4", **settings).rows
    text = next(line["plan"] for line in shown if line["plan_type"].startswith("calls of"))
    assert "each row by itself: " in text
    assert reason in text


def test_functions(tmp_path: Path) -> None:
    """For each kind of answer, packs of the fake engine give what single prompts give."""
    sql = (
        "SELECT id, ai_classify(note, ['a', 'b', 'c']) AS c, ai_filter('Good? {note}', note) AS f,"
        " ai_score('How good?', note) AS s, ai_extract(note, ['who', 'what']) AS e, ai_gen('Say', note) AS g"
        " FROM people ORDER BY id"
    )
    alone = ask(small_database(tmp_path / "alone").session(), sql)
    packed = ask(small_database(tmp_path / "packed").session(), sql, rows_per_request="3")
    assert packed.rows == alone.rows
    assert packed.calls < alone.calls


def test_shared_values(tmp_path: Path) -> None:
    """Rows with one long value go together, also without a prefix cache, and the value comes once for each request."""
    log = tmp_path / "log"
    session = open_database(tmp_path / "data", {"log_path": str(log)}).session()
    session.update("CREATE TABLE c AS SELECT value AS c, repeat('about ' || value || ' ', 60) AS info FROM range(0, 5)")
    session.update("CREATE TABLE q AS SELECT value AS q, 'question ' || value AS t FROM range(0, 40)")
    sql = "SELECT q, ai_gen('Answer.', info, t) AS a FROM q JOIN c ON c.c = q.q % 5 ORDER BY q"
    single = ask(session, sql, cache="off")
    log.unlink()
    packed = ask(session, sql, cache="off", rows_per_request="8")
    assert packed.rows == single.rows
    prompts = [json.loads(line)["prompt"] for line in log.read_text().splitlines()]
    assert [prompt.count("Row ") for prompt in prompts] == [8] * 5
    assert [prompt.count("info: ") for prompt in prompts] == [1] * 5
    assert 4 * packed.record.row()["prompt_tokens"] < single.record.row()["prompt_tokens"]


@pytest.mark.parametrize(("where", "marked"), [("", 3), ("WHERE id < 8", 0)])
def test_packs_mark_their_question(where: str, marked: int, tmp_path: Path) -> None:
    """Packs with a long question mark it for a cache that stores only marked starts; a single pack does not."""
    bodies: list[Body] = []
    model = Model()

    def behave(path: str, body: Body, number: int) -> Reply:
        bodies.append(body)
        said = [{**one, "content": _told(one["content"])} for one in body["messages"]]
        return model.behave(path, {**body, "messages": said}, number)

    question = "Repeat the word. " + "Weigh each of these words in turn. " * 200
    with endpoint_of(behave) as endpoint:
        options = {"base_url": endpoint.url, "provider": "openai", "api_key_env": ""}
        engine = EngineConfig("openai", "gpt-5.6-luna", 4, options)
        with closing(Database.open(Config(engine=engine, models=ModelsConfig(), data_folder=tmp_path))) as database:
            session = database.session()
            rows = ", ".join(f"({number}, '{text}')" for number, text in enumerate(TEXTS))
            session.update(f"CREATE TABLE t AS SELECT * FROM (VALUES {rows}) AS v(id, t)")
            sql = SQL.replace("Repeat the word.", question).replace("ORDER BY", f"{where} ORDER BY")
            ask(session, sql, rows_per_request="8")
    assert model.packs
    assert not any("alone" in one for one in model.bought)
    parts = [part for body in bodies for one in body["messages"] for part in _parts(one["content"])]
    starts = [part["text"] for part in parts if "prompt_cache_breakpoint" in part]
    assert len(starts) == marked
    assert all("Weigh each" in start and "Row " not in start for start in starts)


def _parts(content: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _told(content: Any) -> str:
    return "".join(part["text"] for part in _parts(content))


def test_limit(tmp_path: Path) -> None:
    """A LIMIT gets its rows, and packs hold no more rows than its waves ask for."""
    session = small_database(tmp_path).session()
    sql = "SELECT id FROM people WHERE ai_filter('Good? {note}', note) LIMIT 2"
    assert len(ask(session, sql, rows_per_request="3").rows) == len(ask(session, sql, cache="off").rows)


def test_failing_rows_of_the_fake_engine(tmp_path: Path) -> None:
    """`on_error => 'fail'` fails the statement for a row that fails alone too."""
    session = small_database(tmp_path, {"fail_containing": "owns a cat"}).session()
    ran = ask(session, "SELECT note, ai_gen('Say', note, on_error => 'null') AS a FROM people", rows_per_request="8")
    assert all((row["a"] is None) == (row["note"] in {None, "owns a cat"}) for row in ran.rows)
    with pytest.raises(FlightLLMError, match="owns a cat"):
        ask(session, "SELECT ai_gen('Say', note, on_error => 'fail') FROM people", rows_per_request="8")


def test_setting() -> None:
    """A wrong value says what to write."""
    from flightllm.config.session_settings import Settings

    assert Settings().with_values({"rows_per_request": "off"}).rows_per_request == 1
    assert Settings().with_values({"rows_per_request": "auto"}).as_text()["rows_per_request"] == "auto"
    assert Settings().with_values({"rows_per_request": "8"}).as_text()["rows_per_request"] == "8"
    with pytest.raises(FlightLLMError, match="'off', 'auto' or a whole number"):
        Settings().with_values({"rows_per_request": "0"})
    with pytest.raises(FlightLLMError, match="above 0 and below 1"):
        Settings().with_values({"rows_agreement": "90"})
