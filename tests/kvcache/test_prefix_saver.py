"""What the local engine keeps of the starts of prompts."""

from contextlib import closing
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the extra 'local' is not installed")

import torch

from flightllm.kvcache.chunks import Chunk
from flightllm.kvcache.options import KvOptions
from flightllm.kvcache.prefix_saver import PrefixSaver
from flightllm.kvcache.stream.prefill import Prefill
from flightllm.llm.cost import Rates
from tests.kv_servers import serving_chunks
from tests.servers import await_true


def test_no_room(tmp_path: Path) -> None:
    """A start is saved up to the first chunk that is dropped, and from there on the next time."""
    copied: list[int] = []
    with serving_chunks(tmp_path) as server:
        pass
    options = KvOptions(server.uri, codec="raw", save="all", pause_seconds=60.0, flush_seconds=0.0)
    with closing(PrefixSaver(options, "model", tmp_path, Prefill(Rates()), "cpu")) as keeper:

        def cache(chunk: Chunk) -> torch.Tensor:
            if copied:
                await_true(lambda: not keeper._saver.is_accepting)
            copied.append(chunk.start)
            return torch.zeros(1, 2, chunk.tokens, 1, 2)

        start = keeper.start(range(600), 0, "")
        keeper.save(start, 600, cache)
        assert copied == [0, 256]
        keeper._saver._paused_until = 0.0
        copied.clear()
        keeper.save(start, 600, cache)
    assert copied == [256, 384]
