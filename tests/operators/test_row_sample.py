"""Calls that a sample of their own rows calibrates, at an endpoint that says Yes to all words, but surer to trees."""

import math
import re
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from flightllm.errors import InvalidInputError
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import ask, explained, small_database
from tests.endpoints import Body, Endpoint, Reply, endpoint_of, refuse

TREES, BEASTS = ("oak", "elm", "fir", "ash", "yew"), ("cat", "dog", "cow", "hen", "pig")
SURE = {**dict.fromkeys(TREES, 0.95), **dict.fromkeys(BEASTS, 0.75)}
"""The probability of Yes."""
MANY = {
    f"{kind}{place}": share + place / 1_000 for place in range(15) for kind, share in (("tree", 0.9), ("beast", 0.7))
}
"""The same for many words. Asked whether a word is early, the model says so of the first places."""
_refusals: dict[str, int] = {}
"""How many more prompts about a word are refused."""
BATCH = "ai_filter('Is it a tree?', word, model => m, calibrate => 'batch')"


def _behave(path: str, body: Body, number: int) -> Reply:
    del path, number
    text = body["messages"][-1]["content"]
    named = re.findall(r"^(?:a|word|other): (\w+)", text, re.MULTILINE)
    word = next(one for one in (*named, *re.findall(r"\w+", text)) if one in SURE or one in MANY)
    if _refusals.get(word):
        _refusals[word] -= 1
        return refuse(400, f"{word} was flagged")
    share = SURE[word] if word in SURE else MANY[word]
    if "early" in text:
        share = 0.9 if int(re.sub(r"\D", "", word)) < 10 else 0.1
    said = "Yes" if share > 0.5 else "No"
    listed = [{"token": "Yes", "logprob": math.log(share)}, {"token": "No", "logprob": math.log(1 - share)}]
    choice: dict[str, Any] = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": said}}
    if body.get("logprobs") and body["model"] == "open":
        choice["logprobs"] = {"content": [{**listed[said == "No"], "top_logprobs": listed}]}
    usage = {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10}
    return 200, {"choices": [choice], "usage": usage}, {}


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Endpoint]:
    """Return the endpoint."""
    with endpoint_of(_behave) as found:
        yield found


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory, endpoint: Endpoint) -> Iterator[Database]:
    """Return a database with a table of words, and of each word's next one."""
    database = small_database(tmp_path_factory.mktemp("sampled"), {})
    session = database.session()
    session.update(f"CREATE MODEL m OPTIONS (engine 'openai', model 'open', base_url '{endpoint.url}')")
    words = ", ".join(
        f"({place}, '{word}', '{other}')"
        for place, (word, other) in enumerate(zip((*TREES, *BEASTS), (*BEASTS, *TREES), strict=True))
    )
    session.update(f"CREATE TABLE words AS SELECT * FROM (VALUES {words}) AS v(id, word, other)")
    many = ", ".join(f"({place}, '{word}')" for place, word in enumerate(MANY))
    session.update(f"CREATE TABLE many AS SELECT * FROM (VALUES {many}) AS v(id, word)")
    yield database
    database.close()


@pytest.fixture
def session(database: Database, endpoint: Endpoint) -> Session:
    """Return a session without kept answers."""
    session = database.session()
    session.update("TRUNCATE system.cache")
    endpoint.bodies.clear()
    _refusals.clear()
    return session


def answers(session: Session, sql: str) -> dict[str, Any]:
    """Return the column `v` of a query by its column `word`."""
    return {row["word"]: row["v"] for row in ask(session, sql).rows}


@pytest.mark.parametrize("arguments", ["word, word", "a => word, b => word", "a => word, b => other, c => word"])
@pytest.mark.parametrize("rest", ["", " LIMIT 10"])
def test_a_column_can_be_two_fields(session: Session, arguments: str, rest: str) -> None:
    """The sample has such a column once, and each field has its values."""
    call = BATCH.replace(", word,", f", {arguments},")
    found = answers(session, f"SELECT word, {call} AS v FROM words WHERE {call} OR word <> 'none'{rest}")
    assert found == {**dict.fromkeys(TREES, True), **dict.fromkeys(BEASTS, False)}


OVER = (
    ("words", "word", ""),
    ("(SELECT * FROM words WHERE id < 8) w", "word", ""),
    ("words", "other", ""),
    ("words", "word", "id > 1"),
    ("words", "word", "id < 8"),
)
"""Tables, columns and guards: calls over them have the same name, and other samples."""


