"""Profiles on disk: the same after a round trip, and refused where they are not whole."""

import dataclasses
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from flightllm.errors import ConfigError
from flightllm.kvcache.codec.profile import Profile
from tests.kvcaches import profile_of


def test_round_trip(tmp_path: Path) -> None:
    """A profile read is the one written, by its digest too."""
    written = profile_of(3, 2, 8)
    written.save(tmp_path / "profile.npz")
    read = Profile.load(tmp_path / "profile.npz")
    assert read.digest == written.digest
    assert read.layers == 3
    assert read.head_dim == 8
    for field in dataclasses.fields(Profile):
        assert np.array_equal(getattr(read, field.name), getattr(written, field.name)) or field.name == "bins"
    assert read.bins == written.bins


def test_digest() -> None:
    """Any difference in a profile is one in its digest."""
    one = profile_of(3, 2, 8)
    for name in ("rotation", "mean", "weight", "anchors", "differences"):
        changed = getattr(one, name).copy()
        changed.flat[7] += 1
        assert dataclasses.replace(one, **{name: changed}).digest != one.digest


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 no archive", b"text"])
def test_damaged(tmp_path: Path, content: bytes) -> None:
    """A file that is no profile is refused with what to do."""
    (tmp_path / "profile.npz").write_bytes(content)
    with pytest.raises(ConfigError, match=r"make it again: python -m flightllm\.kvcache\.profile"):
        Profile.load(tmp_path / "profile.npz")


def test_not_whole(tmp_path: Path) -> None:
    """Tables that do not add up, have no escape, or are of another type or shape are refused: no coder meets them."""
    one = profile_of(3, 2, 8)
    anchors = one.anchors.copy()
    anchors[1, 1, 3, 7] += 1
    wide: Any = one.anchors.astype(np.int64)
    wide[0, 0, 0, :2] += [-10, 10]
    certain = np.zeros_like(one.anchors)
    certain[..., 127] = 4_096
    for changed in (
        dataclasses.replace(one, anchors=wide),
        dataclasses.replace(one, anchors=certain),
        dataclasses.replace(one, heads=3),
        dataclasses.replace(one, mean=cast("Any", one.mean.astype(np.float64))),
        dataclasses.replace(one, weight=one.weight * np.float32(np.nan)),
        dataclasses.replace(one, anchors=anchors),
        dataclasses.replace(one, differences=one.differences[:, :2]),
        dataclasses.replace(one, weight=one.weight[:, :, :5]),
        dataclasses.replace(one, rotation=one.rotation[:1]),
    ):
        changed.save(tmp_path / "profile.npz")
        with pytest.raises(ConfigError, match="damaged"):
            Profile.load(tmp_path / "profile.npz")


def test_missing(tmp_path: Path) -> None:
    """A profile that is not there is missed by its path."""
    with pytest.raises(ConfigError, match=r"nowhere\.npz does not exist"):
        Profile.load(tmp_path / "nowhere.npz")
