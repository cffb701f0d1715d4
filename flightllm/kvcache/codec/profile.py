"""A model's profile: the data that bitstreams leave out because all KV caches of the model share it."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from flightllm.common.atomic_files import write_atomically
from flightllm.common.cached import cached_property
from flightllm.errors import ConfigError, InvalidInputError
from flightllm.kvcache.codec.base import KvShape
from flightllm.kvcache.codec.container import PROFILE_BYTES
from flightllm.kvcache.codec.levels import BINS, LEVELS, Bins
from flightllm.kvcache.codec.quantise import LayerProfile
from flightllm.kvcache.codec.rans import ESCAPE, SYMBOLS, TOTAL

_FORMAT = 1


@dataclass(frozen=True)
class Profile:
    """The profile of one model: layers × keys and values × channels.

    `rotation` is of shape (layers, 2, heads, head_dim, head_dim), or empty; `mean` and `weight` of (layers, 2,
    channels); `anchors` of (layers, 2, channels, 256) and `differences` of (levels, layers, 2, channels, 256) hold
    frequencies that add up to 4,096.
    """

    heads: int
    rotation: NDArray[np.float32]
    mean: NDArray[np.float32]
    weight: NDArray[np.float32]
    anchors: NDArray[np.uint16]
    differences: NDArray[np.uint16]
    bins: Bins = field(default_factory=Bins)

    @property
    def layers(self) -> int:
        """Return the number of layers of the model."""
        return int(self.mean.shape[0])

    @property
    def head_dim(self) -> int:
        """Return the numbers per token in a head."""
        return int(self.mean.shape[2]) // self.heads

    @cached_property
    def digest(self) -> bytes:
        """Return the digest by which bitstreams name the profile."""
        found = blake2b(repr((_FORMAT, self.heads, self.bins, LEVELS)).encode(), digest_size=PROFILE_BYTES)
        for array in self._arrays().values():
            found.update(np.ascontiguousarray(array).tobytes())
        return found.digest()

    def layer(self, index: int, device: torch.device | str) -> LayerProfile:
        """Return the part of the profile for quantising a layer, on `device`."""
        return self.layers_of(slice(index, index + 1), device)

    def layers_of(self, chosen: slice, device: torch.device | str) -> LayerProfile:
        """Return the part of the profile for some layers, with layers × 2 in place of 2 in each shape."""
        rotation = torch.from_numpy(self.rotation[chosen]).flatten(0, 1).to(device) if self.rotation.size else None
        mean, weight = (
            torch.from_numpy(array[chosen]).flatten(0, 1)[..., None].to(device) for array in (self.mean, self.weight)
        )
        return LayerProfile(rotation, mean, weight)

    def tables(self, index: int, level: int) -> NDArray[np.uint16]:
        """Return a layer's frequencies, of shape (2, kinds, channels, 256): anchors' first, then differences'."""
        return np.stack([self.anchors[index], self.differences[level, index]], axis=1)

    def check(self, shape: KvShape) -> None:
        """Check that a chunk is of the model.

        Raises:
            InvalidInputError: the chunk has another shape.
        """
        found = (shape.layers, shape.heads, shape.head_dim)
        wanted = (self.layers, self.heads, self.head_dim)
        if found != wanted:
            raise InvalidInputError(
                f"the profile is for a model with {wanted[0]} layers of {wanted[1]} heads of {wanted[2]} numbers; this"
                f" KV cache has {found[0]} of {found[1]} of {found[2]}: use the profile of its own model"
            )

    def save(self, path: Path) -> None:
        """Write the profile to a file atomically."""
        buffer = io.BytesIO()
        about = {"format": _FORMAT, "heads": self.heads, "bins": self.bins.thirds, "levels": LEVELS}
        np.savez_compressed(buffer, about=np.array(json.dumps(about)), **self._arrays())
        write_atomically(path, buffer.getvalue())

    @classmethod
    def load(cls, path: Path) -> Profile:
        """Read a profile.

        Raises:
            ConfigError: the file cannot be read, is not a profile, or has another version.
        """
        again = f"make it again: python -m flightllm.kvcache.profile MODEL --output {path}"
        try:
            with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as found:
                about = json.loads(str(found["about"]))
                arrays = {name: found[name] for name in cls._names()}
        except FileNotFoundError as error:
            raise ConfigError(f"the profile {path} does not exist; {again}") from error
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise ConfigError(f"{path} is not a profile of a model's KV caches, or it is damaged; {again}") from error
        if not isinstance(about, dict) or about.get("format") != _FORMAT or about.get("levels") != list(LEVELS):
            raise ConfigError(f"the profile {path} was made by another version; {again}")
        heads: Any = about.get("heads")
        bins: Any = about.get("bins")
        whole = isinstance(heads, int) and isinstance(bins, list) and len(bins) == len(BINS)
        whole = whole and all(isinstance(width, int | float) and width > 0 for width in bins)
        profile = cls(heads=heads, bins=Bins(tuple(bins)), **arrays) if whole else None
        if profile is None or not profile.is_whole:
            raise ConfigError(f"{path} is not a profile of a model's KV caches, or it is damaged; {again}")
        return profile

    @property
    def is_whole(self) -> bool:
        """Return whether the profile's parts fit together: the compiled coder does not check its tables."""
        if self.mean.ndim != 3 or self.heads < 1 or self.mean.shape[2] % self.heads:
            return False
        layers, _, channels = self.mean.shape
        head_dim = channels // self.heads
        shape = (layers, 2, channels, SYMBOLS)
        tables = (self.anchors, self.differences)
        reals = (self.rotation, self.mean, self.weight)
        return (
            (self.anchors.shape, self.differences.shape) == (shape, (len(LEVELS), *shape))
            and self.mean.shape == self.weight.shape == (layers, 2, channels)
            and self.rotation.shape in {(0,), (layers, 2, self.heads, head_dim, head_dim)}
            and all(array.dtype == np.float32 and bool(np.isfinite(array).all()) for array in reals)
            and all(table.dtype == np.uint16 for table in tables)
            and all(bool((table.sum(-1) == TOTAL).all() and (table[..., ESCAPE] > 0).all()) for table in tables)
        )

    def _arrays(self) -> Mapping[str, Any]:
        return {name: getattr(self, name) for name in self._names()}

    @classmethod
    def _names(cls) -> list[str]:
        return [one.name for one in fields(cls) if one.name not in {"heads", "bins"}]
