"""What a profile's report says is what the codec does."""

import pytest
import torch

from flightllm.common.package_data import demo_model
from flightllm.kvcache.codec.cachegen import CacheGenCodec
from flightllm.kvcache.codec.int8 import Int8Codec
from flightllm.kvcache.codec.levels import LEVELS
from flightllm.kvcache.codec.profile import Profile
from flightllm.kvcache.profile.place import profile_path
from flightllm.kvcache.profile.report import report
from tests.kvcaches import demo_chunks, profile_of, smooth_cache


def test_sizes_and_errors() -> None:
    """Bits are those of the bitstreams, above the entropy; errors are those of what comes back."""
    profile, chunks = profile_of(3, 2, 8), [smooth_cache(3, 400, 2, 8, seed=seed) for seed in (7, 8)]
    elements = sum(chunk.numel() for chunk in chunks)
    levels = report(profile, chunks)
    assert [one.level for one in levels] == list(range(len(LEVELS)))
    for one in levels:
        codec = CacheGenCodec(profile, one.level)
        assert one.bits == 8 * sum(len(codec.encode(chunk)) for chunk in chunks) / elements
        assert one.int8_bits == 8 * sum(len(Int8Codec().encode(chunk)) for chunk in chunks) / elements
        assert one.entropy_bits < one.bits
        lost = torch.cat([codec.restored(chunk) - chunk for chunk in chunks], 2).square().mean((2, 3, 4))
        had = torch.cat(chunks, 2).square().mean((2, 3, 4))
        assert torch.allclose(torch.tensor(one.errors), (lost / had).sqrt(), rtol=1e-3)


@pytest.mark.slow
def test_demo_profile() -> None:
    """The profile beside the demo model fits it: near the entropy, and by default 3 times smaller than int8."""
    profile = Profile.load(profile_path(demo_model()))
    chunks = demo_chunks()
    default = report(profile, chunks)[2]
    assert default.bits < 1.08 * default.entropy_bits  # of few chunks, whose own histograms flatter the entropy
    assert default.by_int8 > 3
