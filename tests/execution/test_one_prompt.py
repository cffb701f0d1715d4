"""A call has one prompt: no other call, row, setting of the optimizer or earlier query changes the prompt's text."""

import json
from collections.abc import Iterator
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Final

import pytest

from flightllm.config import Config, EngineConfig, LimitsConfig
from flightllm.session.database import Database
from tests.databases import SAMPLES, ask, open_database
from tests.packages import needs

CALLS: Final = {
    "filter": "ai_filter('Is it praise?', verdict, body)",
    "other order": "ai_filter('Does the text fit?', body, verdict)",
    "twice": "ai_gen('Compare', body, verdict, body)",
    "classify": "ai_classify(body, ['long', 'short'])",
    "sentiment": "ai_sentiment(body)",
    "score": "ai_score('How good?', verdict, body, kind)",
    "list": "ai_gen('Name', verdict, parts)",
    "ordered list": "ai_gen('Name the last', parts, ordered => true)",
}
"""Calls over few long texts and many short ones: an order by statistics would move the long ones to the front."""
SHAPES: Final = {
    "all": "SELECT {all} FROM notes",
    "some rows": "SELECT {all} FROM notes WHERE id < 9",
    "sorted": "SELECT {all} FROM notes ORDER BY body, id",
    "limit": "SELECT {all} FROM notes LIMIT 5",
    "fused": "SELECT id FROM notes WHERE {filter} OR NOT {other order} AND {score} >= 0",
    "steps": "SELECT {list} FROM notes WHERE {filter} AND {other order}",
    "guard": "SELECT CASE WHEN {filter} THEN {twice} ELSE {sentiment} END FROM notes",
    "group": "SELECT kind, avg({score}), count({classify}) FROM notes GROUP BY kind",
    "distinct": "SELECT DISTINCT {classify}, {sentiment} FROM notes",
    "subquery": "SELECT id, (SELECT {filter}), (SELECT {classify}) FROM notes WHERE (SELECT {score}) >= 0",
    "join": "SELECT a.id FROM (SELECT id, {filter} AS f FROM notes) a JOIN notes b ON a.id = b.id WHERE a.f",
}
SETTINGS: Final = (
    {"optimizer": "off"}, {"optimizer": "on"}, {"rules": "off"}, {"dedup": "off"}, {"ordering": "none"},
    {"ordering": "rows"}, {"layout": "auto"},
)  # fmt: skip
NOTES: Final = (
    "CREATE TABLE notes AS SELECT value AS id, 'verdict ' || (value * 7 % 20) AS verdict,"
    " repeat('long text ', 60) || (value % 3) AS body, 'kind ' || (value % 2) AS kind,"
    " ['part ' || (value * 5 % 20), 'part z', 'part ' || (value % 4)] AS parts FROM generate_series(1, 20)"
)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Open a database on the fake engine, which logs its prompts."""
    folder = tmp_path_factory.mktemp("prompts")
    opened = open_database(folder, {"log_path": str(folder / "log"), "cache_blocks": 100_000})
    opened.session().update(NOTES)
    with closing(opened):
        yield opened


def prompts(database: Database, sql: str, **settings: str) -> set[str]:
    """Return the prompts that a query sends."""
    log = Path(str(database._services.config.engine.options["log_path"]))
    log.write_text("", encoding="utf-8")
    written = sql.format_map({**CALLS, "all": ", ".join(CALLS.values())})
    ask(database.session(), written, cache="off", **settings)
    return {json.loads(line)["prompt"] for line in log.read_text(encoding="utf-8").splitlines()}


@pytest.fixture(scope="module")
def alone(database: Database) -> dict[str, set[str]]:
    """Return the prompts of all calls, each asked by itself, row by row: for each layout."""
    return {
        layout: set().union(
            *(prompts(database, f"SELECT {sql} FROM notes", optimizer="off", layout=layout) for sql in CALLS.values())
        )
        for layout in ("instruction", "fields")
    }


@pytest.mark.parametrize("shape", SHAPES)
def test_prompts_of_every_plan(database: Database, alone: dict[str, set[str]], shape: str) -> None:
    """Whatever stands beside a call, and however the query runs, its prompts are those of the call alone."""
    for settings in SETTINGS:
        sent = prompts(database, SHAPES[shape], **settings)
        assert sent
        assert not sent - alone["instruction"], settings
        if shape == "all":
            assert sent == alone["instruction"], settings


@pytest.mark.parametrize("shape", SHAPES)
def test_prompts_with_fields_first(database: Database, alone: dict[str, set[str]], shape: str) -> None:
    """The layout that the session chooses holds for each call, with the optimizer and without."""
    assert not alone["fields"] & alone["instruction"]
    for optimizer in ("on", "off"):
        sent = prompts(database, SHAPES[shape], optimizer=optimizer, layout="fields")
        assert sent
        assert sent <= alone["fields"]


@pytest.mark.slow
def test_prompts_of_rows_on_disk(tmp_path: Path) -> None:
    """Rows that have no room in memory have the same prompts as with room; the short field stays first."""
    made = []
    for memory in (1 << 30, 100 << 20):
        log = tmp_path / f"{memory}.log"
        limits = LimitsConfig(memory_bytes=memory, spill_folder=tmp_path)
        with closing(open_database(tmp_path / str(memory), {"log_path": str(log)}, limits=limits)) as database:
            database.session().update(
                "CREATE TABLE wide AS SELECT 'key ' || (value % 900) AS k, repeat('long ', 400) || (value % 7) AS body,"
                " value AS id FROM generate_series(1, 12000)"
            )
            ask(database.session(), "SELECT id, ai_gen('x', k, body) FROM wide")
        made.append(sorted(json.loads(line)["prompt"] for line in log.read_text(encoding="utf-8").splitlines()))
    assert made[0] == made[1]
    assert all(prompt.startswith("x\n\nk: key ") for prompt in made[0])


def test_kept_answers_are_of_the_same_prompt(tmp_path: Path) -> None:
    """Another order of the fields, or another layout, is another prompt: a kept answer to one is none to the other."""
    with closing(open_database(tmp_path)) as database:
        session = database.session()
        session.update("CREATE TABLE t AS SELECT 'one' AS a, 'two' AS b, ['y', 'x'] AS xs, ['x', 'y'] AS ys")
        calls = ("ai_gen('q', a, b)", "ai_gen('q', b, a)", "ai_gen('q', a)")
        for call, layout in product(calls, ("instruction", "fields")):
            sql = f"SELECT {call} FROM t"
            assert [ask(session, sql, layout=layout).calls for _ in range(2)] == [1, 0]
        asked = [ask(session, f"SELECT ai_gen('Name', words => {words}) FROM t").calls for words in ("xs", "ys")]
        assert asked == [1, 0]  # the elements of a list have no order


@needs("torch", "transformers", extra="local")
def test_answers_of_a_model(tmp_path: Path) -> None:
    """A model's answers and confidences are the same alone, beside other calls, again, and without the optimizer."""
    calls = {
        "f": "ai_filter('Is it a good review?', review_content, confidence => true)",
        "s": "ai_sentiment(review_content)",
        "c": "ai_classify(review_content, ['praise', 'blame'], confidence => true)",
    }
    rows = "(SELECT * FROM reviews WHERE review_content IS NOT NULL ORDER BY review_id LIMIT 6) r"
    beside = f"SELECT review_id, {', '.join(f'{sql} AS {name}' for name, sql in calls.items())} FROM {rows}"
    config = Config(engine=EngineConfig("local", "demo", 8, {"device": "cpu"}), tables=SAMPLES, data_folder=tmp_path)
    with closing(Database.open(config)) as database:
        session = database.session()
        for layout in ("instruction", "fields"):
            found = [
                ask(session, f"{beside} ORDER BY review_id", layout=layout, cache=cache, optimizer=optimizer).rows
                for cache, optimizer in (("off", "on"), ("off", "off"), ("on", "on"), ("on", "on"))
            ]
            for name, sql in calls.items():
                lone = f"SELECT review_id, {sql} AS {name} FROM {rows} ORDER BY review_id"
                expected = [row[name] for row in ask(session, lone, layout=layout, cache="off").rows]
                for answers in found:
                    assert _rounded([row[name] for row in answers]) == _rounded(expected)


def _rounded(answers: list[object]) -> list[object]:
    """Return answers with confidences of three digits: batches of other sizes add up in other orders."""
    return [
        (answer["answer"], round(answer["confidence"], 3)) if isinstance(answer, dict) else answer for answer in answers
    ]
