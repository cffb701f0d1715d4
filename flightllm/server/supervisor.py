"""Runs the server in a child process, and replaces that process when it dies."""

import asyncio
import os
import signal
import time
from dataclasses import dataclass, field
from itertools import chain
from urllib.parse import urlsplit

import structlog

from flightllm.config import Config
from flightllm.errors import FlightLLMError
from flightllm.recovery.crash_attribution import culprit, suspected_statements
from flightllm.recovery.journal import Journal, create_journal
from flightllm.recovery.messages import (
    Alive,
    Failed,
    Handed,
    HandOver,
    Lifted,
    Listening,
    Message,
    Offer,
    Opened,
    Replaced,
    Resume,
    StartServer,
    TakeOver,
    Warm,
)
from flightllm.recovery.process import Worker
from flightllm.recovery.quarantine import ALL, Key, Refused
from flightllm.recovery.silence import LOOKS, Silence
from flightllm.server.announce import announce

_MOST_STARTS = 5
"""After this many processes in a row died before they listened, the server stops."""
_QUICK_SECONDS = 60.0
_FREE_DEATHS, _FIRST_PAUSE, _MOST_PAUSE = 2, 0.5, 10.0
"""Deaths within `_QUICK_SECONDS` of a start: the first two are answered at once, later ones after a growing pause."""
_SPARE_PAUSE = 3.0
"""The pause between the death of a spare process and the start of the next one."""
_ABORT_SECONDS = 5.0
"""The time that a hanging process gets to write its threads' tracebacks."""
_ENDED = frozenset({-signal.SIGTERM, -signal.SIGINT, 128 + signal.SIGTERM, 128 + signal.SIGINT})
"""Exit codes of a process that somebody ended: no statement is to blame."""
_GRACE_SECONDS = 15.0
"""The time that a process gets to end, after the time for its queries."""
_HANDOVER_SECONDS = 10.0
"""The time that a successor gets to open the database; meanwhile new connections wait."""
_LEAVE_SECONDS = 5.0
"""The time that a replaced process gets to end."""
_log = structlog.get_logger(__name__)


def supervise(config: Config) -> int:
    """Serve until SIGTERM or SIGINT; print `listening grpc://HOST:PORT` once clients can connect; return the exit code.

    Running queries get `[recovery] drain_seconds` to finish first; a second signal stops at once.

    Raises:
        FlightLLMError: the server cannot start; the message says why.
    """
    return asyncio.run(_Supervisor(config).run())


