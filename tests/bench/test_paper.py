"""The paper's queries: instructions of its length, all columns as fields, and bounds beside what is computed."""

import json
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from functools import partial
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

from bench import ablations, gpu, llm_queries
from bench.ablations import main as measure_ablations
from bench.cold import cold_runs, merged
from bench.engines import BLOCK_TOKENS, engine_config, small_cache
from bench.llm_queries import STEPS, main
from bench.models import SHAPES, Folder, named_model
from bench.paper import EACH, QUESTION, TOKENS, Topic, of_fewer_subjects, topics
from bench.samples import write
from docs.answers import forecasts, prompt_order
from flightllm.config import EngineConfig
from tests.real_models import smollm2


@pytest.fixture(autouse=True)
def packaged(monkeypatch: pytest.MonkeyPatch) -> None:
    """The packaged tables, also where others are named."""
    monkeypatch.delenv("FLIGHTLLM_DATA", raising=False)


def printed(*arguments: str) -> dict[str, Any]:
    """Return the object on the last line of the benchmark's output."""
    with redirect_stdout(StringIO()) as out:
        main(["--suite", "paper", "--engine", "fake", "--json", *arguments])
    found: dict[str, Any] = json.loads(out.getvalue().splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def figures() -> dict[str, Any]:
    """Return the figures of a filter over the packaged tables at the default number of rows."""
    with pytest.MonkeyPatch.context() as environment:
        environment.delenv("FLIGHTLLM_DATA", raising=False)
        return printed("--queries", "q2")


def every_topic(monkeypatch: pytest.MonkeyPatch) -> list[Topic]:
    """Return all topics, whether their tables are here or not."""
    monkeypatch.setenv("FLIGHTLLM_DATA", "elsewhere")
    return list(topics().values())


def test_instructions_are_as_long_as_the_papers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each instruction has 112 to 172 tokens of four characters."""
    words = [words for topic in every_topic(monkeypatch) for words in topic.instructions.values()]
    assert QUESTION in words
    assert [one for one in words if not TOKENS[0] <= len(one) / 4 <= TOKENS[1]] == []


@pytest.mark.slow
def test_instructions_are_as_long_in_a_real_tokenizer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each instruction has 112 to 172 tokens of SmolLM2."""
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("gguf")
    file = smollm2()
    tokenizer = transformers.AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    words = [words for topic in every_topic(monkeypatch) for words in topic.instructions.values()]
    assert [one for one in words if not TOKENS[0] <= len(tokenizer.tokenize(one)) <= TOKENS[1]] == []


def test_topics_without_tables_are_left_out() -> None:
    """The packaged tables make two topics; the named folder has four."""
    assert list(topics()) == ["movies", "products"]


def test_packaged_tables_have_the_columns() -> None:
    """Joined reviews have all columns as texts, and as many rows as asked for."""
    for name, topic in topics().items():
        table = topic.tables(50)[name]
        assert (table.num_rows, table.schema.names) == (50, list(topic.columns))
        assert {str(field.type) for field in table.schema} == {"string"}


@pytest.mark.parametrize(("rows", "each"), [(10, EACH[0]), (31, 2 * EACH[0]), (60, 7)])
def test_fewer_rows_have_fewer_subjects(rows: int, each: int) -> None:
    """Some subjects stay, each with a few rows, or with more where a few do not give all rows."""
    table = pa.table({"subject": [f"s{row % 10}" for row in range(100)], "row": list(range(100))})
    found = of_fewer_subjects(table, "subject", rows)
    subjects = found["subject"].to_pylist()
    assert len(set(found["row"].to_pylist())) == len(subjects) == rows
    assert {subjects.count(one) for one in set(subjects)} <= {each, rows % each}
    assert len(set(subjects)) == -(-rows // each)
    assert of_fewer_subjects(table, "subject", 200) is table


def test_steps_compute_no_less_than_their_bounds(figures: dict[str, Any]) -> None:
    """Every step of every query stands beside its bounds; ordered rows compute less than the original order.

    With the fields first, the calls of this suite share less: all rows of a call share its long instruction.
    """
    for steps in figures["queries"].values():
        assert list(steps) == [step.name for step in STEPS]
        for queries in steps.values():
            one = queries["q2"]
            assert 0 < one["any_order_tokens"] <= one["least_tokens"] <= one["least_block_tokens"]
            assert one["least_block_tokens"] <= one["computed_tokens"] <= one["prompt_tokens"]
    computed = [one["computed_tokens"] for one in figures["whole"].values()]
    assert computed[0] > computed[1] >= computed[2] > max(computed[3:-1])


def test_the_original_order_loses_prefixes(figures: dict[str, Any]) -> None:
    """At the default of rows the cache is too small for prompts in random order; for ordered ones it is enough."""
    assert list(figures["queries"]) == ["movies", "products"]
    for topic, steps in figures["totals"].items():
        _, original, _, fixed, *_ = steps.values()
        assert original["computed_tokens"] > 1.2 * original["least_block_tokens"]
        assert fixed["computed_tokens"] < 1.1 * fixed["least_block_tokens"]
        assert figures["caches"][topic]["cache_tokens"] < original["least_tokens"] / 2


def test_pages_can_show_the_figures(figures: dict[str, Any]) -> None:
    """The pages on prompt order and on forecasts have a row for each step or query, and say what was evicted."""
    part = prompt_order(figures)
    assert all(f"| {step.name} | " in part.table for step in STEPS)
    assert "% of these were computed again" in part.table
    assert "| movies q2 | " in forecasts(figures).table


@pytest.mark.slow
def test_rounds_give_medians() -> None:
    """Every round measures every query and step; the least and the most stand beside the median."""
    found = printed("--rounds", "3", "--rows", "4", "--topic", "movies", "--queries", "q2", "--cache-blocks", "70")
    assert (found["rounds"], found["caches"]["movies"]["cache_blocks"]) == (3, 70)
    assert list(found["whole"]) == [step.name for step in STEPS]
    for one in found["whole"].values():
        assert one["least_seconds"] <= one["seconds"] <= one["most_seconds"]


def test_counts_of_rounds_belong_together() -> None:
    """Counts come from one round, so that the computed tokens are those of its prompts."""
    rounds = [
        {"seconds": seconds, "cpu_seconds": 2 * seconds, "computed_tokens": computed, "cached_tokens": 100 - computed}
        for seconds, computed in ((3.0, 50), (1.0, 70), (2.0, 60))
    ]
    assert merged(rounds) == {
        "seconds": 2.0, "least_seconds": 1.0, "most_seconds": 3.0,
        "cpu_seconds": 4.0, "least_cpu_seconds": 2.0, "most_cpu_seconds": 6.0,
        "computed_tokens": 60, "cached_tokens": 40,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("prompts", "in_flight", "tokens"),
    [
        ([list(range(start, start + 100)) for start in range(0, 100_000, 1_000)], 2, 10_000 / 16),
        ([list(range(start, start + 100)) for start in range(0, 10_000, 1_000)], 8, 8 * (100 + 32)),
        ([[1], [2], list(range(900))], 1, 900 + 32),
    ],
    ids=["a share of all", "prompts in flight", "the longest prompt"],
)
def test_a_small_cache_holds_what_runs(prompts: Sequence[Sequence[int]], in_flight: int, tokens: float) -> None:
    """The cache is a small share of what a query needs, but it has room for the prompts that run at once."""
    blocks = small_cache([prompts], in_flight)
    assert blocks == 1 + -(-tokens // BLOCK_TOKENS)


def test_no_run_changes_the_next_one(tmp_path: Path) -> None:
    """A query computes as much the second time, and EXPLAIN predicts the same."""
    topic = topics()["movies"]
    files = write(topic.tables(6), tmp_path)
    engine = partial(engine_config, "fake", SHAPES["demo"], 60)
    with cold_runs(engine, files, prefix_cache=True) as run:
        first, second = (run(topic.queries["q2"], STEPS[1]) for _ in range(2))
    same = ("rows", "calls", "prompt_tokens", "computed_tokens", "predicted_hit_rate")
    assert [first[name] for name in same] == [second[name] for name in same]
    assert 0 < first["computed_tokens"] < first["prompt_tokens"]


@pytest.mark.slow
def test_savings_depend_on_what_they_must(capsys: pytest.CaptureFixture[str]) -> None:
    """The greedy order does not depend on the columns' order; our rules and deduplication save calls."""
    cases = ["--orders", "1", "--shares", "0.25,1", "--times", "1,5"]
    measure_ablations(["--engine", "fake", "--rows", "20", "--json", *cases])
    *told, last = capsys.readouterr().out.splitlines()
    figures = json.loads(last)
    columns, place, repeats = (figures["measurements"][name] for name in ("columns", "place", "repeats"))
    greedy, original = (
        {of[f"{order} order"]["computed_tokens"] for of in columns.values()} for order in ("greedy", "original")
    )
    assert len(original) == 2
    assert max(greedy) <= min(original)
    assert max(greedy) <= 1.02 * min(greedy)
    for share in ("0.25", "1.00"):
        assert place[share]["rules off"]["calls"] == 20
        assert place[share]["rules on"]["calls"] == 20 * float(share)
    for times in ("1", "5"):
        calls = {variant: one["calls"] for variant, one in repeats[times].items()}
        assert calls["original order, deduplication off"] == 20
        assert calls["greedy order, deduplication on"] == 20 // int(times)
    heads = [line for line in told if line.startswith("| case")]
    assert len(heads) == 3
    assert not any(head.endswith("s |") for head in heads), "the seconds of the engine `fake` mean nothing"


def test_tables_that_differ_in_size_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """The error names the repetitions that do not divide the rows; without that measurement they do not matter."""
    with pytest.raises(SystemExit):
        measure_ablations(["--engine", "fake", "--rows", "12", "--times", "1,5,7"])
    assert "--times: 5, 7 does not divide the 12 rows" in capsys.readouterr().err
    few = ["--only", "columns", "--orders", "0"]
    measure_ablations(["--engine", "fake", "--rows", "12", "--times", "1,5", *few])
    assert "columns, 12 rows" in capsys.readouterr().out


def test_failed_rows_give_no_figures(tmp_path: Path) -> None:
    """A failed row saves tokens, so the step ends with an error that names it."""
    topic = topics()["movies"]
    files = write(topic.tables(4), tmp_path)
    options = {"fail_containing": topic.instructions["q1"], "cache_blocks": 120}
    with (
        cold_runs(lambda **_: EngineConfig("fake", options=options), files, prefix_cache=True) as run,
        pytest.raises(RuntimeError, match=r"step 'prefix cache, original order': 4 rows failed"),
    ):
        run(topic.queries["q1"], STEPS[1])


def fail_at(text: str, script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the engine `fake` of a benchmark fail the prompts that contain a text."""

    def failing(*given: Any, **named: Any) -> EngineConfig:
        config = engine_config(*given, **named)
        return replace(config, options={**config.options, "fail_containing": text})

    monkeypatch.setattr(script, "engine_config", failing)


def test_a_failed_row_keeps_the_queries_before_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The JSON has the figures of the queries that ended and the failed step; the exit code tells the failure."""
    fail_at(topics()["movies"].instructions["q2"], llm_queries, monkeypatch)
    few = ["--engine", "fake", "--suite", "paper", "--topic", "movies", "--rows", "4", "--json"]
    with pytest.raises(SystemExit, match=r"movies, step 'no prefix cache': 4 rows failed"):
        main([*few, "--queries", "q1,q2"])
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert figures["queries"]["movies"].keys() == {"no prefix cache"}
    assert figures["queries"]["movies"]["no prefix cache"].keys() == {"q1"}
    assert figures["failed"].keys() == {"movies, no prefix cache"}
    assert "totals" not in figures


def test_a_failed_row_keeps_the_cases_before_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The JSON has the cases that ended: here the table that repeats only the first row, and not that of all rows."""
    topic = topics()["movies"]
    first, *_, last = topic.tables(4)["movies"].to_pylist()
    known = f"{first} {topic.instructions['q2']}"
    fail_at(next(word for word in last["reviewcontent"].split() if word not in known), ablations, monkeypatch)
    few = ["--engine", "fake", "--rows", "4", "--only", "repeats", "--times", "4,1", "--json"]
    with pytest.raises(SystemExit, match=r"repeats, step 'original order': \d rows failed"):
        measure_ablations(few)
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert {case: len(of) for case, of in figures["measurements"]["repeats"].items()} == {"4": 4}
    assert figures["failed"].keys() == {"repeats, original order"}


def test_blocks_are_the_same_without_a_prefix_cache(tmp_path: Path) -> None:
    """The bound in blocks of equal prompts does not depend on whether the prefix cache is on."""
    topic = topics()["movies"]
    files = write(topic.tables(6), tmp_path)
    engine = partial(engine_config, "fake", SHAPES["demo"], 60)
    bounds = []
    for step in STEPS[:2]:
        with cold_runs(engine, files, prefix_cache=step.prefix_cache) as run:
            figures = run(topic.queries["q2"], step)
            bounds.append((figures["least_tokens"], figures["least_block_tokens"]))
    assert bounds[0] == bounds[1]
    assert bounds[0][0] < bounds[0][1]


def test_seconds_of_a_model_are_shown() -> None:
    """A measurement's table has the seconds where they mean something."""
    one = {"calls": 4, "computed_tokens": 1_000, "seconds": 2.5}
    found = {"0.50": {"rules off": one, "rules on": one}}
    assert "| 0.50 | 4, 1,000, 2.5 | 4, 1,000, 2.5 |" in ablations.shown(found, seconds=True)
    assert "| 0.50 | 4, 1,000 | 4, 1,000 |" in ablations.shown(found, seconds=False)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--suite", "paper", "--topic", "beer"], "no table here for beer; choose from movies, products"),
        (["--rounds", "0"], "--rounds: expected a whole number of 1 or more"),
        (["--suite", "paper", "--queries", "q9"], "no topic has a query of q9"),
        (["--model", "nowhere"], "--model: expected one of demo, bench, bench-decaying, 7b, or a folder"),
    ],
)
def test_wrong_names_are_refused(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The error names what there is."""
    with pytest.raises(SystemExit):
        main(["--engine", "fake", *arguments])
    assert told in capsys.readouterr().err


def test_without_a_gpu_nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The script says what is missing, and its exit code is not 0."""
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match="no GPU"):
        gpu.main([])


def test_a_gpu_runs_the_same_benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both scripts get the model, the rows and the cache; only their engine is chosen here."""
    given: dict[str, list[str]] = {}
    monkeypatch.setattr(gpu, "missing", lambda: "")
    for script in (llm_queries, ablations):
        name = script.__name__
        monkeypatch.setattr(script, "main", lambda arguments, name=name: given.update({name: arguments}))
    gpu.main(["--rows", "10"])
    chosen = ["--engine", "vllm", "--json", "--model", "7b", "--rows", "10"]
    chosen += ["--cache-blocks", "1875", "--in-flight", "128"]
    assert given == {"bench.llm_queries": ["--suite", "paper", *chosen], "bench.ablations": chosen}


def test_a_folder_has_the_size_of_its_cache(tmp_path: Path) -> None:
    """Keys and values of a token take two bytes for each number of each layer."""
    config = {
        "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3, "hidden_size": 576,
        "max_position_embeddings": 2048,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    found = named_model(str(tmp_path))
    assert isinstance(found, Folder)
    assert (found.kv_bytes(1), found.context) == (2 * 2 * 30 * 3 * 64, 2048)
