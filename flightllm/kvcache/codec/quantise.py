"""Quantise a layer of a KV cache as CacheGen does: anchors to 8 bits, other tokens as differences to a prediction.

First the profile's rotation turns a token's keys (or values) in a layer, head by head, into channels that vary
independently. The first of each ten tokens is the anchor: its vector is scaled by its largest number and quantised to 8
bits. The prediction for the other tokens of the group is, for each channel, mean + weight × (anchor - mean), with the
profile's mean and weight. The difference to the prediction is divided by the bin's width and rounded. Widths are in
units of the group's root mean square difference. So there is one scale for each anchor's vector and one for each group.

Source: Liu et al. 2024, CacheGen, section 5.2. The paper subtracts the whole anchor, which is a weight of 1.
"""

from dataclasses import dataclass

import torch

from flightllm.kvcache.codec.levels import ANCHOR_LARGEST, GROUP_TOKENS

SCALE_DTYPE = torch.bfloat16  # two bytes with the range of float32
_OUTLIERS = 8
"""A group's scale is that of its median token, so that an outlier does not coarsen the others.

It is at least the scale of the whole group divided by this number.
"""
_TINY = torch.finfo(torch.float32).tiny
_INT16 = torch.iinfo(torch.int16)


@dataclass(frozen=True, slots=True)
class LayerProfile:
    """The profile of one layer: rotation, mean and weight of its keys and values.

    `rotation` (2 × heads × head_dim × head_dim, or None) has the channels in columns; `mean` and `weight` are of shape
    (2, channels, 1).
    """

    rotation: torch.Tensor | None
    mean: torch.Tensor
    weight: torch.Tensor


@dataclass(frozen=True, slots=True)
class Quantised:
    """A quantised layer: whole numbers (2 × channels × tokens, 16 bits), and scales of its anchors and its groups.

    Scales are of shape (2, groups).
    """

    numbers: torch.Tensor
    anchor_scales: torch.Tensor
    group_scales: torch.Tensor


def quantise(layer: torch.Tensor, profile: LayerProfile, width: float) -> Quantised:
    """Return a layer (2 × tokens × heads × head_dim) in whole numbers.

    One channel of three tokens, with mean 0, weight 0.5 and `width` 0.5:

    | token | value | expected | difference | number |
    |---|---|---|---|---|
    | 0, the anchor | 1.0 | | | 127 (in units of the anchor's scale, 1/127) |
    | 1 | 0.9 | 0.5 | 0.4 | 4 (in units of the group's scale times `width`, 0.2 × 0.5) |
    | 2 | 0.3 | 0.5 | -0.2 | -2 |
    """
    channels = to_channels(layer, profile.rotation)
    quantised, anchor_scales = quantise_anchors(channels[:, :, ::GROUP_TOKENS])
    expected = _expected(quantised * anchor_scales.float()[:, None], profile)
    tokens = channels.shape[2]
    differences = _grouped(channels - _spread(expected, tokens))
    group_scales = _group_scales(differences, tokens)
    steps = (group_scales.float() * width).clamp(min=_TINY)
    numbers = (differences / steps[:, None, :, None]).round().clamp(_INT16.min, _INT16.max)
    numbers[..., 0] = quantised
    return Quantised(numbers.flatten(2)[:, :, :tokens].to(torch.int16), anchor_scales, group_scales)


def quantise_anchors(channels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return tokens (2 × channels × tokens) as anchors, in whole numbers of 8 bits, and their scales (2 × tokens)."""
    scales = (channels.abs().amax(1) / ANCHOR_LARGEST).to(SCALE_DTYPE)
    numbers = (channels / scales.float().clamp(min=_TINY)[:, None]).round()
    return numbers.clamp(-ANCHOR_LARGEST, ANCHOR_LARGEST), scales


def dequantise(quantised: Quantised, profile: LayerProfile, width: float | torch.Tensor, heads: int) -> torch.Tensor:
    """Return the layer (2 × tokens × heads × head_dim, 32 bits) of quantised numbers; the inverse of `quantise`.

    Several layers are restored at once if all tensors have layers × 2 in place of 2. `width` is then a tensor of shape
    (layers × 2, 1).
    """
    numbers = quantised.numbers
    tokens = numbers.shape[2]
    anchors = numbers[:, :, ::GROUP_TOKENS] * quantised.anchor_scales.float()[:, None]
    expected = _expected(anchors, profile)
    steps = _spread((quantised.group_scales.float() * width)[:, None], tokens)
    channels = (numbers * steps).add_(_spread(expected, tokens))
    channels[:, :, ::GROUP_TOKENS] = anchors
    return _from_channels(channels, profile.rotation, heads)


def to_channels(layer: torch.Tensor, rotation: torch.Tensor | None) -> torch.Tensor:
    """Return a layer (2 × tokens × heads × head_dim) by channels (2 × channels × tokens, 32 bits), rotated."""
    by_head = layer.float().transpose(1, 2)
    turned = by_head if rotation is None else by_head @ rotation
    return turned.transpose(-1, -2).flatten(1, 2).contiguous()


def _from_channels(channels: torch.Tensor, rotation: torch.Tensor | None, heads: int) -> torch.Tensor:
    by_head = channels.view(len(channels), heads, -1, channels.shape[2]).transpose(-1, -2)
    turned = by_head if rotation is None else by_head @ rotation.transpose(-1, -2)
    return turned.transpose(1, 2)


def _expected(anchors: torch.Tensor, profile: LayerProfile) -> torch.Tensor:
    """Return the prediction for the other tokens of each group (2 × channels × groups)."""
    return (anchors - profile.mean).mul_(profile.weight).add_(profile.mean)


def _spread(by_group: torch.Tensor, tokens: int) -> torch.Tensor:
    """Repeat each group's value for each token of the group."""
    return by_group[..., None].expand(*by_group.shape, GROUP_TOKENS).flatten(2)[:, :, :tokens]


def _grouped(channels: torch.Tensor) -> torch.Tensor:
    """Return the channels by group (2 × channels × groups × 10); zeros fill the last group."""
    padded = torch.nn.functional.pad(channels, (0, -channels.shape[2] % GROUP_TOKENS))
    return padded.view(*channels.shape[:2], -1, GROUP_TOKENS)


def _group_scales(differences: torch.Tensor, tokens: int) -> torch.Tensor:
    """Return the root mean square difference of each group's median token (2 × groups); see `_OUTLIERS`."""
    by_token = differences.square().mean(1)[:, :, 1:]
    missing = -tokens % GROUP_TOKENS
    if missing:
        by_token = by_token.clone()
        by_token[:, -1, GROUP_TOKENS - 1 - missing :] = torch.nan
    middle = by_token.nanmedian(2).values.sqrt()
    whole = by_token.nanmean(2).sqrt() / _OUTLIERS
    return torch.maximum(middle, whole).nan_to_num(0.0).to(SCALE_DTYPE)
