"""Interleaved range asymmetric numeral systems (rANS) with tables of frequencies, compiled by numba.

The numbers of some channels form one stream. A channel has two tables: one for its anchors, then one for its other
numbers. Several lanes, each a 32-bit state, code the stream in turn: lane n codes the numbers n, n + lanes, … of each
table. All lanes read 16-bit words from one shared position. A stream begins with the lanes' states. A coder needs one
table at a time, because the numbers of a table follow each other.

A table has 256 frequencies that add up to 4,096: those of the numbers -127 to 127, and that of the escape. After an
escape the number itself follows as a word. Numbers with the frequency 0 are escaped too. A table of three symbols with
the frequencies 2, 1 and 1 (total 4) gives each symbol these slots:

| symbol | frequency | start | slots |
|--------|-----------|-------|-------|
| 0      | 2         | 0     | 0, 1  |
| 1      | 1         | 2     | 2     |
| 2      | 1         | 3     | 3     |

The slot `state mod total` belongs to the next symbol. Decoding the symbol sets the state to
`frequency × (state div total) + slot - start`. A state below `LOWEST` then takes in another word.

Source: Duda 2013 (arXiv 1311.2540); interleaving after Giesen 2014 (arXiv 1402.3392).
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from flightllm.errors import BitstreamError, MissingExtraError

try:
    import numba
except ImportError as exc:
    raise MissingExtraError("coding KV caches", "kvcache") from exc

SYMBOLS: Final = 256
ESCAPE: Final = 255
LARGEST: Final = 127
"""The largest number that has a symbol; the symbol s is the number s - 127."""
SCALE_BITS: Final = 12
TOTAL: Final = 1 << SCALE_BITS
LOWEST: Final = 1 << 16
"""The lowest state. The encoder starts with this state, so the decoder must end with it."""

MOST_LANES = 32
_LANE_NUMBERS = 512
_SEARCHED = 32
"""Channels with at most this many numbers are decoded by searching the table; for more, `_spread` expands it."""


def lanes_of(numbers: int) -> int:
    """Return the number of lanes for a stream of `numbers` numbers.

    A lane's state takes two words, and one of the two codes numbers. So a lane costs two bytes net, and must code many
    numbers.
    """
    lanes = 1
    while lanes < MOST_LANES and numbers // (2 * lanes) >= _LANE_NUMBERS:
        lanes *= 2
    return lanes


@dataclass(frozen=True, slots=True)
class Order:
    """The order in which a channel's tokens are coded: first the `anchors` anchors, then the others."""

    tokens: NDArray[np.intp]
    anchors: int


def encode_stream(numbers: NDArray[np.int16], tables: NDArray[np.uint16], order: Order) -> NDArray[np.uint16]:
    """Return the words of one stream of `numbers` (channels × tokens).

    `tables` (2 × channels × 256) has the frequencies for the anchors, then the frequencies for the others.
    """
    lanes = lanes_of(numbers.size)
    buffer = np.empty(2 * numbers.size + 2 * lanes, dtype=np.uint16)
    start = _encode(numbers, tables, order.tokens, order.anchors, lanes, buffer)
    return buffer[start:]


def decode_stream(words: NDArray[np.uint16], tables: NDArray[np.uint16], order: Order, out: NDArray[np.int16]) -> None:
    """Fill `out` (channels × tokens) with the numbers of one stream; see `encode_stream`.

    Raises:
        BitstreamError: the encoder did not make these words with these tables.
    """
    lanes = lanes_of(out.size)
    if len(words) < 2 * lanes or not _decode(words, tables, order.tokens, order.anchors, lanes, out):
        raise BitstreamError("a stream of this KV chunk is damaged: its words do not end where its numbers end")


def warm_up() -> None:
    """Compile the coder, or load it from numba's cache, so that the first chunk does not wait for it."""
    numbers, order = np.zeros((1, 1), np.int16), Order(np.zeros(1, np.intp), 1)
    tables = np.zeros((2, 1, SYMBOLS), np.uint16)
    tables[:, :, [LARGEST, ESCAPE]] = TOTAL // 2
    decode_stream(encode_stream(numbers, tables, order), tables, order, numbers)


