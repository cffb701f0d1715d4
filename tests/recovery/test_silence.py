"""Which silence of a process means that it hangs."""

import asyncio
import signal
from multiprocessing import Pipe
from pathlib import Path

import pytest

from flightllm.config import Config, RecoveryConfig
from flightllm.recovery.process import Worker
from flightllm.recovery.silence import Silence
from flightllm.server.supervisor import _Supervisor

HOUR_AGO = -3_600.0


@pytest.mark.parametrize(
    ("looks", "found"),
    [("....", 4), ("xxx....", 7), ("...x" * 5, None), (".xxxxxxxx", None), ("-" * 9, None), ("--....", 6)],
    ids=["silent", "silent later", "slow", "frozen", "starting", "silent once it listens"],
)
def test_who_hangs(looks: str, found: int | None) -> None:
    """A process hangs at the fourth look in a row that finds it silent, and not before.

    The clock alone decides nothing. After `docker pause` it says that the process was silent for an hour, but nobody
    looked.
    """
    heard = HOUR_AGO
    silence = Silence(heard)
    hung = []
    for number, look in enumerate(looks, 1):  # `x`: the process was heard before this look, `-`: it is starting
        heard += look == "x"
        if silence.hangs(heard, listening=look != "-"):
            hung.append(number)
    assert hung == ([] if found is None else [found])


class _Noting(Worker):
    """A process with notes of how it was ended."""

    ends: tuple[str, ...] = ()

    def abort(self) -> None:
        self.ends += ("abort",)
        super().abort()

    def kill(self) -> None:
        self.ends += ("kill",)
        super().kill()


def test_one_that_hangs_is_aborted_and_then_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The supervisor lets a silent process write down where it hangs, and kills one that does not end by that."""
    monkeypatch.setattr("flightllm.server.supervisor._ABORT_SECONDS", 0.0)
    supervisor = _Supervisor(Config(data_folder=tmp_path, recovery=RecoveryConfig(hung_seconds=1)))
    supervisor._listening = True

    async def ended() -> tuple[int, tuple[str, ...]]:
        process = await asyncio.create_subprocess_exec(
            "sh", "-c", "trap '' ABRT; echo ready; exec sleep 60", stdout=asyncio.subprocess.PIPE, process_group=0
        )
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
        worker = _Noting(process, Pipe()[0])
        await supervisor._end_if_hung(worker)
        return await worker.ended(), worker.ends

    assert asyncio.run(ended()) == (-signal.SIGKILL, ("abort", "kill"))
