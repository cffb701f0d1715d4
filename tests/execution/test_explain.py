"""EXPLAIN of queries with AI calls: predictions that hold, what rules save, actual figures, text and JSON."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flightllm.config import Config, EngineConfig
from flightllm.config.session_settings import Settings
from flightllm.engines.observed import LearnedByUser
from flightllm.engines.registry import OpenModel
from flightllm.execution.accounting import prompt_tokens
from flightllm.execution.estimate import DryRun
from flightllm.execution.planning import plan
from flightllm.execution.staged_query import StagedQuery
from flightllm.session.database import Database
from flightllm.session.session import Session
from flightllm.sql.parsed_text import ParsedText
from tests.databases import SAMPLES, ask, explained, open_database, small_database

BOTH = "m.movie_info, r.review_content"
JOIN = "movies m JOIN (SELECT * FROM reviews LIMIT 500) r USING (movie_id)"
SHAPES = {
    "projection": f"SELECT ai_gen('Sum up.', {BOTH}, max_tokens => 8) FROM {JOIN}",
    "filter": f"SELECT genre FROM {JOIN} WHERE ai_filter('Is the review fair?', {BOTH}) AND NOT r.top_critic",
    "two filters": (
        f"SELECT ai_sentiment(r.review_content) FROM {JOIN}"
        f" WHERE ai_filter('For children?', m.movie_info) AND ai_filter('Is it fair?', {BOTH})"
    ),
    "aggregate": f"SELECT genre, avg(ai_score('How pleased?', {BOTH})) FROM {JOIN} GROUP BY genre",
}


@pytest.fixture(scope="module", params=[60, 20_000])
def samples(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Return a database of the sample tables whose engine has a small prefix cache, or a large one."""
    folder = tmp_path_factory.mktemp("samples")
    database = open_database(folder, {"cache_blocks": request.param}, window=1, tables=SAMPLES)
    yield database
    database.close()


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """Return a session over the small tables, whose answers nobody knows."""
    database = small_database(tmp_path, {"cache_blocks": 1_000})
    yield database.session()
    database.close()


def told(session: Session, sql: str, options: str = "FORMAT json", **settings: str) -> dict[str, Any]:
    """Return the one JSON document of EXPLAIN."""
    ran = ask(session, f"EXPLAIN ({options}) {sql}", **settings)
    assert ran.table.column_names == ["plan"]
    document: dict[str, Any] = json.loads(ran.rows[0]["plan"])
    return document


@pytest.mark.parametrize(
    "shape", [pytest.param(shape, marks=[pytest.mark.slow] * (shape == "two filters")) for shape in SHAPES]
)
@pytest.mark.parametrize("ordering", ["auto", "none"])
def test_predictions_hold(samples: Database, shape: str, ordering: str) -> None:
    """Tokens and calls are near, and prefix hits within 5 points, once answers like these were seen."""
    session = samples.session()
    options = {"cache": "off", "ordering": ordering}
    ask(session, SHAPES[shape], **options)
    samples.engine.inner._blocks.clear()  # type: ignore[attr-defined]
    total = told(session, SHAPES[shape], "ANALYZE, FORMAT json", **options)["total"]
    predicted, actual = total["predicted"], total["actual"]
    # Which films pass the first of two filters cannot be known, and one may have many reviews.
    near, points = (0.5, 0.12) if shape == "two filters" else (0.1, 0.05)
    assert predicted["calls"] == pytest.approx(actual["calls"], rel=near)
    assert predicted["prompt_tokens"] == pytest.approx(actual["prompt_tokens"], rel=near)
    assert predicted["completion_tokens"] == pytest.approx(actual["completion_tokens"], rel=near)
    assert predicted["prefix_hit_rate"] == pytest.approx(actual["prefix_hit_rate"], abs=points)


