"""Decode streams by the Triton kernel, interpreted on the CPU: `TRITON_INTERPRET=1 python -m` this module.

It writes a JSON object with what each case found. It is a program of its own because Triton reads the variable once,
when it is imported.
"""

import json
import sys
from unittest.mock import patch

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from flightllm.errors import BitstreamError
from flightllm.kvcache.codec import cachegen
from flightllm.kvcache.codec.base import decode
from flightllm.kvcache.codec.container import unseal
from flightllm.kvcache.codec.rans import Order, encode_stream
from flightllm.kvcache.codec.rans_triton import Streams, decode_streams, joined, starts_of
from tests.kvcache.codec.streams import anchors_first, normal_tables
from tests.kvcaches import profile_of, smooth_cache

_AT_ONCE = 1024  # lanes in a program: the interpreter takes as long for many as for one


def same_numbers(widths: list[int], tokens: int, seed: int) -> bool:
    """Return whether streams of these many channels, each with its own tables, come back in one launch."""
    random = np.random.default_rng(seed)
    order, words, tables, numbers = anchors_first(tokens), [], [], []
    for width in widths:
        spread = float(random.choice([0.05, 1.0, 5.0, 40.0]))
        one = random.normal(0, spread, (width, tokens)).round().astype(np.int16)
        one.flat[random.integers(0, one.size, 3)] = random.integers(-(1 << 15), 1 << 15, 3)
        tables.append(normal_tables(width, spread))
        words.append(encode_stream(one, tables[-1], order))
        numbers.append(one)
    ends = np.cumsum(widths)
    places = [slice(int(end) - width, int(end)) for end, width in zip(ends, widths, strict=True)]
    starts = starts_of(np.concatenate(tables, axis=1), "cpu")
    found = decode_streams(joined(words, places, tokens), starts, order, _AT_ONCE)
    return bool(np.array_equal(found.numpy(), np.concatenate(numbers)))


def refused() -> list[bool]:
    """Return for each change to a stream whether it is refused, beside a sound stream."""
    numbers = np.random.default_rng(0).normal(0, 3, (2, 10)).round().astype(np.int16)
    tables, order = normal_tables(2, 3), anchors_first(10)
    words = encode_stream(numbers, tables, order)
    starts = starts_of(np.concatenate([tables, tables], axis=1), "cpu")
    found = []
    for other in (words[:-1], words[:0], words[1:], np.append(words, words[:1]), words[::-1].copy()):
        try:
            decode_streams(joined([words, other], [slice(0, 2), slice(2, 4)], 10), starts, order, _AT_ONCE)
            found.append(False)
        except BitstreamError:
            found.append(True)
    return found


class _Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts operations on tensors, except views, which launch nothing."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN204
        self.operations += not func.is_view and func.overloadpacket.__name__ != "_unsafe_view"
        return func(*args, **(kwargs or {}))


def chunk() -> dict[str, object]:
    """Return whether a chunk comes back as on the CPU, and the operations beside the kernel."""
    codec, cache = cachegen.CacheGenCodec(profile_of(2, 3, 11)), smooth_cache(2, 4, 3, 11)
    data = codec.encode(cache)
    wanted = decode(codec, data)
    found: list[torch.Tensor] = []

    def decoded(streams: Streams, starts: torch.Tensor, order: Order) -> torch.Tensor:
        found.append(decode_streams(streams, starts, order, _AT_ONCE))
        return found[-1]

    with patch.object(cachegen, "can_decode", lambda _: True):
        with patch.object(cachegen, "decode_streams", decoded):
            same = torch.equal(decode(codec, data), wanted)
        header, payload = unseal(data, codec.name, codec.profile_digest)
        layout = cachegen._Layout(header.shape)
        parts = cachegen._split(payload, layout)
        with patch.object(cachegen, "decode_streams", lambda *_: found[0]), _Counter() as counter:
            list(codec._on("cpu", parts, layout))
    return {"same": same, "launches": len(found), "operations": counter.operations}


if __name__ == "__main__":
    answer = {
        "few": same_numbers([1], 1, 0),
        "one lane": same_numbers([3, 1, 2, 3, 3, 3, 3, 3], 23, 1),
        "two lanes, and one": same_numbers([32, 32, 1], 33, 2),
        "refused": refused(),
        "chunk": chunk(),
    }
    sys.stdout.write(json.dumps(answer))
