"""Every codec: what comes back is exactly the quantised chunk, and nothing but whole bitstreams of its own is read."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flightllm.errors import BitstreamError, ConfigError, InvalidInputError
from flightllm.kvcache.codec import CODECS, open_codec
from flightllm.kvcache.codec.base import Codec, decode
from flightllm.kvcache.codec.cachegen import CacheGenCodec
from flightllm.kvcache.codec.container import PROFILE_BYTES, Header, seal, unseal
from flightllm.kvcache.codec.fast import FastCodec
from flightllm.kvcache.codec.int8 import Int8Codec
from flightllm.kvcache.codec.levels import DEFAULT_LEVEL, LEVELS, Bins
from flightllm.kvcache.codec.profile import Profile
from flightllm.kvcache.codec.raw import RawCodec
from flightllm.kvcache.profile.learn import learn
from tests.kvcaches import demo_chunks, model_cache, profile_of, random_model, smooth_cache

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
SHAPE = (3, 2, 8)  # layers, heads, numbers of a head


def codecs(profile: Profile) -> list[Codec]:
    """Return one codec of each kind and level, in the order of `CODECS`."""
    levels = [CacheGenCodec(profile, level) for level in range(len(LEVELS))]
    return [RawCodec(), Int8Codec(), *levels[:DEFAULT_LEVEL], FastCodec(), *levels[DEFAULT_LEVEL:]]


def quantised(codec: Codec, cache: torch.Tensor) -> torch.Tensor:
    """Return what a codec makes of a chunk, without its bitstream."""
    match codec:
        case CacheGenCodec():
            return codec.restored(cache)
        case Int8Codec():
            scales = (cache.float().flatten(3).abs().amax(3) / 127).bfloat16().float()[..., None, None]
            numbers = (cache.float() / scales.clamp(min=torch.finfo(torch.bfloat16).tiny)).round().clamp(-127, 127)
            largest = torch.finfo(cache.dtype).max
            return (numbers * scales).clamp(-largest, largest).to(cache.dtype)
        case FastCodec():
            return torch.stack([uniform(cache, layer) for layer in range(len(cache))]).view_as(cache).to(cache.dtype)
        case _:
            return cache


def uniform(cache: torch.Tensor, layer: int) -> torch.Tensor:
    """Return a layer in 8-bit steps around the channels' means, with a step for each ten tokens."""
    width = 0.8 * Bins().widths(len(cache), DEFAULT_LEVEL)[layer]
    numbers = cache[layer].flatten(2).float()
    means = numbers.mean(1, keepdim=True).bfloat16().float()
    found = []
    for start in range(0, numbers.shape[1], 10):
        group = numbers[:, start : start + 10] - means
        usual, largest = group.square().mean((1, 2), keepdim=True).sqrt(), group.abs().amax((1, 2), keepdim=True)
        step = torch.maximum(width * usual, largest / 127).bfloat16().float()
        whole = (group / step.clamp(min=torch.finfo(torch.float32).tiny)).round().clamp(-127, 127)
        found.append(whole * step + means)
    largest_of_type = torch.finfo(cache.dtype).max
    return torch.cat(found, dim=1).clamp(-largest_of_type, largest_of_type)


def check_round_trip(codec: Codec, cache: torch.Tensor) -> None:
    """Check that a chunk comes back as it was quantised, layer by layer, in its own number type."""
    data = codec.encode(cache)
    wanted = quantised(codec, cache)
    for layer, found in enumerate(codec.layers(data)):
        assert found.dtype == cache.dtype
        assert torch.equal(found, wanted[layer])
    assert torch.equal(decode(codec, memoryview(bytearray(data))), wanted)


@pytest.mark.slow
@settings(max_examples=60)
@given(
    tokens=st.one_of(st.integers(1, 45), st.sampled_from([100, 333, 1_500, 1_501, 1_509])),
    dtype=st.sampled_from(DTYPES),
    index=st.integers(0, len(CODECS) - 1),
    seed=st.integers(0, 1000),
)
def test_made_up(tokens: int, dtype: torch.dtype, index: int, seed: int) -> None:
    """Chunks of any length, so of any remainder of a group, come back in every codec and number type."""
    layers, heads, head_dim = SHAPE
    cache = smooth_cache(layers, tokens, heads, head_dim, dtype, seed)
    check_round_trip(codecs(profile_of(*SHAPE))[index], cache)


