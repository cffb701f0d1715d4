"""The container of every coded chunk: a header that describes it, and a checksum over the whole."""

import struct
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from flightllm.errors import BitstreamError, InvalidInputError
from flightllm.kvcache.codec.base import Bitstream, KvShape

VERSION: Final = 1
DTYPES: Final = ("float16", "bfloat16", "float32")

_MAGIC = b"FKVC"
_NAME_BYTES, PROFILE_BYTES, _CHECK_BYTES = 16, 16, 8
# magic, version, number type, layers, heads, head_dim, tokens, codec's name, its profile, bytes of the payload
_HEADER = struct.Struct(f"<4sBBHHHI{_NAME_BYTES}s{PROFILE_BYTES}sQ")
OVERHEAD_BYTES: Final = _HEADER.size + _CHECK_BYTES


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a bitstream: its codec's name, the chunk's shape, and the digest of the profile."""

    codec: str
    shape: KvShape
    profile: bytes = b"\0" * PROFILE_BYTES


def seal(header: Header, payload: Bitstream) -> bytes:
    """Return the bitstream of a coded chunk.

    Raises:
        InvalidInputError: the header cannot represent the shape.
    """
    shape = header.shape
    if shape.dtype not in DTYPES:
        raise InvalidInputError(
            f"a KV cache of {shape.dtype} numbers cannot be coded; valid types: {', '.join(DTYPES)}"
        )
    if min(shape.layers, shape.tokens, shape.heads, shape.head_dim) < 1:
        raise InvalidInputError(f"a KV cache without numbers cannot be coded: {shape}")
    try:
        head = _HEADER.pack(
            _MAGIC,
            VERSION,
            DTYPES.index(shape.dtype),
            shape.layers,
            shape.heads,
            shape.head_dim,
            shape.tokens,
            header.codec.encode(),
            header.profile,
            len(payload),
        )
    except struct.error as error:
        raise InvalidInputError(f"a KV cache of this shape cannot be coded: {shape}") from error
    return b"".join((head, payload, _checksum(head, payload)))


def unseal(data: Bitstream, codec: str, profile: bytes = b"\0" * PROFILE_BYTES) -> tuple[Header, memoryview]:
    """Return the header and the payload of a bitstream of `codec`.

    Raises:
        BitstreamError: the bitstream is cut short or damaged, or belongs to another codec, profile or version.
    """
    whole = memoryview(data).cast("B")
    if len(whole) < OVERHEAD_BYTES:
        raise BitstreamError(f"a coded KV chunk has at least {OVERHEAD_BYTES} bytes; this one has {len(whole)}")
    magic, version, dtype, layers, heads, head_dim, tokens, name, made_with, length = _HEADER.unpack_from(whole)
    if magic != _MAGIC:
        raise BitstreamError("not a coded KV chunk: bad magic bytes")
    if version != VERSION:
        raise BitstreamError(f"this KV chunk has format {version}; this version of FlightLLM reads format {VERSION}")
    if length != len(whole) - OVERHEAD_BYTES:
        raise BitstreamError(f"a KV chunk of {length + OVERHEAD_BYTES} bytes has {len(whole)} bytes")
    payload = whole[_HEADER.size : _HEADER.size + length]
    if _checksum(whole[: _HEADER.size], payload) != whole[_HEADER.size + length :]:
        raise BitstreamError("the checksum of this KV chunk is wrong: it was damaged in transfer or on disk")
    found = name.rstrip(b"\0").decode(errors="replace")
    if found != codec:
        raise BitstreamError(f"this KV chunk was coded by {found!r}, not by {codec!r}")
    if made_with != profile:
        raise BitstreamError("this KV chunk was coded with another model's profile, or an earlier one of this model")
    if dtype >= len(DTYPES) or min(layers, heads, head_dim, tokens) < 1:
        raise BitstreamError("the header of this KV chunk has an impossible shape or type")
    return Header(found, KvShape(layers, tokens, heads, head_dim, DTYPES[dtype]), made_with), payload


def misses(payload: memoryview, expected: int) -> BitstreamError | None:
    """Return the error for a payload whose size does not match its header, or None if it matches."""
    if len(payload) == expected:
        return None
    return BitstreamError(f"the payload of this KV chunk has {len(payload)} bytes; its shape needs {expected}")


def _checksum(head: Bitstream, payload: Bitstream) -> bytes:
    found = blake2b(head, digest_size=_CHECK_BYTES)
    found.update(payload)
    return found.digest()
