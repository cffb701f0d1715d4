"""Quantisation against its definition, written out number by number."""

import numpy as np
import pytest
import torch

from flightllm.kvcache.codec.quantise import LayerProfile, dequantise, quantise
from tests.kvcaches import smooth_cache


def written_out(layer: torch.Tensor, profile: LayerProfile, width: float) -> torch.Tensor:
    """Return what comes back of a layer without rotation, token by token and channel by channel."""
    kinds, tokens = layer.shape[:2]
    numbers = layer.flatten(2).numpy()
    found = np.zeros_like(numbers)
    mean, weight = profile.mean[..., 0].numpy(), profile.weight[..., 0].numpy()
    for kind in range(kinds):
        for start in range(0, tokens, 10):
            anchor = numbers[kind, start]
            scale = _two_bytes(np.abs(anchor).max() / np.float32(127))
            found[kind, start] = np.clip(np.rint(anchor / scale), -127, 127) * scale
            expected = (found[kind, start] - mean[kind]) * weight[kind] + mean[kind]
            others = numbers[kind, start + 1 : start + 10] - expected
            if not len(others):
                continue
            by_token = np.sort((others**2).mean(1))
            spread = max(np.sqrt(by_token[(len(by_token) - 1) // 2]), np.sqrt(by_token.mean()) / 8)
            step = _two_bytes(spread) * np.float32(width)
            found[kind, start + 1 : start + 10] = np.rint(others / step) * step + expected
    return torch.from_numpy(found).view(layer.shape)


def _two_bytes(number: float) -> np.float32:
    return np.float32(float(torch.tensor(number).bfloat16()))


@pytest.mark.parametrize("tokens", [1, 2, 9, 10, 11, 25, 100])
@pytest.mark.parametrize("width", [0.125, 1.5])
def test_as_defined(tokens: int, width: float) -> None:
    """Anchors, expectations, scales and bins are those of the definition, for every remainder of a group."""
    [layer] = smooth_cache(1, tokens, 2, 8)
    random = torch.Generator().manual_seed(0)
    profile = LayerProfile(None, torch.randn(2, 16, 1, generator=random), torch.rand(2, 16, 1, generator=random))
    found = dequantise(quantise(layer, profile, width), profile, width, 2)
    assert torch.allclose(found, written_out(layer, profile, width), rtol=1e-4, atol=1e-4)


def test_rotation() -> None:
    """What is quantised in rotated channels is turned back."""
    [layer] = smooth_cache(1, 40, 2, 8)
    rotation = torch.linalg.qr(torch.randn(2, 2, 8, 8, generator=torch.Generator().manual_seed(0))).Q
    profile = LayerProfile(rotation, torch.zeros(2, 16, 1), torch.zeros(2, 16, 1))
    found = dequantise(quantise(layer, profile, 0.01), profile, 0.01, 2)
    error = (found - layer).abs().max()
    assert 0 < error < 0.1 * layer.abs().max()


def test_outlier() -> None:
    """A token far out leaves the bins of its group as they are, up to a factor."""
    [layer] = smooth_cache(1, 10, 1, 8)
    plain = LayerProfile(None, torch.zeros(2, 8, 1), torch.zeros(2, 8, 1))
    scales = quantise(layer, plain, 1.0).group_scales
    layer[:, 5] *= 20
    assert bool((quantise(layer, plain, 1.0).group_scales <= 2 * scales).all())


def test_repeated_tokens() -> None:
    """Groups of equal tokens, whose differences are nothing, come back equal."""
    layer = torch.ones(2, 20, 1, 8) * torch.arange(8)
    profile = LayerProfile(None, torch.zeros(2, 8, 1), torch.ones(2, 8, 1))
    found = dequantise(quantise(layer, profile, 1.0), profile, 1.0, 1)
    assert torch.allclose(found, layer, atol=0.05)
