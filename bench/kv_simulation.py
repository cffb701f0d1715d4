"""Simulate the transfer of one prompt's KV chunks over a link of varying bandwidth.

The policies and the bandwidth meter are the product's own. No bytes are sent. Sizes and rates of decoding are read from
a measurement: a file with what `python -m bench.kv_codec --json` prints.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Self

from bench.kv_fixed import Fixed
from bench.traces import Trace
from flightllm.kvcache.chunks import CHUNK_TOKENS, Chunk
from flightllm.kvcache.codec import CODECS, DEFAULT_CODEC
from flightllm.kvcache.codec.levels import needs_profile
from flightllm.kvcache.prefixes import Cutting
from flightllm.kvcache.stream.base import TEXT, TEXT_CHUNK, ChunkCosts, FetchPolicy, HeldChunk, Ladder, Situation
from flightllm.kvcache.stream.meter import Meter
from flightllm.kvcache.stream.prefill import Prefill
from flightllm.llm.cost import Rates

LADDER: Final = Ladder(CODECS, DEFAULT_CODEC)
MEASURED: Final = Path(__file__).parent / "results" / "kv_codec.json"
"""The recorded figures of `bench.kv_codec`."""
_EXACT_BITS: Final = 16.0
_SIZES_OF: Final = "sample tables"
_LARGE, _DEMO = "8 layers, 8 heads of 128", "demo: 6 layers, 2 heads of 64"
"""The measured shapes. A large model's rate of decoding is that of its shape with fewer layers: in bytes a second."""
_COMPUTED: Final = "demo model, computed tokens/s"
_PART_BYTES: Final = 2**20
_LOOK_SECONDS: Final = 0.02


@dataclass(frozen=True, slots=True)
class Model:
    """The properties of a model and its machine that matter for KV caches."""

    elements: int
    """The count of numbers in a token's keys and values, over all layers."""
    bits: Mapping[str, float]
    """The bits of a number, by codec."""
    decoded: Mapping[str, float]
    """The tokens decoded in a second, by codec."""
    prefill: Prefill

    @classmethod
    def measured(cls, figures: Mapping[str, Any], shape: str, elements: int, prefill: Prefill) -> Self:
        """Return a model with the sizes and the rates of decoding that `bench.kv_codec` measured for a shape.

        All levels of CacheGen take the work of the default level.
        """
        bits = {codec: _EXACT_BITS if codec == "raw" else figures[_bits(codec)] for codec in CODECS}
        megabytes = {codec: figures[f"{shape}, {_timed(codec)}"][1] for codec in CODECS}
        return cls(elements, bits, {codec: rate * 1e6 / (2 * elements) for codec, rate in megabytes.items()}, prefill)

    def at(self, rate: float) -> Model:
        """Return the model on a machine that decodes the default codec at `rate` tokens/s; the others in proportion."""
        share = rate / self.decoded[DEFAULT_CODEC]
        return replace(self, decoded={codec: share * one for codec, one in self.decoded.items()})

    def same(self, rate: float) -> Model:
        """Return the model on a machine that decodes every codec at `rate` tokens/s."""
        return replace(self, decoded=dict.fromkeys(self.decoded, rate))

    def decode(self, codec: str, tokens: int) -> float:
        """Return the seconds of decoding."""
        return tokens / self.decoded[codec]

    def held(self, tokens: int) -> list[HeldChunk]:
        """Return the chunks of a prompt. Every codec holds them, except the last tokens that fill no chunk."""
        cutting = Cutting("", CHUNK_TOKENS, 1)
        chunks = cutting.worth(cutting.chunks(range(tokens), ""), tokens)
        sizes = {codec: self.elements * bits / 8 for codec, bits in self.bits.items()}
        held = [
            HeldChunk(chunk, {codec: int(size * chunk.tokens) for codec, size in sizes.items()}) for chunk in chunks
        ]
        reached = chunks[-1].stop if chunks else 0
        return held if reached == tokens else [*held, HeldChunk(Chunk("", reached, tokens), {})]


