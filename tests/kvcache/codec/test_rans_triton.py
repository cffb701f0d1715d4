"""The Triton decoder: the same numbers from the same words as on the CPU, the same refusals, and few launches."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import pytest
import torch

from flightllm.kvcache.codec.base import decode
from flightllm.kvcache.codec.cachegen import CacheGenCodec
from flightllm.kvcache.codec.rans_triton import can_decode
from tests.kvcaches import profile_of, smooth_cache

needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="needs Triton, which torch has with CUDA")


@needs_triton
@pytest.mark.slow
def test_interpreted() -> None:
    """Streams of any widths and lanes come back, together; a damaged one is refused; a chunk takes one launch."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.kvcache.codec.interpreted"],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    operations = found["chunk"].pop("operations")
    assert found == {
        "few": True,
        "one lane": True,
        "two lanes, and one": True,
        "refused": [True] * 5,
        "chunk": {"same": True, "launches": 1},
    }
    assert operations + 1 <= 20


@needs_triton
@pytest.mark.parametrize("capability", [80, 90])
def test_compiles(capability: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel is a program for GPUs: the interpreter takes more than the compiler does."""
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")  # else it warns; the kernel has no fractions
    triton_compiler: Any = pytest.importorskip("triton.compiler")
    backends: Any = pytest.importorskip("triton.backends.compiler")
    from flightllm.kvcache.codec.rans_kernel import decode as kernel
    from flightllm.kvcache.codec.rans_triton import CONSTANTS

    constants = {**CONSTANTS, "STREAMS": 4, "LANES": 8}
    arrays = {"words": "*i16", "about": "*i32", "starts": "*i16", "places": "*i32", "out": "*i16", "sound": "*i32"}
    numbers = dict.fromkeys(("streams", "channels", "tokens", "anchors"), "i32")
    signature = {**arrays, **numbers, **dict.fromkeys(constants, "constexpr")}
    source = triton_compiler.ASTSource(kernel, signature, constexprs=constants)
    made = triton_compiler.compile(source, target=backends.GPUTarget("cuda", capability, 32), options={"num_warps": 1})
    assert made.asm["cubin"]


def test_without_triton() -> None:
    """For a device that Triton does not know, the CPU decodes."""
    codec, cache = CacheGenCodec(profile_of(3, 2, 8)), smooth_cache(3, 21, 2, 8)
    assert not can_decode("meta")
    assert not can_decode("cpu")
    found = decode(codec, codec.encode(cache), "meta")
    assert found.device == torch.device("meta")
    assert found.shape == cache.shape