def _over(table: str, column: str, guard: str) -> str:
    call = BATCH.replace(", word,", f", word => {column},").replace(")", ", confidence => true)")
    return f"SELECT word, {f'CASE WHEN {guard} THEN {call} END' if guard else call} AS v FROM {table}"


@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in (1, 2))])
def test_each_call_has_its_own_sample(session: Session, first: int) -> None:
    """Equal calls over other rows, columns or guards are calibrated as in queries of their own."""
    over = (*OVER[first:], *OVER[:first])
    alone = [answers(session, _over(*one)) for one in over]
    assert len({str(found["hen"]) for found in alone if found.get("hen")}) > 1
    branches = [f"SELECT {place} AS place, b.* FROM ({_over(*one)}) b" for place, one in enumerate(over)]
    together = ask(session, " UNION ALL ".join(branches)).rows
    found = [{row["word"]: row["v"] for row in together if row["place"] == place} for place in range(len(over))]
    assert found == alone


def test_columns_of_one_row_have_their_own_samples(session: Session) -> None:
    """Calls over other columns, with and without a guard, share an operator and no sample."""
    calls = {
        "a": BATCH.replace("word,", "word => word,"),
        "b": BATCH.replace("word,", "word => CASE WHEN id < 9 THEN other END,"),
        "c": f"CASE WHEN id < 8 THEN {BATCH.replace('word,', 'word => other,')} END",
    }
    calls = {name: call.replace("'batch')", "'batch', confidence => true)") for name, call in calls.items()}
    alone = {name: answers(session, f"SELECT word, {call} AS v FROM words") for name, call in calls.items()}
    columns = ", ".join(f"{call} AS {name}" for name, call in calls.items())
    rows = ask(session, f"SELECT word, {columns} FROM words").rows
    assert {name: {row["word"]: row[name] for row in rows} for name in calls} == alone


CUT = {**dict.fromkeys(TREES, True), **dict.fromkeys(BEASTS, False)}


@pytest.mark.parametrize("rules", ["on", "off"])
@pytest.mark.parametrize(
    ("rest", "rows"),
    [("LIMIT 6", 6), ("LIMIT 2 OFFSET 7", 2), ("ORDER BY word LIMIT 3", 3), ("ORDER BY v, word DESC LIMIT 4", 4)],
)
def test_a_limit_below_a_projection_does_not_make_the_sample(
    session: Session, endpoint: Endpoint, rest: str, rows: int, rules: str
) -> None:
    """A LIMIT that only cuts rows off leaves the sample and the answers as they are, and no row is asked twice."""
    found = ask(session, f"SELECT word, {BATCH} AS v FROM words {rest}", rules=rules).rows
    assert len(found) == rows
    assert all(CUT[row["word"]] == row["v"] for row in found)
    assert len(endpoint.bodies) == len(CUT)


def test_a_limit_of_a_union(session: Session) -> None:
    """Each branch has all of its rows in the sample, under a LIMIT of the union too."""
    beasts_first = "(SELECT word FROM words ORDER BY id DESC) w"
    sql = f"SELECT word, {BATCH} AS v FROM words UNION ALL SELECT word, {BATCH} FROM {beasts_first} LIMIT 13"
    found = ask(session, sql).rows
    assert len(found) == 13
    assert all(CUT[row["word"]] == row["v"] for row in found)


@pytest.mark.parametrize("source", ["(SELECT * FROM words LIMIT 7) w", "few", "words WHERE word > 'hen'"])
def test_too_few_rows_are_a_warning(session: Session, source: str) -> None:
    """A call with fewer than eight distinct rows is not calibrated, and the query's record says what to do."""
    session.update("CREATE OR REPLACE VIEW few AS SELECT * FROM words WHERE id > 4")
    ran = ask(session, f"SELECT word, {BATCH} AS v FROM {source}")
    assert all(row["v"] for row in ran.rows)
    assert ran.record.row()["status"] == "done"
    [kept] = ask(session, f"SELECT error FROM system.queries WHERE query_id = '{ran.record.query_id}'").rows
    assert re.fullmatch(
        r"ai_filter\(.*\): calibrated by none of \d rows: they are too few; ask about 8 or more,"
        r" or leave out calibrate => 'batch'",
        kept["error"],
    )


