"""What a dead process was doing is found in its journal, and only what may have killed it is refused."""

import os
import signal
import subprocess
import sys
import time

import pytest

from flightllm.errors import BusyError, NotFoundError, QuarantinedError
from flightllm.recovery.crash_attribution import culprit, suspected_statements
from flightllm.recovery.journal import Journal, Noted, Phase, create_journal
from flightllm.recovery.quarantine import ALL, Key, Quarantine, Refused, digest_of, user_key

_WRITER = """
import os, signal, sys
from flightllm.recovery.journal import Journal, Phase
journal = Journal(int(sys.argv[1]))
done = journal.note(b"d" * 16, "SELECT 1", Phase.PLANNING)
journal.end(done, harmless=b"d" * 16)
journal.note(b"p" * 16, "SELECT 'é" + "x" * 5_000, Phase.PLANNING)
slot = journal.note(b"r" * 16, "SELECT 2", Phase.STARTING, "0123456789abcdef", "jörg")
journal.move(slot, Phase.RUNNING)
os.kill(os.getpid(), signal.SIGKILL)
"""


def noted(name: str, phase: Phase, seconds: float = 1.0) -> Noted:
    """Make a statement in flight."""
    return Noted(name.encode(), name, "", phase, seconds)


def test_journal_of_a_killed_process() -> None:
    """The one who holds the journal reads what was in flight, how far it was, and what had ended well."""
    descriptor = create_journal()
    journal = Journal(descriptor)
    done = subprocess.run(
        [sys.executable, "-c", _WRITER, str(descriptor)], pass_fds=(descriptor,), check=False, timeout=60
    )
    assert done.returncode == -signal.SIGKILL
    planning, running = journal.take()
    assert (planning.digest, planning.phase, planning.query_id) == (b"p" * 16, Phase.PLANNING, "")
    assert planning.text.startswith("SELECT 'éxxx")
    assert (running.digest, running.phase, running.text) == (b"r" * 16, Phase.RUNNING, "SELECT 2")
    assert (running.query_id, running.user, planning.user) == ("0123456789abcdef", "jörg", "")
    assert 0 <= running.seconds < 60
    assert journal.is_harmless(b"d" * 16)
    assert not journal.is_harmless(b"r" * 16)
    journal.forget(b"d" * 16)
    assert not journal.is_harmless(b"d" * 16)
    assert journal.take() == []
    os.close(descriptor)


def test_a_full_journal_notes_no_more() -> None:
    """Beyond its slots a statement is not noted, and runs; slots that are given back are used again."""
    descriptor = create_journal()
    journal = Journal(descriptor)
    slots = [journal.note(b"x" * 16, "SELECT 1", Phase.RUNNING) for _ in range(600)]
    assert slots.count(None) == 600 - 512
    for slot in slots:
        journal.end(slot)
    assert journal.take() == []
    assert journal.note(b"x" * 16, "SELECT 1", Phase.RUNNING) is not None
    os.close(descriptor)


@pytest.mark.parametrize(
    ("killed_by", "harmless", "found"),
    [
        (signal.SIGSEGV, "", ["plans", "begins"]),
        (signal.SIGSEGV, "plans begins", ["runs", "computes"]),
        (signal.SIGKILL, "", ["plans", "begins", "runs", "computes"]),
        (signal.SIGKILL, "runs plans computes", ["begins"]),
        (None, "plans begins runs computes", []),
    ],
)
def test_suspects(killed_by: int | None, harmless: str, found: list[str]) -> None:
    """A crash is laid to what was being planned or just begun, lack of memory to all; what ended well before is let go.

    What computes for long before its first row is not just beginning.
    """
    in_flight = [
        noted("plans", Phase.PLANNING),
        noted("begins", Phase.STARTING),
        noted("runs", Phase.RUNNING),
        noted("runs", Phase.RUNNING),
        noted("computes", Phase.STARTING, 60.0),
    ]
    known = {name.encode() for name in harmless.split()}
    assert [one.text for one in suspected_statements(in_flight, known.__contains__, killed_by)] == found


def test_quarantine_ends_and_is_lifted() -> None:
    """A statement is refused by its tokens, until its time is over or an administrator lifts it."""
    first, second = digest_of("SELECT 1"), digest_of("SELECT 2")
    lifted: list[Key] = []
    refused = [Refused(first, "SELECT 1", "q1", time.monotonic() + 60), Refused(second, "SELECT 2", "", 0.0)]
    quarantine = Quarantine(refused, lifted.append)
    quarantine.check(second)
    assert digest_of("SELECT  1 -- again") == first
    assert digest_of("SELECT '1'") != first
    assert digest_of("INGEST INTO it's, 1") != digest_of("INGEST INTO it's, 2")
    with pytest.raises(QuarantinedError, match=rf"when the server died.*another (60|59) s.*--lift {first.hex()[:12]}"):
        quarantine.check(first)
    [one] = quarantine.current()
    with pytest.raises(NotFoundError):
        quarantine.lift("other")
    quarantine.lift(one.name)
    quarantine.check(first)
    assert lifted == [("", first)]


def test_quarantine_of_users() -> None:
    """A statement is refused to its user alone; to who is refused altogether all others too, which may come again."""
    text, until = digest_of("SELECT 1"), time.monotonic() + 60
    refused = [Refused(text, "SELECT 1", "", until, "ann"), Refused(ALL, "all", "", until, "bob")]
    refused.append(Refused(text, "SELECT 1", "", until, "bob"))
    quarantine = Quarantine(refused)
    with pytest.raises(QuarantinedError, match="this statement"):
        quarantine.check(text, "ann")
    with pytest.raises(QuarantinedError, match="this statement"):
        quarantine.check(text, "bob")
    for allowed in ((text, ""), (text, "eve"), (digest_of("SELECT 2"), "ann")):
        quarantine.check(*allowed)
    with pytest.raises(BusyError, match=r"your statements were running.*--lift bob"):
        quarantine.check(digest_of("SELECT 2"), "bob")
    quarantine.lift("bob")
    quarantine.check(digest_of("SELECT 2"), "bob")


@pytest.mark.parametrize(
    ("deaths", "found"),
    [
        (["mb", "m", "m"], "m"),
        (["mb", "mc", "m", "m"], "m"),
        (["m"], None),
        (["m", "m"], None),
        (["mb", "mb", "mb"], None),
        (["m", "b", "m"], None),
        ([], None),
    ],
)
def test_culprit(deaths: list[str], found: str | None) -> None:
    """Somebody is the cause of deaths who alone had suspects at all of them, and of one or two deaths nobody."""
    assert culprit([set(users) for users in deaths]) == found


@pytest.mark.parametrize("name", ["x" * 65, "é" * 33, "a\0", "\ud800"])
def test_odd_names(name: str) -> None:
    """A name that the journal has no room for is told from others all the same."""
    assert user_key("jörg") == "jörg"
    assert user_key(name) != user_key(name + "y")
    assert len(user_key(name).encode()) == 64
