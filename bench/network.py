"""A slow link on one machine: a TCP proxy that passes as many bits a second as a trace prescribes.

    python -m bench.network [--json] [--quick]                 measures its accuracy and its highest rate
    python -m bench.network --target HOST:PORT [--latency S]   runs the proxy until its standard input ends

A link has one rate for all its connections, and the same rate in both directions. The proxy is a process of its own, so
that it does not share an interpreter with the measured code. Its socket buffers are small, because a large buffer would
accept bytes before the link has passed them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from statistics import median
from typing import Any, Final, Self

from bench.common import Options, report
from bench.traces import GIGABIT, STEP_SECONDS, UNLIMITED, Bucket, Trace, random_trace

_BUFFER_BYTES: Final = 128 * 1024
_MOST_BYTES: Final = 512 * 1024
_FLYING_PARTS: Final = 1_024
"""The most parts on their way at once if the link has latency. The link passes fewer parts in that time."""
_LOOK_SECONDS: Final = 0.1
"""The most seconds until a waiting transfer notices a new rate."""


class _Proxy:
    """Accepts connections and forwards their bytes to a server, in an event loop."""

    def __init__(self, target: tuple[str, int], latency: float) -> None:
        self._target = target
        self._latency = latency
        self._began = time.monotonic()
        self._buckets = Bucket(Trace((UNLIMITED,))), Bucket(Trace((UNLIMITED,)))
        self._tasks: set[asyncio.Task[None]] = set()

    async def accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            client, _ = await loop.sock_accept(listening)
            task = loop.create_task(self._serve(client))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def follow(self, trace: Trace) -> None:
        now = self._now()
        for bucket in self._buckets:
            bucket.follow(trace, now)
        self._began += now  # transfers that waited for the earlier trace go on

    def _now(self) -> float:
        return time.monotonic() - self._began

    async def _serve(self, client: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        server = _small(socket.socket())
        with closing(client), closing(server):
            try:
                await loop.sock_connect(server, self._target)
                _small(client)
                up, down = self._buckets
                await asyncio.gather(self._pump(client, server, up), self._pump(server, client, down))
            except OSError:
                return  # one side has closed, so both are closed

    async def _pump(self, source: socket.socket, sink: socket.socket, bucket: Bucket) -> None:
        loop = asyncio.get_running_loop()
        if self._latency:
            return await self._delayed(source, sink, bucket)
        buffer = memoryview(bytearray(_MOST_BYTES))
        while True:
            count, passed = await self._receive(source, buffer, bucket)
            if not count:
                return _end(sink)
            await self._until(passed)
            await loop.sock_sendall(sink, buffer[:count])

    async def _delayed(self, source: socket.socket, sink: socket.socket, bucket: Bucket) -> None:
        """Forward bytes after the latency; a bounded number of parts is on its way at once."""
        loop = asyncio.get_running_loop()
        flying: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_FLYING_PARTS)
        buffer = memoryview(bytearray(_MOST_BYTES))

        async def receive() -> None:
            count = 1
            while count:
                count, passed = await self._receive(source, buffer, bucket)
                await flying.put((time.monotonic() + passed - self._now() + self._latency, bytes(buffer[:count])))
                await self._until(passed)

        async def send() -> None:
            while True:
                due, data = await flying.get()
                await asyncio.sleep(due - time.monotonic())
                if not data:
                    return _end(sink)
                await loop.sock_sendall(sink, data)

        await asyncio.gather(receive(), send())

    async def _receive(self, source: socket.socket, buffer: memoryview, bucket: Bucket) -> tuple[int, float]:
        """Receive some bytes; return their count, and the time at which they will have passed the link."""
        part = buffer[: int(max(1_500, min(_MOST_BYTES, bucket.trace.rate(self._now()) * STEP_SECONDS)))]
        try:
            count, waited = source.recv_into(part), True
        except BlockingIOError:
            count, waited = await asyncio.get_running_loop().sock_recv_into(source, part), False
        return count, bucket.passed(count, self._now(), waited=waited) if count else self._now()

    async def _until(self, when: float) -> None:
        began = self._began
        while (early := when - self._now()) > 0 and began == self._began:  # noqa: ASYNC110 - a time, no event
            await asyncio.sleep(min(early, _LOOK_SECONDS))


class Network:
    """A proxy process in front of a server; `address` is where clients reach the server through it."""

    def __init__(self, target: str, latency: float = 0.0) -> None:
        """Begin without a limit. `latency` is in seconds, one way."""
        command = [sys.executable, "-m", "bench.network", "--target", target, "--latency", str(latency)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.address = self._answer()

    def follow(self, trace: Trace) -> None:
        """Follow a trace of rates, which begins now."""
        self._ask({"gigabits": trace.gigabits, "seconds": trace.seconds})

    def limit(self, gigabits: float = UNLIMITED) -> None:
        """Pass this many Gbit/s from now on."""
        self.follow(Trace((gigabits,)))

    def close(self) -> None:
        """End the process and all its connections. Idempotent."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()

    def _ask(self, command: dict[str, Any]) -> None:
        if self._process.stdin is None:
            raise RuntimeError("the proxy has no input")
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        self._answer()

    def _answer(self) -> str:
        line = self._process.stdout.readline() if self._process.stdout else ""
        if not line:
            raise RuntimeError("the proxy has ended")
        return line.strip()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the process."""
        self.close()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--target", help="HOST:PORT of the server")
    parser.add_argument("--latency", type=float, default=0.0, help="seconds, one way (default 0)")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    parser.add_argument("--quick", action="store_true", help="a second for each rate instead of four")
    given = parser.parse_args(arguments)
    if given.target:
        host, _, port = given.target.rpartition(":")
        asyncio.run(_run((host, int(port)), given.latency))
    else:
        report("network", Options(given.json, given.quick, 1), measure(1.0 if given.quick else 4.0))


def measure(seconds: float) -> dict[str, float]:
    """Return the deviation from each rate in windows of 0.2 s, in % of the rate, and the Gbit/s without a limit."""
    found = {}
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        threading.Thread(target=_pour, args=(server,), daemon=True).start()
        with Network(f"127.0.0.1:{server.getsockname()[1]}") as network:
            for gigabits in (0.1, 0.3, 1.0, 2.0, UNLIMITED):
                network.limit(gigabits)
                windows = [passed / (stop - start) for start, stop, passed in _windows(network.address, seconds)]
                name = f"{gigabits:g} Gbit/s"
                found[f"{name}: median Gbit/s"] = median(windows)
                if not math.isinf(gigabits):
                    found |= _off(name, [window / gigabits for window in windows])
            trace = random_trace(0, 2.0)
            network.follow(trace)
            began = time.monotonic()
            found |= _off(
                "random trace, 0.1 to 2 Gbit/s",
                [
                    passed / _expected(trace, start - began, stop - began)
                    for start, stop, passed in _windows(network.address, 2 * seconds)
                ],
            )
    return found


def _off(name: str, shares: Sequence[float]) -> dict[str, float]:
    """Return the median and the largest deviation of shares from 1, in %."""
    off = [100 * abs(share - 1) for share in shares]
    return {f"{name}: median % off": median(off), f"{name}: most % off": max(off)}


def _expected(trace: Trace, start: float, stop: float) -> float:
    """Return the gigabits that a link passes between two times."""
    steps = 1_000
    width = (stop - start) / steps
    return sum(trace.rate(start + (step + 0.5) * width) for step in range(steps)) / GIGABIT * width


def _windows(address: str, seconds: float) -> Iterator[tuple[float, float, float]]:
    """Yield start, end and gigabits of each window of 0.2 s, except the first ones.

    The server sends as fast as it can.
    """
    host, _, port = address.rpartition(":")
    buffer = bytearray(_MOST_BYTES)
    with socket.create_connection((host, int(port))) as connection:
        began = since = time.monotonic()
        count = 0
        while since < began + 0.4 + seconds:
            count += connection.recv_into(buffer)
            now = time.monotonic()
            if now >= since + 0.2:
                if since > began + 0.3:
                    yield since, now, count / GIGABIT
                since, count = now, 0


def _pour(server: socket.socket) -> None:
    data = bytes(_MOST_BYTES)
    with suppress(OSError):
        while True:
            connection, _ = server.accept()
            with connection, suppress(OSError):
                while True:
                    connection.sendall(data)


async def _run(target: tuple[str, int], latency: float) -> None:
    """Run the proxy: print its address, then follow the traces on standard input until it ends."""
    loop = asyncio.get_running_loop()
    listening = socket.create_server(("127.0.0.1", 0))
    listening.settimeout(0)
    proxy = _Proxy(target, latency)
    accepting = loop.create_task(proxy.accept(listening))
    print(f"127.0.0.1:{listening.getsockname()[1]}", flush=True)
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        command = json.loads(line)
        proxy.follow(Trace(tuple(command["gigabits"]), command["seconds"]))
        print("ok", flush=True)
    accepting.cancel()


def _small(connection: socket.socket) -> socket.socket:
    """Return a connection with small buffers and without Nagle's delay."""
    connection.settimeout(0)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        connection.setsockopt(socket.SOL_SOCKET, option, _BUFFER_BYTES)
    return connection


def _end(connection: socket.socket) -> None:
    """Shut down the sending side of a connection."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    main()