def test_unknown_probabilities_are_a_warning(session: Session, endpoint: Endpoint) -> None:
    """A model whose probabilities are unknown cannot be calibrated, and the query's record says so."""
    session.update(f"CREATE OR REPLACE MODEL shut OPTIONS (engine 'openai', model 'shut', base_url '{endpoint.url}')")
    ran = ask(session, f"SELECT {BATCH.replace('=> m', '=> shut')} AS v FROM words")
    assert "the model's probabilities are unknown; choose another model, or" in str(ran.record.error)


EARLY = "ai_filter('Is it early?', word, model => m)"
WOOD = BATCH.replace("tree", "plant of wood")
SHOWN = BATCH.replace("'batch')", "'batch', confidence => true)")
WHERE = SHOWN + ".answer"


def passed(session: Session, sql: str) -> dict[str, Any]:
    """Return the column `v` by word; it must be the same with rules and without."""
    on, off = ({row["word"]: row["v"] for row in ask(session, sql, rules=rules).rows} for rules in ("on", "off"))
    assert on == off
    return on


@pytest.fixture(scope="module")
def early(database: Database) -> list[str]:
    """Return the early words, and make a table of them."""
    session = database.session()
    session.update(f"CREATE TABLE early AS SELECT * FROM many WHERE {EARLY}")
    found = [row["word"] for row in ask(session, "SELECT word FROM early").rows]
    assert len(found) == 20
    return found


BEFORE = (
    f"SELECT word, {SHOWN} AS v FROM many WHERE {WHERE} AND {EARLY}",
    f"SELECT word, {SHOWN} AS v FROM (SELECT word, {EARLY} AS e FROM many) w WHERE e",
    f"SELECT word, {SHOWN} AS v FROM many WHERE {EARLY}",
    f"SELECT word, {SHOWN} AS v FROM many WHERE {EARLY} AND {WHERE}",
    f"SELECT word, {SHOWN} AS v FROM many WHERE {WHERE} AND {EARLY.replace('early', 'it early')} AND {EARLY}",
    f"SELECT word, {SHOWN} AS v FROM many WHERE {WHERE} AND {EARLY} AND {WOOD}",
    f"SELECT word, {SHOWN} AS v FROM many WHERE {WOOD} AND {WHERE} AND {EARLY}",
)


@pytest.mark.parametrize("sql", [*BEFORE[:2], *(pytest.param(sql, marks=pytest.mark.slow) for sql in BEFORE[2:])])
def test_the_sample_has_the_rows_that_other_conditions_let_through(
    session: Session, early: list[str], sql: str
) -> None:
    """A condition leaves rows out of the sample, in any order and with any rules, as a query of its own does."""
    alone = answers(session, f"SELECT word, {SHOWN} AS v FROM early")
    assert list(alone) == early
    assert passed(session, sql) == {w: v for w, v in alone.items() if "AND" not in sql or v["answer"]}


ABOVE = (
    f"SELECT word, v FROM (SELECT word, {SHOWN} AS v, {EARLY} AS e FROM many) w WHERE e",
    f"SELECT w.word, w.v FROM (SELECT id, word, {SHOWN} AS v FROM many) w JOIN early ON early.word = w.word",
    f"SELECT word, v FROM (SELECT id, word, {SHOWN} AS v FROM many) w WHERE id IN (SELECT id + 0 FROM early)",
    f"SELECT e.word, v FROM early e LEFT JOIN (SELECT word, {SHOWN} AS v FROM many) w ON e.word = w.word",
    f"SELECT word, v FROM (SELECT word, {SHOWN} AS v FROM many OFFSET 0) w WHERE {EARLY}",
)
QUICK = {(ABOVE[0], ""), (ABOVE[1], " LIMIT 40")}


@pytest.mark.parametrize(
    ("sql", "limit"),
    [pytest.param(*one, marks=() if one in QUICK else pytest.mark.slow) for one in product(ABOVE, ("", " LIMIT 40"))],
)
def test_conditions_above_a_call_do_not_make_the_sample(
    session: Session, early: list[str], sql: str, limit: str
) -> None:
    """Rows that are dropped after the call stay in the sample, whether a rule can drop them before or not."""
    everywhere = answers(session, f"SELECT word, {SHOWN} AS v FROM many")
    assert passed(session, sql + limit) == {word: everywhere[word] for word in early}


