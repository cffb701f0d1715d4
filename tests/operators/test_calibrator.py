"""Calls whose examples put the cut right, at an endpoint that ranks rows well and says Yes to all of them."""

import json
import math
import re
from collections.abc import Iterator
from typing import Any

import pytest

from flightllm.errors import AnswerError, InvalidInputError
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import ask, explained, small_database
from tests.endpoints import Body, Endpoint, Reply, endpoint_of, refuse

GOOD, BAD = ("oak", "elm", "fir", "ash", "yew"), ("cat", "dog", "cow", "hen", "pig")
EXAMPLES = "examples => [('oak', 'Yes'), ('cat', 'No'), ('elm', 'Yes'), ('dog', 'No')]"
_gives: set[str] = set()
"""The models that give log probabilities although their names say that they do not."""
_sent_words: dict[str, bool] = {}
"""The words whose next prompt is refused."""
FILTER = f"ai_filter('Is it a tree?', word, model => m, {EXAMPLES}{{}})"


def _behave(path: str, body: Body, number: int) -> Reply:
    del path, number
    words = re.findall(r"(?:word: |^)(\w+)", "\n".join(m["content"] for m in body["messages"]), re.MULTILINE)
    word = next(one for one in reversed(words) if one in GOOD + BAD)
    if word == "pig":
        return refuse(400, "the prompt was flagged")
    if word == "yew" and _sent_words.pop("yew", None):
        return refuse(400, "the prompt was flagged once")
    share = 0.95 if word in GOOD else 0.75
    if body["model"] == "learner" and "Answer: " not in str(body["messages"]):
        share = 0.8
    names = ("1", "2") if body["model"] == "numbers" else ("Yes", "No")
    logs = math.log(share), math.log(1 - share)
    listed = [{"token": name, "logprob": one} for name, one in zip(names, logs, strict=True)]
    message = {"role": "assistant", "content": names[0]}
    choice: dict[str, Any] = {"index": 0, "finish_reason": "stop", "message": message}
    if body.get("logprobs") and (body["model"] not in {"closed", "late"} or body["model"] in _gives):
        choice["logprobs"] = {"content": [{**listed[0], "top_logprobs": listed}]}
    usage = {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10}
    return 200, {"choices": [choice], "usage": usage}, {}


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Endpoint]:
    """Return an endpoint whose models `closed` and `late` return no log probabilities.

    `learner` knows only what examples say, and `numbers` answers with numbers.
    """
    with endpoint_of(_behave) as found:
        yield found


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory, endpoint: Endpoint) -> Iterator[Database]:
    """Return a database with all models and a table of words."""
    database = small_database(tmp_path_factory.mktemp("calibrated"), {})
    session = database.session()
    for name, model in (
        ("m", "open"),
        ("closed", "closed"),
        ("learner", "learner"),
        ("late", "late"),
        ("n", "numbers"),
    ):
        session.update(f"CREATE MODEL {name} OPTIONS (engine 'openai', model '{model}', base_url '{endpoint.url}')")
    words = ", ".join(f"('{word}')" for word in (*GOOD, *BAD))
    session.update(f"CREATE TABLE words AS SELECT * FROM (VALUES {words}) AS v(word)")
    yield database
    database.close()


@pytest.fixture
def session(database: Database, endpoint: Endpoint) -> Session:
    """Return a session without kept answers."""
    session = database.session()
    session.update("TRUNCATE system.cache")
    endpoint.bodies.clear()
    return session


def trees(session: Session, asked: str, **settings: str) -> dict[str, Any]:
    """Return the value of an expression for each word."""
    return {row["word"]: row["v"] for row in ask(session, f"SELECT word, {asked} AS v FROM words", **settings).rows}