def test_document(session: Session) -> None:
    """The JSON document has its documented keys; without ANALYZE nothing actual."""
    sql = "SELECT id, ai_gen('x', note, name) AS g FROM people WHERE ai_filter('y', name)"
    document = told(session, sql)
    keys = {"path", "engine", "models", "caches", "rows", "operators", "parts", "total", "savings", "plan", "notes"}
    assert set(document) == keys
    assert (document["path"], document["engine"]) == ("operators", "fake (demo)")
    assert {operator["operator"] for operator in document["operators"]} == {"s0", "s1"}
    functions = {call["function"]: call for operator in document["operators"] for call in operator["calls"]}
    assert set(functions) == {"ai_filter", "ai_gen"}
    call = functions["ai_filter"]
    assert call["text"] == "ai_filter('y', name)"
    assert call["field_orders"] == [{"fields": ["name"], "prompts": 5}]
    assert (call["answers"], call["layout"], call["actual"]) == ("assumed", "instruction first", None)
    assert call["ordering"]
    predicted = call["predicted"]
    assert (predicted["rows"], predicted["distinct_prompts"], predicted["calls"]) == (9, 5, 5)
    assert (predicted["prefix_hit_rate"], predicted["price"]) == (0.0, None)
    assert predicted["seconds"] > 0
    assert document["total"]["actual"] is document["rows"]["actual"] is None
    assert document["notes"]
    assert ["rules", *[p["title"] for p in document["plan"][1:]]] == [p["title"] for p in document["plan"]]


def test_parts(session: Session) -> None:
    """The parts of a plan name their inputs, and the rows that they return are known."""
    sql = "SELECT ai_gen('x', note) AS g FROM people WHERE ai_filter('y', name) ORDER BY id LIMIT 2"
    document = told(session, sql, "ANALYZE, FORMAT json")
    parts = {part["name"]: part for part in document["parts"]}
    assert document["parts"][0]["name"] == "result"
    assert {name for part in parts.values() for name in part["inputs"]} == parts.keys() - {"result"}
    for operator in document["operators"]:
        part = parts[operator["operator"]]
        assert (part["kind"], part["inputs"]) == ("ai operator", [f"below {part['name']}"])
    assert parts["result"]["rows"]["actual"] == document["rows"]["actual"] == 2
    (first,) = [part for part in parts.values() if "TableScan people" in part["operators"]]
    assert (first["rows"]["predicted"], first["rows"]["actual"]) == (9, 9)
    assert {f"{part['kind']} {part['name']}" for part in parts.values()} < {p["title"] for p in document["plan"]}


def test_parts_without_operators(session: Session) -> None:
    """The parts of other queries are DataFusion's relational operators; calls in batch functions are in one part."""
    parts = told(session, "SELECT name FROM people ORDER BY id LIMIT 2")["parts"]
    assert [part["name"] for part in parts] == [str(n + 1) for n in range(len(parts))]
    assert [part["inputs"] for part in parts] == [*([part["name"]] for part in parts[1:]), []]
    assert parts[-1]["kind"] == "TableScan people"
    (part,) = told(session, "SELECT ai_gen('x', name) FROM people", optimizer="off")["parts"]
    assert (part["kind"], part["name"], part["rows"]["actual"]) == ("batch functions", "", None)


def test_analyze(session: Session) -> None:
    """ANALYZE puts the actual figures beside the predicted ones; what is known then needs no calls."""
    sql = "SELECT ai_gen('x', note) FROM people"
    document = told(session, sql, "ANALYZE, FORMAT json")
    [call] = document["operators"][0]["calls"]
    for figures in (call["predicted"], call["actual"]):
        assert (figures["rows"], figures["calls"], figures["cache_hits"]) == (9, 4, 0)
    assert document["rows"] == {"predicted": 9, "actual": 9}
    assert document["total"]["actual"]["seconds"] > 0
    known = told(session, sql)["operators"][0]["calls"][0]["predicted"]
    assert (known["calls"], known["cache_hits"], known["seconds"]) == (0, 4, 0.0)
    assert told(session, sql, cache="off")["total"]["predicted"]["calls"] == 4


def test_text(session: Session) -> None:
    """As text, figures stand in aligned columns under titles; numbers end at the same place."""
    lines = explained(session, "SELECT ai_gen('x', note) FROM people")
    assert list(lines)[-4:] == ["calls of s0", "total", "saved", "notes"]
    *_, header, row = lines["calls of s0"].splitlines()
    assert header.split() == [
        "rows",
        "prompts",
        "known",
        "calls",
        "tokens",
        "in",
        "prefix",
        "hits",
        *header.split()[8:],
    ]
    assert len(header) == len(row)
    assert row.split()[:5] == ["predicted", "9", "4", "0", "4"]
    assert "price" not in header
    assert "fields in order: note (100.0 %)" in lines["calls of s0"]
    assert "; each begins with the instruction\n" in lines["calls of s0"]


