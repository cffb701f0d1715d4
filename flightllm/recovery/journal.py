"""What runs now, in memory that outlives the process: a table of slots that the supervisor reads after a death."""

import mmap
import os
import struct
import tempfile
import time
from collections import deque
from dataclasses import dataclass
from enum import IntEnum

_SLOTS, _SLOT_BYTES = 512, 512
USER_BYTES = 64
_HEADER = struct.Struct(f"<B7xdQ16s16s{USER_BYTES}s")
"""Phase, when it began (seconds of the monotonic clock), bytes of text, digest, query id, user."""
_TEXT_BYTES = _SLOT_BYTES - _HEADER.size
_DIGEST_BYTES, _HARMLESS = 16, 4_096
_SIZE = _SLOTS * _SLOT_BYTES + _HARMLESS * _DIGEST_BYTES


class Phase(IntEnum):
    """How far a statement is."""

    FREE = 0
    PLANNING = 1
    STARTING = 2
    """It runs and has returned nothing yet."""
    RUNNING = 3


@dataclass(frozen=True, slots=True)
class Noted:
    """A statement in flight: its digest, the beginning of its text, and since how many seconds it is in its phase."""

    digest: bytes
    text: str
    query_id: str
    phase: Phase
    seconds: float
    user: str = ""
    """Whose it is, as `user_key` says."""


class Journal:
    """The statements in flight, and the digests of the latest that ended well.

    Noting one takes microseconds and no system call. One process writes, in any of its threads, and one other reads
    once it is dead: the pages are the kernel's, so no death tears more than the slot being written, whose phase is
    written last.
    """

    def __init__(self, descriptor: int) -> None:
        """Map the journal that `create_journal` made."""
        self._pages = mmap.mmap(descriptor, _SIZE)
        self._free = deque(range(_SLOTS))

    def note(self, digest: bytes, text: str, phase: Phase, query_id: str = "", user: str = "") -> int | None:
        """Say that a statement begins; return its slot, None where all are taken."""
        try:
            slot = self._free.popleft()
        except IndexError:
            return None
        start = slot * _SLOT_BYTES
        beginning = text[:_TEXT_BYTES].encode("utf-8", "replace")[:_TEXT_BYTES]
        names = query_id.encode()[:16], user.encode()[:USER_BYTES]
        header = _HEADER.pack(Phase.FREE, time.monotonic(), len(beginning), digest, *names)
        self._pages[start : start + _HEADER.size + len(beginning)] = header + beginning
        self._pages[start] = phase
        return slot

    def move(self, slot: int | None, phase: Phase) -> None:
        """Say that a statement has come to another phase."""
        if slot is not None:
            self._pages[slot * _SLOT_BYTES] = phase

    def end(self, slot: int | None, *, harmless: bytes | None = None) -> None:
        """Say that a statement has ended; `harmless` is its digest where it ended well."""
        if harmless is not None:
            start = _place(harmless)
            self._pages[start : start + _DIGEST_BYTES] = harmless
        if slot is not None:
            self._pages[slot * _SLOT_BYTES] = Phase.FREE
            self._free.append(slot)

    def is_harmless(self, digest: bytes) -> bool:
        """Tell whether a statement ended well lately."""
        start = _place(digest)
        return self._pages[start : start + _DIGEST_BYTES] == digest

    def take(self) -> list[Noted]:
        """Return what was in flight when the writer died, and empty the slots."""
        now, found = time.monotonic(), []
        for start in range(0, _SLOTS * _SLOT_BYTES, _SLOT_BYTES):
            if self._pages[start] == Phase.FREE:
                continue
            phase, since, size, digest, *names = _HEADER.unpack_from(self._pages, start)
            text = self._pages[start + _HEADER.size : start + _HEADER.size + min(size, _TEXT_BYTES)]
            name, user = (value.rstrip(b"\0").decode("utf-8", "replace") for value in names)
            found.append(Noted(digest, text.decode("utf-8", "replace"), name, Phase(phase), now - since, user))
            self._pages[start] = Phase.FREE
        return found

    def forget(self, digest: bytes) -> None:
        """Know a statement as harmless no longer."""
        if self.is_harmless(digest):
            start = _place(digest)
            self._pages[start : start + _DIGEST_BYTES] = bytes(_DIGEST_BYTES)


def create_journal() -> int:
    """Return the descriptor of an empty journal, in memory; where the system cannot do that, in a file without name."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("flightllm-journal")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.write(descriptor, bytes(_SIZE))  # not a hole: a page that finds no room later would kill the process
    return descriptor


def _place(digest: bytes) -> int:
    """Return where a digest stands; another one that falls on the same place takes it."""
    return _SLOTS * _SLOT_BYTES + int.from_bytes(digest[:4], "little") % _HARMLESS * _DIGEST_BYTES
