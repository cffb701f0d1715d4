"""How small and how fast is the KV codec, and what does each of its parts contribute?

    python -m bench.kv_codec [--repeats 5] [--json] [--quick]

Sizes: the demo model with the profile beside it, on texts that the profile was not learned from. These are rows of
sample tables, and long chats if they are available. Parts: bits per element at equal error, with one more part of the
codec in each row. Bits come from the entropies of the numbers. The error is that of the whole codec at its default
level: relative in each layer, and the mean over layers. The level `fast` is compared with the default level, with the
error of each. Speed: bytes of 16-bit numbers a second, on a chunk of 1,500 tokens of a synthetic cache in the shape of
a model. The last column has the speed of decoding while two processes compute without a pause. A further figure
is the demo model's speed of computing a prompt. `bench.kv_adaptation` reads these figures.
"""

import statistics
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from bench.common import Options, markdown, parse_options, report
from bench.kv_quality import long_chats
from flightllm.common.package_data import demo_model
from flightllm.engines.local.model import PrefixModel
from flightllm.kvcache.chunks import CHUNK_TOKENS
from flightllm.kvcache.codec.base import Codec, decode
from flightllm.kvcache.codec.cachegen import CacheGenCodec
from flightllm.kvcache.codec.fast import FastCodec
from flightllm.kvcache.codec.int8 import Int8Codec
from flightllm.kvcache.codec.levels import DEFAULT_LEVEL, Bins
from flightllm.kvcache.codec.profile import Profile
from flightllm.kvcache.codec.quantise import dequantise, quantise
from flightllm.kvcache.codec.raw import RawCodec
from flightllm.kvcache.profile.learn import learn
from flightllm.kvcache.profile.place import profile_path
from flightllm.kvcache.profile.report import LevelReport, SymbolCounts
from flightllm.kvcache.profile.report import report as report_sizes
from flightllm.kvcache.profile.texts import contexts, sample_texts
from flightllm.llm.tokenizer import PromptEncoder

_SHAPES = {"demo: 6 layers, 2 heads of 64": (6, 2, 64), "8 layers, 8 heads of 128": (8, 8, 128)}
_EVEN = Bins((1.0, 1.0, 1.0))
_HELD_OUT = 4


def main() -> None:
    """Measure, and print tables."""
    options = parse_options(__doc__ or "")
    learned, texts = _chunks(12, 500) if options.quick else _chunks(40, CHUNK_TOKENS)
    profile = Profile.load(profile_path(demo_model()))
    figures: dict[str, Any] = {}
    for name, chunks in texts.items():
        found = {f"cachegen-{one.level}": one for one in report_sizes(profile, chunks)}
        print(markdown(name, _SIZES, found))
        figures |= {f"{name}, {level}, by int8": one.by_int8 for level, one in found.items()}
        figures |= {f"{name}, {level}, over entropy": one.bits / one.entropy_bits for level, one in found.items()}
        figures |= {f"{name}, {level}, bits": one.bits for level, one in found.items()}
        beside = {one.name: sizes(one, chunks) for one in (CacheGenCodec(profile), FastCodec(), Int8Codec())}
        print(markdown(f"{name}, error", _BESIDE, beside))
        figures |= {f"{name}, {codec}, bits": one[0] for codec, one in beside.items()}
        figures |= {f"{name}, {codec}, error": one[1] for codec, one in beside.items()}
    parts = ablation(learned, next(iter(texts.values())))
    print(markdown("parts", {"bits/element at equal error": lambda bits: f"{bits:.2f}"}, parts))
    figures |= parts
    figures["demo model, computed tokens/s"] = computed = prefill_rate(options.repeats)
    print(f"The demo model computes {computed:,.0f} tokens a second of a prompt of {CHUNK_TOKENS:,} tokens.\n")
    for name, shape in _SHAPES.items():
        speeds = speed(shape, options.repeats)
        print(markdown(f"{name}, MB/s", _SPEEDS, speeds))
        figures |= {f"{name}, {codec}": one for codec, one in speeds.items()}
    report("kv_codec", Options(options.json, options.quick, options.repeats), figures)