@pytest.mark.parametrize("ordering", ["auto", "none", "fixed", "greedy"])
@pytest.mark.parametrize("layout", ["instruction", "fields"])
def test_text_of_each_way_of_prompts(session: Session, ordering: str, layout: str) -> None:
    """EXPLAIN has words for each order and beginning of prompts that an operator can choose."""
    found = ask(session, "EXPLAIN SELECT ai_gen('x', note) FROM people", ordering=ordering, layout=layout).rows
    lines = {line["plan_type"]: line["plan"] for line in found}
    [said] = (line for line in lines["calls of s0"].splitlines() if line.startswith("prompts: "))
    assert said.endswith("each begins with the " + layout)


def test_savings(session: Session) -> None:
    """What a rule saved is what the query would take without it, and dedup the same."""
    document = told(session, "SELECT ai_gen('x', note) FROM people WHERE id > 1 LIMIT 2", ordering="none")
    saved = {saving["name"]: saving["saved"] for saving in document["savings"]}
    assert document["total"]["predicted"]["calls"] <= 2
    assert list(saved) == [
        *explained(session, "SELECT ai_gen('x', note) FROM people LIMIT 2")["rules"].split(", "),
        "dedup",
    ]
    repeated = told(session, "SELECT ai_gen('x', note) FROM people")["savings"]
    assert {s["name"]: s["saved"]["calls"] for s in repeated}["dedup"] == 3


def test_a_prediction_without_savings(session: Session) -> None:
    """`SAVINGS off` leaves out the predictions without each rule, and changes nothing else."""
    sql = "SELECT ai_gen('x', note) FROM people WHERE id > 1"
    document = told(session, sql, "FORMAT json, SAVINGS off")
    assert document["savings"] == []
    assert document["total"] == told(session, sql)["total"]


def test_savings_of_fuse(session: Session) -> None:
    """What one operator of several filters saves is listed like the savings of a rule."""
    sql = "SELECT id FROM people WHERE ai_filter('x', note) AND ai_filter('y', name)"
    savings = {s["name"]: s["saved"] for s in told(session, sql)["savings"]}
    assert savings["fuse"] is not None
    assert "fuse" not in {s["name"] for s in told(session, sql, rules="off")["savings"]}


@pytest.mark.slow
def test_savings_of_many_calls(session: Session) -> None:
    """Where the plan without a rule is too deep to run, EXPLAIN says that this rule was not tried."""
    calls = ", ".join(f"ai_gen('{n}', note)" for n in range(150))
    savings = told(session, f"SELECT {calls} FROM people")["savings"]
    assert {s["name"]: s["saved"] for s in savings}["merge_operators"] is None


def test_savings_of_ordering(samples: Database) -> None:
    """What ordering saves are computed tokens, not calls."""
    savings = told(samples.session(), SHAPES["projection"])["savings"]
    ordering = next(s["saved"] for s in savings if s["name"] == "ordering")
    assert ordering["calls"] == ordering["prompt_tokens"] == 0
    assert ordering["computed_tokens"] >= 0


def test_prices(tmp_path: Path) -> None:
    """Where prices are configured, each call and the total have theirs; texts have half of their limit."""
    engine = EngineConfig("fake", price_input=1_000.0, price_output=2_000.0)
    database = Database.open(Config(engine=engine, data_folder=tmp_path))
    sql = "SELECT ai_gen('x', note, max_tokens => 5) FROM (VALUES ('a'), ('b')) AS t(note)"
    total = told(database.session(), sql)["total"]["predicted"]
    assert total["price"] == pytest.approx((total["prompt_tokens"] * 1_000 + 4 * 2_000) / 1e6)
    assert "price" in explained(database.session(), sql)["total"]
    database.close()


@pytest.mark.parametrize(
    ("sql", "path", "calls"),
    [
        ("SELECT unnest(ai_classify(note, ['a', 'b'], multi => true)) FROM people", "batch functions", 4),
        ("SELECT id FROM people", "plain", 0),
    ],
)
def test_other_paths(session: Session, sql: str, path: str, calls: int) -> None:
    """Queries without operators are explained in the same shape."""
    document = told(session, sql, "ANALYZE, FORMAT json")
    assert document["path"] == path
    assert document["total"]["actual"]["calls"] == calls
    assert (document["total"]["predicted"] or {"calls": 0})["calls"] == calls
    assert document["rows"]["actual"] == sum(1 for _ in ask(session, sql).rows)