@pytest.mark.parametrize("optimizer", ["on", "off"])
def test_examples_move_the_cut(session: Session, endpoint: Endpoint, optimizer: str) -> None:
    """Each example is asked alone and with the others before it; the rows are cut between the examples."""
    found = trees(session, FILTER.format(""), optimizer=optimizer)
    assert found == {**dict.fromkeys(GOOD, True), **dict.fromkeys(BAD, False), "pig": None}
    sent = ["\n".join(m["content"] for m in body["messages"]) for body in endpoint.bodies]
    assert sum(text.count("Answer: ") == 3 for text in sent) == 4
    assert sum("Answer: " not in text for text in sent) == len(sent) - 4
    assert trees(session, FILTER.format(", calibrate => 'off'")) == {**dict.fromkeys(GOOD + BAD, True), "pig": None}


@pytest.mark.parametrize("optimizer", ["on", "off"])
@pytest.mark.parametrize(("model", "stay"), [("m", False), ("learner", True)])
def test_examples_stay_in_prompts_where_the_model_needs_them(
    session: Session, endpoint: Endpoint, model: str, optimizer: str, *, stay: bool
) -> None:
    """A model that ranks rows without examples does not read them with each row; the cut is right in both cases."""
    asked = FILTER.format("").replace("=> m", f"=> {model}")
    assert trees(session, asked, optimizer=optimizer) == {
        **dict.fromkeys(GOOD, True),
        **dict.fromkeys(BAD, False),
        "pig": None,
    }
    about_fir = [str(body["messages"]) for body in endpoint.bodies if "word: fir" in str(body["messages"])]
    assert ["Answer: " in text for text in about_fir] == [stay]
    session.update(f"SET flightllm.optimizer = '{optimizer}'")
    where = "which stay in the prompts" if stay else "which are not in the prompts"
    assert f"by 4 examples, {where}" in str(explained(session, f"ANALYZE SELECT {asked} FROM words"))


def test_other_examples_cost_no_row(session: Session, endpoint: Endpoint) -> None:
    """Rows whose prompts have no examples keep their answers when the examples change."""
    asked = f"SELECT {FILTER.format('')} FROM words WHERE word <> 'pig'"
    ask(session, asked, cache="on")
    before = len(endpoint.bodies)
    ask(session, asked.replace("('dog', 'No')", "('hen', 'No')"), cache="on")
    assert all("Answer: " in str(body["messages"]) for body in endpoint.bodies[before:])


STRICT = "examples => [('oak', 'Yes'), ('elm', 'No'), ('ash', 'Yes'), ('cat', 'No'), ('yew', 'No')]"
"""Examples that contradict each other, so that they move no cut."""


@pytest.mark.parametrize(("optimizer", "cache"), [("on", "off"), ("on", "on"), ("off", "off")])
@pytest.mark.parametrize("first", [True, False])
def test_calls_with_other_examples_share_prompts_and_no_answers(
    session: Session, endpoint: Endpoint, optimizer: str, cache: str, *, first: bool
) -> None:
    """One question with two sets of examples, in one query: each call gives the answers that it gives by itself."""
    calls = [FILTER.format(""), FILTER.format("").replace(EXAMPLES, STRICT)]
    apart = [trees(session, asked, optimizer=optimizer, cache=cache) for asked in calls]
    assert apart[0] != apart[1]
    session.update("TRUNCATE system.cache")
    endpoint.bodies.clear()
    if not first:
        calls, apart = calls[::-1], apart[::-1]
    asked = f"SELECT word, {calls[0]} AS a, {calls[1]} AS b FROM words"
    rows = ask(session, asked, optimizer=optimizer, cache=cache).rows
    assert [{row["word"]: row[name] for row in rows} for name in "ab"] == apart
    sent = [str(body["messages"]) for body in endpoint.bodies]
    assert sum("word: fir" in text and "Answer: " not in text for text in sent) == (1 if optimizer == "on" else 2)


def test_one_answer_for_all_readings(session: Session, endpoint: Endpoint) -> None:
    """A call with its confidence, and one that examples calibrate, use the answer that another call brought."""
    asked = "ai_filter('Is it a tree?', word, model => m, confidence => true)"
    found = trees(session, f"({asked}).confidence", cache="on")
    assert found["fir"] == pytest.approx(0.95)
    before = len(endpoint.bodies)
    moved = trees(session, FILTER.format(""), cache="on")
    assert moved["cow"] is False
    again = [body for body in endpoint.bodies[before:] if "Answer: " not in str(body["messages"])]
    assert all("pig" in str(body) for body in again)


