"""Each call that changes a store's files fails in turn, whatever library makes it: nothing is lost, nothing hangs."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.faults import CAUGHT, KINDS, TO_READ, can_inject

EVERY_KIND = bool(os.environ.get("FLIGHTLLM_ALL_FAULTS"))
"""Try each kind of fault at each call: takes an hour. Else the kinds take turns, so that each call fails in one way."""
CHANGES = [
    *(("catalog", one) for one in ("create", "append", "replace", "intervals", "update", "delete", "drop", "view")),
    *(("catalog", one) for one in ("schema", "drop_schema")),
    *(("users", one) for one in ("add_user", "change_user", "drop_user", "add_token", "grant", "revoke")),
    *(("users", one) for one in ("set_policy", "forget", "add_spent")),
    ("new_users", "first_user"),
    *(("indexes", one) for one in ("build", "build_trained", "build_again", "extend", "drop")),
    *(("cache", one) for one in ("put", "reopened")),
    ("emptied", "clear"),
]
_QUICK = {"catalog": "append", "users": "grant", "indexes": "drop", "cache": "put", "emptied": "clear"}
"""One change of each kind of store, for each run; each change takes seconds."""
_SLOW = (pytest.mark.slow,)
_ONE_THREAD = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
"""So that what is forked is as good as a fresh process."""
_IN_MEMORY = {"TMPDIR": "/dev/shm"} if Path("/dev/shm").is_dir() else {}  # noqa: S108 -- made fresh below it
"""The disk's answers are made up, so that a real one only takes time."""
_READ = frozenset(
    {
        "access",
        "close",
        "dup",
        "dup2",
        "dup3",
        "faccessat",
        "faccessat2",
        "fadvise64",
        "fcntl",
        "flock",
        "fstat",
        "fstatfs",
        "getdents64",
        "getcwd",
        "ioctl",
        "lseek",
        "lstat",
        "mmap",
        "munmap",
        "newfstatat",
        "openat",
        "pread64",
        "preadv",
        "read",
        "readlink",
        "readlinkat",
        "readv",
        "stat",
        "statfs",
        "statx",
        "epoll_ctl",
    }
)
"""Calls that change no file, other than those that are caught."""

pytestmark = pytest.mark.skipif(not can_inject(), reason="the kernel hands no calls of other processes to this one")


def run(*arguments: str, seconds: float) -> str:
    """Run Python in an environment in which nothing starts a thread by itself; return what it prints."""
    command = [*arguments[:-1], arguments[-1]]
    environment = os.environ | _ONE_THREAD | _IN_MEMORY
    ran = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False, env=environment)
    assert ran.returncode == 0, ran.stderr[-2_000:]
    return ran.stdout


def check_faults(store: str, change: str, every: int, seconds: float) -> None:
    """Let calls of a change fail in turn, and check what is there then; see `tests.fault_stores`."""
    if store == "indexes":
        pytest.importorskip("faiss", reason="the extra 'vector' is not installed")
    printed = run(sys.executable, "-m", "tests.fault_stores", store, change, str(every), seconds=seconds)
    found = json.loads(printed.splitlines()[-1])
    assert found["wrong"] == []
    assert found["faults"] > 0
    assert found["cuts"] > 0


@pytest.mark.parametrize(
    ("store", "change"),
    [
        pytest.param(store, change, id=f"{store}-{change}", marks=() if _QUICK.get(store) == change else _SLOW)
        for store, change in CHANGES
    ],
)
def test_each_tenth_call_fails(store: str, change: str) -> None:
    """The same as below where one call in ten fails, each by the next kind of fault."""
    check_faults(store, change, 10 * len(KINDS), seconds=250)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize(("store", "change"), CHANGES, ids=[f"{store}-{change}" for store, change in CHANGES])
def test_each_call_fails(store: str, change: str) -> None:
    """What was said to be done is there in another process, what was refused is not, and the store goes on working."""
    check_faults(store, change, 1 if EVERY_KIND else len(KINDS), seconds=3_500)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace")
@pytest.mark.parametrize(
    ("store", "change"), [("catalog", "append"), ("users", "add_user"), ("indexes", "build"), ("emptied", "clear")]
)
def test_no_call_escapes(tmp_path: Path, store: str, change: str) -> None:
    """Those that strace counts are caught, and it sees no others that change the files, mappings included."""
    if store == "indexes":
        pytest.importorskip("faiss", reason="the extra 'vector' is not installed")
    for name in ("traced", "watched"):
        (tmp_path / name).mkdir()
    folder, marks, log = tmp_path / "traced", tmp_path / "mark", tmp_path / "log"
    code = f"from tests.fault_stores import traced; traced({store!r}, {change!r}, {str(folder)!r}, {str(marks)!r})"
    strace = (shutil.which("strace") or "strace", "-f", "-y", "-qq", "-e", "trace=%file,%desc,%memory", "-o", str(log))
    run(*strace, sys.executable, "-c", code, seconds=250)
    code = (
        "import json; from tests.fault_stores import watched;"
        f" print(json.dumps(watched({store!r}, {change!r}, {str(tmp_path / 'watched')!r})))"
    )
    counted = Counter(json.loads(run(sys.executable, "-c", code, seconds=250).splitlines()[-1]))
    seen, others = _seen(log.read_text(errors="replace"), str(folder), str(marks))
    assert others <= _READ
    for one in (seen, counted):
        one.pop(TO_READ, 0)  # some threads look for changes now and then
    assert seen == counted or store == "emptied"  # whose threads write when they come to it


def _seen(log: str, folder: str, marks: str) -> tuple[Counter[str], set[str]]:
    """Return the calls about a folder between the marks: those that are caught, and the names of the others."""
    seen, others, armed = Counter[str](), set[str](), False
    for line in log.splitlines():
        if f"{marks}-" in line:
            armed = f"{marks}-begin" in line
        match = re.match(r"\d+ +(\w+)\(", line)
        if not armed or match is None or folder not in line.partition(" = ")[0]:
            continue
        name = match[1]
        if name == "mmap" and not ("MAP_SHARED" in line and "PROT_WRITE" in line):
            continue
        if name == "openat" and (not re.search("O_(CREAT|TRUNC|WRONLY|RDWR)", line) or '.lock", ' in line):
            name = TO_READ
        if name in CAUGHT or name == TO_READ:
            seen[name] += 1
        else:
            others.add(name)
    return seen, others
