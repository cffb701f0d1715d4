"""The Triton kernel of `rans_triton`, apart from it because Triton is optional and reads the kernel's source."""

import triton
import triton.language as tl


@triton.jit
def decode(  # type: ignore[no-untyped-def] # noqa: ANN201, PLR0913, PLR0917 - a kernel has no objects
    words,  # noqa: ANN001
    about,  # noqa: ANN001
    starts,  # noqa: ANN001
    places,  # noqa: ANN001
    out,  # noqa: ANN001
    sound,  # noqa: ANN001
    streams,  # noqa: ANN001
    channels,  # noqa: ANN001
    tokens,  # noqa: ANN001
    anchors,  # noqa: ANN001
    STREAMS: tl.constexpr,  # noqa: N803 - Triton's constants have capitals
    LANES: tl.constexpr,  # noqa: N803
    LARGEST: tl.constexpr,  # noqa: N803
    ESCAPE: tl.constexpr,  # noqa: N803
    LOWEST: tl.constexpr,  # noqa: N803
    SCALE_BITS: tl.constexpr,  # noqa: N803
    SYMBOL_BITS: tl.constexpr,  # noqa: N803
):
    """Decode the next `STREAMS` streams (rows) in `LANES` lanes (columns); write for each whether its end is valid.

    It never reads beyond a stream's last word, even of damaged streams.
    """
    row = tl.program_id(0) * STREAMS + tl.arange(0, STREAMS)[:, None]
    real = row < streams
    place = tl.load(about + 5 * row, mask=real, other=0)
    end = tl.load(about + 5 * row + 1, mask=real, other=1)
    lanes = tl.load(about + 5 * row + 2, mask=real, other=1)
    first = tl.load(about + 5 * row + 3, mask=real, other=0)
    width = tl.load(about + 5 * row + 4, mask=real, other=0) - first
    last = end - 1
    lane = tl.arange(0, LANES)[None, :]
    exists = real & (lane < lanes)
    low = tl.load(words + place + 2 * lane, mask=exists, other=0).to(tl.uint32) & 0xFFFF
    high = tl.load(words + place + 2 * lane + 1, mask=exists, other=1).to(tl.uint32) & 0xFFFF
    states = low | (high << 16)
    place += 2 * lanes
    table = starts + first * ((1 << SYMBOL_BITS) + 1)
    line = out + first.to(tl.int64) * tokens
    for channel in range(tl.max(width)):
        has_channel = channel < width
        for kind in range(2):
            of_kind = table + kind * channels * ((1 << SYMBOL_BITS) + 1)
            begin = kind * anchors
            count = anchors + kind * (tokens - 2 * anchors)
            for turn in range(tl.max(tl.where(has_channel, tl.cdiv(count, lanes), 0))):
                index = turn * lanes + lane
                active = exists & has_channel & (index < count)
                slots = (states & ((1 << SCALE_BITS) - 1)).to(tl.int32)
                symbols = tl.zeros([STREAMS, LANES], tl.int32)
                for bit in tl.static_range(SYMBOL_BITS):  # the last symbol whose first slot is at most the lane's slot
                    above = symbols + (1 << (SYMBOL_BITS - 1 - bit))
                    symbols = tl.where(tl.load(of_kind + above, mask=active, other=0) <= slots, above, symbols)
                start = tl.load(of_kind + symbols, mask=active, other=0).to(tl.int32)
                frequency = tl.load(of_kind + symbols + 1, mask=active, other=0).to(tl.int32) - start
                found = frequency.to(tl.uint32) * (states >> SCALE_BITS) + (slots - start).to(tl.uint32)
                renewed = active & (found < LOWEST)
                escaped = active & (symbols == ESCAPE)
                taken = renewed.to(tl.int32) + escaped.to(tl.int32)
                at = place + tl.cumsum(taken, 1) - taken
                word = tl.load(words + tl.minimum(at, last), mask=renewed, other=0).to(tl.uint32) & 0xFFFF
                written = tl.load(words + tl.minimum(at + renewed.to(tl.int32), last), mask=escaped, other=0)
                states = tl.where(active, tl.where(renewed, (found << 16) | word, found), states)
                token = tl.load(places + begin + index, mask=active, other=0)
                tl.store(line + token, tl.where(escaped, written, (symbols - LARGEST).to(tl.int16)), mask=active)
                place += tl.sum(taken, 1)[:, None]
        table += (1 << SYMBOL_BITS) + 1
        line += tokens
    wrong = tl.sum((exists & (states != LOWEST)).to(tl.int32), 1)[:, None]
    tl.store(sound + row, ((place == end) & (wrong == 0)).to(tl.int32), mask=real)
