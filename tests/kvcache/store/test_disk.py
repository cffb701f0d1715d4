"""KV chunks on disk: what is held, what goes first, and what survives."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from flightllm.errors import (
    ConfigError,
    InvalidInputError,
    LimitExceededError,
    NotFoundError,
    StoreUnavailableError,
)
from flightllm.kvcache.eviction.adaptive import Adaptive
from flightllm.kvcache.store.disk import DiskStore
from flightllm.kvcache.store.eviction import CHUNK_POLICIES
from tests.chunks import bitstream, key_of
from tests.disks import small_disk

MIB = 1 << 20


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DiskStore]:
    """Open an empty store of 10 MiB."""
    with DiskStore(tmp_path / "kv", 10 * MIB) as store:
        yield store


def files(folder: Path) -> list[Path]:
    """Return the files of bitstreams that there are."""
    return [path for path in (folder / "chunks").rglob("*") if path.is_file()]


@pytest.mark.parametrize("size", [0, 1, MIB - 1, MIB, 3 * MIB + 5])
def test_what_was_put_comes_back(store: DiskStore, size: int) -> None:
    """Byte for byte, in parts of at most 1 MiB; lookups tell its size."""
    data = bitstream(1, size)
    store.put(key_of(1), "raw", data)
    parts = list(store.get(key_of(1), "raw"))
    assert b"".join(parts) == data
    assert all(len(part) <= MIB for part in parts)
    assert store.lookup([key_of(1)]) == [{"raw": size}]


def test_several_bitstreams_of_a_chunk(store: DiskStore, tmp_path: Path) -> None:
    """Codecs are kept beside each other, and one of the same name takes the other's place."""
    store.put(key_of(1), "raw", b"old")
    store.put(key_of(1), "cachegen-2", b"small")
    store.put(key_of(1), "raw", b"newer")
    assert store.lookup([key_of(2), key_of(1), key_of(1)]) == [{}, *[{"cachegen-2": 5, "raw": 5}] * 2]
    assert b"".join(store.get(key_of(1), "raw")) == b"newer"
    status = store.status()
    assert (status.chunks, status.bytes, status.codecs["raw"].bitstreams, status.codecs["raw"].bytes) == (1, 10, 1, 5)
    assert len(files(tmp_path / "kv")) == 2


def test_it_is_not_there(store: DiskStore) -> None:
    """What was never put is not found, and counted."""
    with pytest.raises(NotFoundError):
        next(store.get(key_of(1), "raw"))
    assert store.status().misses == 1
    store.put(key_of(1), "raw", b"x")
    assert store.lookup([key_of(1), key_of(2)]) == [{"raw": 1}, {}]
    assert store.status().misses == 1
    assert store.lookup([key_of(2), key_of(3)]) == [{}, {}]
    assert store.status().misses == 2


@pytest.mark.parametrize(
    ("key", "codec"),
    [
        ("../../etc/passwd", "raw"),
        (key_of(1).upper(), "raw"),
        (key_of(1)[:-1], "raw"),
        (f"{key_of(1)}\n", "raw"),
        (key_of(1), ""),
        (key_of(1), "a" * 17),
        (key_of(1), "../raw"),
        (key_of(1), "Raw"),
        (key_of(1), "raw\n"),
    ],
)
def test_names_are_checked(store: DiskStore, tmp_path: Path, key: str, codec: str) -> None:
    """Paths are made of them: whatever is no key or no codec's name is refused everywhere, and nothing written."""
    with pytest.raises(InvalidInputError):
        store.put(key, codec, b"x")
    with pytest.raises(InvalidInputError):
        next(store.get(key, codec))
    if codec == "raw":
        with pytest.raises(InvalidInputError):
            store.lookup([key_of(1), key])
    assert files(tmp_path / "kv") == []