@numba.njit(nogil=True, cache=True)
def _encode(numbers, tables, order, first, lanes, buffer):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    """Write a stream from the end of `buffer`, the last number first; return the stream's start."""
    channels, tokens = numbers.shape
    states = np.full(lanes, LOWEST, dtype=np.uint64)
    starts = np.empty(SYMBOLS, dtype=np.uint64)
    place = len(buffer)
    for channel in range(channels - 1, -1, -1):
        for kind in (1, 0):
            begin, end = (first, tokens) if kind == 1 else (0, first)
            table = tables[kind, channel]
            total = np.uint64(0)
            for symbol in range(SYMBOLS):
                starts[symbol] = total
                total += np.uint64(table[symbol])
            for index in range(end - begin - 1, -1, -1):
                number = numbers[channel, order[begin + index]]
                symbol = number + LARGEST if -LARGEST <= number <= LARGEST else ESCAPE
                if symbol == ESCAPE or table[symbol] == 0:
                    symbol = ESCAPE
                    place -= 1
                    buffer[place] = np.uint16(number)
                frequency = np.uint64(table[symbol])
                lane = index & (lanes - 1)
                state = states[lane]
                if state >= frequency << np.uint64(32 - SCALE_BITS):
                    place -= 1
                    buffer[place] = np.uint16(state & np.uint64(0xFFFF))
                    state >>= np.uint64(16)
                quotient = state // frequency
                states[lane] = (quotient << np.uint64(SCALE_BITS)) + (state - quotient * frequency) + starts[symbol]
    for lane in range(lanes - 1, -1, -1):
        place -= 2
        buffer[place] = np.uint16(states[lane] & np.uint64(0xFFFF))
        buffer[place + 1] = np.uint16(states[lane] >> np.uint64(16))
    return place


@numba.njit(nogil=True, cache=True)
def _decode(words, tables, order, first, lanes, out):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    """Read a stream; return whether its end is valid. Never reads beyond the last word, even of damaged streams."""
    states = np.empty(lanes, dtype=np.uint32)
    for lane in range(lanes):
        states[lane] = np.uint32(words[2 * lane]) | (np.uint32(words[2 * lane + 1]) << np.uint32(16))
    place = 2 * lanes
    slots = np.empty(TOTAL, dtype=np.uint32)
    starts = np.zeros(SYMBOLS + 1, dtype=np.uint32)
    for channel in range(out.shape[0]):
        for kind in (0, 1):
            part = order[first:] if kind == 1 else order[:first]
            if len(part) > _SEARCHED:
                _spread(tables[kind, channel], slots)
            elif len(part):
                starts[1:] = np.cumsum(tables[kind, channel])
            place = _decode_channel(words, place, slots, starts, states, part, out[channel])
    return place == len(words) and np.all(states == np.uint32(LOWEST))


@numba.njit(nogil=True, cache=True)
def _decode_channel(words, place, slots, starts, states, tokens, out):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    """Read the numbers of some tokens of a channel; return the position of the next word."""
    last, lanes, mask = len(words) - 1, len(states), np.uint32(TOTAL - 1)
    for base in range(0, len(tokens), lanes):
        for lane in range(min(lanes, len(tokens) - base)):
            low = states[lane] & mask
            slot = slots[low] if len(tokens) > _SEARCHED else _found(starts, low)
            frequency = ((slot >> np.uint32(SCALE_BITS)) & mask) + np.uint32(1)
            state = np.uint32(frequency * (states[lane] >> np.uint32(SCALE_BITS)) + (slot & mask))
            if state < np.uint32(LOWEST):
                state = (state << np.uint32(16)) | np.uint32(words[min(place, last)])
                place += 1
            states[lane] = state
            symbol = slot >> np.uint32(2 * SCALE_BITS)
            if symbol == ESCAPE:
                out[tokens[base + lane]] = np.int16(words[min(place, last)])
                place += 1
            else:
                out[tokens[base + lane]] = np.int16(symbol) - np.int16(LARGEST)
    return place


@numba.njit(nogil=True, cache=True)
def _found(starts, low):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    """Find a slot by binary search, which is faster for few numbers; return it as `_spread` has it."""
    symbol, above = 0, SYMBOLS
    while above - symbol > 1:
        middle = (symbol + above) >> 1
        if starts[middle] <= low:
            symbol = middle
        else:
            above = middle
    frequency = starts[symbol + 1] - starts[symbol]
    return (
        (np.uint32(symbol) << np.uint32(2 * SCALE_BITS))
        | ((frequency - np.uint32(1)) << np.uint32(SCALE_BITS))
        | np.uint32(low - starts[symbol])
    )


@numba.njit(nogil=True, cache=True)
def _spread(table, slots):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    """Fill the slots of a table.

    A slot has the symbol (8 bits), its frequency minus 1 (12), and the slot's index among the symbol's slots (12).
    """
    slot = np.int64(0)
    for symbol in range(SYMBOLS):
        frequency = np.uint32(table[symbol])
        head = (np.uint32(symbol) << np.uint32(2 * SCALE_BITS)) | ((frequency - np.uint32(1)) << np.uint32(SCALE_BITS))
        for place in range(frequency):
            slots[slot + place] = head | np.uint32(place)
        slot += frequency
