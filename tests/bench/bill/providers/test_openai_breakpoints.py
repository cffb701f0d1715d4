"""OpenAI's rules from GPT-5.6 on: what is written and what is read."""

from bench.bill.caches import Split
from bench.bill.prompt import Block, Prompt, Template, build
from bench.bill.providers.openai_breakpoints import Breakpoints


def asked(*texts: tuple[str, int, bool], explicit: bool = False) -> Prompt:
    """Return a prompt of texts, each with its letter, number of tokens and mark; the user message is the last one."""
    blocks = [
        Block(letter * count, marked=marked, ends_message=place in {1, len(texts)})
        for place, (letter, count, marked) in enumerate(texts, 1)
    ]
    return build(blocks, Template(0, 0), lambda text: [ord(one) for one in text], explicit=explicit)


def test_a_changing_last_message_is_written_anew() -> None:
    """Without marks, a fixed start before a changing end is never read, and each request pays for the write."""
    cache = Breakpoints()
    for letter in "abc":
        one = asked(("s", 2_000, False), (letter, 100, False))
        assert cache.arrive(one, 0) == Split(0, 2_100)
        cache.begin(one, 0)
    assert cache.arrive(one, 0) == Split(2_100)


def test_a_marked_start_is_read() -> None:
    """In the explicit mode, the marked start is written once, and the rest has the price of input."""
    cache = Breakpoints()
    splits = []
    for letter in "abc":
        one = asked(("s", 2_000, True), (letter, 100, False), explicit=True)
        splits.append(cache.arrive(one, 0))
        cache.begin(one, 0)
    assert splits == [Split(0, 2_000), Split(2_000), Split(2_000)]


def test_a_shorter_mark_is_no_longer_start() -> None:
    """A prefix counts only where the request has a breakpoint: an unmarked one is not found."""
    cache = Breakpoints()
    cache.begin(asked(("s", 2_000, True), ("a", 10, False), explicit=True), 0)
    assert cache.arrive(asked(("s", 2_000, False), ("b", 10, False), explicit=True), 0) == Split()


def test_the_explicit_mode_without_marks_costs_nothing() -> None:
    """A request can avoid all fees."""
    cache = Breakpoints()
    one = asked(("s", 2_000, False), ("a", 10, False), explicit=True)
    assert cache.arrive(one, 0) == Split()


def test_below_the_floor_nothing_is_written() -> None:
    """Prompts of fewer than 1,024 tokens have no fee."""
    assert Breakpoints().arrive(asked(("s", 1_000, True), ("a", 23, True)), 0) == Split()


def test_four_writes_at_most() -> None:
    """Of five breakpoints, the first one is not written: a request that has only this one reads nothing."""
    cache = Breakpoints()
    marks = [("s", 1_100, True), *((letter, 10, True) for letter in "abc")]
    cache.begin(asked(*marks, ("d", 10, False)), 0)
    assert cache.arrive(asked(marks[0], ("x", 10, False), explicit=True), 0) == Split(0, 1_100)
    assert cache.arrive(asked(marks[0], marks[1], ("x", 10, False), explicit=True), 0) == Split(1_110)
