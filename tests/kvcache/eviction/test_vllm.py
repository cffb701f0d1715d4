"""The plug-in in real vLLM engines on CPU: what is used again stays, and no answer changes."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from bench.models import Shape, model
from flightllm.config import EngineConfig
from flightllm.engines import create_engine
from flightllm.engines.vllm.kv import eviction_config
from flightllm.kvcache.eviction.hint import ReuseHint
from flightllm.llm.engine import Parameters, Request, Reuse
from tests.packages import NEEDS_VLLM

pytestmark = [NEEDS_VLLM, pytest.mark.vllm, pytest.mark.slow]

SHAPE = Shape("test-3x128-gqa", layers=3, hidden=128, intermediate=256, heads=4, kv_heads=2)
BLOCK, BLOCKS = 32, 24
ROOT = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt for an engine."""

    tokens: Sequence[int]
    hint: ReuseHint = field(default_factory=ReuseHint)


def run(prompts: Sequence[Prompt], version: str = "", **options: Any) -> tuple[dict[str, Any], str]:
    """Have an engine process answer prompts; return what came of it, and what it logged."""
    engine = {
        "model": str(model(SHAPE)),
        "dtype": "float32",
        "max_model_len": 512,
        "block_size": BLOCK,
        "kv_cache_memory_bytes": 2 * SHAPE.kv_bytes(BLOCKS * BLOCK),
        "enforce_eager": True,
        **options,
    }
    told = {"engine": engine, "prompts": [asdict(one) for one in prompts], "version": version}
    done = subprocess.run(
        [sys.executable, "-m", "tests.kvcache.eviction.engine_process"],
        input=json.dumps(told),
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    logged = done.stdout + done.stderr
    assert done.returncode == 0, logged[-3_000:]
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found, logged


def beside_a_scan() -> list[Prompt]:
    """Return a prompt that is asked again after a query's many prompts, which share nothing and say so."""
    draw = random.Random(1)  # noqa: S311
    asked = Prompt([draw.randrange(10, 900) for _ in range(200)], ReuseHint("chat"))
    scan = [
        Prompt([draw.randrange(10, 900) for _ in range(150)], ReuseHint("scan", "query", number, 0))
        for number in range(12)
    ]
    return [asked, *scan, asked]


@pytest.fixture(scope="module")
def default() -> dict[str, Any]:
    """Return what an engine does that is not told of any policy."""
    return run(beside_a_scan())[0]


def test_off(default: dict[str, Any]) -> None:
    """Without the option vLLM's own queue is in place, and the scan pushes out what is asked again."""
    assert default["queue"] == "FreeKVCacheBlockQueue"
    assert default["cached"][-1] == 0


@pytest.mark.parametrize("policy", ["planned", "lru"])
def test_policies(default: dict[str, Any], policy: str) -> None:
    """By its plan a query's prompts push out one another; by LRU they go as vLLM's do; the answers are the same."""
    found, logged = run(beside_a_scan(), additional_config=eviction_config(policy))
    assert found["queue"] == "FreeBlocks"
    assert found["cached"][-1] == (6 * BLOCK if policy == "planned" else 0)
    assert found["cached"][:-1] == default["cached"][:-1]
    assert found["answers"] == default["answers"]
    assert found["free"] == found["listed"] == default["free"]
    assert found["evicted"] > BLOCKS
    assert "kv_eviction_failed" not in logged


@pytest.mark.parametrize("policy", ["planned", "none"])
def test_in_a_process_of_its_own(policy: str) -> None:
    """The plug-in is there where vLLM's model runs in its own process: what is asked again stays beside a scan."""
    options: dict[str, object] = {
        "max_model_len": 512,
        "block_size": BLOCK,
        "dtype": "float32",
        "kv_cache_memory_bytes": 2 * SHAPE.kv_bytes(BLOCKS * BLOCK),
    }
    if policy != "planned":  # which is the default
        options["kv_eviction"] = policy
    words = random.Random(1)  # noqa: S311

    def ask(number: int, reuse: Reuse) -> Request:
        text = " ".join(f"{words.randrange(10_000)}" for _ in range(40))
        return Request(number, text, Parameters(max_tokens=2), "ai_gen", "", (), reuse=reuse)

    asked = ask(0, Reuse("chat", "chat", 0, None))
    scan = [ask(number, Reuse("scan", "query", number, 0)) for number in range(1, 13)]
    engine = create_engine(EngineConfig("vllm", str(model(SHAPE)), 1, options))
    try:
        answers = list(engine.generate(iter([asked, *scan, replace(asked, id=13)]), lambda: False))
    finally:
        engine.close()
    assert [(one.id, one.error) for one in answers] == [(number, None) for number in range(14)]
    assert all(4 * BLOCK < one.prompt_tokens < BLOCKS * BLOCK / 2 for one in answers)
    assert not any(one.cached_tokens for one in answers[:-1])
    whole = (answers[-1].prompt_tokens - 1) // BLOCK * BLOCK
    assert answers[-1].cached_tokens == (whole if policy == "planned" else 0)


def test_unknown_version(default: dict[str, Any]) -> None:
    """In a version of vLLM that is not known its own queue stays, and that is logged."""
    found, logged = run(beside_a_scan(), version="7.1.0", additional_config=eviction_config("planned"))
    assert found["queue"] == "FreeKVCacheBlockQueue"
    assert "kv_eviction_off" in logged
    assert "7.1.0" in logged
    assert found["answers"] == default["answers"]


def test_without_a_prefix_cache() -> None:
    """Where vLLM keeps nothing there is nothing to order."""
    evicting = eviction_config("planned")
    found, logged = run(beside_a_scan()[:1], enable_prefix_caching=False, additional_config=evicting)
    assert found["queue"] == "FreeKVCacheBlockQueue"
    assert "its prefix cache is off" in logged
