"""Prompts that SQL joins from texts and values: rows share the texts, and the values are those of SQL."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from flightllm.config import EngineConfig
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import SAMPLES, ask, ask_both, explained, open_database

ODD = r"""CREATE TABLE odd AS SELECT * FROM (VALUES
    (1, 'plain', 'a', 1, DATE '2024-01-02', true), (2, NULL, 'b', NULL, NULL, NULL), (3, '', '', 0, NULL, false),
    (4, '{b} {{c}} {0}', '`b`', -5, DATE '1999-12-31', true), (5, 'it''s "so" \n', E'two\nlines', 7, NULL, NULL),
    (6, E' tab\t and 漢字 ', 'Answer:', NULL, DATE '2024-01-02', true), (7, NULL, NULL, NULL, NULL, NULL))
    AS v(id, a, b, n, d, f)"""
LONG = "Explain in two sentences what the product is for, who buys it and why. Invent no figures. " * 3


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Return a database with odd texts and the sample products, whose engine logs and has a prefix cache."""
    options = {"log_path": str(tmp_path / "log"), "cache_blocks": 4_096}
    opened = open_database(tmp_path / "data", options, tables={"products": SAMPLES["products"]})
    opened.session().update(ODD)
    yield opened
    opened.close()


def sent(folder: Path) -> list[dict[str, str]]:
    """Return the fields of each prompt sent."""
    path = folder / "log"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [dict(json.loads(line)["fields"]) for line in lines]


@pytest.mark.parametrize(
    ("prompt", "template"),
    [
        ("'Say ' || a || ' of ' || b", "Say {a} of {b}"),
        ("concat('Say ', a, ' of ', b)", "Say {a} of {b}"),
        ("concat('Say ', upper(a), n, d, '.')", "Say {field1}{n}{d}."),
        ("'On ' || d || ' say ' || n || f", "On {d} say {n}{f}"),
        ("'Say ' || concat(b, n, 5) || a", "Say {b}{n}5{a}"),
        ("concat('{Say} ', a || b, CASE WHEN f THEN '{{' || a END)", "{{Say}} {field1}{field2}"),
        ("'Say ' || (SELECT max(b) FROM odd WHERE id < 3) || a", "Say {field1}{a}"),
        ("'Say ' || coalesce(a, b) || id::text || CAST(f AS VARCHAR)", "Say {field1}{field2}{field3}"),
    ],
)
@pytest.mark.parametrize("optimizer", ["on", "off"])
def test_values_are_those_of_sql(
    database: Database, tmp_path: Path, prompt: str, template: str, optimizer: str
) -> None:
    """The instruction with the values that the model was sent is what SQL joins, for each row; NULL is not asked."""
    session = database.session()
    wanted = [row["p"] for row in ask(session, f"SELECT id, {prompt} AS p FROM odd ORDER BY id").rows]
    found = ask(session, f"SELECT id, ai_gen({prompt}) AS g FROM odd ORDER BY id", optimizer=optimizer).rows
    assert [row["g"] is None for row in found] == [text is None for text in wanted]
    assert {template.format(**fields) for fields in sent(tmp_path)} == {*wanted} - {None}


def test_filters_and_scores(database: Database) -> None:
    """Rows are the same with the optimizer on and off, in WHERE, in aggregates, and where a part is itself a call."""
    session = database.session()
    on, _ = ask_both(
        session,
        "SELECT id, ai_score(concat('Rate ', a)) AS s, ai_gen('Reply to ' || ai_summarize(b)) AS r FROM odd"
        " WHERE ai_filter(PROMPT('Is {0} like {1}?', a, b)) OR n IS NULL",
    )
    assert {row["id"] for row in on.rows} >= {2, 6, 7}
    assert {row["id"]: row["r"] for row in on.rows}[7] is None
    assert {row["id"]: row["s"] for row in on.rows}[7] is not None


def test_as_the_template(database: Database) -> None:
    """Where SQL joins, the answers are those of the literal prompt that names the fields, and are shared with it."""
    session = database.session()
    named = ask(session, "SELECT id, ai_gen('Say {a} of {b}', a, b) AS g FROM odd ORDER BY id")
    joined = ask(session, "SELECT id, ai_gen('Say ' || a || ' of ' || b) AS g FROM odd ORDER BY id")
    numbered = ask(session, "SELECT id, ai_gen(PROMPT('Say {0} of {1}', a, b)) AS g FROM odd ORDER BY id")
    assert joined.rows == named.rows == numbered.rows
    assert named.calls > 0
    assert joined.calls == numbered.calls == 0


