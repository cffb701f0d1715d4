"""Items go from one thread to another, one at a time."""

import threading

from flightllm.kvcache.stream.handover import Handover
from tests.servers import await_true


def test_one_at_a_time() -> None:
    """The giver goes on once its item is taken, and not before."""
    handover, given = Handover[str](), list[str]()

    def give() -> None:
        for item in "abc":
            if not handover.give(item):
                return
            given.append(item)

    thread = threading.Thread(target=give)
    thread.start()
    assert handover.wait_item(60) == handover.wait_item(60) == "a"
    assert given == []
    handover.taken()
    assert handover.wait_item(60) == "b"
    assert given == ["a"]
    handover.close()
    thread.join(60)
    assert given == ["a"]


def test_waiting_ends() -> None:
    """A taker waits for nothing longer than it says: neither for the opening nor for an item."""
    handover = Handover[str]()
    assert not handover.wait_open(0)
    handover.open()
    assert handover.wait_open(0)
    assert handover.wait_item(0) is None


def test_last_item() -> None:
    """The last item opens the handover too, and its giver does not wait."""
    handover = Handover[str]()
    handover.give_last("end")
    assert handover.wait_open(0)
    assert handover.wait_item(0) == "end"


def test_closed() -> None:
    """A giver that waits is let go when the handover is closed, and a later one does not wait."""
    handover, ended = Handover[str](), list[bool]()
    thread = threading.Thread(target=lambda: ended.append(handover.give("a")))
    thread.start()
    await_true(lambda: handover.wait_item(0) == "a")
    handover.close()
    thread.join(60)
    assert ended == [False]
    assert not handover.give("b")
    assert handover.closed
