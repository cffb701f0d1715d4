"""The workloads of the router's simulation, and the command that compares policies on them."""

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.mooncake_traces import TraceError
from bench.peers.routing import PEERS
from bench.router_sim import main
from bench.router_speed import growth, speeds
from bench.router_traces import read_trace
from bench.router_workloads import WORKLOADS
from bench.simulation import measured

_ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if "queries" in name else []) for name in WORKLOADS]
)
def test_workloads_follow_the_seed(name: str) -> None:
    """The same seed gives the same prompts at the same times, in order, at the rate asked for; another seed others."""
    workload = WORKLOADS[name]
    if workload.table and "FLIGHTLLM_DATA" not in os.environ:
        pytest.skip("needs the traces, in the folder FLIGHTLLM_DATA")
    count = 8_192 if name in {"batches", "mixed"} else 400
    one, again, other = (list(workload.arrivals(seed, count, count / 20)) for seed in (1, 1, 2))
    assert one == again != other
    assert len(one) == count
    assert all(left.at <= right.at for left, right in pairwise(one))
    assert 14 < one[-1].at - one[0].at < 26
    assert all(0 < arrival.answer_tokens <= arrival.most_tokens for arrival in one)


def test_tools_are_shared() -> None:
    """Prompts of a tool begin alike, and one tool is asked far more than others."""
    starts = [one.tokens[:2_000] for one in WORKLOADS["tools"].arrivals(0, 500, 1.0)]
    counts = sorted((starts.count(start) for start in set(starts)), reverse=True)
    assert 50 < len(counts) <= 100
    assert counts[0] > 5 * counts[10]


@pytest.mark.slow
def test_speed_is_measured() -> None:
    """Decisions are timed with as many prompts in the tree as asked for, few under way and many."""
    found = speeds(["round_robin", "e2"], 1_000)
    assert found["e2, edges in the tree"] > 1_000
    timed = [
        f"{policy}, {count} open, decisions per second" for policy in ("e2", "round_robin") for count in (256, 4_096)
    ]
    assert all(found[name] > 0 for name in timed)
    assert growth(500, [3])["e2, 3 replicas, decisions per second"] > 0


@pytest.mark.slow
def test_command_compares_policies() -> None:
    """In its quick form the command runs policies and E2's parts on two workloads, and prints one object."""
    for more in ([], ["--ablation", "--learned", "--engine", "28m-cpu"]):
        command = [sys.executable, "-m", "bench.router_sim", "--quick", "--json", *more]
        done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        figures = json.loads(done.stdout.splitlines()[-1])
        tools = figures["tools, 2 replicas"]
        assert tools["e2"]["prompts"] == 300
        assert all(0 < one["hit_ratio"] < 1 for one in tools.values())
        assert figures["nothing shared, 2 replicas"]["e2"]["hit_ratio"] == 0


def test_command_reads_traces_and_compares_peers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file of Mooncake's shape takes the place of the workloads; a wrong line is named, and so are wrong loads."""
    trace = tmp_path / "mine.jsonl"
    rows = [
        {"timestamp": 40 * number, "input_length": 1_100, "output_length": 3, "hash_ids": [number % 5, 7, 100 + number]}
        for number in range(60)
    ]
    trace.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    main(["--quick", "--peers", "--trace", str(trace), "--json"])
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    best = figures["best peer"]["mine, 2 replicas"]
    assert 0 < best["hit_ratio"] < 1
    assert (
        best["mean"]
        == min(figures["mine, 2 replicas"][peer]["mean"] for peer in PEERS)
        / (figures["mine, 2 replicas"]["e2_batch"]["mean"])
    )
    trace.write_text(json.dumps(rows[0] | {"hash_ids": [1]}), encoding="utf-8")
    for arguments, error in (
        (["--trace", str(trace)], "mine.jsonl, line 1: 1100 tokens of input, 1 hash_ids"),
        (["--load", "1", "2"], "--load: expected one number, or 3"),
    ):
        with pytest.raises(SystemExit):
            main(arguments)
        assert error in capsys.readouterr().err