@pytest.mark.parametrize(
    "prompt", [f"concat('Of ', title, ': {LONG}')", f"title || ', by ' || brand || ', a ' || category || ': {LONG}'"]
)
def test_rows_share_the_texts(database: Database, prompt: str) -> None:
    """Each prompt but the first has the whole instruction from the prefix cache, wherever its values stand."""
    found = ask(database.session(), f"SELECT ai_gen({prompt}) FROM (SELECT * FROM products LIMIT 200)")
    assert found.calls == 200
    row = found.record.row()
    assert row["cached_tokens"] >= 199 * (len(LONG) // 4 - 16)
    assert row["cached_tokens"] > 0.75 * row["prompt_tokens"]


def test_equal_values_share_answers(database: Database) -> None:
    """Rows whose values are equal are asked about once."""
    found = ask(database.session(), "SELECT ai_gen(concat('Praise ', category, '.')) FROM products")
    assert found.calls == ask(database.session(), "SELECT DISTINCT category FROM products").table.num_rows


def test_explain(database: Database) -> None:
    """EXPLAIN shows the instruction with its fields, and for a literal prompt nothing but the call."""
    session = database.session()
    joined = explained(session, "SELECT ai_filter(concat('Is ', a, ' good?')) FROM odd")["ai operator s0"]
    assert "    prompt: Is `a` good? Answer Yes if this is so, otherwise No.\n" in joined
    assert "fields (a = c" in joined
    assert "prompt:" not in explained(session, "SELECT ai_filter('Is {a} good?', a) FROM odd")["ai operator s0"]
    long = explained(session, f"SELECT ai_gen('{LONG * 10}' || a) FROM odd")["ai operator s0"]
    assert long.count(LONG[:80]) < 50
    assert "…\n" in long


def test_bound_values_are_texts(database: Database, tmp_path: Path) -> None:
    """A value that is bound is told as it is, braces too; NULL has no answer in `||`, and is empty in concat."""
    session = database.session()
    for value, null in (("what {x} means", False), (None, True)):
        bound = pa.RecordBatch.from_pydict({"p": pa.array([value], pa.string())})
        (row,) = ask(session, "SELECT ai_gen('Explain ' || $1) AS g, ai_gen(concat('Say ', $1)) AS h", bound).rows
        assert (row["g"] is None, row["h"] is None) == (null, False)
    log = (tmp_path / "log").read_text(encoding="utf-8")
    assert '"prompt": "Explain what {x} means\\n\\nAnswer:"' in log


def test_prepared(database: Database) -> None:
    """A statement whose prompt joins a parameter can be described before its value is known."""
    session = database.session()
    for prompt in ("concat('Say ', $1, ' of ', a)", "'Say ' || $1 || ' of ' || a"):
        described = session.describe(f"SELECT ai_gen({prompt}) AS g FROM odd WHERE id = $2")
        assert described.schema == pa.schema([("g", pa.string())])
        assert described.parameters.types[0] == pa.string()


@pytest.mark.slow
def test_demonstration_model(database: Database) -> None:
    """The demonstration model answers a joined prompt as the literal one that names the field."""
    pytest.importorskip("torch", reason="the extra 'local' is not installed")
    engine = EngineConfig("local", "demo", 8, {"device": "cpu"})
    config = replace(database._services.config, engine=engine)
    database.close()
    with_model = Database.open(config)
    session: Session = with_model.session()
    calls = "'Is ' || title || ' a kitchen tool?'", "'Is {title} a kitchen tool?', title"
    first, second = (
        ask(session, f"SELECT ai_filter({call}) AS f FROM (SELECT * FROM products LIMIT 8)", cache="off").rows
        for call in calls
    )
    assert first == second
    assert {type(row["f"]) for row in first} == {bool}
    with_model.close()


@pytest.mark.parametrize("optimizer", ["on", "off"])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("ai_gen('Say it ' || 'again', b)", "ai_gen('Say it again', b)"),
        ("llm('Say it', b)", "ai_gen('Say it',b)"),
    ],
)
def test_one_question_written_in_two_ways(database: Database, first: str, second: str, optimizer: str) -> None:
    """Two columns that ask the same need no aliases: each is called what its text is."""
    found = ask(database.session(), f"SELECT id, {first}, {second} FROM odd WHERE id < 3", optimizer=optimizer).rows
    assert [list(row) for row in found] == [["id", first, second]] * 2
    assert all(row[first] == row[second] is not None for row in found)
