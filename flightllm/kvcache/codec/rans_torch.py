"""The decoder of `rans` for accelerators: it decodes all lanes of all streams of a chunk in parallel."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from flightllm.errors import BitstreamError
from flightllm.kvcache.codec.rans import ESCAPE, LARGEST, LOWEST, SCALE_BITS, SYMBOLS, TOTAL, Order, lanes_of


def decode_streams(
    words: Sequence[NDArray[np.uint16]], tables: torch.Tensor, order: Order, device: torch.device | str
) -> torch.Tensor:
    """Return the numbers (streams × channels × tokens, 16 bits) of streams with equal numbers of channels.

    `tables` (streams × 2 × channels × 256) has each stream's frequencies, as `rans.decode_stream` takes them.

    Raises:
        BitstreamError: the encoder did not make a stream's words with its tables.
    """
    streams, _, channels, _ = tables.shape
    tokens = len(order.tokens)
    reader = _LaneDecoder(words, lanes_of(channels * tokens), device)
    out = torch.empty(streams, channels, tokens, dtype=torch.int16, device=device)
    places = torch.from_numpy(order.tokens).to(device)
    starts = torch.nn.functional.pad(tables.to(device, torch.int32).cumsum(-1, dtype=torch.int32), (1, 0))
    for channel in range(channels):
        for kind, part in enumerate((places[: order.anchors], places[order.anchors :])):
            of_kind = starts[:, kind, channel].contiguous()
            for base in range(0, len(part), reader.lanes):
                turn = part[base : base + reader.lanes]
                out[:, channel, turn] = reader.take(of_kind, len(turn))
    reader.check()
    return out


class _LaneDecoder:
    """The states of all lanes (streams × lanes), and each stream's read position."""

    def __init__(self, words: Sequence[NDArray[np.uint16]], lanes: int, device: torch.device | str) -> None:
        lengths = np.array([len(one) for one in words])
        if lengths.min() < 2 * lanes:
            raise BitstreamError("a stream of this KV chunk is damaged: its words do not end where its numbers end")
        self.lanes = lanes
        ends = lengths.cumsum()
        flat = np.concatenate(words).astype(np.int32)
        self._words = torch.from_numpy(flat).to(device)
        self._ends = torch.from_numpy(ends).to(device)
        self._places = torch.from_numpy(ends - lengths).to(device)
        heads = self._words[self._places[:, None] + torch.arange(2 * lanes, device=device)].long()
        self._states = heads[:, ::2] | (heads[:, 1::2] << 16)
        self._places += 2 * lanes

    def take(self, starts: torch.Tensor, count: int) -> torch.Tensor:
        """Return the next number of each of the first `count` lanes (streams × count).

        `starts` (streams × 257) has the first slot of each symbol.
        """
        states = self._states[:, :count]
        slots = states & (TOTAL - 1)
        symbols = torch.searchsorted(starts[:, 1:].contiguous(), slots.int(), right=True).clamp(max=SYMBOLS - 1)
        begins = starts.gather(1, symbols).long()
        states = (starts.gather(1, symbols + 1) - begins) * (states >> SCALE_BITS) + slots - begins
        renewed, escaped = states < LOWEST, symbols == ESCAPE
        taken = renewed.long() + escaped
        places = self._places[:, None] + taken.cumsum(1) - taken
        last = self._ends[:, None] - 1
        states = torch.where(renewed, (states << 16) | self._words[torch.minimum(places, last)], states)
        written = self._words[torch.minimum(places + renewed, last)].to(torch.int16)
        self._states[:, :count] = states
        self._places += taken.sum(1)
        return torch.where(escaped, written, (symbols - LARGEST).to(torch.int16))

    def check(self) -> None:
        """Check that every stream ends where its words do.

        Raises:
            BitstreamError: the words of a stream end before or after its numbers.
        """
        if not bool((self._places == self._ends).all() & (self._states == LOWEST).all()):
            raise BitstreamError("a stream of this KV chunk is damaged: its words do not end where its numbers end")