def test_a_lookup_of_thousands_is_one_query(store: DiskStore) -> None:
    """However many keys are asked for, SQLite is asked once."""
    for number in range(0, 5000, 500):
        store.put(key_of(number), "raw", b"12")
    asked = list[str]()
    store._index._database.set_trace_callback(asked.append)
    found = store.lookup([key_of(number) for number in range(5000)])
    assert [number for number, held in enumerate(found) if held] == list(range(0, 5000, 500))
    assert len([text for text in asked if text.startswith("SELECT")]) == 1


def test_what_was_used_the_longest_ago_goes_first(store: DiskStore, tmp_path: Path) -> None:
    """Putting and getting are uses, a lookup is none; the bytes never exceed what the store may hold."""
    for number in range(5):
        store.put(key_of(number), "raw", bitstream(number, 2 * MIB))
    list(store.get(key_of(0), "raw"))
    store.lookup([key_of(1)])
    store.put(key_of(5), "raw", bitstream(5, 3 * MIB))
    held = [number for number in range(6) if store.lookup([key_of(number)])[0]]
    assert held == [0, 3, 4, 5]
    status = store.status()
    assert (status.bytes, status.evicted) == (9 * MIB, 2)
    assert sum(path.stat().st_size for path in files(tmp_path / "kv")) == 9 * MIB


def test_one_in_its_own_place_evicts_no_other(store: DiskStore) -> None:
    """The bytes of what is replaced are free for what takes its place."""
    store.put(key_of(1), "raw", bitstream(1, 5 * MIB))
    store.put(key_of(2), "raw", bitstream(2, 5 * MIB))
    store.put(key_of(1), "raw", bitstream(3, 5 * MIB))
    assert store.status().evicted == 0
    assert all(store.lookup([key_of(1), key_of(2)]))


def test_larger_than_the_store(store: DiskStore, tmp_path: Path) -> None:
    """It is refused, and evicts nothing."""
    store.put(key_of(1), "raw", b"x")
    with pytest.raises(LimitExceededError, match="max_bytes"):
        store.put(key_of(2), "raw", bytes(10 * MIB + 1))
    assert store.lookup([key_of(1)]) == [{"raw": 1}]
    assert len(files(tmp_path / "kv")) == 1


def test_another_policy(tmp_path: Path) -> None:
    """The policy decides what goes first: here the chunk with the fewest uses, although it came last."""
    with DiskStore(tmp_path, 10, "gdsf") as store:
        for number in (1, 2, 3):
            store.put(key_of(number), "raw", bytes(3))
        for number in (1, 2):
            list(store.get(key_of(number), "raw"))
        store.put(key_of(4), "raw", bytes(3))
        held = [number for number in (1, 2, 3, 4) if store.lookup([key_of(number)])[0]]
    assert held == [1, 2, 4]


@pytest.mark.parametrize("policy", ["mru", "none", "planned"])
def test_unknown_policy(tmp_path: Path, policy: str) -> None:
    """A policy without meaning in a store is an error, and leaves the folder free."""
    with pytest.raises(ConfigError, match=r"valid names: lru, 2q, gdsf, arc, s3_fifo, workload_aware$"):
        DiskStore(tmp_path, 10, policy)
    DiskStore(tmp_path, 10).close()


PROMPT = [key_of(number) for number in range(5)]


@pytest.mark.parametrize("policy", CHUNK_POLICIES)
@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("restarted", [False, True])
def test_prompts_go_from_their_ends(tmp_path: Path, policy: str, restarted: bool, alone: bool) -> None:
    """A prompt that was put from its start loses its end first, also after a restart, or a lookup of each chunk."""
    store = DiskStore(tmp_path, 10, policy)
    store.lookup(PROMPT)
    for key in PROMPT:
        if alone:
            store.lookup([key])
        store.put(key, "raw", bytes(2))
    if restarted:
        store.close()
        store = DiskStore(tmp_path, 10, policy)
    with store:
        store.put(key_of(7), "raw", bytes(3))
        assert [bool(sizes) for sizes in store.lookup(PROMPT)] == [True, True, True, False, False]


