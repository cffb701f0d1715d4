"""Wrong arguments of benchmarks end with an error that says what to write."""

from collections.abc import Callable
from pathlib import Path

import pytest

from bench import ablations, llm_queries, ordering, rag

Main = Callable[[list[str]], None]


def refused(capsys: pytest.CaptureFixture[str], main: Main, *arguments: str) -> str:
    """Return the error of a command line that a benchmark refuses."""
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    assert ended.value.code == 2
    return capsys.readouterr().err


MAINS = {"llm_queries": llm_queries.main, "ablations": ablations.main, "rag": rag.main, "ordering": ordering.main}


@pytest.mark.parametrize("number", ["0", "-3", "x"])
@pytest.mark.parametrize(
    "counts",
    [
        "llm_queries --rows --rounds --in-flight --cache-blocks",
        "ablations --rows --times",
        "rag --questions --top-k",
        "ordering --generate --blocks",
    ],
)
def test_counts_are_at_least_one(capsys: pytest.CaptureFixture[str], counts: str, number: str) -> None:
    """A count below 1, or a text, is refused."""
    script, *names = counts.split()
    for name in names:
        said = refused(capsys, MAINS[script], f"{name}={number}")
        assert f"{name}: expected a whole number of 1 or more, got {number!r}" in said


@pytest.mark.parametrize("share", ["2", "0", "nan", "x"])
def test_shares_are_parts(capsys: pytest.CaptureFixture[str], share: str) -> None:
    """A share is above 0, and 1 at most."""
    said = refused(capsys, ablations.main, "--shares", f"0.5,{share}")
    assert f"expected shares above 0 and up to 1, got {share!r}" in said


def test_missing_tables_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A benchmark whose table is missing names the file, and says how to use the packaged tables."""
    assert "there is no file" in refused(capsys, ordering.main, str(tmp_path / "none.parquet"))
    monkeypatch.setenv("FLIGHTLLM_DATA", str(tmp_path))
    for main, arguments, file in (
        (llm_queries.main, ["--suite", "paper"], "ordering/movies_15k.parquet"),
        (llm_queries.main, [], "movie_reviews.parquet"),
        (ablations.main, [], "ordering/movies_15k.parquet"),
        (rag.main, [], "squad_contexts.parquet"),
    ):
        said = refused(capsys, main, "--engine", "fake", *arguments)
        assert str(tmp_path / file) in said
        assert "without FLIGHTLLM_DATA the packaged tables are used" in said


def test_names_of_models_and_queries(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown query lists those of the topic; a model that is not there names what makes one."""
    monkeypatch.delenv("FLIGHTLLM_DATA", raising=False)
    monkeypatch.delenv("FLIGHTLLM_TEST_MODELS", raising=False)
    said = refused(capsys, llm_queries.main, "--queries", "q9", "--topic", "movies")
    assert "no topic has a query of q9: movies has q1, q2" in said
    said = refused(capsys, llm_queries.main, "--model", "no-such-model")
    assert "FLIGHTLLM_TEST_MODELS" in said
    assert "python -m tests.real_models --folder" in said


@pytest.mark.slow
def test_a_cache_that_is_too_small_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """A cache that cannot hold a prompt brings a warning; a larger one does not."""
    few = ["--engine", "fake", "--rows", "4", "--topic", "movies", "--queries", "q2"]
    llm_queries.main([*few, "--cache-blocks", "1"])
    assert "warning: the cache cannot hold the longest prompt" in capsys.readouterr().out
    llm_queries.main([*few, "--cache-blocks", "320"])
    assert "warning" not in capsys.readouterr().out