@dataclass(slots=True)
class _Supervisor:
    """The state that outlives a process: the address, the blocked statements, and the number of failures."""

    config: Config
    _listen: str = ""
    _worker: Worker | None = None
    _spare: Worker | None = None
    _warm: bool = False
    """Whether the spare process has loaded its modules."""
    _offer: Offer | None = None
    """The offer of the former process, from the time when it hands over until its successor listens."""
    _successor: Worker | None = None
    """The process that opens the database in order to continue for the clients of the present one."""
    _following: dict[Worker, asyncio.Task[int]] = field(default_factory=dict)
    """The processes that serve, are about to or did so lately, with the tasks that return their exit codes."""
    _hung: asyncio.Task[None] | None = None
    _spawning: asyncio.Task[None] | None = None
    _watching: asyncio.Task[None] | None = None
    """A reference that keeps the task alive, because the event loop does not."""
    _refused: dict[Key, Refused] = field(default_factory=dict)
    _deaths: list[list[Refused]] = field(default_factory=list)
    """The statements that were blocked after each of the latest deaths; cleared once one user is the known cause."""
    _failure: str | None = None
    _listening: bool = False
    """Whether the present process listens."""
    _heard: float = 0.0
    """When the present process last sent a message."""
    _ready: bool = False
    """Whether any process has listened, so that `listening` was printed."""
    _signal: int | None = None
    _stop: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> int:
        """See `supervise`."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)
        descriptor = create_journal()
        try:
            return await self._serve(descriptor, Journal(descriptor))
        finally:
            self._stop.set()  # start no further spare process
            if self._spawning is not None:
                await self._spawning
            if self._spare is not None:
                self._spare.kill()
                await self._spare.follow(lambda _: None)
            await self._end_all()
            os.close(descriptor)

    async def _serve(self, descriptor: int, journal: Journal) -> int:
        self._listen = self.config.server.listen
        deaths = starts = 0
        while True:
            started = time.monotonic()
            code = await self._one(descriptor)
            if self._signal is not None:
                return 0 if code in {0, -signal.SIGTERM} else 128 + self._signal
            if code == 0:  # drained
                return 0
            starts = 0 if self._listening else starts + 1
            if not self._listening and (starts >= _MOST_STARTS or (not self._ready and code > 0)):
                return self._give_up(code, starts)
            deaths = deaths + 1 if time.monotonic() - started < _QUICK_SECONDS else 1
            pause = min(_MOST_PAUSE, _FIRST_PAUSE * 2 ** (deaths - _FREE_DEATHS - 1)) if deaths > _FREE_DEATHS else 0.0
            self._blame(journal, code)
            names = [one.name for one in self._refused.values()]
            _log.error("server process died", exit=_name(code), reason=self._failure, pause=pause, refused=names)
            if pause and await _set_within(self._stop, pause):
                return 0

    async def _one(self, descriptor: int) -> int:
        """Serve by one process until it ends; return its exit code, or minus the signal that killed it."""
        self._listening, self._failure = False, None
        self._worker = await self._warm_worker(descriptor)
        if self._worker is None:
            return 0
        if self._signal is not None:  # a signal came meanwhile
            self._worker.terminate()
        self._start(self._worker, descriptor)
        self._look_at(self._worker)
        while True:
            worker = self._worker
            code = await self._following[worker]
            if worker is not self._worker:  # another process has replaced it
                self._following.pop(worker, None)
                continue
            if self._successor is not None and not self._stop.is_set():  # it has all that it needs
                self._worker, self._successor, self._listening = self._successor, None, False
                self._look_at(self._worker)
                continue
            if self._hung is not None:
                self._hung.cancel()
            self._successor = self._offer = None
            await self._end_all()  # others can hold the locks of the data folder
            return code

    async def _end_all(self) -> None:
        """End all processes that serve, are about to or did so before."""
        following, self._following = self._following, {}
        for worker, task in following.items():
            if not task.done():  # its number can be another process's by now
                worker.kill()
        await asyncio.gather(*following.values())

    def _start(self, worker: Worker, descriptor: int, handed: Handed | None = None) -> None:
        """Let a warm process serve, and follow its messages."""
        worker.send(StartServer(self._listen, self._ready, tuple(self._refused.values()), handed))

        async def follow() -> int:
            code = await worker.follow(lambda message: self._hear(worker, message, descriptor))
            if worker is self._successor:
                self._stayed(code, descriptor)
            return code

        self._following[worker] = asyncio.get_running_loop().create_task(follow())

    def _hear(self, worker: Worker, message: Message, descriptor: int) -> None:
        """Take a message of a process that serves, or is about to."""
        match message:
            case Listening() if worker is self._worker:
                self._began(message)
                self._have_spare(descriptor)
            case Opened() if worker in {self._worker, self._successor} and worker.alive:
                if worker is self._successor:
                    self._switch(worker)
                worker.send(TakeOver())
            case Alive() if worker is self._worker:
                self._heard = time.monotonic()
            case Failed(text):
                self._failure = text
            case Lifted(key):
                self._refused.pop(key, None)
            case Offer() if worker is self._worker and self._spare is not None and self._warm:
                self._offer = message
                worker.send(HandOver())
            case Handed():
                self._succeed(worker, message, descriptor)

    def _stayed(self, code: int, descriptor: int) -> None:
        """Let the present process go on, because its successor died before it answered anybody."""
        if self._successor is not None:
            self._following.pop(self._successor, None)
        self._successor = self._offer = None
        reason, self._failure = self._failure, None
        _log.warning("the next server process died, so the present one goes on", exit=_name(code), reason=reason)
        if self._worker is not None:
            self._worker.send(Resume())
        self._have_spare(descriptor)

    def _succeed(self, worker: Worker, handed: Handed, descriptor: int) -> None:
        """Let the spare process continue for the clients of the present process, which waits meanwhile."""
        spare = self._spare
        try:
            if worker is not self._worker or spare is None or not spare.alive or self._stop.is_set():
                worker.send(Resume())
                return
            try:
                self._start(spare, descriptor, handed)
            except OSError as error:  # for example, too many open files
                _log.warning("the server process cannot hand over", error=str(error))
                spare.kill()
                worker.send(Resume())
                return
            self._successor, self._spare, self._warm = spare, None, False
            asyncio.get_running_loop().call_later(_HANDOVER_SECONDS, self._give_up_on, spare)
        finally:
            for number in handed.descriptors:
                os.close(number)

    def _give_up_on(self, successor: Worker) -> None:
        """Kill a successor that has not opened the database yet."""
        if successor is self._successor:
            successor.kill()

    def _switch(self, successor: Worker) -> None:
        """Follow the successor from now on, and let the former process end.

        From here on the former process never goes on: the successor can change tables that the former has in memory.
        If the successor dies, a new process starts as after any crash.
        """
        former, self._worker, self._successor = self._worker, successor, None
        self._listening, self._heard = False, time.monotonic()
        self._look_at(successor)
        if former is not None:
            former.send(Replaced())
            asyncio.get_running_loop().call_later(_LEAVE_SECONDS, self._end_former, former)
        if self._signal is not None:
            successor.terminate()

    def _end_former(self, former: Worker) -> None:
        task = self._following.get(former)
        if task is not None and not task.done():
            former.kill()

    def _look_at(self, worker: Worker) -> None:
        """Kill this process if it hangs; stop looking at the former one."""
        if self._hung is not None:
            self._hung.cancel()
        self._hung = asyncio.get_running_loop().create_task(self._end_if_hung(worker))

    async def _end_if_hung(self, worker: Worker) -> None:
        """Kill a serving process that no longer sends messages."""
        most, silence = self.config.recovery.hung_seconds, Silence(self._heard)
        while most:
            await asyncio.sleep(most / LOOKS)
            if silence.hangs(self._heard, listening=self._listening) and not self._stop.is_set():
                seconds = round(time.monotonic() - self._heard)
                _log.error("the server process hangs and is killed", silent_seconds=seconds)
                worker.abort()
                await asyncio.sleep(_ABORT_SECONDS)
                worker.kill()
                return

    async def _warm_worker(self, descriptor: int) -> Worker | None:
        """Return the spare process or a new one, or None if the server stops first.

        Raises:
            FlightLLMError: the first process cannot be started. Later ones are tried again until they start.
        """
        if self._spawning is not None:
            await self._spawning
        spare, self._spare, self._warm = self._spare, None, False
        if spare is not None and spare.alive:
            return spare
        while True:
            try:
                return await Worker.spawn(self.config, descriptor)
            except OSError as error:  # no memory, or too many processes
                if not self._ready:
                    raise FlightLLMError(f"cannot start the server's process: {error}") from error
                _log.error("server process cannot be started", error=str(error))
            if await _set_within(self._stop, _MOST_PAUSE):
                return None

    def _began(self, started: Listening) -> None:
        self._listening, self._heard = True, time.monotonic()
        offer, self._offer = self._offer, None
        if self._ready and offer is not None:
            _log.info("server process renewed", idle_bytes=offer.idle, former_bytes=offer.used)
            return
        if self._ready:
            _log.info("server process replaced", uri=started.uri)
            return
        self._ready = True
        self._listen = urlsplit(started.uri).netloc  # the next process takes the same port
        announce(started, self.config)

    def _have_spare(self, descriptor: int) -> None:
        """Start a spare process, unless there is one or one is being started."""
        idle = self._spawning is None or self._spawning.done()
        if idle and self._spare is None and not self._stop.is_set():
            self._spawning = asyncio.get_running_loop().create_task(self._spawn(descriptor))

    async def _spawn(self, descriptor: int) -> None:
        try:
            spare = self._spare = await Worker.spawn(self.config, descriptor)
        except OSError as error:
            _log.warning(
                "no spare process could be started, so recovery from a crash will take longer", error=str(error)
            )
            return
        self._warm = False
        spare.listen(self._heard_spare)
        self._watching = asyncio.get_running_loop().create_task(self._replace(spare, descriptor))

    def _heard_spare(self, message: Message) -> None:
        self._warm = isinstance(message, Warm)

    async def _replace(self, spare: Worker, descriptor: int) -> None:
        """Wait until a spare process ends; start another if it never served."""
        code = await spare.ended()
        if self._spare is not spare or self._stop.is_set():
            return
        self._spare = None
        await spare.follow(lambda _: None)
        _log.warning("spare process died", exit=_name(code))
        if not await _set_within(self._stop, _SPARE_PAUSE):
            self._have_spare(descriptor)

    def _blame(self, journal: Journal, code: int) -> None:
        """Block the statements that probably killed the process, for a while."""
        now = time.monotonic()
        self._refused = {key: one for key, one in self._refused.items() if one.until > now}
        self._deaths = [death for death in self._deaths if death[0].until > now]
        noted = journal.take()
        found = [] if code in _ENDED else suspected_statements(noted, journal.is_harmless, -code if code < 0 else None)
        for one in noted:
            journal.forget(one.digest)  # at the next death it is a suspect again
        until = now + self.config.recovery.quarantine_seconds
        refused = [Refused(one.digest, one.text, one.query_id, until, one.user) for one in found]
        if not refused or until <= now:
            return
        self._refused |= {one.key: one for one in refused}
        self._deaths.append(refused)
        who = culprit([{one.user for one in death} for death in self._deaths])
        if who is None:
            return
        for other in chain(*self._deaths):  # other users' statements were innocent
            if other.user != who:
                self._refused.pop(other.key, None)
        if who:
            every = Refused(ALL, "all statements of this user", "", until, who)
            self._refused[every.key] = every
        self._deaths = []

    def _give_up(self, code: int, starts: int) -> int:
        """Return the exit code of a server that cannot start, or raise its own error."""
        if self._failure is not None:
            raise FlightLLMError(self._failure)
        if code < 0:
            raise FlightLLMError(
                f"the server died {starts} times while it started ({_name(code)}): see the server's log for the reason"
            )
        return code

    def _on_signal(self, number: int) -> None:
        again, self._signal = self._signal is not None, number
        self._stop.set()
        if self._successor is not None:
            self._successor.kill()
        if self._worker is None:
            return
        if again:
            self._worker.kill()
            return
        self._worker.terminate()
        asyncio.get_running_loop().call_later(self.config.recovery.drain_seconds + _GRACE_SECONDS, self._kill)

    def _kill(self) -> None:
        """Kill the present process, which can be another one than when the signal came."""
        if self._worker is not None:
            self._worker.kill()


def _name(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:  # a real-time signal
        return f"signal {-code}"


async def _set_within(event: asyncio.Event, seconds: float) -> bool:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return False
    return True
