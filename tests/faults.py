"""Faults at the boundary to the kernel: the n-th call that changes a folder fails, whatever library makes it.

A seccomp filter of the traced process hands its calls to the process that watches it. So Python's calls are caught, and
those of SQLite, of Rust and of C++ as well; `tests/storage/test_faults.py` compares the count with strace's.
"""

import array
import ctypes
import errno
import fcntl
import os
import platform
import select
import shutil
import signal
import stat
import struct
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Kind = Literal["full", "full once", "broken", "broken once", "torn"]
"""No room from the n-th call on, or for it alone; an I/O error likewise; or half of a write, and then no room."""
KINDS: tuple[Kind, ...] = ("full", "broken", "broken once", "torn")
"""Those that stores are tried with."""

_X86 = {
    "write": 1, "open": 2, "mmap": 9, "pwrite64": 18, "writev": 20, "msync": 26, "sendfile": 40, "fsync": 74,
    "fdatasync": 75, "truncate": 76, "ftruncate": 77, "rename": 82, "mkdir": 83, "rmdir": 84, "creat": 85, "link": 86,
    "unlink": 87, "symlink": 88, "openat": 257, "mkdirat": 258, "unlinkat": 263, "renameat": 264, "linkat": 265,
    "symlinkat": 266, "sync_file_range": 277, "fallocate": 285, "pwritev": 296, "renameat2": 316,
    "copy_file_range": 326, "pwritev2": 328, "openat2": 437,
}  # fmt: skip
_ARM = {
    "mkdirat": 34, "unlinkat": 35, "symlinkat": 36, "linkat": 37, "renameat": 38, "truncate": 45, "ftruncate": 46,
    "fallocate": 47, "openat": 56, "write": 64, "writev": 66, "pwrite64": 68, "pwritev": 70, "sendfile": 71,
    "fsync": 82, "fdatasync": 83, "sync_file_range": 84, "mmap": 222, "msync": 227, "renameat2": 276,
    "copy_file_range": 285, "pwritev2": 287, "openat2": 437,
}  # fmt: skip
_MACHINES = {"x86_64": (_X86, 317), "aarch64": (_ARM, 277)}
"""By machine: the calls that are caught, and the number of `seccomp` itself."""
CAUGHT, _SECCOMP = _MACHINES.get(platform.machine(), ({}, 0))
_NAMES = {number: name for name, number in CAUGHT.items()}
_PATHS = {
    "open": ((None, 0),), "creat": ((None, 0),), "truncate": ((None, 0),), "mkdir": ((None, 0),),
    "rmdir": ((None, 0),), "unlink": ((None, 0),), "rename": ((None, 0), (None, 1)), "link": ((None, 0), (None, 1)),
    "symlink": ((None, 1),), "openat": ((0, 1),), "openat2": ((0, 1),), "mkdirat": ((0, 1),), "unlinkat": ((0, 1),),
    "renameat": ((0, 1), (2, 3)), "renameat2": ((0, 1), (2, 3)), "linkat": ((0, 1), (2, 3)), "symlinkat": ((1, 2),),
}  # fmt: skip
"""Arguments of a call that are a path, with the one that is the folder it begins at."""
_DESCRIPTOR = {"mmap": 4, "copy_file_range": 2}
"""The argument that is the file which is changed, where it is not the first."""
_FREES = frozenset({"unlink", "unlinkat", "rmdir", "truncate", "ftruncate", "mmap", "msync"})
"""Calls that need no room on the disk."""
_WRITES = frozenset({"write", "pwrite64", "writev", "pwritev", "pwritev2"})
_RECEIVE, _SEND, _CONTINUE = 0xC0502100, 0xC0182101, 1
_AT_FDCWD, _O_CHANGES = -100, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_RDWR
_PIDFD_GETFD, _PR_NO_NEW_PRIVS = 438, 38
TO_READ = "openat to read"
"""The name among those of `Watched` of a call that opens a file to read or to lock it."""
_libc = ctypes.CDLL(None, use_errno=True)


def can_inject() -> bool:
    """Return whether this machine lets a process watch the calls of another one."""
    if not CAUGHT:
        return False
    child = os.fork()
    if not child:
        os._exit(0 if _listen() >= 0 else 1)
    return os.waitpid(child, 0)[1] == 0


