"""Lists as arguments of AI calls: each element is a field of its own, in any order unless they are ordered."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from datafusion import DataFrame

from flightllm.errors import AICallError
from flightllm.execution.bind import extract
from flightllm.plan.planner import _given
from flightllm.session.database import Database
from flightllm.sql.parsed_text import ParsedText
from tests.databases import ask, ask_both, open_database

NOTES = """CREATE TABLE notes AS SELECT * FROM (VALUES
    (1, 'who?', ['x', 'y']), (2, 'who?', ['y', 'x']), (3, 'what?', ['y']), (4, 'what?', NULL), (5, 'what?', []),
    (6, 'when?', ['z', NULL, 'x', 'y'])) AS v(id, question, parts)"""


ROW = "(ai_gen('Say', ['a', 'b']))"
"""A row of VALUES whose call gets a list."""


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Return a database with lists, whose engine logs its prompts and has a prefix cache."""
    opened = open_database(tmp_path, {"log_path": str(tmp_path / "log"), "cache_blocks": 1000})
    opened.session().update(NOTES)
    yield opened
    opened.close()


def prompts(folder: Path) -> list[str]:
    """Return the prompts sent, in their order."""
    lines = (folder / "log").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["prompt"] for line in lines]


def test_elements_are_fields(database: Database, tmp_path: Path) -> None:
    """They have the order of their texts; NULL ones are left out; a NULL list has no answer; an empty one is empty."""
    sql = "SELECT id, ai_gen('Say', question, parts) AS said FROM notes"
    found = ask(database.session(), sql).rows
    assert [row["said"] is None for row in found] == [False, False, False, True, False, False]
    assert "Say\n\nquestion: when?\nparts: x\nparts: y\nparts: z\nAnswer:" in prompts(tmp_path)
    assert "Say\n\nquestion: what?\nparts: \nAnswer:" in prompts(tmp_path)


def test_order_means_nothing(database: Database) -> None:
    """Lists of the same elements share an answer; without the optimizer they have the same one."""
    on, off = ask_both(database.session(), "SELECT id, ai_gen('Say', question, parts) AS said FROM notes")
    assert (on.calls, off.calls) == (4, 5)
    said = {row["id"]: row["said"] for row in on.rows}
    assert said[1] == said[2]


def test_ordered(database: Database, tmp_path: Path) -> None:
    """The elements of an ordered list stay as they are, one line each."""
    on, _ = ask_both(database.session(), "SELECT id, ai_gen('Say', question, parts, ordered => true) AS s FROM notes")
    assert on.calls == 5
    assert "Say\n\nquestion: who?\nparts: y\n  x\nAnswer:" in prompts(tmp_path)


def test_common_elements_come_first(database: Database, tmp_path: Path) -> None:
    """What lists have in common is what their prompts begin with."""
    session = database.session()
    session.update(
        "CREATE TABLE pages AS SELECT 'question ' || value AS q, ['page ' || (value % 4), 'page 9'] AS pages"
        " FROM generate_series(1, 12)"
    )
    ask(session, "SELECT ai_gen('Say', q, pages) FROM pages", ordering="greedy")
    bodies = [prompt.split("\n\n")[1] for prompt in prompts(tmp_path)]
    assert len(bodies) == 12
    assert all(body.startswith("pages: page 9\npages: page ") for body in bodies)
    groups = [body.split("\n")[1] for body in bodies]
    assert groups == sorted(groups, key=groups.index)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT question, ai_gen('Say', question, array_agg(parts[1])) FROM notes GROUP BY question",
        "SELECT id FROM notes WHERE ai_filter('ok', question, parts) ORDER BY ai_gen('Say', parts), id",
        "SELECT ai_gen('p', parts) FROM notes GROUP BY ai_gen('p', parts)",
        "SELECT ai_gen('Say', id, arrow_cast(parts, 'LargeList(Utf8)')) FROM notes",
        "SELECT ai_gen('Say', question, [id, id + 1]) FROM notes",
        "WITH n AS (SELECT * FROM notes) SELECT ai_gen('Say', n.*) FROM n WHERE id < 4",
        "SELECT a.id FROM notes a JOIN notes b ON ai_filter('same', a.parts, b.parts) AND a.id < b.id",
        "SELECT ai_gen('Say', question), ai_gen('Tell', question), ai_gen('List', parts) FROM notes",
        "SELECT ai_gen('Say', question), ai_gen('p', array_agg(parts[1])) FROM notes GROUP BY question",
        f"SELECT ai_gen('Say', q) FROM (VALUES {', '.join(7 * [ROW])}) v(q)",
    ],
)
def test_lists_anywhere(database: Database, tmp_path: Path, sql: str) -> None:
    """A list is one wherever it stands; no prompt has brackets or separators in it."""
    ask_both(database.session(), sql)
    assert not any(character in prompt for prompt in prompts(tmp_path) for character in "[]\x1e")


@pytest.mark.parametrize(
    ("sql", "kept"),
    [
        ("SELECT ai_gen('Say', question), ai_filter('ok', upper(question)), ai_gen('p', 'x') FROM notes", True),
        ("SELECT ai_gen('Say', question), ai_gen('Say', id) FROM notes", True),
        ("SELECT ai_gen('Say', question) FROM notes", True),
        ("SELECT ai_gen('Say', parts) FROM notes", False),
        ("SELECT ai_gen('Say', question), ai_gen('Say', parts) FROM notes", False),
        ("SELECT ai_gen('Say', nix) FROM notes", False),
    ],
)
def test_the_plan_that_tells_types_is_kept(database: Database, sql: str, kept: bool) -> None:
    """A query without lists is planned once: the plan that finds no list is the query's own."""
    assert (extract(ParsedText(sql), database._services)[1] is not None) == kept


def test_lists_of_structs(database: Database) -> None:
    """The error says what to pass instead."""
    with pytest.raises(AICallError, match="parts is a list of structs; pass a list of texts"):
        ask(database.session(), "SELECT ai_gen('Say', parts => [struct(id)]) FROM notes")


@pytest.mark.parametrize(
    "value",
    [
        "ai_classify(min(n.question), ['a', 'b'])",
        "ai_classify(n.question, ['a', 'b'])",
        "max(ai_classify(n.question, ['a', 'b']))",
    ],
)
def test_a_call_in_a_correlated_subquery(database: Database, value: str) -> None:
    """DataFusion would evaluate the call while it plans: the query of all rows makes one call for each text."""
    found = ask(database.session(), f"SELECT m.id, (SELECT {value} FROM notes n WHERE n.id = m.id) AS x FROM notes m")
    assert {row["x"] for row in found.rows} <= {"a", "b"}
    assert (len(found.rows), found.calls) == (6, 3)


def test_errors_of_others_are_searched_once() -> None:
    """A text of the client's in an error that is not about types looks like thousands of them."""

    def plan() -> DataFrame:
        raise ValueError("a call to 'f' function: coercion from " * 50_000)

    assert _given(plan) is None