@pytest.mark.parametrize("policy", CHUNK_POLICIES)
def test_use_of_a_chunk_keeps_those_before_it(tmp_path: Path, policy: str) -> None:
    """Reading a later chunk of a prompt keeps its start, because the later chunk is of no use without the start."""
    other = [key_of(number) for number in (0, 8, 9)]
    with DiskStore(tmp_path, 10, policy) as store:
        for prompt in (PROMPT[:3], other):
            store.lookup(prompt)
            for key in prompt:
                store.put(key, "raw", bytes(2))
        store.lookup(PROMPT[:3])
        for _ in range(2):  # the policy `s3_fifo` keeps what was used twice
            list(store.get(PROMPT[2], "raw"))
        store.put(key_of(6), "raw", bytes(4))
        assert all(store.lookup(PROMPT[:3]))
        assert [bool(sizes) for sizes in store.lookup(other)] == [True, False, False]


def test_restart(tmp_path: Path) -> None:
    """Content, bytes and the order of use outlive the process; a smaller store drops what is too much."""
    with DiskStore(tmp_path, 10) as store:
        for number in range(5):
            store.put(key_of(number), "raw", bytes(2))
        list(store.get(key_of(0), "raw"))
    with DiskStore(tmp_path, 10) as store:
        assert store.status().bytes == 10
        store.put(key_of(5), "raw", bytes(1))
        assert not store.lookup([key_of(1)])[0]
    with DiskStore(tmp_path, 5) as store:
        assert store.status().bytes == 5
        assert [n for n in range(6) if store.lookup([key_of(n)])[0]] == [0, 4, 5]
    assert sum(path.stat().st_size for path in files(tmp_path)) == 5


def test_what_a_policy_learned_survives(tmp_path: Path) -> None:
    """A store that is opened again goes on with the counts of its policy; the chunks that it holds add none."""
    with DiskStore(tmp_path, 10, "workload_aware") as store:
        for number in range(30):
            store.put(key_of(number), "raw", bytes(2))
            list(store.get(key_of(number - number % 2), "raw"))
        counted = learned(store)
    with DiskStore(tmp_path, 10, "workload_aware") as store:
        assert learned(store)["classes"] == counted["classes"]
        store.put(key_of(40), "raw", bytes(2))
        assert learned(store)["classes"] != counted["classes"]


def learned(store: DiskStore) -> dict[str, Any]:
    """Return what the policy of a store learned, without the uses whose reuse can still come."""
    policy = store._order._policy
    assert isinstance(policy, Adaptive)
    # Sums of decayed counts differ in their last digits.
    counts: dict[str, Any] = json.loads(json.dumps(policy.counts()), parse_float=lambda text: round(float(text), 9))
    return counts


def test_delete_and_clear(store: DiskStore, tmp_path: Path) -> None:
    """All bitstreams of the chunks named, or of all, are forgotten with their files."""
    for number in range(3):
        store.put(key_of(number), "raw", b"1")
        store.put(key_of(number), "int8", b"2")
    assert store.delete([key_of(0), key_of(9)]) == 2
    assert store.lookup([key_of(0)]) == [{}]
    assert store.clear() == 4
    assert (store.status().bytes, files(tmp_path / "kv")) == (0, [])