def test_sums_of_calibrated_numbers(session: Session) -> None:
    """Aggregates read the options that examples choose as numbers."""
    asked = (
        "ai_classify(word, ['1', '2'], model => n, instructions => 'Trees are 1.', examples =>"
        " [('oak', '1'), ('cat', '2'), ('elm', '1'), ('dog', '2')])"
    )
    [row] = ask(session, f"SELECT sum({asked}) AS v, count(*) AS n FROM words WHERE word <> 'pig'").rows
    assert (row["v"], row["n"]) == (5 + 2 * 4, 9)
    plan = explained(session, f"ANALYZE SELECT avg({asked}) FROM words WHERE word <> 'pig'")
    assert "calibrated by 4 examples" in "\n".join(plan.values())


def test_lists_in_examples(session: Session, endpoint: Endpoint) -> None:
    """The elements of a list in an example are asked about as those of a row are."""
    session.update("CREATE OR REPLACE TABLE lists AS SELECT make_array(word, 'leaf') AS word FROM words")
    shown = "[(['oak', 'leaf'], 'Yes'), (['cat', 'leaf'], 'No'), (['elm', 'leaf'], 'Yes'), (['dog', 'leaf'], 'No')]"
    asked = f"ai_filter('Is it a tree?', word, model => m, examples => {shown})"
    rows = ask(session, f"SELECT word[1] AS word, {asked} AS v FROM lists WHERE word[1] <> 'pig'").rows
    assert {row["word"]: row["v"] for row in rows} == {
        **dict.fromkeys(GOOD, True),
        **dict.fromkeys([word for word in BAD if word != "pig"], False),
    }
    bare = [text for body in endpoint.bodies if "Answer: " not in (text := str(body["messages"]))]
    assert len({text for text in bare if "oak" in text}) == 1


@pytest.mark.parametrize("ran_before", [True, False])
def test_earlier_queries_decide_nothing(session: Session, endpoint: Endpoint, *, ran_before: bool) -> None:
    """A model that gave no probabilities lately is calibrated as soon as it gives some."""
    if ran_before:
        trees(session, FILTER.format("").replace("=> m", "=> late"), cache="on")
        assert len(endpoint.bodies) == 14
    _gives.add("late")
    session.update("TRUNCATE system.cache")
    found = trees(session, FILTER.format("").replace("=> m", "=> late"), cache="on")
    _gives.discard("late")
    assert found == {**dict.fromkeys(GOOD, True), **dict.fromkeys(BAD, False), "pig": None}


def test_kept_answers(session: Session, endpoint: Endpoint) -> None:
    """Answers of examples are kept like those of rows, and the same call in another query gives the same answers."""
    found = trees(session, FILTER.format(", confidence => true"), cache="on")
    assert found["fir"]["confidence"] > 0.5
    assert 0.5 < found["cow"]["confidence"] < 1
    before = len(endpoint.bodies)
    again = trees(session, f"CASE WHEN word < 'x' THEN {FILTER.format(', confidence => true')} END", cache="on")
    assert again == {word: None if word > "x" else value for word, value in found.items()}
    assert all("pig" in str(body) for body in endpoint.bodies[before:])


def test_unknown_probabilities(session: Session, endpoint: Endpoint) -> None:
    """A model that does not return probabilities answers as before, and EXPLAIN ANALYZE says so."""
    asked = FILTER.format("").replace("=> m", "=> closed")
    assert trees(session, asked) == {**dict.fromkeys(GOOD + BAD, True), "pig": None}
    assert len(endpoint.bodies) == 14
    session.update("SET flightllm.cache = 'off'")
    plan = explained(session, f"ANALYZE SELECT {asked} FROM words")
    assert "calibrated by none of 4 examples: the model's" in "\n".join(plan.values())
    assert len(endpoint.bodies) == 14 + 1 + 10
    plan = explained(session, f"ANALYZE SELECT {FILTER.format('')} FROM words")
    assert "calibrated by 4 examples" in "\n".join(plan.values())


