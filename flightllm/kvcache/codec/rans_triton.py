"""The decoder of `rans` for accelerators: one launch of a Triton kernel decodes all streams of a chunk.

A program decodes as many streams as have 32 lanes together, which is one warp. Each turn decodes one number of every
lane. A prefix sum over a stream's lanes gives each the place of its next word, because all read from one position.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from flightllm.errors import BitstreamError
from flightllm.kvcache.codec.rans import ESCAPE, LARGEST, LOWEST, MOST_LANES, SCALE_BITS, SYMBOLS, Order, lanes_of

_SYMBOL_BITS = SYMBOLS.bit_length() - 1
_DEVICES = ("cuda", "xpu")


def can_decode(device: str) -> bool:
    """Return whether the kernel runs on a device: Triton is installed and makes programs for it."""
    return torch.device(device).type in _DEVICES and find_spec("triton") is not None


@dataclass(frozen=True, slots=True)
class Streams:
    """The streams of a chunk in one array of words, as whole numbers of 16 bits, and what each stream holds."""

    words: NDArray[np.int16]
    about: NDArray[np.int32]
    """For each stream: its first word, the end of its words, its lanes, its first channel and the end of its channels.

    Channels are counted over the whole chunk.
    """


def joined(words: Sequence[NDArray[np.uint16]], channels: Sequence[slice], tokens: int) -> Streams:
    """Return streams as the kernel reads them.

    Raises:
        BitstreamError: a stream has fewer words than its lanes need.
    """
    lengths = np.array([len(one) for one in words])
    lanes = np.array([lanes_of((place.stop - place.start) * tokens) for place in channels])
    if (lengths < 2 * lanes).any():
        raise _damaged()
    ends = lengths.cumsum()
    first, last = ([getattr(place, edge) for place in channels] for edge in ("start", "stop"))
    about = np.stack([ends - lengths, ends, lanes, first, last], axis=1)
    return Streams(np.concatenate(words).astype("<u2").view(np.int16), about.astype(np.int32))


def starts_of(tables: NDArray[np.uint16], device: str) -> torch.Tensor:
    """Return the first slot of each symbol, and the total; of any tables of frequencies (… × 256)."""
    starts = np.zeros((*tables.shape[:-1], SYMBOLS + 1), np.int16)
    np.cumsum(tables, axis=-1, out=starts[..., 1:])
    return torch.from_numpy(starts).to(device)


def decode_streams(streams: Streams, starts: torch.Tensor, order: Order, threads: int = MOST_LANES) -> torch.Tensor:
    """Return the numbers (channels × tokens, 16 bits) of all streams of a chunk, decoded by `threads` a program.

    `starts` (2 × channels × 257) has the first slots of the anchors' symbols, then those of the others.

    Raises:
        BitstreamError: the encoder did not make a stream's words with its tables.
    """
    device, channels, tokens = starts.device, starts.shape[1], len(order.tokens)
    out = torch.empty(channels, tokens, dtype=torch.int16, device=device)
    sound = torch.empty(len(streams.about), dtype=torch.int32, device=device)
    words, about = torch.from_numpy(streams.words).to(device), torch.from_numpy(streams.about).to(device)
    places = torch.from_numpy(order.tokens.astype(np.int32)).to(device)
    count, lanes = len(streams.about), int(streams.about[:, 2].max())
    at_once = threads // lanes
    _kernel()[(-(-count // at_once),)](
        words, about, starts, places, out, sound, count, channels, tokens, order.anchors,
        STREAMS=at_once, LANES=lanes, num_warps=1, **CONSTANTS,
    )  # fmt: skip
    if not bool(sound.all()):
        raise _damaged()
    return out


CONSTANTS: Final = {
    "LARGEST": LARGEST,
    "ESCAPE": ESCAPE,
    "LOWEST": LOWEST,
    "SCALE_BITS": SCALE_BITS,
    "SYMBOL_BITS": _SYMBOL_BITS,
}


def _kernel() -> Any:
    """Return the kernel; Triton is imported once a chunk is decoded on an accelerator."""
    from flightllm.kvcache.codec.rans_kernel import decode

    return decode


def _damaged() -> BitstreamError:
    return BitstreamError("a stream of this KV chunk is damaged: its words do not end where its numbers end")