@pytest.mark.parametrize("rules", ["on", "off"])
def test_a_call_of_select_and_where_is_one(session: Session, rules: str) -> None:
    """The rows that WHERE lets through are no sample of their own for the same call in SELECT."""
    found = ask(session, f"SELECT word, {BATCH} AS v FROM many WHERE {BATCH}", rules=rules).rows
    assert len(found) == 15
    assert all(row["v"] and row["word"].startswith("tree") for row in found)


def test_fewer_calls_than_rows(session: Session, endpoint: Endpoint, early: list[str]) -> None:
    """Nothing is asked about rows that an earlier condition drops."""
    ask(session, f"SELECT word FROM many WHERE {BATCH} AND {EARLY}")
    assert len(endpoint.bodies) == len(MANY) + len(early)


NUMBERED = BATCH.replace("word", "CAST(n AS TEXT)")
ABOUT_OAK = BATCH.replace("word", "a => 'oak'")


@pytest.mark.parametrize("explain", ["", "EXPLAIN ", "EXPLAIN ANALYZE "])
@pytest.mark.parametrize(
    ("sql", "part"),
    [
        (f"SELECT {NUMBERED} FROM generate_series(1, 9) g(n)", "a table function in FROM"),
        (
            f"WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE {NUMBERED}) SELECT n FROM r",
            "WITH RECURSIVE",
        ),
        (f"VALUES ({ABOUT_OAK})", "VALUES"),
        (f"SELECT * FROM unnest([{ABOUT_OAK}])", "this query (Unsupported plan type: Unnest)"),
    ],
)
def test_queries_that_never_have_all_rows(session: Session, sql: str, part: str, explain: str) -> None:
    """The error names the part of the query that gives rows a few at a time, and what to write; EXPLAIN has it too."""
    said = f"needs all rows of the call at once, and {part} gives it some at a time: put the rows in a table by"
    with pytest.raises(InvalidInputError, match=re.escape(said)):
        ask(session, f"{explain}{sql}")


@pytest.mark.parametrize("explain", ["", "EXPLAIN "])
def test_values_of_an_insert(session: Session, explain: str) -> None:
    """INSERT … VALUES has one row at a time; the rows of a table work."""
    session.update("CREATE OR REPLACE TABLE kept AS SELECT word, true AS v FROM words WHERE false")
    sql = f"{explain}INSERT INTO kept VALUES ('oak', {ABOUT_OAK})"
    with pytest.raises(InvalidInputError, match="and VALUES gives it some at a time"):
        ask(session, sql) if explain else session.update(sql)
    session.update(f"INSERT INTO kept SELECT word, {BATCH} FROM words")
    assert answers(session, "SELECT * FROM kept") == CUT


def test_explain_without_the_optimizer(session: Session) -> None:
    """EXPLAIN has the error of the query itself."""
    session.update("SET flightllm.optimizer = 'off'")
    for explain in ("", "EXPLAIN "):
        with pytest.raises(InvalidInputError, match="optimizer = 'off' gives it some at a time: set it to 'on', or"):
            ask(session, f"{explain}SELECT {BATCH} FROM words")