def test_counts(session: Session) -> None:
    """EXPLAIN and the counters have the examples' calls, and no rows of examples. Without rows nothing is asked."""
    ran = ask(session, f"SELECT {FILTER.format('')} FROM words WHERE word < 'pig'")
    assert ran.calls == 2 * 4 + 8 - 4  # the rows that are examples have their answers
    [row] = ask(
        session, "SELECT prompts_expected FROM system.queries WHERE calls = 12 ORDER BY started_at DESC LIMIT 1"
    ).rows
    assert row["prompts_expected"] == 8 + 2 * 4
    assert ask(session, f"SELECT {FILTER.format('')} FROM words WHERE word > 'zzz'").calls == 0
    plan = explained(session, f"SELECT {FILTER.format('')} FROM words WHERE word < 'pig'")
    assert re.search(r"predicted +8 +16 ", "\n".join(plan.values()))


def test_conditions(session: Session) -> None:
    """A filter and a change of rows use the same cut."""
    rows = ask(session, f"SELECT word FROM words WHERE {FILTER.format('')} ORDER BY word").rows
    assert [row["word"] for row in rows] == sorted(GOOD)
    session.update("CREATE OR REPLACE TABLE copied AS SELECT * FROM words WHERE word <> 'pig'")
    assert session.update(f"DELETE FROM copied WHERE NOT {FILTER.format('')}") == 4


@pytest.mark.parametrize("optimizer", ["on", "off"])
@pytest.mark.parametrize(
    "query",
    [
        "SELECT CASE WHEN word > 'zzz' THEN {} END FROM words",
        "SELECT word FROM words WHERE word > 'zzz' AND {}",
        "SELECT {} FROM words WHERE word > 'zzz'",
        "SELECT {null} FROM words",
    ],
    ids=["guard", "filter", "no rows", "no values"],
)
def test_no_row_needs_an_answer(session: Session, endpoint: Endpoint, query: str, optimizer: str) -> None:
    """Without a row that needs an answer, no example is asked."""
    call = FILTER.format("")
    asked = query.format(call, null=call.replace("word, model", "nullif(word, word), model"))
    ask(session, asked, optimizer=optimizer)
    assert not endpoint.bodies


@pytest.mark.parametrize(("optimizer", "dedup"), [("on", "on"), ("off", "off")])
def test_guards_that_depend_on_answers(session: Session, optimizer: str, dedup: str) -> None:
    """A guard that another call decides lets some rows through: these are cut by the examples."""
    query = f"SELECT word, CASE WHEN ai_filter('Is it short?', word, model => m) THEN {FILTER.format('')} END AS v"
    found = {
        row["word"]: row["v"] for row in ask(session, f"{query} FROM words", optimizer=optimizer, dedup=dedup).rows
    }
    assert found == {**dict.fromkeys(GOOD, True), **dict.fromkeys(BAD, False), "pig": None}


def with_example(word: str, option: str, rest: str = "") -> str:
    """Return the filter with one more example."""
    return FILTER.format(rest).replace("('dog', 'No')", f"('dog', 'No'), ('{word}', '{option}')")


def test_failed_examples(session: Session) -> None:
    """An example that fails is asked again. If it fails again, nothing is calibrated, and the query says so."""
    _sent_words["yew"] = True
    plan = explained(session, f"ANALYZE SELECT {with_example('yew', 'Yes')} FROM words WHERE word = 'cow'")
    assert "calibrated by 5 examples" in "\n".join(plan.values())
    assert trees(session, with_example("pig", "No")) == {**dict.fromkeys(GOOD + BAD, True), "pig": None}
    [row] = ask(session, "SELECT error FROM system.queries WHERE error LIKE '%calibrated%' LIMIT 1").rows
    assert "calibrated by none of 5 examples: 1 of them had no answer, because" in row["error"]
    assert "flagged" in row["error"]
    with pytest.raises(AnswerError, match=r"none of 5 examples.*flagged.*calibrate => 'off'"):
        trees(session, with_example("pig", "No", ", on_error => 'fail'"))