def _listen() -> int:
    """Hand this process's calls to whoever reads the descriptor returned; negative where that is not allowed."""
    allow, notify, load = 0x7FFF0000, 0x7FC00000, 0x20
    program = [(load, 0, 0, 0)]
    for name, number in CAUGHT.items():
        if name != "mmap":
            program += [(0x15, 0, 1, number), (0x06, 0, 0, notify)]
    program += [
        (0x15, 0, 6, CAUGHT["mmap"]),  # of mappings, those alone that change a file: shared and to be written
        (load, 0, 0, 16 + 8 * 3), (0x45, 0, 4, 1), (load, 0, 0, 16 + 8 * 2), (0x45, 0, 2, 2), (0x06, 0, 0, notify),
        (0x06, 0, 0, allow), (0x06, 0, 0, allow),
    ]  # fmt: skip
    code = b"".join(struct.pack("HBBI", *one) for one in program)
    text = ctypes.create_string_buffer(code)
    head = ctypes.create_string_buffer(struct.pack("H6xP", len(program), ctypes.addressof(text)))
    _libc.prctl(_PR_NO_NEW_PRIVS, 1, 0, 0, 0)
    return int(_libc.syscall(_SECCOMP, 1, 8, head))


@dataclass
class Watched:
    """What became of a watched process: calls that change its folder, and what it sent at each of its steps."""

    calls: list[str] = field(default_factory=list)
    """By name, in order, from `arm` to `disarm`."""
    failed: list[str] = field(default_factory=list)
    """Those that were made to fail, with their paths."""
    reached: bool = False
    sent: list[bytes] = field(default_factory=list)
    hung: bool = False
    status: int = 0

    @property
    def counted(self) -> Counter[str]:
        """Return how many calls of each name there were."""
        return Counter(self.calls)


