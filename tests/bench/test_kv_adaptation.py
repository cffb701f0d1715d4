"""KV caches on links that change: the simulation is exact where nothing changes, and bytes take the same way."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the extra 'local' is not installed")

from bench.kv_adaptation import POLICIES, live
from bench.kv_simulation import LADDER, MODELS, simulate
from bench.network import Network
from bench.traces import GIGABIT, Trace, random_trace
from flightllm.kvcache.stream.adapt import Adaptive
from flightllm.kvcache.stream.base import TEXT, Ladder
from flightllm.kvcache.stream.fixed import Fixed
from flightllm.kvcache.stream.link import Link
from flightllm.kvcache.stream.prefill import Prefill
from flightllm.kvcache.stream.source import ChunkSource
from flightllm.llm.cost import Rates
from tests.kv_stores import CODECS, FlightStore, flight_chunks, kept

_ROOT = Path(__file__).parents[2]


def test_steady_link() -> None:
    """On a steady link a codec takes a trip and its bytes for each chunk, and the decoding of the last one."""
    model, rate = MODELS["7b"], 2 * GIGABIT
    outcome = simulate(model, 3_968, Fixed(LADDER, "cachegen-2"), Trace((2.0,)), 1.0, 0.01)
    held = model.held(3_968)
    size = sum(one.sizes["cachegen-2"] for one in held)
    last = held[-1].chunk.tokens * model.decode_seconds
    assert outcome.seconds == pytest.approx((1 + len(held)) * 0.01 + size / rate + last)
    assert outcome.bits == pytest.approx(2.3)


def test_text() -> None:
    """Text takes the question and the prefill, whatever the link."""
    outcome = simulate(MODELS["7b"], 4_000, Fixed(LADDER, TEXT), Trace((0.1,)), 1.0, 0.01)
    assert outcome.seconds == pytest.approx(0.01 + MODELS["7b"].prefill(0, 4_000))
    assert (outcome.bits, outcome.text) == (16.0, 1.0)


def test_link_that_breaks_down() -> None:
    """Where a link breaks down amid a chunk the adaptive policy computes, and the fixed one waits."""
    broken = Trace((2.0, *[0.001] * 1_000), 0.1)
    adaptive = simulate(MODELS["7b"], 9_000, Adaptive(LADDER), broken, 0.9, 0.001)
    fixed = simulate(MODELS["7b"], 9_000, Fixed(LADDER, "cachegen-2"), broken, 0.9, 0.001)
    assert adaptive.given_up >= 1
    assert adaptive.text > 0.5
    assert adaptive.seconds < 5.0 < fixed.seconds


def test_adaptation_is_late_less_often() -> None:
    """Over random links fewer prompts are late than with any one choice for all that is as good."""
    traces = [random_trace(seed) for seed in range(20)]
    late = {
        name: sum(simulate(MODELS["7b"], 6_000, POLICIES[name], trace, 0.8, 0.001).seconds > 0.8 for trace in traces)
        for name in ("adaptive", "cachegen-2 (no adaptation)", "int8")
    }
    assert late["adaptive"] < late["cachegen-2 (no adaptation)"] < late["int8"]


def test_live() -> None:
    """With bytes, through a slow link, a prompt is fetched from a store, and what is done is told."""
    with flight_chunks() as server:
        prompt = kept(server.put, channels=256)
        with Network(f"127.0.0.1:{server.port}") as network, FlightStore(network.address) as store:
            ladder = Ladder(("raw", "int8"), "int8")
            source = ChunkSource(Link(store), CODECS, Fixed(ladder, "int8"), Prefill(Rates(call=60.0)))
            seconds, figures = live(prompt.chunks, source, network, Trace((0.2, 0.4), 0.1), 1.0)
            assert figures.chunks == {"int8": 4}
            assert seconds >= figures.waited_seconds > 0
            source = ChunkSource(Link(store), CODECS, Fixed(ladder, TEXT), Prefill(Rates(call=60.0)))
            seconds, figures = live(prompt.chunks, source, network, Trace((0.2, 0.4), 0.1), 1.0)
            assert seconds > 60.0
            assert figures.text_tokens == prompt.chunks[-1].stop


@pytest.mark.parametrize("more", [[], ["--uniform"]], ids=["logarithmic", "uniform"])
def test_command_compares_policies(more: list[str]) -> None:
    """In its quick form the command prints one object with all policies."""
    command = [sys.executable, "-m", "bench.kv_adaptation", "--quick", "--json", *more]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])["SLO 1 s"]
    assert figures["text"]["bits"] == 16.0
    assert figures["adaptive"]["late"] <= figures["int8"]["late"]
