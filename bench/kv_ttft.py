"""How soon does an answer begin if the prompt's KV cache comes over a network, and if it is computed?

    python -m bench.kv_ttft [--gbps 0.1 0.3 1 3 10] [--tokens 1500 3000 6000 10000] [--repeats 3] [--json] [--quick]
    python -m bench.kv_ttft --traces 20 --slo 1

Runs the local engine from a prompt's tokens to the first token of the answer, with a real store behind an emulated
network. The model's prefill takes seconds. Its weights are random; its keys and values are as compressible as those of
a trained model, or hardly compressible with `--model bench`. The ways to get the KV cache:

- `text` computes all tokens
- `int8` loads 8-bit numbers
- `cachegen-2` loads the default level
- `adaptive` is the engine's own policy, which chooses among the other ways, chunk by chunk

The engine knows the link's rate from earlier loads. With `--traces` the figure is how often the first token is later
than `--slo`, on random bandwidths of 0.1 to 10 Gbit/s. The store then holds the levels that the adaptive policy chooses
among.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median
from typing import Any, Final

from bench.common import Options, markdown, report
from bench.kv_fixed import Fixed
from bench.models import SHAPES, model
from bench.network import Network
from bench.traces import random_trace
from flightllm.engines.local.kv import KeptStarts
from flightllm.engines.local.model import PrefixModel
from flightllm.kvcache.codec import CODECS, DEFAULT_CODEC
from flightllm.kvcache.options import KvOptions
from flightllm.kvcache.profile.learn import learn
from flightllm.kvcache.stream.base import TEXT, FetchPolicy, Ladder
from flightllm.llm.engine import Parameters, Request
from flightllm.llm.tokenizer import PromptEncoder
from tests.kv_servers import KvProcess

_LADDER: Final = Ladder(("int8", DEFAULT_CODEC), DEFAULT_CODEC)
_LEVELS: Final = Ladder(tuple(name for name in CODECS if name != "raw"), DEFAULT_CODEC)
_VOCABULARY: Final = 4_000
_PROFILED, _PROFILED_TOKENS = 16, (500, 3_000)
"""The number of prompts to learn the profile from, and the least and most tokens of each.

Within these bounds they are as long as the measured prompts.
"""
_SETTLING: Final = 2
"""The number of loads that only measure the link."""


class Bench:
    """An engine with a store behind a network. The store holds the starts of one prompt in all lengths."""

    def __init__(self, folder: Path, open_things: ExitStack, given: argparse.Namespace, codecs: Sequence[str]) -> None:
        tokens = max(given.tokens)
        self._prompt = _tokens(0, tokens + 1)
        weights = model(SHAPES[given.model])
        self._model = PrefixModel(weights, "cpu", "auto")
        profile = folder / "profile.npz"
        low, high = _PROFILED_TOKENS
        profiled = min(max(tokens, low), high)
        caches = [self._model.kv_cache(_tokens(seed, profiled)) for seed in range(1, _PROFILED)]
        learn(lambda: caches).save(profile)
        store = open_things.enter_context(KvProcess(folder, "--max-bytes", str(8 << 30)))
        self.network = open_things.enter_context(Network(store.uri.removeprefix("grpc://")))
        options = KvOptions(
            f"grpc://{self.network.address}",
            codec=DEFAULT_CODEC,
            codecs=codecs,
            profile=str(profile),
            save="all",
            chunk_tokens=given.chunk,
            save_tokens=1_000_000,
            flush_seconds=600.0,
        )
        encoder = PromptEncoder(weights)
        filling = KeptStarts(options, "bench", weights, self._model, encoder)
        self._engine = filling
        self.use(Fixed(_LADDER, TEXT))  # the engine does not save KV chunks that follow lossy loads
        for length in given.tokens:
            self.first_token(length)
        filling.close()
        whole = self._model.kv_cache(self._prompt[:profiled])
        self.bits = {
            codec.name: 8 * len(codec.encode(whole)) / whole.numel() for codec in filling.keeper.source.codecs.values()
        }
        self._engine = KeptStarts(replace(options, save="none"), "bench", weights, self._model, encoder)

    def use(self, policy: FetchPolicy | None, slo: float | None = None) -> None:
        """Set the policy by which the engine chooses; None sets the engine's own policy."""
        keeper = self._engine.keeper
        keeper.source = replace(keeper.source, policy=policy or keeper.policy)
        keeper.slo_seconds = slo

    def first_token(self, tokens: int) -> float:
        """Return the seconds to the first token after a prompt's first `tokens` tokens, with an empty local cache."""
        self._model.kept_ids = []
        prompt = [*self._prompt[:tokens], self._prompt[-1]]
        request = Request(0, "", Parameters(), "ai_gen", "", ())
        started = time.perf_counter()
        rows, _ = self._engine.prefill([request], [prompt], 0)
        rows.logits.argmax(-1).tolist()
        return time.perf_counter() - started


