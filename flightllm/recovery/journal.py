"""The statements in flight, in shared memory that outlives the process, so the supervisor can read it after a crash."""

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
"""Phase, start (seconds of the monotonic clock), bytes of text, digest, query id, user."""
TEXT_BYTES = _SLOT_BYTES - _HEADER.size
"""The most bytes of a statement's text."""
_DIGEST_BYTES, _HARMLESS = 16, 4_096
_SIZE = _SLOTS * _SLOT_BYTES + _HARMLESS * _DIGEST_BYTES


class Phase(IntEnum):
    """A statement's progress."""

    FREE = 0
    PLANNING = 1
    STARTING = 2
    """The statement runs, and has returned no rows yet."""
    RUNNING = 3


@dataclass(frozen=True, slots=True)
class Noted:
    """A statement in flight: its digest, the beginning of its text, and the seconds since it began."""

    digest: bytes
    text: str
    query_id: str
    phase: Phase
    seconds: float
    user: str = ""
    """The statement's user, as `user_key` returns it."""


class Journal:
    """The statements in flight, and the digests of the latest statements that ended well.

    Recording a statement takes microseconds and no system call. One process writes, from any of its threads. The
    supervisor reads once that process is dead. The kernel owns the pages, so a crash can tear only the slot that is
    being written; a slot's phase is written last.
    """

    def __init__(self, descriptor: int) -> None:
        """Map the journal of a `create_journal` descriptor."""
        self._pages = mmap.mmap(descriptor, _SIZE)
        self._free = deque(range(_SLOTS))

    def note(self, digest: bytes, text: str, phase: Phase, query_id: str = "", user: str = "") -> int | None:
        """Record the start of a statement; return its slot, or None where all slots are taken.

        The supervisor passes the text on, and knows no secret: the text must have no secrets.
        """
        try:
            slot = self._free.popleft()
        except IndexError:
            return None
        start = slot * _SLOT_BYTES
        beginning = text[:TEXT_BYTES].encode("utf-8", "replace")[:TEXT_BYTES]
        names = query_id.encode()[:16], user.encode()[:USER_BYTES]
        header = _HEADER.pack(Phase.FREE, time.monotonic(), len(beginning), digest, *names)
        self._pages[start : start + _HEADER.size + len(beginning)] = header + beginning
        self._pages[start] = phase
        return slot

    def move(self, slot: int | None, phase: Phase) -> None:
        """Record a statement's new phase."""
        if slot is not None:
            self._pages[slot * _SLOT_BYTES] = phase

    def end(self, slot: int | None, *, harmless: bytes | None = None) -> None:
        """Record the end of a statement; `harmless` is its digest if it ended well."""
        if harmless is not None:
            start = _place(harmless)
            self._pages[start : start + _DIGEST_BYTES] = harmless
        if slot is not None:
            self._pages[slot * _SLOT_BYTES] = Phase.FREE
            self._free.append(slot)

    def is_harmless(self, digest: bytes) -> bool:
        """Return whether a statement ended well lately."""
        start = _place(digest)
        return self._pages[start : start + _DIGEST_BYTES] == digest

    def take(self) -> list[Noted]:
        """Return the statements that were in flight when the writer died, and clear the slots."""
        now, found = time.monotonic(), []
        for start in range(0, _SLOTS * _SLOT_BYTES, _SLOT_BYTES):
            if self._pages[start] == Phase.FREE:
                continue
            phase, since, size, digest, *names = _HEADER.unpack_from(self._pages, start)
            text = self._pages[start + _HEADER.size : start + _HEADER.size + min(size, TEXT_BYTES)]
            name, user = (value.rstrip(b"\0").decode("utf-8", "replace") for value in names)
            found.append(Noted(digest, text.decode("utf-8", "replace"), name, Phase(phase), now - since, user))
            self._pages[start] = Phase.FREE
        return found

    def forget(self, digest: bytes) -> None:
        """Forget that a statement ended well."""
        if self.is_harmless(digest):
            start = _place(digest)
            self._pages[start : start + _DIGEST_BYTES] = bytes(_DIGEST_BYTES)


def create_journal() -> int:
    """Return the descriptor of an empty journal: in memory, or in an unnamed file if the system has no memfd."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("flightllm-journal")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.write(descriptor, bytes(_SIZE))  # allocate now: a full memory would kill the process at a later write
    return descriptor


def _place(digest: bytes) -> int:
    """Return the offset of a digest; two digests can share an offset, and then the later one replaces the other."""
    return _SLOTS * _SLOT_BYTES + int.from_bytes(digest[:4], "little") % _HARMLESS * _DIGEST_BYTES