_SIZES: Mapping[str, Callable[[LevelReport], str]] = {
    "bits/element": lambda one: f"{one.bits:.3f}",
    "entropy": lambda one: f"{one.entropy_bits:.3f}",
    "over it": lambda one: f"{one.bits / one.entropy_bits - 1:.1%}",
    "smaller than int8": lambda one: f"{one.by_int8:.2f}×",
}

_BESIDE: Mapping[str, Callable[[tuple[float, float]], str]] = {
    "bits/element": lambda one: f"{one[0]:.3f}",
    "relative error": lambda one: f"{one[1]:.3f}",
}
_SPEEDS: Mapping[str, Callable[[tuple[float, float, float]], str]] = {
    "encode": lambda one: f"{one[0]:.0f}",
    "decode": lambda one: f"{one[1]:.0f}",
    "decode beside 2 busy processes": lambda one: f"{one[2]:.0f}",
}


def _chunks(count: int, tokens: int) -> tuple[list[torch.Tensor], dict[str, list[torch.Tensor]]]:
    """Return chunks to learn a profile from, and held-out chunks by the kind of text.

    Each chunk has `tokens` tokens. Every fourth sample is held out.
    """
    model, encoder = PrefixModel(demo_model(), "cpu", "auto"), PromptEncoder(demo_model(), chat=False)
    rows = (encoder.encode([text])[0] for text in sample_texts())
    samples = [model.kv_cache(ids) for ids in contexts(rows, tokens, count)]
    found = {"sample tables": samples[_HELD_OUT - 1 :: _HELD_OUT]}
    chats = long_chats(encoder, count // _HELD_OUT)
    if chats:
        found["long chats"] = [model.kv_cache(ids[:tokens]) for ids in chats]
    return [chunk for place, chunk in enumerate(samples) if (place + 1) % _HELD_OUT], found


def ablation(learned: Sequence[torch.Tensor], chunks: Sequence[torch.Tensor]) -> dict[str, float]:
    """Return the bits per element at equal error, with one more part of the codec in each entry."""
    whole = learn(lambda: learned)
    error = _coded(whole, chunks, 1.0)[0]
    plain = partial(learn, lambda: learned, _EVEN, rotate=False)
    alone = plain(weight=0.0)
    return {
        "vectors scaled, one distribution for all": _bits_at(error, alone, chunks, by_channel=False),
        "a distribution for each layer and channel": _bits_at(error, alone, chunks),
        "differences to the anchor (the paper's)": _bits_at(error, plain(weight=1.0), chunks),
        "… weighted for each channel": _bits_at(error, plain(), chunks),
        "… in rotated channels": _bits_at(error, learn(lambda: learned, _EVEN), chunks),
        "bins that grow with depth": _bits_at(error, whole, chunks),
    }


def _bits_at(error: float, profile: Profile, chunks: Sequence[torch.Tensor], *, by_channel: bool = True) -> float:
    """Return the bits per element at a given relative error, by a search for the bins' width."""
    low, high = 0.05, 20.0
    for _ in range(9):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if _coded(profile, chunks, middle)[0] < error else (low, middle)
    return _coded(profile, chunks, (low * high) ** 0.5, by_channel=by_channel)[1]


def _coded(
    profile: Profile, chunks: Sequence[torch.Tensor], factor: float, *, by_channel: bool = True
) -> tuple[float, float]:
    """Return the relative error (mean over layers) and the bits per element, with bins `factor` times as wide."""
    widths = [factor * width for width in profile.bins.widths(profile.layers, DEFAULT_LEVEL)]
    symbols, errors, squares = SymbolCounts(profile), torch.zeros(profile.layers), torch.zeros(profile.layers)
    for chunk in chunks:
        for index, layer in enumerate(chunk):
            known = profile.layer(index, "cpu")
            quantised = quantise(layer, known, widths[index])
            symbols.add(index, quantised)
            errors[index] += (dequantise(quantised, known, widths[index], profile.heads) - layer).square().sum()
            squares[index] += layer.square().sum()
    bits = symbols.bits(by_channel=by_channel) / sum(chunk.numel() for chunk in chunks)
    return float((errors / squares).sqrt().mean()), bits


def sizes(codec: Codec, chunks: Sequence[torch.Tensor]) -> tuple[float, float]:
    """Return a codec's bits per element, and its relative error (mean over layers)."""
    errors, squares, size = torch.zeros(len(chunks[0])), torch.zeros(len(chunks[0])), 0
    for chunk in chunks:
        data = codec.encode(chunk)
        size += len(data)
        errors += (decode(codec, data) - chunk).square().sum((1, 2, 3, 4))
        squares += chunk.square().sum((1, 2, 3, 4))
    return 8 * size / sum(chunk.numel() for chunk in chunks), float((errors / squares).sqrt().mean())


def speed(shape: tuple[int, int, int], repeats: int) -> dict[str, tuple[float, float, float]]:
    """Return each codec's median MB/s of encoding, of decoding, and of decoding beside two busy processes.

    The codecs take turns, and so do the rounds with and without the busy processes.
    """
    layers, heads, head_dim = shape
    cache = _made_up(layers, heads, head_dim)
    codecs: tuple[Codec, ...] = (
        CacheGenCodec(learn(lambda: [cache[:, :, :500]])), FastCodec(), Int8Codec(), RawCodec()
    )  # fmt: skip
    runs: dict[str, tuple[Callable[[], bytes], Callable[[bytes], object]]] = {
        one.name: (partial(one.encode, cache), partial(decode, one)) for one in codecs
    }
    runs["int8 + zlib"] = (
        partial(_zipped, Int8Codec(), cache),
        lambda data: decode(Int8Codec(), zlib.decompress(data)),
    )
    coded = {name: encode() for name, (encode, _) in runs.items()}
    for name, (_, read) in runs.items():
        read(coded[name])
    seconds: dict[str, list[tuple[float, float, float]]] = {name: [] for name in runs}
    for _ in range(repeats):
        alone = {
            name: (_seconds(encode), _seconds(partial(read, coded[name]))) for name, (encode, read) in runs.items()
        }
        with _busy(2):
            beside = {name: _seconds(partial(read, coded[name])) for name, (_, read) in runs.items()}
        for name, spent in seconds.items():
            spent.append((*alone[name], beside[name]))
    size = 2 * cache.numel() / 1e6
    medians = {name: [statistics.median(one) for one in zip(*spent, strict=True)] for name, spent in seconds.items()}
    return {name: (size / one[0], size / one[1], size / one[2]) for name, one in medians.items()}


def prefill_rate(repeats: int) -> float:
    """Return the tokens a second that the demo model computes of a prompt of `CHUNK_TOKENS` tokens, as the median."""
    model, encoder = PrefixModel(demo_model(), "cpu", "auto"), PromptEncoder(demo_model(), chat=False)
    [ids] = contexts((encoder.encode([text])[0] for text in sample_texts()), CHUNK_TOKENS, 1)

    def compute() -> None:
        model.kept_ids = []
        model.extend(ids)

    compute()
    return CHUNK_TOKENS / statistics.median(_seconds(compute) for _ in range(repeats))


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


@contextmanager
def _busy(processes: int) -> Iterator[None]:
    """Run processes that compute without a pause."""
    loop = "print(flush=True)\nwhile True: pass"
    busy = [subprocess.Popen([sys.executable, "-c", loop], stdout=subprocess.PIPE) for _ in range(processes)]
    try:
        for one in busy:
            if one.stdout is not None:
                one.stdout.readline()  # it has started
        yield
    finally:
        for one in busy:
            one.kill()
            one.communicate()


def _zipped(codec: Codec, cache: torch.Tensor) -> bytes:
    return zlib.compress(codec.encode(cache))


def _made_up(layers: int, heads: int, head_dim: int) -> torch.Tensor:
    """Return a synthetic chunk in which neighbouring tokens are similar and channels differ."""
    random = torch.Generator().manual_seed(0)
    noise = torch.randn(layers, 2, CHUNK_TOKENS, heads, head_dim, generator=random)
    channels = torch.randn(layers, 2, 1, heads, head_dim, generator=random)
    walk = noise.cumsum(2) / torch.arange(1, CHUNK_TOKENS + 1).sqrt()[:, None, None]
    return ((walk + noise) * channels.exp() + channels).half()


if __name__ == "__main__":
    main()