def _tokens(seed: int, count: int) -> list[int]:
    """Return a prompt of random tokens. To a model with random weights, they are as good as any text."""
    numbers = random.Random(seed)  # noqa: S311
    return [numbers.randrange(10, _VOCABULARY) for _ in range(count)]


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--gbps", nargs="+", type=float, default=[0.1, 0.3, 1, 3, 10])
    parser.add_argument("--tokens", nargs="+", type=int, default=[1_500, 3_000, 6_000, 10_000])
    parser.add_argument("--model", choices=SHAPES, default="bench-decaying")
    parser.add_argument("--chunk", type=int, default=1_500, help="tokens in a chunk (default 1,500)")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--traces", type=int, default=0, help="random traces for an SLO, instead of fixed rates")
    parser.add_argument("--slo", type=float, default=1.0, help="seconds (default 1)")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    parser.add_argument("--quick", action="store_true", help="one length, two rates")
    given = parser.parse_args()
    if given.quick:
        given.gbps, given.tokens, given.repeats = [0.1, 10], [1_500], 1
    codecs = _LEVELS.codecs if given.traces else _LADDER.codecs
    with tempfile.TemporaryDirectory() as folder, ExitStack() as open_things:
        bench = Bench(Path(folder), open_things, given, [name for name in codecs if name != DEFAULT_CODEC])
        measure = late if given.traces else fixed_rates
        print({codec: f"{bits:.2f} bits/element" for codec, bits in bench.bits.items()})
        figures = measure(bench, given)
    if given.json:
        report("kv_ttft", Options(given.json, given.quick, given.repeats), figures)


def fixed_rates(bench: Bench, given: argparse.Namespace) -> dict[str, Any]:
    """Return the median seconds of each way, for each rate and each length of prompt."""
    ways: Mapping[str, FetchPolicy | None] = {
        "text": Fixed(_LADDER, TEXT),
        "int8": Fixed(_LADDER, "int8"),
        DEFAULT_CODEC: Fixed(_LADDER, DEFAULT_CODEC),
        "adaptive": None,
    }
    found: dict[str, Any] = {}
    for rate in given.gbps:
        bench.network.limit(rate)
        for tokens in given.tokens:
            for policy in (ways["int8"], *[None] * _SETTLING):
                bench.use(policy)
                bench.first_token(min(given.tokens))
            seconds: dict[str, list[float]] = {way: [] for way in ways}
            for _ in range(given.repeats):
                for way, policy in ways.items():
                    bench.use(policy)
                    seconds[way].append(bench.first_token(tokens))
            found[f"{rate:g} Gbit/s, {tokens:,} tokens"] = {way: median(runs) for way, runs in seconds.items()}
            print(list(found.items())[-1], flush=True)
    heads: dict[str, Callable[[Any], str]] = {f"{way}, s": lambda one, way=way: f"{one[way]:.2f}" for way in ways}  # type: ignore[misc]
    heads["int8 / adaptive"] = lambda one: f"{one['int8'] / one['adaptive']:.2f}"
    heads["adaptive / text"] = lambda one: f"{one['adaptive'] / one['text']:.2f}"
    print(markdown("link and prompt", heads, found))
    return found


def late(bench: Bench, given: argparse.Namespace) -> dict[str, Any]:
    """Return the share of late first tokens and the mean seconds to the first token, over random traces."""
    ways: Mapping[str, FetchPolicy | None] = {
        "adaptive": None,
        f"{DEFAULT_CODEC}, no adaptation": Fixed(_LEVELS, DEFAULT_CODEC),
        "int8": Fixed(_LEVELS, "int8"),
        "text": Fixed(_LEVELS, TEXT),
    }
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for seed in range(given.traces):
        trace = random_trace(seed)
        for tokens in given.tokens:
            for way, policy in ways.items():
                bench.use(policy, given.slo)
                bench.network.follow(trace)
                seconds[way].append(bench.first_token(tokens))
    found = {
        way: {"late": fmean(one > given.slo for one in runs), "mean": fmean(runs)} for way, runs in seconds.items()
    }
    heads: dict[str, Callable[[Any], str]] = {
        "late %": lambda one: f"{100 * one['late']:.0f}",
        "mean s": lambda one: f"{one['mean']:.2f}",
    }
    print(markdown(f"SLO {given.slo:g} s", heads, found))
    return found


if __name__ == "__main__":
    main()