@pytest.mark.parametrize("place", [0, MIB + 3, 2 * MIB], ids=["first part", "second part", "last byte"])
def test_a_changed_byte(store: DiskStore, tmp_path: Path, place: int) -> None:
    """No damaged byte is ever handed out: the chunk is dropped, and is then not held."""
    data = bitstream(1, 2 * MIB + 1)
    store.put(key_of(1), "raw", data)
    [path] = files(tmp_path / "kv")
    with path.open("r+b") as file:
        file.seek(place)
        file.write(bytes([data[place] ^ 1]))
    delivered = list[memoryview]()
    with pytest.raises(NotFoundError, match="damaged"):
        delivered.extend(store.get(key_of(1), "raw"))
    assert b"".join(delivered) == data[: place // MIB * MIB]
    assert store.lookup([key_of(1)]) == [{}]
    assert (store.status().bytes, store.status().damaged, files(tmp_path / "kv")) == (0, 1, [])


@pytest.mark.parametrize("way", ["shorter", "longer", "gone"])
def test_a_file_of_another_size(store: DiskStore, tmp_path: Path, way: str) -> None:
    """Nothing of it is handed out, neither now nor after a restart."""
    store.put(key_of(1), "raw", bytes(3 * MIB))
    store.put(key_of(2), "raw", bytes(3 * MIB))

    def damage() -> None:
        for path in files(tmp_path / "kv"):
            if way == "gone":
                path.unlink()
            else:
                os.truncate(path, 2 * MIB if way == "shorter" else 4 * MIB)

    damage()
    with pytest.raises(NotFoundError):
        next(store.get(key_of(1), "raw"))
    store.close()
    with DiskStore(tmp_path / "kv", 10 * MIB) as again:
        assert (again.status().chunks, again.status().bytes) == (0, 0)
    assert files(tmp_path / "kv") == []


@pytest.mark.parametrize("way", ["no database", "pages", "another table"])
def test_a_damaged_index(tmp_path: Path, way: str) -> None:
    """An empty store is begun, without the files that nobody knows any more."""
    with DiskStore(tmp_path, MIB) as store:
        for number in range(100):
            store.put(key_of(number), "raw", b"x")
    index = tmp_path / "index.sqlite"
    if way == "no database":
        index.write_bytes(b"no database" * 1000)
    elif way == "pages":
        index.write_bytes(index.read_bytes()[:8192] + b"\xff" * (index.stat().st_size - 8192))
    else:
        index.unlink()
        with closing(sqlite3.connect(index)) as database:
            database.execute("CREATE TABLE chunks (a)")
    with DiskStore(tmp_path, MIB) as store:
        assert store.status().chunks == 0
        assert files(tmp_path) == []
        store.put(key_of(1), "raw", b"y")
        assert b"".join(store.get(key_of(1), "raw")) == b"y"


def test_one_that_is_read_can_be_evicted(store: DiskStore) -> None:
    """Who reads it gets it to the end; the next one does not find it."""
    data = bitstream(1, 4 * MIB)
    store.put(key_of(1), "raw", data)
    parts = store.get(key_of(1), "raw")
    begun = bytes(next(parts))
    store.put(key_of(2), "raw", bytes(9 * MIB))
    assert store.lookup([key_of(1)]) == [{}]
    assert begun + b"".join(parts) == data


def test_a_part_too_few_or_too_many(store: DiskStore, tmp_path: Path) -> None:
    """Nothing is kept of what is not of the size announced, nor of what breaks off; the one before stays."""

    def broken() -> Iterator[memoryview]:
        yield memoryview(b"abc")
        raise StoreUnavailableError("went away")

    store.put(key_of(1), "raw", b"before")
    for size in (5, 7):
        with pytest.raises(InvalidInputError, match="it is not kept"):
            store.put_parts(key_of(1), "raw", size, [memoryview(b"abc"), memoryview(b"def")])
    with pytest.raises(StoreUnavailableError):
        store.put_parts(key_of(1), "raw", 6, broken())
    assert b"".join(store.get(key_of(1), "raw")) == b"before"
    assert len(files(tmp_path / "kv")) == 1


def test_full_disk(tmp_path: Path) -> None:
    """The put says so and leaves nothing; what is held is still read, and there is room again after a delete."""
    with small_disk(tmp_path / "disk", 4 * MIB) as disk, DiskStore(disk / "kv", 100 * MIB) as store:
        store.put(key_of(1), "raw", bitstream(1, 2 * MIB))
        with pytest.raises(StoreUnavailableError, match="No space left") as raised:
            store.put(key_of(2), "raw", bitstream(2, 3 * MIB))
        assert str(disk) not in str(raised.value)
        assert len(files(disk / "kv")) == 1
        assert (store.status().bytes, store.status().chunks) == (2 * MIB, 1)
        assert b"".join(store.get(key_of(1), "raw")) == bitstream(1, 2 * MIB)
        store.delete([key_of(1)])
        store.put(key_of(2), "raw", bitstream(2, 3 * MIB))


def test_no_room_for_the_index(tmp_path: Path) -> None:
    """On a disk filled to its last page the commit fails, and the file that was written goes again."""
    with small_disk(tmp_path / "disk", MIB) as disk, DiskStore(disk / "kv", 100 * MIB) as store:
        store.put(key_of(0), "raw", b"x")
        with (disk / "filler").open("wb", buffering=0) as filler:
            while True:
                try:
                    filler.write(bytes(4096))
                except OSError:
                    break

        def put_many() -> None:
            for number in range(1, 1000):  # the pages of its log that SQLite has already may take some
                store.put(key_of(number), "raw", b"")

        with pytest.raises(StoreUnavailableError):
            put_many()
        known = store.status()
        assert len(files(disk / "kv")) == known.codecs["raw"].bitstreams
        (disk / "filler").unlink()
        store.put(key_of(1), "raw", b"y")
        assert known.bytes == 1


def test_one_process_at_a_time(store: DiskStore, tmp_path: Path) -> None:
    """A second one is told who has the folder; once it is closed, the next may."""
    with pytest.raises(ConfigError, match=r"another process uses the folder .*kv"):
        DiskStore(tmp_path / "kv", MIB)
    store.close()
    DiskStore(tmp_path / "kv", MIB).close()


def test_a_closed_store(store: DiskStore) -> None:
    """It says that it cannot be used, and leaves no file."""
    store.close()
    for work in (lambda: store.put(key_of(1), "raw", b"x"), lambda: store.lookup([key_of(1)]), store.status):
        with pytest.raises(StoreUnavailableError):
            work()


def test_many_threads(store: DiskStore, tmp_path: Path) -> None:
    """Chunks are put, replaced, evicted and read at once: each read is whole or not found, and the bytes add up."""
    wrong, sizes = list[object](), (1, 100_000, MIB + 7, 2 * MIB)

    def work(seed: int) -> None:
        try:
            for step in range(40):
                number = (seed * 7 + step) % 12
                if (seed + step) % 3 == 0:
                    store.put(key_of(number), "raw", bitstream(number, sizes[(seed + step) % 4]))
                    continue
                try:
                    data = b"".join(store.get(key_of(number), "raw"))
                except NotFoundError:
                    continue
                if data != bitstream(number, len(data)):
                    wrong.append(number)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test fails
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    held = store.status()
    assert held.damaged == 0
    assert held.bytes == sum(path.stat().st_size for path in files(tmp_path / "kv")) <= 10 * MIB


WRITER = """
import sys
from pathlib import Path
from flightllm.kvcache.store.disk import DiskStore
from tests.chunks import bitstream, key_of
with DiskStore(Path(sys.argv[1]), 8 << 20) as store:
    print("open", flush=True)
    for step in range(1_000_000):
        store.put(key_of(step % 17), "raw", bitstream(step % 17, (step * 65_537) % (2 << 20)))
        print(step, flush=True)
"""


@pytest.mark.parametrize("lines", [1, 2, 7, 30])
def test_kill_9(tmp_path: Path, lines: int) -> None:
    """Whenever the process is killed, what it had put is whole, its bytes are counted, and nothing else is left."""
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        said = [(process.stdout.readline() if process.stdout else "").strip() for _ in range(lines)]
        process.send_signal(signal.SIGKILL)
        process.wait()
    with DiskStore(tmp_path, 8 * MIB) as store:
        held = store.lookup([key_of(number) for number in range(17)])
        for number, sizes in enumerate(held):
            if sizes:
                assert b"".join(store.get(key_of(number), "raw")) == bitstream(number, sizes["raw"])
        if lines > 1:
            last = int(said[-1])
            assert held[last % 17], "what was put last is held"
        status = store.status()
        assert status.damaged == 0
        assert status.bytes == sum(path.stat().st_size for path in files(tmp_path))
        assert len(files(tmp_path)) == sum(map(len, held))


KILLED = """
import os, signal, sys
from pathlib import Path
from flightllm.kvcache.store.disk import DiskStore
from tests.chunks import key_of
def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
def parts():
    yield memoryview(b"newer")
    if sys.argv[2] == "while the file is written":
        die()
    yield memoryview(b" one")
store = DiskStore(Path(sys.argv[1]), 10)
store.put(key_of(1), "raw", b"old")
store.put(key_of(2), "raw", b"other")
if sys.argv[2] == "before the commit":
    DiskStore._keep = die
if sys.argv[2] == "after the commit":
    DiskStore._unlink = die
store.put_parts(key_of(1), "raw", 9, parts())
"""


@pytest.mark.parametrize("moment", ["while the file is written", "before the commit", "after the commit"])
def test_kill_9_in_a_put(tmp_path: Path, moment: str) -> None:
    """It was done, with what it replaced and evicted gone, or it was not done at all."""
    process = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), moment], check=False)
    assert process.returncode == -signal.SIGKILL
    assert len(files(tmp_path)) == 3
    done = moment == "after the commit"
    with DiskStore(tmp_path, 10) as store:
        assert store.lookup([key_of(1), key_of(2)]) == [{"raw": 9 if done else 3}, {} if done else {"raw": 5}]
        assert b"".join(store.get(key_of(1), "raw")) == (b"newer one" if done else b"old")
        assert store.status().bytes == sum(path.stat().st_size for path in files(tmp_path)) == (9 if done else 8)


