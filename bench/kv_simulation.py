"""Simulate the transfer of one prompt's KV chunks over a link of varying bandwidth.

The policies and the bandwidth meter are the product's own. No bytes are sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bench.traces import Trace
from flightllm.kvcache.chunks import CHUNK_TOKENS, Chunk
from flightllm.kvcache.prefixes import Cutting
from flightllm.kvcache.stream.base import TEXT, ChunkCosts, FetchPolicy, HeldChunk, Ladder, Situation
from flightllm.kvcache.stream.meter import Meter
from flightllm.kvcache.stream.prefill import Prefill
from flightllm.llm.cost import Rates

LADDER: Final = Ladder(("int8", *(f"cachegen-{level}" for level in range(5))), "cachegen-2")
_PART_BYTES: Final = 2**20
_LOOK_SECONDS: Final = 0.02


@dataclass(frozen=True, slots=True)
class Model:
    """The properties of a model and its machine that matter for KV caches."""

    elements: int
    """The count of numbers in a token's keys and values, over all layers."""
    bits: Mapping[str, float]
    """The bits of a number, by codec; `TEXT` means computed and therefore exact."""
    prefill: Prefill
    decode_seconds: float
    """The seconds to decode a token, for any codec."""

    def held(self, tokens: int) -> list[HeldChunk]:
        """Return the chunks of a prompt. Every codec holds them, except the last tokens that fill no chunk."""
        cutting = Cutting("", CHUNK_TOKENS, 1)
        chunks = cutting.worth(cutting.chunks(range(tokens), ""), tokens)
        sizes = {codec: self.elements * bits / 8 for codec, bits in self.bits.items() if codec != TEXT}
        held = [
            HeldChunk(chunk, {codec: int(size * chunk.tokens) for codec, size in sizes.items()}) for chunk in chunks
        ]
        reached = chunks[-1].stop if chunks else 0
        return held if reached == tokens else [*held, HeldChunk(Chunk("", reached, tokens), {})]


MODELS: Final = {
    # 32 layers of 8 heads of 128 (Mistral-7B). Bits: the demo model's, by `bench.kv_codec`. CacheGen has 8 and 2.3 for
    # Mistral-7B (section 7.2: 622 and 176 MB for 9,400 tokens). Prefill: Preble's fit of an A6000.
    "7b": Model(
        2 * 32 * 8 * 128,
        {
            TEXT: 16.0,
            "int8": 8.1,
            "cachegen-0": 4.0,
            "cachegen-1": 3.1,
            "cachegen-2": 2.3,
            "cachegen-3": 1.9,
            "cachegen-4": 1.6,
        },
        Prefill.of(Rates(call=0.022, computed=0.115e-3, cached=0.0), 32, 4_096, 7_000_000_000),
        decode_seconds=1 / 50_000,
    ),
}


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


def simulate(model: Model, tokens: int, policy: FetchPolicy, trace: Trace, slo: float, trip: float) -> Outcome:
    """Fetch a prompt at the beginning of the trace; return its result.

    Every request takes a round trip of `trip` seconds.
    """
    meter, left = Meter(), model.held(tokens)
    costs = ChunkCosts(model.prefill, lambda _, count: count * model.decode_seconds)
    meter.asked(trip, trip)
    now, done, bits, given_up = trip, 0.0, 0.0, 0

    def situation(at: float) -> Situation:
        rate, busy = meter.throughput(at), max(0.0, done - at)
        return Situation(left, costs, rate, round_trip=meter.round_trip(at), elapsed=at, slo=slo, busy=busy)

    while left:
        chunk, sizes = left[0].chunk, left[0].sizes
        codec = policy.choose(situation(now))
        if codec == TEXT:
            rest = tokens - chunk.start
            seconds = max(now, done) + model.prefill(chunk.start, tokens)
            return Outcome(seconds, (bits + rest * model.bits[TEXT]) / tokens, rest / tokens, given_up)
        number, last, look, rest = meter.begin(now), now + trip, now + _LOOK_SECONDS, sizes[codec]
        kept = True
        while rest and kept:
            part = min(_PART_BYTES, rest)
            arrival = trace.arrival(last, part)
            while kept and look < arrival:
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
            done = now + costs.decode(codec, chunk.tokens)
            bits += chunk.tokens * model.bits[codec]
            left = left[1:]
        else:
            left = [left[0].without(codec), *left[1:]]
    return Outcome(done, bits / tokens, 0.0, given_up)