class Watch:
    """Run a function in a forked process, and let its n-th call that changes `folder` fail.

    The function is given `tell`: it sends a message and waits until the watcher has acted on it. `b"arm"` and
    `b"disarm"` begin and end the faults; `at_message` is told all others.
    """

    def __init__(
        self,
        folder: Path,
        kind: Kind = "full",
        n: int = 0,
        seconds: float = 60.0,
        at_call: Callable[[int], None] | None = None,
        at_message: Callable[[bytes], None] | None = None,
        before_call: "Callable[[str, str], None] | None" = None,
    ) -> None:
        """`n` 0 lets no call fail; `at_call` is told the number of each call before it is made."""
        self.found = Watched()
        self._folder = os.fsencode(folder.resolve())
        self._kind, self._n, self._deadline = kind, n, time.monotonic() + seconds
        self._at_call, self._at_message, self._before_call = at_call, at_message, before_call
        self._armed = False
        self._pid = self._listener = -1

    def run(self, work: "Callable[[Callable[[bytes], None]], None]") -> Watched:
        """Fork, run `work`, and return what became of it; a process that does not end in time is killed."""
        to_watcher, to_child = os.pipe(), os.pipe()
        ready = os.pipe()
        self._pid = os.fork()
        if not self._pid:
            _child(work, to_watcher, to_child, ready)
        for end in (to_watcher[1], to_child[0], ready[1]):
            os.close(end)
        text = os.read(ready[0], 32)
        os.close(ready[0])
        pidfd = os.pidfd_open(self._pid)
        try:
            while self._listener < 0 and time.monotonic() < self._deadline:  # the filter stands in a moment
                self._listener = _libc.syscall(_PIDFD_GETFD, pidfd, int(text or b"-1"), 0)
            os.write(to_child[1], b".")
            self._serve(to_watcher[0], to_child[1])
        finally:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            self.found.status = os.waitpid(self._pid, 0)[1]
            for one in (pidfd, self._listener, to_watcher[0], to_child[1]):
                os.close(one)
        return self.found

    def _serve(self, messages: int, answers: int) -> None:
        poll = select.poll()
        for one in (messages, self._listener):
            poll.register(one, select.POLLIN)
        pending = b""
        while True:
            left = self._deadline - time.monotonic()
            events = dict(poll.poll(max(0, left * 1000)))
            if not events:
                self.found.hung = True
                return
            if events.get(self._listener, 0) & select.POLLIN:
                self._notified()
            elif self._listener in events:  # no thread of the process is left
                poll.unregister(self._listener)
            if messages in events:
                more = os.read(messages, 1 << 20)
                if not more:
                    return
                pending += more
                while (size := int.from_bytes(pending[:4])) <= len(pending) - 4 and len(pending) >= 4:
                    self._message(pending[4 : 4 + size])
                    pending = pending[4 + size :]
                    os.write(answers, b".")

    def _message(self, text: bytes) -> None:
        if text in (b"arm", b"disarm"):
            self._armed = text == b"arm"
            return
        self.found.sent.append(text)
        if self._at_message is not None:
            self._at_message(text)

    def _notified(self) -> None:
        asked = array.array("B", bytes(80))
        try:
            fcntl.ioctl(self._listener, _RECEIVE, asked, True)
        except FileNotFoundError:  # the thread was killed meanwhile
            return
        key, thread, _, number, _, _, *arguments = struct.unpack("QIIiIQ6Q", asked.tobytes())
        code = 0
        if self._armed:
            code = self._decided(thread, _NAMES[number], arguments)
        answer = struct.pack("QqiI", key, -1 if code else 0, -code, 0 if code else _CONTINUE)
        with suppress(FileNotFoundError):
            fcntl.ioctl(self._listener, _SEND, answer)

    def _decided(self, thread: int, name: str, arguments: list[int]) -> int:
        """Return the error that a call is to fail with, 0 where it is to be made."""
        path = self._target(thread, name, arguments)
        if path is None:
            return 0
        found = self.found
        reads = name == "openat" and (not arguments[2] & _O_CHANGES or path.endswith(b".lock"))
        found.calls.append(TO_READ if reads else name)
        if self._at_call is not None:
            self._at_call(len(found.calls))
        if self._before_call is not None:
            self._before_call(name, os.fsdecode(path))
        number = len(found.calls)
        if not self._n or number < self._n:
            return 0
        once = self._kind in {"full once", "broken once", "torn"}
        if once and found.reached:
            return 0
        code = errno.EIO if self._kind.startswith("broken") else errno.ENOSPC
        if code == errno.ENOSPC and not self._needs_room(thread, name, arguments):
            found.reached = found.reached or number >= self._n
            return 0
        found.reached = True
        if self._kind == "torn":
            if name not in _WRITES:
                return 0
            self._write_half(thread, name, arguments)
        found.failed.append(f"{name} {os.fsdecode(path)}")
        return code

    def _needs_room(self, thread: int, name: str, arguments: list[int]) -> bool:
        if name == "openat":
            return bool(arguments[2] & os.O_CREAT) and self._target_missing(thread, arguments)
        return name not in _FREES

    def _target_missing(self, thread: int, arguments: list[int]) -> bool:
        return not Path(os.fsdecode(self._path(thread, arguments[0], arguments[1]))).exists()

    def _target(self, thread: int, name: str, arguments: list[int]) -> bytes | None:
        """Return the path in the folder that a call would change, None where there is none."""
        if name in _PATHS:
            paths = [
                self._path(thread, _AT_FDCWD if start is None else arguments[start], arguments[place])
                for start, place in _PATHS[name]
            ]
        else:
            try:
                paths = [_link(thread, f"fd/{arguments[_DESCRIPTOR.get(name, 0)]}")]
            except OSError:
                return None
        return next((path for path in paths if path == self._folder or path.startswith(self._folder + b"/")), None)

    def _path(self, thread: int, start: int, address: int) -> bytes:
        text = self._memory(thread, address, 4096).split(b"\0")[0]
        start = ctypes.c_int(start & 0xFFFFFFFF).value
        if not text.startswith(b"/"):
            with suppress(OSError):
                text = _link(thread, "cwd" if start == _AT_FDCWD else f"fd/{start}") + b"/" + text
        return os.path.normpath(text)

    @staticmethod
    def _memory(thread: int, address: int, size: int) -> bytes:
        with Path(f"/proc/{thread}/mem").open("rb", buffering=0) as memory:
            found = b""
            while len(found) < size:  # what comes after a page cannot always be read
                part = min(size - len(found), 4096 - (address + len(found)) % 4096)
                memory.seek(address + len(found))
                try:
                    found += memory.read(part)
                except OSError:
                    break
        return found

    def _write_half(self, thread: int, name: str, arguments: list[int]) -> None:
        if name in {"write", "pwrite64"}:
            data = self._memory(thread, arguments[1], arguments[2])
        else:
            parts = struct.iter_unpack("QQ", self._memory(thread, arguments[1], 16 * arguments[2]))
            data = b"".join(self._memory(thread, address, size) for address, size in parts)
        pidfd = os.pidfd_open(self._pid)
        file = _libc.syscall(_PIDFD_GETFD, pidfd, arguments[0], 0)
        try:
            half = data[: len(data) // 2]
            if name.startswith("p"):
                os.pwrite(file, half, arguments[3])
            else:
                os.write(file, half)
        finally:
            os.close(file)
            os.close(pidfd)


def _link(thread: int, name: str) -> bytes:
    """Return the path of a file or folder that a thread has open."""
    return os.fsencode(Path(f"/proc/{thread}/{name}").readlink())


def _child(
    work: "Callable[[Callable[[bytes], None]], None]",
    to_watcher: tuple[int, int],
    to_child: tuple[int, int],
    ready: tuple[int, int],
) -> None:
    """Run in the forked process; does not return."""

    def tell(message: bytes) -> None:
        os.write(to_watcher[1], len(message).to_bytes(4) + message)
        os.read(to_child[0], 1)

    code = 1
    try:
        for end in (to_watcher[0], to_child[1], ready[0]):
            os.close(end)
        # Nothing is caught before the filter stands, so the number of its descriptor is said on a pipe made earlier.
        number = os.dup(ready[1])
        os.close(number)
        os.write(ready[1], b"%d" % number)
        listener = _listen()
        if listener != number:
            os._exit(3)
        os.read(to_child[0], 1)
        work(tell)
        code = 0
    finally:
        os._exit(code)


class Durable:
    """What a power cut leaves of a folder: the names and contents that were brought to disk, and no others.

    What is there when it is made is on disk.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._content: dict[int, bytes] = {}
        self._names: dict[int, dict[str, int]] = {}
        self._held: dict[int, int] = {}
        """Open descriptors: a file that is known stays, so that no other one gets its number."""
        for path in (self._folder, *self._folder.rglob("*")):
            self.synced(path)

    def synced(self, path: Path) -> None:
        """Take over a file's content, or the names in a folder, as they are now."""
        try:
            status = path.stat()
        except FileNotFoundError:
            return
        number = self._hold(path, status)
        if stat.S_ISDIR(status.st_mode):
            self._names[number] = {
                entry.name: self._hold(path / entry.name, entry.stat()) for entry in os.scandir(path)
            }
        elif stat.S_ISREG(status.st_mode):
            self._content[number] = path.read_bytes()

    def _hold(self, path: Path, status: os.stat_result) -> int:
        if status.st_ino not in self._held:
            self._held[status.st_ino] = os.open(path, os.O_PATH)
        return status.st_ino

    def write(self, target: Path, *, names_kept: bool = False) -> None:
        """Make a folder as it is after the cut; with `names_kept` names outlive it that were not brought to disk."""
        if names_kept:
            self._write_named(self._folder, target)
        else:
            self._write(self._folder.stat().st_ino, target)

    def _write(self, number: int, target: Path) -> None:
        mode = os.fstat(self._held[number]).st_mode
        if stat.S_ISDIR(mode):
            target.mkdir()
            for name, inner in self._names.get(number, {}).items():
                self._write(inner, target / name)
        else:
            target.write_bytes(self._content.get(number, b""))

    def _write_named(self, folder: Path, target: Path) -> None:
        target.mkdir()
        for entry in os.scandir(folder):
            if entry.is_dir():
                self._write_named(folder / entry.name, target / entry.name)
            else:
                (target / entry.name).write_bytes(self._content.get(entry.stat().st_ino, b""))

    def close(self) -> None:
        """Let all files go."""
        for descriptor in self._held.values():
            os.close(descriptor)
        self._held.clear()


def copied(folder: Path, target: Path) -> None:
    """Copy a folder as it is now, hard links as files of their own."""
    shutil.copytree(folder, target, symlinks=True)