@pytest.mark.parametrize(
    ("examples", "more", "reason"),
    [
        (
            [(f"oak{n}", "Yes") for n in range(64)] + [("cat", "No")],
            "",
            "none of 65 examples: 65 would be asked, and 64 are the most",
        ),
        ([("oak", "Yes"), ("elm", "Yes")], "", "none of 2 examples: all have the same answer"),
        ([("oak", "Yes"), ("cat", "No")], ", temperature => 1", "at a temperature above 0 the answers are random"),
    ],
    ids=["too many", "one option", "random"],
)
@pytest.mark.parametrize("optimizer", ["on", "off"])
def test_examples_that_are_not_asked(
    session: Session, endpoint: Endpoint, examples: list[tuple[str, str]], more: str, reason: str, optimizer: str
) -> None:
    """EXPLAIN ANALYZE says why the examples of a call do not calibrate it."""
    session.update(f"SET flightllm.optimizer = '{optimizer}'")
    call = FILTER.format(more).replace(EXAMPLES, f"examples => [{', '.join(map(str, examples))}]")
    plan = explained(session, f"ANALYZE SELECT {call} FROM words WHERE word = 'cow'")
    assert reason in "\n".join(plan.values())
    assert len(endpoint.bodies) == 1


BATCH = "ai_filter('Is it a tree?', word, model => m, calibrate => 'batch')"


@pytest.mark.parametrize("cache", ["on", "off"])
def test_rows_move_the_cut(session: Session, endpoint: Endpoint, cache: str) -> None:
    """Over all rows no option is preferred. The sampled rows are rows of the query, so with a cache none is extra."""
    found = trees(session, BATCH, cache=cache)
    assert found == {**dict.fromkeys(GOOD, True), **dict.fromkeys(BAD, False), "pig": None}
    if cache == "on":
        assert len(endpoint.bodies) == len(GOOD + BAD) + 2  # the sample asks again, and then the row itself
    text = str(explained(session, f"ANALYZE SELECT {BATCH} FROM words"))
    assert "by a sample of 9 rows; 1 of 10 had no answer, because" in text


def test_the_sample_does_not_depend_on_the_order_of_rows(session: Session) -> None:
    """The order of rows changes no answer; a guard leaves rows out of the sample."""
    backwards = ask(session, f"SELECT word, {BATCH} AS v FROM (SELECT * FROM words ORDER BY word DESC) w").rows
    assert {row["word"]: row["v"] for row in backwards} == trees(session, BATCH)
    few = trees(session, f"CASE WHEN word <> 'pig' AND word <> 'yew' THEN {BATCH} END")
    assert few == {**dict.fromkeys(GOOD, True), **dict.fromkeys(BAD, False), "pig": None, "yew": None}


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (f"SELECT word FROM words WHERE {BATCH} ORDER BY word LIMIT 2", ["ash", "elm"]),
        (f"SELECT word FROM words WHERE {BATCH} ORDER BY word DESC LIMIT 1", ["yew"]),
        (f"SELECT word FROM (SELECT * FROM words WHERE {BATCH} OR word = 'cat') w WHERE {BATCH} LIMIT 5", sorted(GOOD)),
        (f"SELECT DISTINCT ON (length(word)) word FROM words WHERE {BATCH} ORDER BY length(word), word", ["ash"]),
    ],
)
def test_a_limit_does_not_make_the_sample(session: Session, sql: str, expected: list[str]) -> None:
    """Rows that come in waves are calibrated by all rows of the query, as without the limit."""
    found = [row["word"] for row in ask(session, sql).rows]
    assert (found if "ORDER BY" in sql else sorted(found)) == expected


