"""The connector in real vLLM engines on CPU: what one computed another loads, and no failure changes an answer."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from bench.models import Shape, model
from flightllm.kvcache.chunks import CHUNK_TOKENS
from tests.packages import NEEDS_VLLM

pytestmark = [NEEDS_VLLM, pytest.mark.vllm, pytest.mark.slow]

GROUPED = Shape("test-3x128-gqa", layers=3, hidden=128, intermediate=256, heads=4, kv_heads=2)
WHOLE = Shape("test-2x128-mha", layers=2, hidden=128, intermediate=256, heads=2, kv_heads=2)
CHUNK = 50
"""No whole number of blocks of 32."""
SHARED = 300
"""Tokens that the prompts of a group share: six chunks."""
CACHED = 288
"""Those of them that fill blocks, which the engine's own cache serves to the prompts after the first."""
ROOT = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt for an engine."""

    tokens: Sequence[int]
    hint: int = 0
    salt: str = ""


def group(seed: int, *, count: int = 3, shared: int = SHARED, hint: int | None = None, salt: str = "") -> list[Prompt]:
    """Return prompts that share a start and end differently; by default the hint says so."""
    draw = random.Random(seed)  # noqa: S311 - no cryptography
    hint = shared if hint is None else hint
    start = [draw.randrange(10, 900) for _ in range(shared)]
    return [Prompt(start + [draw.randrange(10, 900) for _ in range(20)], hint, salt) for _ in range(count)]


def run(
    shape: Shape,
    rounds: Sequence[Sequence[Prompt]],
    store: str,
    dtype: str,
    *,
    config: Mapping[str, object] = MappingProxyType({}),
    connector: str = "LoadingConnector",
    **options: object,
) -> dict[str, Any]:
    """Start an engine process that asks the prompts round by round, and return what came of it.

    Without a store it has no connector. `config` changes the model's configuration.
    """
    transfer = {
        "kv_connector": connector,
        "kv_connector_module_path": "tests.kvcache.connector.folder_store",
        "kv_role": "kv_both",
        "kv_load_failure_policy": "recompute",
        "kv_connector_extra_config": {
            "store": store,
            "chunk_tokens": CHUNK,
            "codec": "raw",
            "lookup_seconds": 10.0,
            **options,
        },
    }
    engine = {"model": str(model(shape)), "dtype": dtype, "max_model_len": 1024, "hf_overrides": dict(config)}
    engine |= {"kv_transfer_config": transfer} if store else {}
    told = {"engine": engine, "rounds": [[asdict(one) for one in prompts] for prompts in rounds]}
    done = subprocess.run(
        [sys.executable, "-m", "tests.kvcache.connector.engine_process"],
        input=json.dumps(told),
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    found = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert found, done.stdout[-2000:] + done.stderr[-4000:]
    result: dict[str, Any] = json.loads(found[0].removeprefix("RESULT "))
    return result


def tokens(result: dict[str, Any]) -> list[list[list[int]]]:
    """Return the answers' tokens, by round."""
    return [[one["tokens"] for one in answers] for answers in result["rounds"]]


def cached(result: dict[str, Any]) -> list[int]:
    """Return how many tokens at least a prompt of each round did not compute."""
    return [min(one["cached"] for one in answers) for answers in result["rounds"]]


@contextmanager
def serving(folder: Path, *faults: str) -> Iterator[subprocess.Popen[str]]:
    """Run a store's process on a folder until the block ends."""
    command = [sys.executable, "-m", "tests.kvcache.connector.folder_store", str(folder), *faults]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[list[Prompt]], dict[str, Any]]:
    """Return a folder that an engine has filled, the rounds of prompts it was asked, and what came of it."""
    folder = tmp_path_factory.mktemp("chunks")
    rounds = [group(seed) for seed in range(6)] + [group(6, salt="acme"), group(7, hint=0)]
    return folder, rounds, run(GROUPED, rounds, f"folder://{folder}", "float32")


def test_saved(first: tuple[Path, list[list[Prompt]], dict[str, Any]]) -> None:
    """An engine saves the starts that it was told recur, each once; of other prompts nothing."""
    folder, _, result = first
    assert result["saved"] == len(list(folder.glob("*.raw"))) == 7 * 6
    assert result["held"] == result["dropped"] == result["failed"] == result["loaded"] == 0
    assert cached(result) == [0] * 8


def test_loaded(first: tuple[Path, list[list[Prompt]], dict[str, Any]]) -> None:
    """A fresh engine loads them once for all prompts that share them, and answers as the first did.

    A tenant's start is not found by another, nor by nobody's. Prompts without a hint find the chunks too.
    """
    folder, rounds, result = first
    unhinted = [replace(one, hint=0) for one in rounds[1]]
    other = [replace(one, salt="other") for one in rounds[6]]
    nobody = [replace(one, salt="") for one in rounds[6]]
    again = run(GROUPED, [rounds[0], unhinted, rounds[6], rounds[7], other, nobody], f"folder://{folder}", "float32")
    first_tokens = tokens(result)
    assert tokens(again) == [first_tokens[number] for number in (0, 1, 6, 7, 6, 6)]
    assert cached(again) == [CACHED, CACHED, CACHED, 0, 0, 0]
    assert again["loaded"] == 3 * SHARED
    assert again["saved"] == 2 * 6