def test_steps_come_from_a_measurement(tmp_path: Path) -> None:
    """The output of `bench.engine_steps` gives the rates of steps; other text is an error that names the file."""
    path = tmp_path / "steps.json"
    path.write_text('beside\n{"base_ms": 2.0, "computed_ms": 0.5, "decoding_ms": 0.25}', encoding="utf-8")
    assert measured(path).seconds(10, 4) == pytest.approx(0.008)
    for wrong in ("", "no object", '{"base_ms": 1.0}', '{"base_ms": 1, "computed_ms": 0, "decoding_ms": 1}'):
        path.write_text(wrong, encoding="utf-8")
        with pytest.raises(ValueError, match=r"steps\.json"):
            measured(path)


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ({"timestamp": "now"}, "timestamp is 'now'"),
        ({"output_length": None}, "output_length is None"),
        ({"input_length": 0}, "0 tokens of input"),
        ({"hash_ids": "1"}, "hash_ids is not a list"),
    ],
)
def test_wrong_rows_of_a_trace(tmp_path: Path, row: dict[str, object], error: str) -> None:
    """The error names the row and the field, in JSON lines and in Parquet."""
    right: dict[str, object] = {"timestamp": 0, "input_length": 5, "output_length": 1, "hash_ids": [1]}
    path = tmp_path / "trace.jsonl"
    path.write_text(f"{json.dumps(right)}\n\n{json.dumps(right | row)}", encoding="utf-8")
    with pytest.raises(TraceError, match=f"line 3: {error}"):
        read_trace(path)


def test_traces_with_other_blocks(tmp_path: Path) -> None:
    """The lengths tell how many tokens a block has: 16 here, where 100 tokens have seven blocks."""
    path = tmp_path / "trace.jsonl"
    rows = [(100, [*range(7)]), (64, [0, 1, 2, 9]), (10, [3])]
    path.write_text(
        "\n".join(
            json.dumps({"timestamp": 0, "input_length": length, "output_length": 1, "hash_ids": numbers})
            for length, numbers in rows
        )
    )
    found, size = read_trace(path)
    long, short, one = (arrival.tokens for arrival in found)
    assert size == 16
    assert (len(long), len(short), len(one)) == (400, 256, 40)
    assert long[: 4 * 48] == short[: 4 * 48]
    assert long[4 * 48 : 4 * 64] != short[4 * 48 :]


def test_traces_of_both_forms(tmp_path: Path) -> None:
    """JSON lines and Parquet give the same prompts, sorted by time, with times from 0 on; other files are refused."""
    rows = [
        {"timestamp": 1_000 * at, "input_length": 600, "output_length": at, "hash_ids": [4, at]} for at in (9, 3, 5)
    ]
    lines, table = tmp_path / "trace.jsonl", tmp_path / "trace.parquet"
    lines.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    pq.write_table(pa.Table.from_pylist(rows), table)
    found, size = read_trace(lines)
    assert (found, size) == read_trace(table)
    assert size == 512
    assert [(one.at, one.answer_tokens, len(one.tokens)) for one in found] == [
        (0, 3, 2_400),
        (2, 5, 2_400),
        (6, 9, 2_400),
    ]
    assert found[0].tokens[:2_048] == found[1].tokens[:2_048]
    pq.write_table(pa.table({"timestamp": [1]}), table)
    with pytest.raises(TraceError, match="no column input_length, output_length, hash_ids"):
        read_trace(table)
    table.write_bytes(b"no table")
    with pytest.raises(TraceError, match="not a Parquet file"):
        read_trace(table)
    lines.write_text("", encoding="utf-8")
    with pytest.raises(TraceError, match="no prompts"):
        read_trace(lines)
