"""KV caches on links that change: the simulation is exact where nothing changes, and bytes take the same way."""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the extra 'local' is not installed")

from bench.kv_adaptation import POLICIES
from bench.kv_fixed import Fixed
from bench.kv_simulation import LADDER, Model, read_models, simulate
from bench.network import Network
from bench.traces import GIGABIT, SHAPES, Trace, random_trace
from flightllm.kvcache.chunks import Chunk
from flightllm.kvcache.stream.adapt import Adaptive
from flightllm.kvcache.stream.base import TEXT, Ladder
from flightllm.kvcache.stream.fetch import fetch
from flightllm.kvcache.stream.items import FetchFigures, Loaded, Recompute
from flightllm.kvcache.stream.link import Link
from flightllm.kvcache.stream.prefill import Prefill
from flightllm.kvcache.stream.source import ChunkSource
from flightllm.llm.cost import Rates
from tests.kv_stores import CODECS, FlightStore, flight_chunks, kept

_ROOT = Path(__file__).parents[2]
_MODEL = read_models()["7b"].at(50_000.0)


def test_steady_link() -> None:
    """On a steady link a codec takes a trip and its bytes for each chunk, and the decoding of the last one."""
    model, rate = _MODEL, 2 * GIGABIT
    outcome = simulate(model, 3_968, Fixed(LADDER, "cachegen-2"), Trace((2.0,)), 1.0, 0.01)
    held = model.held(3_968)
    size = sum(one.sizes["cachegen-2"] for one in held)
    last = model.decode("cachegen-2", held[-1].chunk.tokens)
    assert outcome.seconds == pytest.approx((1 + len(held)) * 0.01 + size / rate + last)
    assert outcome.bits == pytest.approx(model.bits["cachegen-2"])


def test_text() -> None:
    """Text takes the question and the prefill, whatever the link."""
    outcome = simulate(_MODEL, 4_000, Fixed(LADDER, TEXT), Trace((0.1,)), 1.0, 0.01)
    assert outcome.seconds == pytest.approx(0.01 + _MODEL.prefill(0, 4_000))
    assert (outcome.bits, outcome.text) == (16.0, 1.0)


def test_link_that_breaks_down() -> None:
    """Where a link breaks down amid a chunk the adaptive policy computes, and the fixed one waits."""
    broken = Trace((2.0, *[0.001] * 1_000), 0.1)
    adaptive = simulate(_MODEL, 9_000, Adaptive(LADDER), broken, 0.9, 0.001)
    fixed = simulate(_MODEL, 9_000, Fixed(LADDER, "cachegen-2"), broken, 0.9, 0.001)
    assert adaptive.given_up >= 1
    assert adaptive.text > 0.5
    assert adaptive.seconds < 5.0 < fixed.seconds


def test_adaptation_is_late_less_often() -> None:
    """Over random links fewer prompts are late than with any one choice for all that is as good."""
    traces = [random_trace(seed) for seed in range(20)]
    late = {
        name: sum(simulate(_MODEL, 6_000, POLICIES[name], trace, 0.8, 0.001).seconds > 0.8 for trace in traces)
        for name in ("adaptive", "cachegen-2", "int8")
    }
    assert late["adaptive"] < late["cachegen-2"] < late["int8"]


@pytest.mark.parametrize(
    "rate", [10_000.0, *(pytest.param(rate, marks=pytest.mark.slow) for rate in (2_000.0, 100_000.0))]
)
@pytest.mark.parametrize("returns", [True, False], ids=["returns", "cannot return"])
def test_never_far_above_the_best_choice(rate: float, returns: bool) -> None:
    """However fast the machine decodes, few more prompts are late than with the best fixed choice for a shape."""
    model, late = read_models()["7b"].at(rate), dict.fromkeys(POLICIES, 0)
    names = [name for name in POLICIES if name == "adaptive" or isinstance(POLICIES[name], Fixed)]
    for shape in ("random", "outages", "two states", "wireless"):
        for name in names:
            outcomes = [
                simulate(model, tokens, POLICIES[name], SHAPES[shape](seed), 1.0, 0.001, returns=returns)
                for seed in range(200, 206)
                for tokens in (3_000, 6_000, 9_400)
            ]
            late[name] += sum(one.seconds > 1.0 for one in outcomes)
    assert late["adaptive"] <= 1 + min(late[name] for name in names if name != "adaptive")


def test_text_for_one_chunk_and_kv_for_the_next() -> None:
    """Over a link that breaks down and recovers, chunks are computed meanwhile, and later ones are loaded."""
    broken = Trace((2.0, 0.001, 0.001, *[2.0] * 40), 0.3)
    outcome = simulate(_MODEL, 9_400, Adaptive(LADDER), broken, 0.8, 0.001)
    assert outcome.returned > 0
    assert 0.0 < outcome.text < 1.0
    terminal = simulate(_MODEL, 9_400, Adaptive(LADDER), broken, 0.8, 0.001, returns=False)
    assert terminal.returned == 0
    assert outcome.seconds < 0.8 * terminal.seconds


def test_measured_file(tmp_path: Path) -> None:
    """Sizes and rates are those of the file; a file without them says what it lacks."""
    assert read_models()["7b"].decoded["fast"] > 2 * read_models()["7b"].decoded["cachegen-2"]
    assert Model.at(read_models()["7b"], 4_000.0).decode("cachegen-2", 4_000) == pytest.approx(1.0)
    file = tmp_path / "empty.json"
    file.write_text("{}", encoding="utf-8")
    with pytest.raises(ValueError, match=r"empty\.json: no figure"):
        read_models(file)


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_of_traces(shape: str) -> None:
    """A seed gives the same trace each time, and another one than the next seed; bandwidths are above 0."""
    assert SHAPES[shape](3) == SHAPES[shape](3) != SHAPES[shape](5)
    assert 0 < min(SHAPES[shape](3).gigabits) <= max(SHAPES[shape](3).gigabits) <= 10.0


def live(
    chunks: Sequence[Chunk], source: ChunkSource, network: Network, trace: Trace, slo: float
) -> tuple[float, FetchFigures]:
    """Fetch a prompt's chunks through a slow link at the beginning of a trace; return the seconds and the figures.

    The store of `source` is behind the network. Computed chunks are not computed here: their estimated time is added.
    """
    network.follow(trace)
    started, computing = time.monotonic(), 0.0
    with fetch(chunks, source, slo_seconds=slo) as fetching:
        for item in fetching:
            match item:
                case Loaded():
                    for _ in item.layers:
                        pass
                case Recompute():
                    computing = source.prefill(item.start, item.stop)
    return time.monotonic() - started + computing, fetching.figures


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


@pytest.mark.parametrize(
    "more", [pytest.param([], id="measured"), pytest.param(["--same-rate"], id="same", marks=pytest.mark.slow)]
)
def test_command_compares_policies(more: list[str]) -> None:
    """In its quick form the command prints one object with all policies."""
    command = [sys.executable, "-m", "bench.kv_adaptation", "--quick", "--json", "--shapes", "random", "ramp", *more]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])["50,000 tokens/s, SLO 1 s"]
    assert figures["policies"]["text"]["bits"] == 16.0
    assert figures["policies"]["adaptive"]["late"] <= figures["policies"]["int8"]["late"]
    assert set(figures["shapes"]) == {"random", "ramp"}