def read_models(file: Path = MEASURED) -> dict[str, Model]:
    """Return the models with the sizes and rates in a file of `bench.kv_codec`.

    `7b` has 32 layers of 8 heads of 128 (Mistral-7B) and Preble's fit of prefill on an A6000. `demo` is the demo model
    with its own measured prefill, if the file has it.

    Raises:
        ValueError: the file lacks a figure.
    """
    content = json.loads(file.read_text(encoding="utf-8"))
    figures: Mapping[str, Any] = content.get("figures", content)
    large = Prefill.of(Rates(call=0.022, computed=0.115e-3, cached=0.0), 32, 4_096, 7_000_000_000)
    try:
        found = {"7b": Model.measured(figures, _LARGE, 2 * 32 * 8 * 128, large)}
        if _COMPUTED in figures:
            demo = Prefill(Rates(call=0.0, computed=1 / figures[_COMPUTED], cached=0.0))
            found["demo"] = Model.measured(figures, _DEMO, 2 * 6 * 2 * 64, demo)
    except KeyError as error:
        raise ValueError(f"{file}: no figure {error}; write the file with python -m bench.kv_codec --json") from error
    return found


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one prompt."""

    seconds: float
    """The seconds until the whole prompt was available."""
    bits: float
    """The bits of a number, as the mean over the prompt's tokens; 16 is exact."""
    text: float
    """The share of the prompt's tokens that were computed."""
    given_up: int
    returned: int = 0
    """The number of chunks that were fetched after a computed one."""


def simulate(
    model: Model, tokens: int, policy: FetchPolicy, trace: Trace, slo: float, trip: float, *, returns: bool = True
) -> Outcome:
    """Fetch a prompt at the beginning of the trace; return its result.

    Every request takes a round trip of `trip` seconds. The engine decodes and computes one chunk after the other, while
    the next one is transferred. With `returns` it can compute a chunk and load the next one.
    """
    meter, left = Meter(), model.held(tokens)
    costs = ChunkCosts(model.prefill, model.decode)
    meter.asked(trip, trip)
    now, done, bits, given_up, text, returned = trip, 0.0, 0.0, 0, 0, 0
    looks = not isinstance(policy, Fixed)

    def situation(at: float) -> Situation:
        return Situation(
            left,
            costs,
            meter.throughput(at),
            round_trip=meter.round_trip(at),
            elapsed=at,
            slo=slo,
            busy=max(0.0, done - at),
            returns=returns,
        )

    while left:
        chunk, sizes = left[0].chunk, left[0].sizes
        codec = policy.choose(situation(now))
        if codec in {TEXT, TEXT_CHUNK}:
            stop = chunk.stop if codec == TEXT_CHUNK else tokens
            now = max(now, done)
            done = now + model.prefill(chunk.start, stop)
            text += stop - chunk.start
            bits += (stop - chunk.start) * _EXACT_BITS
            left = left[1:] if codec == TEXT_CHUNK else []
            continue
        number, last, look, rest = meter.begin(now), now + trip, now + _LOOK_SECONDS, sizes[codec]
        kept = True
        while rest and kept:
            part = min(_PART_BYTES if looks else rest, rest)
            arrival = trace.arrival(last, part)
            while looks and kept and look < arrival:
                kept = policy.keeps(situation(look), codec, rest)
                look += _LOOK_SECONDS * kept
            if kept:
                last, rest = arrival, rest - part
                meter.part(number, part, last)
        now = last if kept else look
        meter.end(number, now)
        given_up += not kept
        if kept:
            now = max(now, done)
            done = now + model.decode(codec, chunk.tokens)
            bits += chunk.tokens * model.bits[codec]
            returned += bool(text)
            left = left[1:]
        else:
            left = [left[0].without(codec), *left[1:]]
    return Outcome(done, bits / tokens, text / tokens, given_up, returned)


def _bits(codec: str) -> str:
    return f"{_SIZES_OF}, {codec}, bits"


def _timed(codec: str) -> str:
    return DEFAULT_CODEC if needs_profile(codec) else codec
