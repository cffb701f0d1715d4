"""DeepSeek's rules: units that are found as a whole."""

from bench.bill.prompt import Prompt
from bench.bill.providers.deepseek import Units


def prompt(*parts: tuple[int, int]) -> Prompt:
    """Return a prompt of parts, each with the first of its tokens and their number."""
    return Prompt(tuple(token for start, count in parts for token in range(start, start + count)), ())


def test_the_third_request_reads_a_common_start() -> None:
    """The second request with a common start only shows that it is common."""
    cache, read = Units(), []
    for number in range(1, 5):
        one = prompt((0, 640), (number * 10_000, 100))
        read.append(cache.arrive(one, 0).read)
        cache.begin(one, 0)
    assert read == [0, 0, 640, 640]


def test_the_same_request_is_read_at_once() -> None:
    """A request leaves a unit that ends with its input, so a longer conversation reads it."""
    cache, first = Units(), prompt((0, 640))
    cache.begin(first, 0)
    assert cache.arrive(prompt((0, 640), (5_000, 100)), 1).read == 640
