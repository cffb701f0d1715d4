"""Find the chunks of a prompt that a store holds one after the other."""

from collections.abc import Collection, Sequence

from flightllm.kvcache.chunks import Chunk
from flightllm.kvcache.prefixes import leading
from flightllm.kvcache.stream.base import HeldChunk
from flightllm.kvcache.stream.link import Link


def find_route(
    link: Link, chunks: Sequence[Chunk], codecs: Collection[str], have: int, *, holes: bool = False
) -> list[HeldChunk]:
    """Ask the store what it holds, and return the chunks to fetch in order.

    The route begins at the token `have`, and has only codecs that can be decoded here. If the store lacks a chunk, the
    last entry is a gap: the tokens from there on must be computed. With `holes`, held chunks can follow a gap.

    Example: the chunks end at 64, 128 and 192 tokens, and the store lacks the second one. The route is the first chunk,
    and then a gap from 64 to 192. With `holes`, it is the first chunk, a gap from 64 to 128, and the third chunk.
    """
    held: dict[str, dict[str, int]] = {}
    for chunk, sizes in zip(chunks, link.lookup([chunk.key for chunk in chunks]), strict=True):
        usable = {codec: size for codec, size in sizes.items() if codec in codecs}
        if usable:
            held[chunk.key] = usable
    route = [HeldChunk(chunk, held[chunk.key]) for chunk in leading(chunks, held, have)]
    reached, stop = route[-1].chunk.stop if route else have, chunks[-1].stop
    while reached < stop:
        later = [chunk.start for chunk in chunks if chunk.key in held and chunk.start >= reached] if holes else []
        following = min(later, default=stop)
        route.append(gap(reached, following))
        route += [HeldChunk(chunk, held[chunk.key]) for chunk in leading(chunks, held, following)] if later else []
        reached = route[-1].chunk.stop
    return route


def gap(start: int, stop: int) -> HeldChunk:
    """Return a range of tokens of which the store holds nothing."""
    return HeldChunk(Chunk("", start, stop), {})
