"""A replica's queue: cached prompts sooner, all in the end, interactive ones before bulk."""

from hypothesis import given
from hypothesis import strategies as st

from flightllm.router.local_queue import GROUPS, LocalQueue
from flightllm.router.prompt import RoutedPrompt


def one(key: int, priority: int = 0) -> RoutedPrompt:
    """Return a prompt."""
    return RoutedPrompt(key, b"", 1, priority=priority)


def drawn(queue: LocalQueue) -> list[int]:
    """Take all prompts."""
    keys = []
    while (found := queue.pop()) is not None:
        keys.append(found.key)
    return keys


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 2))))
def test_all_come_out_once(pushed: list[tuple[float, int]]) -> None:
    """Every prompt comes out once: lower priorities first, equals of a group in order."""
    queue = LocalQueue()
    for key, (share, priority) in enumerate(pushed):
        queue.push(one(key, priority), share)
    assert len(queue) == len(queue.waiting()) == len(pushed)
    keys = drawn(queue)
    assert sorted(keys) == list(range(len(pushed)))
    assert [pushed[key][1] for key in keys] == sorted(priority for _, priority in pushed)
    for group in range(GROUPS):
        for priority in range(3):
            of_group = [k for k in keys if pushed[k][1] == priority and min(9, int(pushed[k][0] * GROUPS)) == group]
            assert of_group == sorted(of_group)


def test_groups_are_drawn_by_rank() -> None:
    """Of two groups that both wait, the one with rank ten gives ten prompts for each of the one with rank one."""
    queue = LocalQueue()
    for key in range(100):
        queue.push(one(key), 0.0)
        queue.push(one(1_000 + key), 1.0)
    first = drawn(queue)[:55]
    assert sum(key < 1_000 for key in first) == 5


def test_prompts_taken_out_are_gone() -> None:
    """What another replica takes does not come out here."""
    queue = LocalQueue()
    for key in range(4):
        queue.push(one(key), key / 4)
    queue.take([one(1), one(3)])
    assert [prompt.key for prompt in queue.waiting()] == [0, 2]
    assert sorted(drawn(queue)) == [0, 2]
    assert queue.pop() is None
