"""The memory of a server's processes, as the operator's benchmark reads it."""

import os
import subprocess
import sys

import pytest

from bench.operator import _family, _family_mib


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_later_process_is_counted() -> None:
    """Each look at the memory lists the processes that are there by then."""
    before = set(_family(os.getpid()))
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as later:
        more = set(_family(os.getpid())) - before
        assert str(later.pid) in {path.name for path in more}
        assert _family_mib(os.getpid(), "VmRSS") >= _family_mib(later.pid, "VmRSS") > 0
        assert later.stdin is not None
        later.stdin.write(b"\n")