@pytest.mark.slow
@settings(max_examples=40)
@given(data=st.data(), index=st.integers(0, len(CODECS) - 1), tokens=st.integers(1, 25))
def test_unlike_the_profile(data: st.DataObject, index: int, tokens: int) -> None:
    """Numbers that no profile has foreseen, zeros and outliers among them, come back too."""
    layers, heads, head_dim = SHAPE
    scales = st.sampled_from([0.0, 1e-30, 1e-6, 1.0, 77.0, 6e4, 1e12])
    random = torch.Generator().manual_seed(data.draw(st.integers(0, 99)))
    cache = torch.randn(layers, 2, tokens, heads, head_dim, generator=random)
    cache *= torch.tensor([data.draw(scales) for _ in range(tokens)])[:, None, None]
    cache *= torch.tensor([data.draw(scales) for _ in range(head_dim)]).clamp(max=77)
    codec = codecs(profile_of(*SHAPE))[index]
    check_round_trip(codec, cache)
    half = cache.clamp(-65_504, 65_504).half()
    check_round_trip(codec, half)
    assert bool(torch.isfinite(decode(codec, codec.encode(half))).all())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("kind", "heads", "kv_heads"), [("Llama", 4, 2), ("Llama", 4, 4), ("Qwen2", 6, 2), ("Qwen2", 2, 2)]
)
def test_models(kind: str, heads: int, kv_heads: int, dtype: torch.dtype) -> None:
    """Chunks of Llamas and Qwens, with grouped and with ordinary heads, come back in every codec."""
    model = random_model(kind, heads, kv_heads, dtype)
    ids = torch.randint(0, 512, (1, 407), generator=torch.Generator().manual_seed(3))
    cache = model_cache(model, ids)
    assert cache.dtype == dtype
    for codec in codecs(learn(lambda: [cache[:, :, :300]])):
        check_round_trip(codec, cache)


@pytest.mark.slow
def test_demo_model() -> None:
    """Chunks of the demo model come back in every codec, each level smaller and further off than the one before."""
    learned, *others = demo_chunks()
    sizes, errors = [], []
    for codec in codecs(learn(lambda: [learned])):
        for cache in others:
            check_round_trip(codec, cache)
        sizes.append(len(codec.encode(others[0])))
        errors.append(float((decode(codec, codec.encode(others[0])) - others[0]).square().mean()))
    assert sizes == sorted(sizes, reverse=True)
    assert errors[0] == 0.0
    assert errors[2:] == sorted(errors[2:])
    fast = CODECS.index("fast")
    assert sizes[fast] <= 1.3 * sizes[fast + 1]


def test_long() -> None:
    """A chunk of 5,000 tokens comes back."""
    layers, heads, head_dim = SHAPE
    check_round_trip(CacheGenCodec(profile_of(*SHAPE)), smooth_cache(layers, 5_000, heads, head_dim))


def test_channels_beyond_a_stream() -> None:
    """Channels that fill streams of 32 and one of a few more come back."""
    check_round_trip(CacheGenCodec(profile_of(2, 3, 24)), smooth_cache(2, 77, 3, 24))


