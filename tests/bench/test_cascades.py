"""The benchmark of cascades reads score files, and counts misses and asked rows."""

import json
from pathlib import Path

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
