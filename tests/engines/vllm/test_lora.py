"""LoRA adapters for vLLM: which folders are adapters, and what one changes."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from flightllm.config import EngineConfig
from flightllm.engines import create_engine
from flightllm.engines.vllm.lora import read_adapter
from flightllm.errors import ConfigError
from flightllm.llm.engine import Engine, Request
from tests.adapters import RANK, make_adapter
from tests.packages import NEEDS_VLLM

MakeRequests = Callable[..., list[Request]]
Started = tuple[Engine, list[dict[str, object]]]


@pytest.fixture(scope="module")
def started(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """Return vLLM with an adapter, and what was logged while it started."""
    adapter = make_adapter(tmp_path_factory.mktemp("adapter"))
    options = {
        "kv_cache_memory_bytes": 16 << 20,
        "max_model_len": 2048,
        "dtype": "float32",
        "lora": str(adapter),
        "tensor_parallel_size": 1,
    }
    with capture_logs() as logs:
        engine = create_engine(EngineConfig("vllm", str(model_path), 8, options))
    yield engine, [dict(one) for one in logs]
    engine.close()


@pytest.mark.parametrize(
    ("config", "rank"), [({}, 16), ({"r": 8}, 8), ({"rank_pattern": {"layers.0.q_proj": 65}}, 128), ({"r": 1}, 1)]
)
def test_rank(tmp_path: Path, config: dict[str, object], rank: int) -> None:
    """VLLM gets room for the largest rank, in the next size that it knows."""
    (tmp_path / "adapter_model.bin").write_bytes(b"")
    (tmp_path / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": RANK, **config}))
    assert read_adapter(str(tmp_path)).engine_args == {"enable_lora": True, "max_lora_rank": rank}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "is not a folder with an adapter_config.json, as PEFT saves an adapter"),
        ({"adapter_config.json": '{"r": 8}'}, "has no adapter_model.safetensors or adapter_model.bin"),
        ({"adapter_config.json": "{", "adapter_model.bin": ""}, "cannot be read: Expecting property name"),
        (
            {"adapter_config.json": '{"peft_type": "IA3"}', "adapter_model.bin": ""},
            "is not for a LoRA adapter: expected",
        ),
        ({"adapter_config.json": '{"r": "8"}', "adapter_model.bin": ""}, "is not for a LoRA adapter: expected"),
        ({"adapter_config.json": '{"r": 0}', "adapter_model.bin": ""}, "has a rank outside 1 to 512"),
        ({"adapter_config.json": '{"r": 1024}', "adapter_model.bin": ""}, "has a rank outside 1 to 512"),
    ],
)
def test_no_adapter(tmp_path: Path, files: dict[str, str], message: str) -> None:
    """A folder that holds no adapter is refused by the key's name, before anything starts."""
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=rf"^\[engine\] lora: .*{message}"):
        read_adapter(str(tmp_path))


@pytest.mark.slow
@pytest.mark.vllm
@NEEDS_VLLM
def test_answers_through_it(started: Started, vllm_engine: Engine, make_requests: MakeRequests) -> None:
    """The same model answers otherwise with an adapter, and cached answers of one are not the other's."""

    def answers(engine: Engine) -> dict[int, str | None]:
        found = list(engine.generate(iter(make_requests(4)), lambda: False))
        assert [one.error for one in found] == [None] * 4
        return {one.id: one.text for one in found}

    assert answers(started[0]) != answers(vllm_engine)
    assert started[0].revision.startswith(f"{vllm_engine.revision} lora ")


@pytest.mark.slow
@pytest.mark.vllm
@NEEDS_VLLM
def test_start_is_logged(started: Started) -> None:
    """The log says that vLLM starts, and what it has once it is up."""
    engine, logs = started
    told = {str(one["event"]): one for one in logs}
    assert told["vllm_starting"]["dtype"] == "float32"
    up = told["vllm_started"]
    cache = engine.prefix_cache
    assert cache is not None
    assert cache.blocks is not None
    assert up["kv_cache_tokens"] == cache.block_tokens * (cache.blocks + 1)
    assert (up["context_tokens"], up["dtype"], up["log_level"]) == (2048, "float32", "info")
    assert up["batched_tokens"] == 4096, "vLLM's default of the context LLM_CLASS on a CPU"