def test_without_optimizer(session: Session) -> None:
    """With the optimizer off, one call per row is predicted, of known prompts too."""
    sql = "SELECT ai_gen('x', note) FROM people"
    ask(session, sql)
    assert told(session, sql, optimizer="off")["total"]["predicted"]["calls"] == 7


def test_explain_leaves_no_trace(session: Session) -> None:
    """EXPLAIN asks nothing, keeps nothing and learns nothing; its record has no calls."""
    database = Database(session._services, session._queries)
    ran = ask(session, "EXPLAIN SELECT ai_gen('untraced', note) FROM people")
    assert database.engine.inner.sent == 0  # type: ignore[attr-defined]
    assert ran.record.call_rows() == []
    stats = session._services.cache.stats()
    assert (stats.entries, stats.hits, stats.misses) == (0, 0, 0)
    assert not session._services.engines.own.learned.of("local")._sites


def test_bounded(session: Session) -> None:
    """Beyond a number of prompts, figures are extrapolated from those tried, and a note says so."""
    session.update("CREATE TABLE many AS SELECT 'text ' || value AS t FROM generate_series(1, 2000) AS g(value)")
    services = session._services
    query = plan(ParsedText("SELECT ai_gen('x', t, max_tokens => 8) FROM many"), services, Settings())
    assert isinstance(query, StagedQuery)
    config = replace(services.engines.own.config, max_in_flight=8)
    models: dict[str | None, OpenModel] = {None: replace(services.engines.own, config=config, learned=LearnedByUser())}
    dry = DryRun(query.calls, models, None, prompt_tokens(models), {}, "local")
    whole = dry.figures(lambda record, bindings: query.run_on(bindings, record), lambda: False)
    sample = replace(dry, most_prompts=500)
    concluded = sample.figures(lambda record, bindings: query.run_on(bindings, record), lambda: False)
    assert whole.work.calls == 2_000
    assert concluded.work.calls == pytest.approx(2_000, rel=0.05)
    assert concluded.work.prompt_tokens == pytest.approx(whole.work.prompt_tokens, rel=0.1)
    assert any("extrapolated from the first" in note for note in concluded.notes)


def test_failing_query(session: Session) -> None:
    """Of a query that fails while it runs the plan is shown, and why there is no prediction."""
    sql = "SELECT ai_gen('x', note) FROM people WHERE 1 / (id - id) > 0"
    document = told(session, sql)
    assert document["plan"]
    assert document["total"] == {"predicted": None, "actual": None}
    assert any("there is no prediction" in note for note in document["notes"])
    assert "there is no prediction" in explained(session, sql)["notes"]


def test_limit(session: Session) -> None:
    """Under a LIMIT only the calls are predicted that are made before it is reached."""
    session.update("CREATE TABLE many AS SELECT 'text ' || value AS t FROM generate_series(1, 2000) AS g(value)")
    total = told(session, "SELECT t FROM many WHERE ai_filter('x', t) LIMIT 5", "ANALYZE, FORMAT json")["total"]
    assert total["predicted"]["calls"] < 100
    assert total["actual"]["calls"] < 100


@pytest.mark.slow
def test_first_texts_are_as_long_as_usual(session: Session) -> None:
    """Before any answer, texts are as long as the function's kind and the data say; at most half of max_tokens."""
    session.update("CREATE TABLE texts AS SELECT repeat('word ', CAST(value AS INT)) AS t FROM generate_series(10, 12)")
    tokens = {
        call: told(session, f"SELECT {call} FROM texts")["total"]["predicted"]["completion_tokens"]
        for call in (
            "ai_translate(t, 'German')",
            "ai_fix_grammar(t)",
            "ai_summarize(t)",
            "ai_summarize(t, max_words => 5)",
            "ai_gen('x', t)",
            "ai_gen('x', t, max_tokens => 5)",
        )
    }
    assert list(tokens.values()) == [55, 45, 45, 15, 60, 6]