def test_all_fields_decide_about_the_sample(session: Session, endpoint: Endpoint) -> None:
    """A sample of pairs has values of each field, and not all pairs of a few values."""
    numbers = "SELECT CAST(value AS TEXT) AS number FROM generate_series(1, 90)"
    session.update(f"CREATE OR REPLACE TABLE pairs AS SELECT * FROM words, ({numbers}) n WHERE word <> 'pig'")
    asked = "ai_filter('Is it?', word, number, model => m, calibrate => 'batch')"
    ask(session, f"SELECT word FROM pairs WHERE {asked} LIMIT 1", cache="on")
    sent = [body["messages"][-1]["content"] for body in endpoint.bodies]
    for name, values in (("word", 9), ("number", 60)):
        found = {match[1] for text in sent if (match := re.search(rf"\b{name}: (\w+)", text))}
        assert len(found) >= values


def test_a_few_rows_say_little(session: Session) -> None:
    """Fewer rows than eight move nothing, and EXPLAIN ANALYZE says so; an empty table asks nothing."""
    text = str(explained(session, f"ANALYZE SELECT {BATCH} FROM words WHERE word IN ('oak', 'cat')"))
    assert "by none of 2 rows: they are too few" in text
    assert ask(session, f"SELECT {BATCH} AS v FROM words WHERE word = 'none'").rows == []


def test_rows_without_probabilities(session: Session) -> None:
    """A model without log probabilities answers as ever, and EXPLAIN ANALYZE says why nothing moved."""
    closed = BATCH.replace("model => m", "model => closed")
    assert trees(session, closed)["cat"] is True
    assert "the model's probabilities are unknown" in str(explained(session, f"ANALYZE SELECT {closed} FROM words"))


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (
            "ai_classify(word, ['a', 'b'], multi => true, calibrate => 'batch')",
            "does not choose one of several options",
        ),
        ("ai_filter('Is it a tree?', calibrate => 'batch')", "the call has no fields"),
        ("ai_filter('Is it?', word, temperature => 1, calibrate => 'batch')", "the temperature is above 0"),
        ("ai_filter('Is it?', word, fresh => true, calibrate => 'batch')", "fresh => true keeps no answer about a"),
    ],
)
def test_calls_that_rows_cannot_calibrate(session: Session, asked: str, reason: str) -> None:
    """The error names the reason and says what to do."""
    with pytest.raises(InvalidInputError, match=f"{reason}.*: leave out calibrate"):
        ask(session, f"SELECT {asked} FROM words")


def test_rows_calibrate_with_the_optimizer_alone(session: Session) -> None:
    """Without the optimizer no step sees all rows, and another sample would give other answers."""
    with pytest.raises(InvalidInputError, match=r"all rows.*flightllm.optimizer = 'off' gives.*set it to 'on', or"):
        trees(session, BATCH, optimizer="off")


def test_explain_knows_whether_examples_stay(session: Session, endpoint: Endpoint) -> None:
    """Before a model is asked, EXPLAIN foresees examples in prompts only where models return no probabilities."""
    asked = FILTER.format("")
    for number, (provider, model) in enumerate((("openai", "open"), ("mistral", "closed"))):
        options = f"engine 'openai', model '{model}', base_url '{endpoint.url}', provider '{provider}', api_key_env ''"
        session.update(f"CREATE OR REPLACE MODEL fresh{number} OPTIONS ({options})")
        sql = f"SELECT {asked.replace('model => m', f'model => fresh{number}')} FROM words WHERE word <> 'pig'"
        [row] = ask(session, f"EXPLAIN (FORMAT json) {sql}").rows
        predicted = json.loads(row["plan"])["total"]["predicted"]
        endpoint.bodies.clear()
        ask(session, sql)
        sent = ["\n".join(m["content"] for m in body["messages"]) for body in endpoint.bodies]
        assert predicted["calls"] == len(sent)
        with_examples = sum("Answer: " in text for text in sent)
        assert (with_examples, len(sent) - with_examples) == ((4, 9) if model == "open" else (9, 1))
        session.update(f"DROP MODEL fresh{number}")