@pytest.mark.parametrize("index", range(len(CODECS)), ids=CODECS)
def test_damaged(index: int) -> None:
    """Cut short at any byte, with any byte changed, or longer than it was, a bitstream is refused."""
    layers, heads, head_dim = SHAPE
    codec = codecs(profile_of(*SHAPE))[index]
    data = codec.encode(smooth_cache(layers, 21, heads, head_dim))
    step = max(1, len(data) // 300)
    for place in range(0, len(data), step):
        with pytest.raises(BitstreamError):
            decode(codec, data[:place])
        changed = bytearray(data)
        changed[place] ^= 1 << (place % 8)
        with pytest.raises(BitstreamError):
            decode(codec, changed)
    with pytest.raises(BitstreamError):
        decode(codec, data + b"\0")


def test_foreign() -> None:
    """A bitstream of another codec, level or profile, or of another program, is refused by name."""
    layers, heads, head_dim = SHAPE
    cache = smooth_cache(layers, 21, heads, head_dim)
    ours = CacheGenCodec(profile_of(*SHAPE))
    other = learn(lambda: [smooth_cache(layers, 100, heads, head_dim, seed=9)])
    for data, said in (
        (RawCodec().encode(cache), "coded by 'raw'"),
        (CacheGenCodec(profile_of(*SHAPE), 1).encode(cache), "coded by 'cachegen-1'"),
        (CacheGenCodec(other).encode(cache), "another model's profile"),
        (b"PAR1" + bytes(200), "not a coded KV chunk"),
    ):
        with pytest.raises(BitstreamError, match=said):
            decode(ours, data)


def test_refused() -> None:
    """NaN, infinities and chunks of another model are refused before they are coded; raw takes any numbers."""
    layers, heads, head_dim = SHAPE
    cache = smooth_cache(layers, 21, heads, head_dim)
    for number in (torch.nan, torch.inf):
        broken = cache.clone()
        broken[1, 0, 3, 0, 2] = number
        for codec in (Int8Codec(), FastCodec(), CacheGenCodec(profile_of(*SHAPE))):
            with pytest.raises(InvalidInputError, match="code it as 'raw'"):
                codec.encode(broken)
        found = decode(RawCodec(), RawCodec().encode(broken))
        assert torch.equal(found.view(torch.int32), broken.view(torch.int32))
    with pytest.raises(InvalidInputError, match="use the profile of its own model"):
        CacheGenCodec(profile_of(*SHAPE)).encode(smooth_cache(layers + 1, 21, heads, head_dim))
    with pytest.raises(InvalidInputError, match="float64"):
        RawCodec().encode(cache.double())


@pytest.mark.parametrize("name", CODECS)
def test_by_name(name: str, tmp_path: Path) -> None:
    """Each codec is opened by the name that it says, with a profile read from its file."""
    profile_of(*SHAPE).save(tmp_path / "profile.npz")
    codec = open_codec(name, tmp_path / "profile.npz")
    assert codec.name == name
    layers, heads, head_dim = SHAPE
    check_round_trip(codec, smooth_cache(layers, 30, heads, head_dim))


def test_unknown_name() -> None:
    """A codec there is not is refused with the names there are; a level needs a profile."""
    with pytest.raises(ConfigError, match="raw, int8, cachegen-0"):
        open_codec("zip")
    with pytest.raises(ConfigError, match="needs the model's profile"):
        open_codec("cachegen-2")


@pytest.mark.parametrize("index", range(len(CODECS)), ids=CODECS)
def test_forged(index: int) -> None:
    """A payload that is not what its shape asks for is refused, though its checksum is right."""
    layers, heads, head_dim = SHAPE
    codec = codecs(profile_of(*SHAPE))[index]
    cache = smooth_cache(layers, 21, heads, head_dim)
    profile = profile_of(*SHAPE).digest if isinstance(codec, CacheGenCodec) else b"\0" * PROFILE_BYTES
    header, payload = unseal(codec.encode(cache), codec.name, profile)
    random = np.random.default_rng(0)
    forged: list[bytes] = [bytes(payload[:-2]), bytes(payload) + b"\0\0", bytes(payload[:40]), b""]
    if isinstance(codec, CacheGenCodec | FastCodec):  # other words of a raw or int8 payload are other numbers
        forged += [random.bytes(len(payload)) for _ in range(20)]
    for one in forged:
        with pytest.raises(BitstreamError):
            decode(codec, seal(header, one))
    longer = Header(header.codec, replace(header.shape, tokens=4_000_000_000), header.profile)
    with pytest.raises(BitstreamError):
        decode(codec, seal(longer, payload))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_cuda() -> None:
    """A chunk coded on the CPU comes back on a GPU."""
    codec, cache = CacheGenCodec(profile_of(*SHAPE)), smooth_cache(SHAPE[0], 1_500, *SHAPE[1:])
    found = decode(codec, codec.encode(cache), "cuda")
    assert found.device.type == "cuda"
    assert torch.allclose(found.cpu(), codec.restored(cache), atol=1e-4)
