"""Traces as blocks: files of Mooncake's shape, Azure's conversations, and generated prompts."""

from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.eviction_generators import GENERATORS
from bench.eviction_traces import azure_blocks, read_trace
from bench.mooncake_traces import TraceError

GOOD = '{"timestamp": 0, "input_length": 9, "hash_ids": [1, 2]}\n\n{"timestamp": 1500, "hash_ids": ["a"]}\n'


def test_json_lines_and_parquet(tmp_path: Path) -> None:
    """Both have the same prompts; times are in seconds."""
    lines, table = tmp_path / "trace.jsonl", tmp_path / "trace.parquet"
    lines.write_text('{"timestamp": 0, "hash_ids": [1, 2]}\n{"timestamp": 1500, "hash_ids": [3]}')
    pq.write_table(pa.table({"timestamp": [0, 1500], "hash_ids": [[1, 2], [3]]}), table)
    for path in (lines, table):
        assert [(event.at, event.use.keys) for event in read_trace(path)] == [(0.0, [1, 2]), (1.5, [3])]
    assert len(read_trace(lines, 1)) == 1
    lines.write_text(GOOD)
    assert [event.use.keys for event in read_trace(lines)] == [[1, 2], ["a"]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD + '{"timestamp": 2000}', "line 4: hash_ids is not a list"),
        ('{"timestamp": 0, "hash_ids": 1}', "hash_ids is not a list"),
        ('{"timestamp": 0, "hash_ids": []}', "hash_ids is empty"),
        (GOOD + '{"timestamp": 3, "hash_ids": [1]}', "sort by timestamp"),
    ],
)
def test_wrong_lines(tmp_path: Path, text: str, message: str) -> None:
    """The error says which line is wrong, and what is expected."""
    path = tmp_path / "trace.jsonl"
    path.write_text(text)
    with pytest.raises(TraceError, match=message):
        read_trace(path)


def test_azure_conversations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A prompt that is a little longer continues the conversation, once its last answer has ended; others begin one."""
    monkeypatch.setenv("FLIGHTLLM_DATA", str(tmp_path))
    times = [pa.scalar(1_000_000 * second, pa.timestamp("us")).as_py() for second in (0, 1, 100, 110, 2_000)]
    rows = {
        "timestamp": times,
        "context_tokens": [640, 700, 720, 6_400, 800],
        "generated_tokens": [64, 64, 64, 64, 64],
    }
    pq.write_table(pa.table(rows), tmp_path / "azure.parquet")
    first, early, second, longer, late = (list(event.use.keys) for event in azure_blocks("azure"))
    assert (len(first), len(second)) == (11, 12)
    assert second[:11] == first
    for other in (early, longer, late):
        assert set(other) & set(first) == {0}


@pytest.mark.parametrize("name", GENERATORS)
def test_generators(name: str) -> None:
    """Prompts come in order, of a seed always the same; blocks come again, and a block follows always the same one."""
    events = GENERATORS[name](1)
    assert all(one.at <= later.at for one, later in pairwise(events))
    assert events[:300] == GENERATORS[name](1)[:300] != GENERATORS[name](2)[:300]
    before: dict[int, int] = {}
    for event in events:
        assert len(set(event.use.keys)) == len(event.use.keys)
        assert all(before.setdefault(key, one) == one for one, key in pairwise(event.use.keys))
    assert sum(len(event.use.keys) for event in events) > 2 * len(before)