def test_growing_chunks(tmp_path: Path) -> None:
    """With chunks as by default a start is loaded but for its last 64 tokens at most; answers are as without a store.

    Full chunks cover 640 tokens of the first start, and partial ones the last 64 of it, and all of the second one.
    """
    starts = {710: 704, 200: 192}
    rounds = [group(seed, shared=shared) for seed, shared in enumerate(starts)]
    plain = run(GROUPED, rounds, "", "float32")
    saved, loaded = (
        run(GROUPED, rounds, f"folder://{tmp_path}", "float32", chunk_tokens=CHUNK_TOKENS) for _ in range(2)
    )
    assert tokens(plain) == tokens(saved) == tokens(loaded)
    assert saved["saved"] == len(list(tmp_path.glob("*.raw"))) == 5 + 2
    assert loaded["loaded"] == sum(starts.values())
    assert cached(plain) == cached(saved) == [0, 0]
    assert cached(loaded) == list(starts.values())


def test_dropped_chunks(tmp_path: Path) -> None:
    """What finds no room to wait is saved when prompts with the same start are asked again."""
    folder = f"folder://{tmp_path}"
    result = run(GROUPED, [group(1, count=1)] * 8, folder, "float32", save_tokens=1)
    assert result["dropped"] > 0
    assert result["saved"] == len(list(tmp_path.glob("*.raw"))) == 6


def test_failures(first: tuple[Path, list[list[Prompt]], dict[str, Any]]) -> None:
    """A store that breaks a transfer off, damages one, hangs, or is killed in the middle changes no answer.

    What came before a failure is kept; once the store is gone, it is not asked again, and prompts are computed.
    """
    folder, rounds, result = first
    good = ""
    faults = ["torn", good, good, "changed", "gone", "stuck", *[good] * 6, good, "killed"]
    with serving(folder, *faults) as store:
        assert store.stdout is not None
        address = f"port://localhost:{int(store.stdout.readline())}"
        broken = run(GROUPED, rounds[:7], address, "float32", load_seconds=10.0, pause_seconds=0.0)
        assert store.wait(60) < 0
    assert tokens(broken) == tokens(result)[:7]
    assert broken["loaded"] == 2 * CHUNK + SHARED + CHUNK
    assert cached(broken)[4] == CACHED
    assert cached(broken)[6] == broken["saved"] == 0


def test_computed_where_that_is_sooner(first: tuple[Path, list[list[Prompt]], dict[str, Any]]) -> None:
    """Once the engine knows how slow the link is, and how fast itself, it computes what the store holds."""
    folder, rounds, result = first
    with serving(folder, *["slow"] * 100) as store:
        assert store.stdout is not None
        address = f"port://localhost:{int(store.stdout.readline())}"
        seen = run(GROUPED, [group(9, hint=0), *rounds[:4]], address, "float32", connector="FolderConnector")
    assert tokens(seen)[1:] == tokens(result)[:4]
    assert cached(seen)[-1] == seen["saved"] == seen["failed"] == 0
    assert seen["loaded"] < SHARED


def test_as_from_the_local_cache(tmp_path: Path) -> None:
    """What is loaded is what the engine had in its own cache, bit by bit: 16-bit numbers, as many key heads as heads.

    Answers are compared with those after a hit in the first engine's own cache: as many tokens are computed at once.
    """
    rounds = [[prompt] for prompt in group(1)]
    computed = run(WHOLE, rounds, f"folder://{tmp_path}", "bfloat16")
    loaded = run(WHOLE, rounds[1:], f"folder://{tmp_path}", "bfloat16")
    assert cached(computed) == [0, CACHED, CACHED]
    assert cached(loaded) == [SHARED, CACHED]
    assert loaded["loaded"] == SHARED
    assert tokens(loaded) == tokens(computed)[1:]


MIXED = {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "sliding_window": 64}
"""Layers with a window beside layers with full attention."""
WINDOWS = {"layer_types": ["sliding_attention"] * 3, "sliding_window": 160}
"""A window in every layer: three chunks fit into it."""


@pytest.mark.parametrize(
    ("config", "kept", "hit"),
    [pytest.param(MIXED, SHARED, CACHED, id="some"), pytest.param(WINDOWS, 3 * CHUNK, 3 * CHUNK, id="all")],
)
def test_windows(
    first: tuple[Path, list[list[Prompt]], dict[str, Any]],
    tmp_path: Path,
    config: Mapping[str, object],
    kept: int,
    hit: int,
) -> None:
    """With windows in some layers the whole start is loaded, and with windows in all layers the first window of it.

    Answers are as without a store, and other than those of full attention.
    """
    rounds = [group(seed, count=2) for seed in range(3)]
    plain = run(GROUPED, rounds, "", "float32", config=config)
    saved, loaded = (run(GROUPED, rounds, f"folder://{tmp_path}", "float32", config=config) for _ in range(2))
    assert tokens(plain) == tokens(saved) == tokens(loaded)
    assert tokens(plain) != [answers[:2] for answers in tokens(first[2])[:3]]
    assert saved["saved"] == len(list(tmp_path.glob("*.raw"))) == 3 * kept // CHUNK
    assert loaded["loaded"] == 3 * kept
    assert cached(loaded) == [hit] * 3


def test_failures_within_windows(tmp_path: Path) -> None:
    """A load that fails within a window changes no answer."""
    rounds = [group(seed, count=2) for seed in range(4)]
    first = run(GROUPED, rounds, f"folder://{tmp_path}", "float32", config=WINDOWS)
    with serving(tmp_path, "", "torn", "changed", "", "", "", "gone") as store:
        assert store.stdout is not None
        address = f"port://localhost:{int(store.stdout.readline())}"
        broken = run(GROUPED, rounds, address, "float32", config=WINDOWS, load_seconds=10.0, pause_seconds=0.0)
    assert tokens(broken) == tokens(first)
    assert 0 < broken["loaded"] < 4 * 3 * CHUNK
