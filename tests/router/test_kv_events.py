"""An engine's account of its prefix cache over real sockets: what is missed is asked for, or all is forgotten."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from flightllm.llm.engine import KvEventsAddress
from flightllm.router.fleet import Fleet
from flightllm.router.mirror import KvMirror
from flightllm.router.prompt import RoutedPrompt
from flightllm.router.tree import pack

pytest.importorskip("msgspec", reason="the extra 'cluster' is not installed")
pytest.importorskip("zmq", reason="the extra 'cluster' is not installed")
from flightllm.router.kv_events import KvSubscription
from tests.kv_publisher import CLEARED, KvPublisher, removed, stored
from tests.servers import await_true

A, B, C, D = ([n] * 4 for n in range(1, 5))
MakeAddress = Callable[..., KvEventsAddress]


@dataclass
class Following:
    """A replica whose engine is followed."""

    fleet: Fleet
    mirror: KvMirror
    subscription: KvSubscription
    changes: list[bool]
    """When the connection was made or lost."""

    def held(self, *blocks: list[int], salt: bytes = b"") -> int:
        """Return how many blocks of a prompt count as held, from the first on."""
        with self.subscription._lock:
            prompt = RoutedPrompt(0, pack([token for block in blocks for token in block]), 1, salt)
            return self.fleet.tree.cached_blocks(self.fleet.insert(prompt), 0)

    def until(self, expected: int, *blocks: list[int], salt: bytes = b"") -> None:
        """Wait until so many blocks count as held."""
        await_true(lambda: self.held(*blocks, salt=salt) == expected)


@pytest.fixture
def address(tmp_path: Path) -> MakeAddress:
    """Return a maker of addresses nobody else has."""

    def make(*, replay: bool = True, topic: str = "") -> KvEventsAddress:
        return KvEventsAddress(f"ipc://{tmp_path}/events", f"ipc://{tmp_path}/past" if replay else "", topic)

    return make


@contextmanager
def following(where: KvEventsAddress) -> Iterator[Following]:
    """Follow an engine with blocks of four tokens."""
    fleet = Fleet(4)
    fleet.add(None, exact=True)
    mirror = KvMirror(fleet.tree, fleet.caches[0])
    changes: list[bool] = []
    subscription = KvSubscription(where, mirror, threading.Lock(), changes.append)
    try:
        yield Following(fleet, mirror, subscription, changes)
    finally:
        subscription.close()


@pytest.mark.parametrize("replay", [True, False])
def test_stored_removed_and_cleared(address: MakeAddress, *, replay: bool) -> None:
    """The tree follows what the engine tells, block by block."""
    where = address(replay=replay)
    with KvPublisher(where) as engine, following(where) as replica:
        engine.wait()
        engine.tell(stored({b"a": A, b"b": B}), stored({b"c": C}, b"b"))
        replica.until(3, A, B, C)
        engine.tell(removed(b"c"))
        replica.until(2, A, B, C)
        engine.tell(CLEARED, stored({b"d": D}))
        replica.until(1, D)
        assert replica.held(A, B) == 0
        assert replica.subscription.connected
        assert (replica.subscription.gaps, len(replica.mirror)) == (0, 1)


def test_what_was_told_before(address: MakeAddress) -> None:
    """Where past batches are kept, a subscriber that comes late has it all; batches that it has already do no harm."""
    where = address()
    with KvPublisher(where) as engine:
        engine.tell(stored({b"a": A}))
        engine.tell(stored({b"b": B}, b"a"))
        with following(where) as replica:
            replica.until(2, A, B)
            engine.wait()
            engine.again([b"", (0).to_bytes(8, "big"), engine._kept[0][1]])
            engine.tell(removed(b"b"))
            replica.until(1, A, B)
            assert set(engine.asked) == {0}
            assert replica.subscription.gaps == 0


def test_nothing_kept_of_what_was_told_before(address: MakeAddress) -> None:
    """Without past batches a late subscriber leaves out blocks whose beginnings it does not know."""
    where = address(replay=False)
    with KvPublisher(where, first=7) as engine, following(where) as replica:
        engine.wait()
        engine.tell(stored({b"b": B}, b"a"), stored({b"c": C}))
        replica.until(1, C)
        assert replica.held(A, B) == 0
        assert replica.mirror.unknown == 1


def test_gap_that_is_filled(address: MakeAddress) -> None:
    """Batches that did not arrive are asked for, and taken in their order."""
    where = address()
    with KvPublisher(where) as engine, following(where) as replica:
        engine.wait()
        engine.tell(stored({b"a": A}))
        replica.until(1, A)
        engine.tell(stored({b"b": B}, b"a"), heard=False)
        engine.tell(removed(b"a"), stored({b"a": A}), heard=False)
        engine.tell(stored({b"c": C}, b"b"))
        replica.until(3, A, B, C)
        assert engine.asked[-1] == 1
        assert replica.subscription.gaps == 0


@pytest.mark.parametrize("replay", [True, False])
def test_gap_that_cannot_be_filled(address: MakeAddress, *, replay: bool) -> None:
    """When what was missed is not to be had, all from before it is forgotten."""
    where = address(replay=replay)
    with KvPublisher(where, replays=False) as engine, following(where) as replica:
        engine.wait()
        engine.tell(stored({b"a": A}))
        replica.until(1, A)
        engine.tell(removed(b"a"), heard=False)
        engine.tell(stored({b"b": B}))
        replica.until(1, B)
        assert replica.held(A) == 0
        assert replica.subscription.gaps == 1


@pytest.mark.parametrize("replay", [True, False])
def test_restart(address: MakeAddress, *, replay: bool) -> None:
    """An engine that is gone holds nothing; when it comes back it is followed from its new beginning."""
    where = address(replay=replay)
    with following(where) as replica:
        with KvPublisher(where) as engine:
            engine.wait()
            engine.tell(stored({b"a": A}))
            engine.tell(stored({b"b": B}))
            replica.until(1, B)
        await_true(lambda: not replica.held(A) and not replica.held(B))
        await_true(lambda: not replica.subscription.connected)
        with KvPublisher(where) as engine:
            engine.wait()
            engine.tell(stored({b"c": C}))
            replica.until(1, C)
            assert replica.held(A) == replica.held(B) == 0


def test_restart_behind_a_lasting_connection(address: MakeAddress) -> None:
    """Numbers that go back are those of an engine that began anew."""
    where = address(replay=False)
    with KvPublisher(where) as engine, following(where) as replica:
        engine.wait()
        engine.tell(stored({b"a": A}))
        engine.tell(stored({b"b": B}))
        replica.until(1, B)
        engine._number = 0
        engine.tell(stored({b"c": C}))
        replica.until(1, C)
        assert replica.held(A) == replica.held(B) == 0


def test_other_tiers_groups_and_kinds(address: MakeAddress) -> None:
    """What is held elsewhere than where prompts find it is passed over, and so is what other versions add."""
    where = address()
    with KvPublisher(where) as engine, following(where) as replica:
        engine.wait()
        engine.tell(
            {"type": "BlockMoved", "from": b"x"},
            stored({b"a": A}, medium="CPU"),
            stored({b"b": B}, group_idx=1),
            stored({b"c": C}, lora_name="tuned", extra_keys=[["tuned"]]),
            stored({b"e": B, b"f": C}, extra_keys=[None, [["image", 0]]]),
            removed(b"d", medium="CPU"),
            stored({b"d": D}, medium=None, colour="red"),
        )
        replica.until(1, D)
        engine.tell(removed(b"d", medium="CPU"), removed(b"d", group_idx=1), stored({b"a": A}))
        replica.until(1, A)
        assert [replica.held(block) for block in (B, C, D)] == [0, 0, 1]
        assert len(replica.mirror) == 2


def test_salts_and_numbers_as_hashes(address: MakeAddress) -> None:
    """Blocks of different salts stay apart, also those that follow them; hashes may be numbers."""
    where = address(topic="kv")
    with KvPublisher(where) as engine, following(where) as replica:
        engine.wait()
        first = stored({b"a": A}, extra_keys=[["acme"]]) | {"block_hashes": [2**63]}
        engine.tell(first, stored({b"b": B}) | {"block_hashes": [5], "parent_block_hash": 2**63})
        replica.until(2, A, B, salt=b"acme")
        assert replica.held(A, B) == 0


def test_unreadable(address: MakeAddress) -> None:
    """After something that cannot be read all is forgotten, and the next is followed."""
    where = address(replay=False)
    with KvPublisher(where) as engine, following(where) as replica:
        engine.wait()
        engine.tell(stored({b"a": A}))
        replica.until(1, A)
        engine.send(b"\xc1")
        replica.until(0, A)
        engine.tell(stored({b"a": A}))
        replica.until(1, A)
        engine.tell({"type": "BlockStored"})
        replica.until(0, A)
        engine.again([b"short"])
        engine.tell(stored({b"b": B}))
        replica.until(1, B)
        assert replica.subscription.gaps >= 2


def test_engine_that_never_comes(address: MakeAddress) -> None:
    """A subscription ends also where nobody ever answered."""
    with following(address()) as replica:
        assert not replica.subscription.connected
        assert not replica.changes


@pytest.mark.parametrize("replay", [True, False])
def test_connected(address: MakeAddress, *, replay: bool) -> None:
    """It is told when the engine comes, goes and comes back, and what counts as held then is nothing yet."""
    where = address(replay=replay)
    with following(where) as replica:
        for times in (1, 2):
            assert not replica.subscription.connected
            with KvPublisher(where) as engine:
                engine.wait()
                engine.tell(stored({b"a": A}))
                replica.until(1, A)
                assert replica.subscription.connected
            await_true(lambda: not replica.subscription.connected)
            assert replica.held(A) == 0
            await_true(lambda wanted=[True, False] * times: replica.changes == wanted)
        with KvPublisher(where):
            await_true(lambda: replica.subscription.connected)
            with replica.subscription._lock:
                replica.subscription.stop()
            assert not replica.subscription.connected
    assert replica.changes == [True, False, True, False, True]


def test_lost_while_past_batches_are_asked_for(tmp_path: Path) -> None:
    """Where nobody tells past batches, the end of the connection is noted all the same."""
    where = KvEventsAddress(f"ipc://{tmp_path}/events", f"ipc://{tmp_path}/nobody")
    with following(where) as replica:
        with KvPublisher(KvEventsAddress(where.endpoint)) as engine:
            engine.wait()
            await_true(lambda: replica.subscription.connected)
        await_true(lambda: replica.changes == [True, False])
        assert not replica.subscription.connected


@pytest.mark.parametrize("replay", [True, False])
def test_address_that_is_none(tmp_path: Path, *, replay: bool) -> None:
    """What ZeroMQ refuses is logged once and counts as not connected; where it is past batches', the rest is heard."""
    where = KvEventsAddress(f"ipc://{tmp_path}/events", "tcp://host") if replay else KvEventsAddress("tcp://host:port")
    with capture_logs() as logs, following(where) as replica:
        if replay:
            with KvPublisher(KvEventsAddress(where.endpoint)) as engine:
                engine.wait()
                engine.tell(stored({b"a": A}))
                replica.until(1, A)
        await_true(lambda: bool(logs))
        assert not replay or replica.changes[:1] == [True]
        assert replica.subscription._thread.is_alive()
    found = [log["endpoint"] for log in logs if log["event"] == "kv events cannot be followed"]
    assert found == [where.replay or where.endpoint]
    assert not replica.subscription.connected


def test_blocks_of_another_size(address: MakeAddress) -> None:
    """Where the engine's blocks are not as the configuration says, what to write is said once."""
    where = address(replay=False)
    with capture_logs() as logs, KvPublisher(where) as engine, following(where) as replica:
        engine.wait()
        for number in range(3):
            engine.tell(stored({b"%d" % number: [number] * 16}))
        engine.tell(stored({b"a": A}))
        replica.until(1, A)
        assert replica.mirror.unknown == 3
    assert [log["write"] for log in logs if "write" in log] == ["block_tokens = 16"]