@pytest.mark.parametrize("cache", ["on", pytest.param("off", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("sql", "rows", "prompts"),
    [
        (f"SELECT {BATCH} FROM words", 10, 10),
        (f"SELECT {BATCH} FROM (SELECT * FROM words UNION ALL SELECT * FROM words) w", 20, 10),
        (f"SELECT word FROM words WHERE {BATCH}", 10, 10),
        (f"SELECT word FROM words WHERE {BATCH} LIMIT 1", 1, 10),
        (f"SELECT word FROM words WHERE {BATCH} ORDER BY word LIMIT 1", 1, 10),
        (f"SELECT {BATCH} FROM words WHERE id > 5", 4, 4),
    ],
)
def test_a_sampled_prompt_counts_once(session: Session, sql: str, rows: int, prompts: int, cache: str) -> None:
    """EXPLAIN and the counters have each prompt once: it is known or sent, as a prompt of the sample or of a row."""
    session.update(f"SET flightllm.cache = '{cache}'")
    for known in (0, prompts if cache == "on" else 0):
        text = "\n".join(explained(session, f"ANALYZE {sql}").values())
        figures = re.findall(r"(?:predicted|actual) +(\d+) +(\d+) +(\d+) +(\d+) +\d+ +[\d.]+ %", text)
        assert len(figures) == 2
        for shown in figures:
            assert tuple(map(int, shown))[1:] == (prompts, known, prompts - known)
            assert int(shown[0]) >= rows
    record = ask(session, sql).record.row()
    assert record["prompts_expected"] == record["distinct_prompts"] == prompts
    assert record["calls"] + record["cache_hits"] == prompts


def test_a_sampled_row_that_fails_is_asked_again(session: Session, endpoint: Endpoint) -> None:
    """A row that fails once is in the sample, and its answer is kept for the row itself."""
    _refusals["elm"] = 1
    ran = ask(session, f"SELECT word, {BATCH} AS v FROM words")
    assert {row["word"]: row["v"] for row in ran.rows} == CUT
    assert len(endpoint.bodies) == ran.calls == len(CUT) + 1
    assert ran.record.row()["distinct_prompts"] == len(CUT)
    assert ran.record.error is None


@pytest.mark.parametrize(("words", "warns"), [(["elm"], False), (["elm", "hen"], True)])
def test_sampled_rows_without_an_answer(session: Session, words: list[str], *, warns: bool) -> None:
    """A row that fails again is left out. If several are, the query's record says so."""
    _refusals.update(dict.fromkeys(words, 9))
    ran = ask(session, f"SELECT word, {BATCH} AS v FROM words")
    assert {row["word"]: row["v"] for row in ran.rows} == {**CUT, **dict.fromkeys(words)}
    said = f"calibrated by a sample of {10 - len(words)} rows; {len(words)} of 10 had no answer, because"
    assert (said in str(ran.record.error)) == warns
    assert said in str(explained(session, f"ANALYZE SELECT word, {BATCH} AS v FROM words"))


def test_too_few_sampled_rows_have_an_answer(session: Session) -> None:
    """With fewer than eight answers nothing is calibrated, and the query's record says why."""
    _refusals.update(dict.fromkeys(("elm", "oak", "hen"), 9))
    error = str(ask(session, f"SELECT {BATCH} FROM words").record.error)
    assert "calibrated by none of 10 rows: they are too few; 3 of 10 had no answer, because" in error
    assert "was flagged" in error


def test_examples_beside_rows(session: Session, endpoint: Endpoint) -> None:
    """The examples are in the prompt of each row, and are not asked themselves; the rows move the cut."""
    asked = SHOWN.replace("model => m", "model => m, examples => [('lime', 'Yes'), ('goat', 'No')]")
    found = answers(session, f"SELECT word, {asked} AS v FROM words")
    assert {word: v["answer"] for word, v in found.items()} == CUT
    assert all(0.5 < v["confidence"] < 0.9 for v in found.values())
    sent = [str(body["messages"]) for body in endpoint.bodies]
    assert len(sent) == len(CUT)
    assert all("lime" in text and "goat" in text for text in sent)


def test_rows_that_need_no_answer_are_no_sample(session: Session, endpoint: Endpoint) -> None:
    """Rows with NULL in a required field leave room for others in the sample, and are not counted in it."""
    numbers = "SELECT CAST(value AS TEXT) AS number FROM generate_series(1, 300)"
    session.update(f"CREATE OR REPLACE TABLE gaps AS {numbers}")
    asked = BATCH.replace("a tree?', word", "{word} in {number}?', word => word, number => number")
    found = answers(session, f"SELECT word, {asked} AS v FROM words, (SELECT '1' AS number) n")
    with_gaps = "SELECT word, '1' AS number FROM words UNION ALL SELECT NULL, number FROM gaps"
    text = str(explained(session, f"ANALYZE SELECT {asked} FROM ({with_gaps}) w"))
    assert "calibrated by a sample of 10 rows" in text
    assert len(endpoint.bodies) == len(CUT)
    again = ask(session, f"SELECT word, {asked} AS v FROM ({with_gaps}) w").rows
    assert [row["v"] for row in again if row["word"] is None] == [None] * 300
    assert {row["word"]: row["v"] for row in again if row["word"]} == found
    optional = BATCH.replace(", word,", ", word => word, other => other,")
    with_other = "SELECT word, other FROM words UNION ALL SELECT NULL, NULL"
    assert "by a sample of 10 rows" in str(explained(session, f"ANALYZE SELECT {optional} FROM ({with_other}) w"))
