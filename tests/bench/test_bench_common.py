"""The frame of the benchmarks: arguments in, one JSON object out."""

import json
from pathlib import Path

import pytest

from bench.common import Options, data_table, median_seconds, parse_options, quantile, report


def test_options_are_read() -> None:
    """The two flags every script takes, and their defaults."""
    assert parse_options("x", ["--json", "--quick"]) == Options(json=True, quick=True, repeats=5)
    assert parse_options("x", []) == Options(json=False, quick=False, repeats=5)


def test_json_is_one_object_on_the_last_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Programs read the last line: figures, and the machine they hold for."""
    report("b", Options(json=True, quick=True, repeats=1), {"seconds": 1.5})
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (last["bench"], last["quick"], last["seconds"]) == ("b", True, 1.5)
    assert {"cpu", "cores", "python", "datafusion"} <= set(last["machine"])


def test_tables_come_from_the_given_folder_or_the_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FLIGHTLLM_DATA wins; without it the packaged tables stand in, under the same names."""
    monkeypatch.delenv("FLIGHTLLM_DATA", raising=False)
    assert data_table("movie_reviews").name == "reviews.parquet"
    monkeypatch.setenv("FLIGHTLLM_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="movies"):
        data_table("movies")
    (tmp_path / "movies.parquet").touch()
    assert data_table("movies").parent == tmp_path


def test_median_leaves_the_first_run_out() -> None:
    """One call warms up, then as many as asked for are measured."""
    calls: list[int] = []
    median_seconds(lambda: calls.append(1), 3)
    assert len(calls) == 4


def test_quantile() -> None:
    """The values need no order; the whole part is the greatest value, and no values have 0."""
    values = [3.0, 1.0, 2.0, 4.0]
    assert [quantile(values, part) for part in (0.0, 0.5, 0.99, 1.0)] == [1.0, 3.0, 4.0, 4.0]
    assert quantile([], 0.5) == 0.0
