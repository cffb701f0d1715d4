"""Codecs of KV caches: from a tensor to a bitstream and back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from flightllm.errors import ConfigError, MissingExtraError
from flightllm.kvcache.codec.levels import DEFAULT_LEVEL, FAST, LEVELS, level_name, read_level

if TYPE_CHECKING:
    from flightllm.kvcache.codec.base import Codec

_LEVELS = [level_name(level) for level in range(len(LEVELS))]
CODECS: Final = ("raw", "int8", *_LEVELS[:DEFAULT_LEVEL], FAST, *_LEVELS[DEFAULT_LEVEL:])
"""The names of all codecs in the order of their sizes, the largest first; `fast` has the error of the default level."""
DEFAULT_CODEC: Final = level_name(DEFAULT_LEVEL)


def open_codec(name: str, profile: Path | None = None) -> Codec:
    """Return the codec of this name; `profile` is the file of the model's profile, which CacheGen's levels need.

    Raises:
        ConfigError: the codec or the profile does not exist.
        MissingExtraError: the extra that codes KV caches is not installed.
    """
    if name not in CODECS:
        raise ConfigError(f"unknown codec {name!r} for KV caches; valid codecs: {', '.join(CODECS)}")
    try:
        if name == "raw":
            from flightllm.kvcache.codec.raw import RawCodec

            return RawCodec()
        if name == "int8":
            from flightllm.kvcache.codec.int8 import Int8Codec

            return Int8Codec()
        if name == FAST:
            from flightllm.kvcache.codec.fast import FastCodec

            return FastCodec()
        from flightllm.kvcache.codec.cachegen import CacheGenCodec
        from flightllm.kvcache.codec.profile import Profile
    except ImportError as error:
        raise MissingExtraError("coding KV caches", "kvcache") from error
    if profile is None:
        raise ConfigError(
            f"the codec {name!r} needs the model's profile: run python -m flightllm.kvcache.profile MODEL"
        )
    return CacheGenCodec(Profile.load(profile), read_level(name))