def test_leftovers_are_removed(tmp_path: Path) -> None:
    """A file that was being written when the process was killed goes when the store is opened."""
    with DiskStore(tmp_path, MIB) as store:
        store.put(key_of(1), "raw", b"x")
    left = files(tmp_path)[0].with_name(f"{key_of(1)}.raw.{'0' * 32}")
    left.write_bytes(b"half")
    with DiskStore(tmp_path, MIB) as store:
        assert not left.exists()
        assert b"".join(store.get(key_of(1), "raw")) == b"x"


def test_only_its_owner_reads_it(tmp_path: Path) -> None:
    """What is kept tells what prompts said."""
    with DiskStore(tmp_path / "kv", MIB) as store:
        store.put(key_of(1), "raw", b"x")
        assert (tmp_path / "kv").stat().st_mode & 0o077 == 0
        assert (tmp_path / "kv" / "chunks").stat().st_mode & 0o077 == 0


def test_an_index_in_use_elsewhere(store: DiskStore, tmp_path: Path) -> None:
    """Where another program locks the index, the put fails with its reason and leaves no file."""
    store._index._database.execute("PRAGMA busy_timeout = 0")
    other = sqlite3.connect(tmp_path / "kv" / "index.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailableError, match="locked"):
        store.put(key_of(1), "raw", b"x")
    other.close()
    assert files(tmp_path / "kv") == []
    store.put(key_of(1), "raw", b"x")


def test_what_no_store_wrote(tmp_path: Path) -> None:
    """Files and folders of strangers are moved aside; bitstreams that no index names are removed, with their index."""
    folder = tmp_path / "kv"
    with DiskStore(folder, MIB) as store:
        store.put(key_of(1), "raw", b"x")
    [held] = files(folder)
    (held.parent / "thesis.tex").write_text("mine")
    (held.parent / "photos").mkdir()
    (held.parent / "photos" / "1.jpg").write_text("a photo")
    (folder / "index.sqlite").write_bytes(b"no database" * 1_000)
    with capture_logs() as log, DiskStore(folder, MIB) as store:
        assert store.lookup([key_of(1)]) == [{}]
    assert files(folder) == []
    assert (folder / "index.sqlite.damaged-1").read_bytes() == b"no database" * 1_000
    kept = {path.read_text() for path in (folder / "set-aside").rglob("*") if path.is_file()}
    assert kept == {"mine", "a photo"}
    assert [line["files"] for line in log if "were moved" in str(line["event"])] == [2]
    assert sum("index of KV chunks was lost" in str(line["event"]) for line in log) == 1
