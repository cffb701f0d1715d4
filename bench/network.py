"""A slow link on one machine: a TCP proxy that lets so many bits a second through as a trace says.

    python -m bench.network [--json] [--quick]                 how well it keeps to a rate, and the most it can pass
    python -m bench.network --target HOST:PORT [--latency S]   the proxy alone, until its standard input ends

A link has one rate for all its connections and the same for either direction. The proxy is a process of its own, so
that what is measured has its own interpreter. Its socket buffers are small: a large one would take in at once what
the link has not let through yet.
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
"""The most that is on its way at once where there is latency; what the link passes in that time is less."""
_LOOK_SECONDS: Final = 0.1
"""A limit that is lifted is seen so soon by what waits for it."""


class _Proxy:
    """Accepts connections, and passes their bytes on to a server; in an event loop."""

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
        self._began += now  # what waited for the trace before is let go

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
                return  # one side is gone, and both are closed

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
        """Pass on what arrives some time after it has passed, with as much on its way as that takes."""
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
        """Take some bytes; return how many, and when they will have passed."""
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
        """Let through what a trace says, which begins now."""
        self._ask({"gigabits": trace.gigabits, "seconds": trace.seconds})

    def limit(self, gigabits: float = UNLIMITED) -> None:
        """Let through so much from now on."""
        self.follow(Trace((gigabits,)))

    def close(self) -> None:
        """End the process, and with it all connections. Idempotent."""
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
    """Return how far off the rates are in windows of 0.2 s, in % of each rate, and the Gbit/s without a limit."""
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
            trace = random_trace(0, high=2.0)
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
    """Return by how much shares of what should have come are not 1."""
    off = [100 * abs(share - 1) for share in shares]
    return {f"{name}: median % off": median(off), f"{name}: most % off": max(off)}


def _expected(trace: Trace, start: float, stop: float) -> float:
    """Return the gigabits that a link passes from one time to another."""
    steps = 1_000
    width = (stop - start) / steps
    return sum(trace.rate(start + (step + 0.5) * width) for step in range(steps)) / GIGABIT * width


def _windows(address: str, seconds: float) -> Iterator[tuple[float, float, float]]:
    """Yield beginning, end and gigabits of each 0.2 s in which a server sends as much as it can, but the first ones."""
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
    """Be the proxy: say where it listens, then follow the traces that come on standard input, until that ends."""
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
    """Return a connection that keeps little to itself and waits for nothing."""
    connection.settimeout(0)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        connection.setsockopt(socket.SOL_SOCKET, option, _BUFFER_BYTES)
    return connection


def _end(connection: socket.socket) -> None:
    """Say that nothing more comes."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    main()
