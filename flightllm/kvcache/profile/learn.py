"""Learn a profile from KV caches of a model in two passes: the channels' moments, then the symbols' counts."""

from collections.abc import Callable, Iterable

import numpy as np
import torch
from numpy.typing import NDArray

from flightllm.errors import InvalidInputError
from flightllm.kvcache.codec.base import KvShape, shape_of
from flightllm.kvcache.codec.levels import GROUP_TOKENS, LEVELS, Bins
from flightllm.kvcache.codec.profile import Profile
from flightllm.kvcache.codec.quantise import LayerProfile, quantise, quantise_anchors, to_channels
from flightllm.kvcache.codec.rans import ESCAPE, LARGEST, SYMBOLS
from flightllm.kvcache.profile.tables import frequencies

Chunks = Callable[[], Iterable[torch.Tensor]]


def learn(chunks: Chunks, bins: Bins | None = None, *, rotate: bool = True, weight: float | None = None) -> Profile:
    """Return a model's profile, learned from its KV caches; each call of `chunks` must return the same KV caches.

    Without `rotate` the channels stay as they are in the model. `weight` replaces the best weight of each
    channel by one weight for all channels. Weight 1 takes differences to the whole anchor, as in the paper; weight 0
    takes no differences. Both options exist to measure their effect.

    Raises:
        InvalidInputError: there are no KV caches, or they come from several models.
    """
    moments = _Moments()
    for chunk in chunks():
        moments.add(chunk)
    shape = moments.shape
    rotation = moments.rotation() if rotate else None
    mean, weights = moments.expectation(rotation, weight)
    layers = [
        LayerProfile(None if rotation is None else rotation[index], mean[index], weights[index])
        for index in range(shape.layers)
    ]
    bins = bins or Bins()
    counts = _Counts(shape)
    for chunk in chunks():
        counts.add(chunk, layers, bins)
    return Profile(
        shape.heads,
        np.zeros(0, np.float32) if rotation is None else rotation.numpy(),
        mean[..., 0].numpy(),
        weights[..., 0].numpy(),
        frequencies(counts.anchors),
        frequencies(counts.differences),
        bins,
    )


class _Moments:
    """Sums for each head: of numbers, of their products, and of products of anchors with their groups' other tokens."""

    def __init__(self) -> None:
        self._shape: KvShape | None = None
        self._tokens = self._others = 0
        self._sum = self._squares = self._anchors = self._across = torch.zeros(0)

    @property
    def shape(self) -> KvShape:
        if self._shape is None or not self._others:
            raise InvalidInputError(
                f"there is no KV cache to learn from: give chunks of at least {GROUP_TOKENS} tokens"
            )
        return self._shape

    def add(self, chunk: torch.Tensor) -> None:
        """Add a chunk (layers × 2 × tokens × heads × head_dim)."""
        shape = shape_of(chunk)
        if self._shape is None:
            self._shape = shape
            matrix = (shape.layers, 2, shape.heads, shape.head_dim, shape.head_dim)
            self._sum = torch.zeros(*matrix[:-1], dtype=torch.float64)
            self._squares, self._anchors, self._across = (torch.zeros(matrix, dtype=torch.float64) for _ in range(3))
        elif (shape.layers, shape.heads, shape.head_dim) != (
            self._shape.layers,
            self._shape.heads,
            self._shape.head_dim,
        ):
            raise InvalidInputError("the KV caches come from several models: give KV caches of one model only")
        for index, layer in enumerate(chunk):
            by_head = layer.detach().cpu().double().transpose(1, 2)  # 2 × heads × tokens × head_dim
            self._sum[index] += by_head.sum(2)
            self._squares[index] += by_head.transpose(-1, -2) @ by_head
            whole = by_head[:, :, : shape.tokens // GROUP_TOKENS * GROUP_TOKENS].unflatten(2, (-1, GROUP_TOKENS))
            anchor, others = whole[:, :, :, 0], whole[:, :, :, 1:].sum(3)
            self._anchors[index] += anchor.transpose(-1, -2) @ anchor
            self._across[index] += anchor.transpose(-1, -2) @ others
        self._tokens += shape.tokens
        self._others += shape.tokens // GROUP_TOKENS * (GROUP_TOKENS - 1)

    def rotation(self) -> torch.Tensor:
        """Return each head's principal axes in columns (layers × 2 × heads × head_dim × head_dim)."""
        mean = (self._sum / self._tokens)[..., None]
        covariance = self._squares / self._tokens - mean @ mean.transpose(-1, -2)
        axes: torch.Tensor = torch.linalg.eigh(covariance).eigenvectors
        return axes.float().contiguous()

    def expectation(self, rotation: torch.Tensor | None, weight: float | None) -> tuple[torch.Tensor, torch.Tensor]:
        """Return each channel's mean and weight (layers × 2 × channels × 1).

        They are the least-squares line that predicts the other tokens of a group from its anchor.
        """
        mean = self._sum / self._tokens
        anchors, across = self._anchors, self._across
        if rotation is not None:
            turn = rotation.double()
            mean = (turn.transpose(-1, -2) @ mean[..., None])[..., 0]
            anchors, across = (turn.transpose(-1, -2) @ moment @ turn for moment in (anchors, across))
        groups = self._others / (GROUP_TOKENS - 1)
        square = mean.square()
        variance = anchors.diagonal(dim1=-2, dim2=-1) / groups - square
        common = across.diagonal(dim1=-2, dim2=-1) / self._others - square
        found = (common / variance.clamp(min=torch.finfo(torch.float64).tiny)).clamp(0, 1)
        if weight is not None:
            found = torch.full_like(found, weight)
        return mean.flatten(2)[..., None].float(), found.flatten(2)[..., None].float()


class _Counts:
    """How often each channel has each symbol: counted once for anchors, and once at each level for other tokens."""

    def __init__(self, shape: KvShape) -> None:
        self.anchors = np.zeros((shape.layers, 2, shape.channels, SYMBOLS), np.int64)
        self.differences = np.zeros((len(LEVELS), *self.anchors.shape), np.int64)

    def add(self, chunk: torch.Tensor, profiles: list[LayerProfile], bins: Bins) -> None:
        """Add a chunk."""
        for index, profile in enumerate(profiles):
            layer = chunk[index].detach().cpu().float()
            others = torch.arange(layer.shape[1]) % GROUP_TOKENS > 0
            for level in range(len(LEVELS)):
                width = bins.widths(len(profiles), level)[index]
                numbers = quantise(layer, profile, width).numbers
                self.differences[level, index] += histogram(numbers[:, :, others])
            # All tokens are counted as anchors: the real anchors would be too few to learn from.
            self.anchors[index] += histogram(quantise_anchors(to_channels(layer, profile.rotation))[0])


def histogram(numbers: torch.Tensor) -> NDArray[np.int64]:
    """Return the count of each symbol in each channel (2 × channels × 256)."""
    keys, channels, _ = numbers.shape
    symbols = torch.where(numbers.abs() > LARGEST, ESCAPE, numbers + LARGEST).long().flatten(0, 1)
    places = symbols + torch.arange(keys * channels)[:, None] * SYMBOLS
    found = torch.bincount(places.flatten(), minlength=keys * channels * SYMBOLS)
    return found.view(keys, channels, SYMBOLS).numpy()
