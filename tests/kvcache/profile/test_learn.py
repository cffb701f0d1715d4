"""What is learned from KV caches: what made them."""

import pytest
import torch

from flightllm.errors import InvalidInputError
from flightllm.kvcache.codec.cachegen import CacheGenCodec
from flightllm.kvcache.profile.learn import learn
from tests.kvcaches import smooth_cache


def test_mean_and_weight() -> None:
    """Means are the channels', and weights how much anchors tell of the tokens after them."""
    random = torch.Generator().manual_seed(0)
    alone = torch.randn(1, 2, 6_000, 1, 4, generator=random)
    group = torch.randn(1, 2, 600, 1, 4, generator=random).repeat_interleave(10, 2)
    mixed = torch.tensor([0.0, 0.5, 0.9, 1.0])
    cache = mixed.sqrt() * group + (1 - mixed).sqrt() * alone + torch.tensor([1.0, 2.0, 3.0, 4.0])
    profile = learn(lambda: [cache], rotate=False)
    assert torch.allclose(torch.from_numpy(profile.mean), torch.tensor([1.0, 2.0, 3.0, 4.0]), atol=0.1)
    assert torch.allclose(torch.from_numpy(profile.weight), mixed, atol=0.1)


def test_rotation_takes_out_what_is_common() -> None:
    """Channels that say the same twice take less room once rotated, at no larger error."""
    random = torch.Generator().manual_seed(0)
    few = torch.randn(2, 2, 2_000, 1, 3, generator=random)
    cache = few @ torch.randn(3, 12, generator=random) + 0.01 * torch.randn(2, 2, 2_000, 1, 12, generator=random)
    sizes, errors = [], []
    for rotate in (True, False):
        codec = CacheGenCodec(learn(lambda: [cache], rotate=rotate))
        sizes.append(len(codec.encode(cache)))
        errors.append(float((codec.restored(cache) - cache).square().mean()))
    assert sizes[0] < 0.8 * sizes[1]
    assert errors[0] < 1.1 * errors[1]


def test_nothing_to_learn() -> None:
    """No KV cache, one shorter than a group, or some of several models, are no profile."""
    for chunks in ([], [smooth_cache(2, 9, 1, 4)]):
        with pytest.raises(InvalidInputError, match="10 tokens"):
            learn(lambda chunks=chunks: chunks)  # type: ignore[misc]
    with pytest.raises(InvalidInputError, match="one model"):
        learn(lambda: [smooth_cache(2, 20, 1, 4), smooth_cache(2, 20, 2, 4)])
