"""The benchmark of cascades reads score files, and counts misses and asked rows."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.cascades import main
from bench.peers.cascades import PEERS
from bench.peers.cascades.bargain import certified
from bench.peers.cascades.peel import upper


def test_a_file_of_scores_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With perfect scores each method has its figures, and ours misses nothing and asks a minority."""
    answers = np.arange(400) % 2
    path = tmp_path / "perfect.parquet"
    scores = np.where(answers == 1, 0.99, 0.01)
    pq.write_table(pa.table({"proxy_pred_true_prob": scores, "oracle_pred": answers}), path)
    main(["--scores", str(path), "--rows", "400", "--seeds", "2", "--json"])
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])["sources"]["perfect"]
    assert list(figures) == ["flightllm", *PEERS]
    assert figures["flightllm"]["missed"] == 0
    assert figures["flightllm"]["share"] < 0.7


@pytest.mark.parametrize(
    ("answers", "scores"),
    [
        ([True, False] * 20, None),
        (["yes", "No"] * 20, None),
        ([1.0, 0.0] * 20, None),
        ([1] * 40, None),
        ([0] * 40, None),
        ([1, 0] * 20, [0.5] * 40),
        ([1, 0] * 5, None),
    ],
)
def test_odd_files_are_measured(
    answers: list[Any], scores: list[float] | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Answers can be booleans, texts and numbers, all can be equal, and so can the scores."""
    path = tmp_path / "odd.parquet"
    scores = scores or np.linspace(0, 1, len(answers)).tolist()
    pq.write_table(pa.table({"proxy_pred_true_prob": scores, "oracle_pred": answers}), path)
    main(["--scores", str(path), "--rows", "40", "--seeds", "1", "--only", "flightllm", "--json"])
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])["sources"]["odd"]["flightllm"]
    assert figures["missed"] == 0


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        (
            {"proxy_pred_true_prob": [0.5], "label": [1]},
            "lacks the column oracle_pred; it has proxy_pred",
        ),
        ({"proxy_pred_true_prob": [0.5, None], "oracle_pred": [1, 0]}, "is NULL, NaN or infinite in 1 of 2 rows"),
        ({"proxy_pred_true_prob": [0.5, math.nan], "oracle_pred": [1, 0]}, "is NULL, NaN or infinite in 1 of 2 rows"),
        ({"proxy_pred_true_prob": [math.inf], "oracle_pred": [1]}, "is NULL, NaN or infinite in 1 of 1 rows"),
        ({"proxy_pred_true_prob": ["high"], "oracle_pred": [1]}, "has the type string: give numbers"),
        ({"proxy_pred_true_prob": [0.5, 0.5], "oracle_pred": [1, None]}, "oracle_pred is NULL in a row"),
        ({"proxy_pred_true_prob": [0.5, 0.5], "oracle_pred": [2, 0]}, "oracle_pred is '2' in a row"),
        ({"proxy_pred_true_prob": [0.5], "oracle_pred": ["perhaps"]}, "oracle_pred is 'perhaps' in a row"),
        (
            {"proxy_pred_true_prob": pa.array([], pa.float64()), "oracle_pred": pa.array([], pa.int8())},
            "it has no rows",
        ),
        (None, "it is not a Parquet file"),
    ],
)
def test_wrong_files_are_refused(
    columns: dict[str, Any] | None, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message names the file, the column and what is wrong with it."""
    path = tmp_path / "wrong.parquet"
    if columns is None:
        path.write_text("no table")
    else:
        pq.write_table(pa.table(columns), path)
    with pytest.raises(SystemExit):
        main(["--scores", str(path)])
    written = capsys.readouterr().err
    assert f"error: {path}: " in written
    assert told in written


def test_accuracy_has_its_own_peers(capsys: pytest.CaptureFixture[str]) -> None:
    """With an accuracy the methods are those that promise one."""
    main(["--quick", "--accuracy", "0.8", "--rows", "200", "--seeds", "1", "--json"])
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert list(figures["sources"]["random"]) == ["flightllm", "BARGAIN"]
    assert all(one["flightllm"]["accuracy"] >= 0.8 for one in figures["sources"].values())


def test_methods_without_an_accuracy_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A method that promises no accuracy would have an empty table, so the message names those that do."""
    with pytest.raises(SystemExit):
        main(["--quick", "--accuracy", "0.8", "--only", "LOTUS"])
    assert "no method of LOTUS promises an accuracy; flightllm, BARGAIN do" in capsys.readouterr().err


@pytest.mark.parametrize("argument", ["--recall=1", "--seeds=0", "--scores=absent.parquet"])
def test_wrong_arguments_are_refused(argument: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A rate of 1, no seeds and an absent file end the program with a message."""
    with pytest.raises(SystemExit):
        main([argument])
    assert "error:" in capsys.readouterr().err


def test_bounds_of_peers_are_plausible() -> None:
    """Betting certifies what a sample shows, and the count's upper end is above what is seen."""
    assert certified(np.ones(100), 0.9, 1000, 0.1)
    assert not certified(np.ones(10), 0.9, 1000, 0.1)
    assert 5 < upper(5, 100, 1000, 0.05, 20.0) < 200
    assert upper(3, 50, 50, 0.05, 20.0) == 3
