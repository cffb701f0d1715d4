"""The paper's queries: instructions of its length, all columns as fields, and bounds beside what is computed."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from bench import ablations, gpu, llm_queries
from bench.ablations import main as measure_ablations
from bench.llm_queries import STEPS, main
from bench.models import Folder, named_model
from bench.paper import QUESTION, TOKENS, Topic, of_fewer_subjects, topics
from tests.real_models import smollm2


@pytest.fixture(autouse=True)
def packaged(monkeypatch: pytest.MonkeyPatch) -> None:
    """The packaged tables, also where others are named."""
    monkeypatch.delenv("FLIGHTLLM_DATA", raising=False)


def printed(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    """Return the object on the last line."""
    found: dict[str, object] = json.loads(capsys.readouterr().out.splitlines()[-1])
    return found


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


def test_fewer_rows_have_fewer_subjects() -> None:
    """Rows of some subjects stay, all of them but the last ones, in their order."""
    table = pa.table({"subject": [f"s{row % 10}" for row in range(100)], "row": list(range(100))})
    found = of_fewer_subjects(table, "subject", 35)
    assert found.num_rows == 35
    assert len(set(found["subject"].to_pylist())) == 4
    assert found["row"].to_pylist() == sorted(found["row"].to_pylist())
    assert of_fewer_subjects(table, "subject", 200) is table


def test_steps_compute_no_less_than_their_bounds(capsys: pytest.CaptureFixture[str]) -> None:
    """Every step of every query stands beside its bounds; the ordered steps compute less than the original order."""
    main(["--suite", "paper", "--engine", "fake", "--rows", "20", "--json", "--topic", "movies"])
    figures = printed(capsys)
    assert isinstance(figures["queries"], dict)
    steps = figures["queries"]["movies"]
    assert list(steps) == [step.name for step in STEPS]
    for queries in steps.values():
        assert list(queries) == ["q1", "q2", "q3", "q4"]
        for one in queries.values():
            assert 0 < one["any_order_tokens"] <= one["least_tokens"] <= one["least_block_tokens"]
            assert one["least_block_tokens"] <= one["computed_tokens"] <= one["prompt_tokens"]
    assert isinstance(figures["whole"], dict)
    computed = [one["computed_tokens"] for one in figures["whole"].values()]
    assert computed[0] > computed[1] >= computed[2] > computed[3] >= computed[4]


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
