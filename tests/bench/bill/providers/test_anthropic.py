"""Anthropic's rules: marks, the blocks that are looked back at, floors and lives."""

from collections.abc import Sequence

from bench.bill.caches import Split
from bench.bill.prompt import Block, Prompt, Template, build
from bench.bill.providers.anthropic import CacheControl, check

HOUR = 3_600.0


def asked(blocks: Sequence[Block]) -> Prompt:
    """Return a prompt whose tokens are the characters."""
    return build(blocks, Template(0, 0), lambda text: [ord(one) for one in text])


def test_only_marks_are_written() -> None:
    """A request without marks leaves nothing; a marked start is written, and then read by another request."""
    cache = CacheControl(1_024)
    assert cache.arrive(asked([Block("s" * 2_000)]), 0) == Split()
    first = asked([Block("s" * 2_000, marked=True), Block("a" * 50)])
    assert cache.arrive(first, 0) == Split(0, 2_000)
    assert cache.arrive(first, 0) == Split(0, 2_000), "a request that overlaps pays for the write too"
    cache.begin(first, 0)
    assert cache.arrive(asked([Block("s" * 2_000, marked=True), Block("b" * 50)]), 1) == Split(2_000)


def test_twenty_blocks_are_looked_back_at() -> None:
    """A mark finds an earlier mark up to 20 blocks before it."""
    for further, read in ((20, 1_100), (21, 0)):
        cache = CacheControl(1_024)
        start = Block("s" * 1_100, marked=True)
        cache.begin(asked([start]), 0)
        more = [Block(chr(100 + place)) for place in range(further - 1)]
        found = cache.arrive(asked([Block(start.text), *more, Block("z", marked=True)]), 0)
        assert found == Split(read, 1_100 + further - read)


def test_the_floor_is_the_models() -> None:
    """A start below the floor is neither written nor read."""
    short = asked([Block("s" * 1_023, marked=True), Block("a")])
    assert CacheControl(1_024).arrive(short, 0) == Split()
    assert CacheControl(512).arrive(short, 0) == Split(0, 1_023)


def test_lives() -> None:
    """A start lives for 5 minutes or an hour after its last use; that of an hour costs more."""
    cache = CacheControl(512)
    usual, long = asked([Block("s" * 600, marked=True)]), asked([Block("t" * 600, marked=True, seconds=HOUR)])
    assert cache.arrive(long, 0) == Split(0, 600, 600)
    cache.begin(usual, 0)
    cache.begin(long, 0)
    assert [cache.arrive(one, 301).read for one in (usual, long)] == [0, 600]
    assert cache.arrive(long, 301 + HOUR + 1).read == 0


def test_what_the_api_refuses() -> None:
    """More than four marks, and an hour after 5 minutes, are errors."""
    assert "at most 4" in check(asked([Block("s", marked=True)] * 5))
    assert "1h" in check(asked([Block("s", marked=True), Block("t", marked=True, seconds=HOUR)]))
    assert not check(asked([Block("s", marked=True, seconds=HOUR), Block("t", marked=True)]))
