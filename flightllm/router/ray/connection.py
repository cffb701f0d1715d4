"""This process's connection to Ray, which has one for all: opened with its first user, closed with its last."""

from __future__ import annotations

import logging
import os
import threading
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from socket import create_connection
from typing import Any, Final
from urllib.parse import urlsplit

import structlog

import flightllm
from flightllm.errors import ConfigError, EngineUnavailableError, MissingExtraError

_OBJECT_STORE_BYTES: Final = 128 << 20
"""Of a local cluster; only a long prompt, or many, pass through it."""
_QUIET: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # else it warns that this will change
    "RAY_SCHEDULER_EVENTS": "0",
    "RAY_DISABLE_FAILURE_SIGNAL_HANDLER": "1",  # else SIGTERM, which drains the server, leaves a stack trace in its log
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",  # all that it would print to this process's output
    "RAY_ENABLE_AUTO_CONNECT": "0",  # else a call after the end starts a cluster
}
_LOOPBACK: Final = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""What Ray does on desktop systems, a cluster of this machine alone that listens on no other address."""
_KNOCK_SECONDS: Final = 10.0
_STOP_SECONDS: Final = 30.0
_log = structlog.get_logger(__name__)
_lock = threading.Lock()
"""Guards `_shared`."""
_shared: list[_Held] = []
"""At most one, as Ray has one connection per process, and knows it by itself."""


class RayConnection:
    """A use of the connection, to be closed."""

    def __init__(self, address: str, namespace: str) -> None:
        """Connect to the cluster at `address`; where that is empty, start one on this machine.

        Raises:
            ConfigError: this process is connected to another cluster.
            MissingExtraError: Ray is not installed.
            EngineUnavailableError: there is no cluster, or none can be started.
        """
        with _lock:
            if not _shared:
                _shared.append(_Held(address, namespace))
            self._held: _Held | None = _shared[0]
            if self._held.address != address:
                raise ConfigError(
                    f"[engine] address: this server uses the Ray cluster {self._held.address or 'of its own'!r}"
                    f" already, and a process can use one; got {address!r}"
                )
            self._held.users += 1

    def ensure(self) -> None:
        """Connect anew where this machine's part of the cluster is gone; a local cluster is started again.

        Raises:
            EngineUnavailableError: there is no cluster, or none can be started.
        """
        held = self._held
        if held is None or held.theirs:
            return
        times = held.times
        if not node_is_lost():  # takes long where the head does not answer
            return
        with _lock:
            if self._held is not None and held.times == times:  # else another user did it meanwhile
                _log.warning("ray is gone from this machine", address=held.address or "local")
                held.reopen()

    def close(self) -> None:
        """Give the connection up; the last one to do so closes it, which ends what was started on it. Idempotent."""
        with _lock:
            held, self._held = self._held, None
            if held is None:
                return
            held.users -= 1
            if held.users == 0:
                if held in _shared:
                    _shared.remove(held)
                held.close()


class _Held:
    """The connection itself, on a thread of its own.

    Linux ends the processes of a local cluster when the thread that started them does. And Ray takes over SIGTERM where
    it is opened in the main thread.
    """

    def __init__(self, address: str, namespace: str) -> None:
        self.address = address
        self.users = 0
        self.times = 0
        """How often it was opened."""
        self.theirs = False
        """The program that this is a library of opened it."""
        self._namespace = namespace
        self._open()

    def reopen(self) -> None:
        """Connect anew."""
        self.close()
        self._open()

    def close(self) -> None:
        """Disconnect; a local cluster is stopped."""
        self._stop.set()
        self._thread.join(_STOP_SECONDS)

    def _open(self) -> None:
        self.times += 1
        self._stop = threading.Event()
        self._opened: Future[None] = Future()
        self._thread = threading.Thread(target=self._hold, args=(self._namespace,), name="ray", daemon=True)
        self._thread.start()
        self._opened.result()

    def _hold(self, namespace: str) -> None:
        try:
            ray = _quiet_ray(loopback=not self.address)
            self.theirs = ray.is_initialized()
            if not self.theirs:
                _knock(self.address)
                ray.init(**_arguments(self.address, namespace))
        except MissingExtraError as error:
            self._opened.set_exception(error)
            return
        except Exception as error:  # noqa: BLE001 - no cluster there, no room for one, another version of Ray, ...
            where = f"no Ray cluster at {self.address}" if self.address else "cannot start a local Ray cluster"
            why = f"{error}: {error.__cause__}" if error.__cause__ else str(error)
            self._opened.set_exception(EngineUnavailableError(f"{where}: {why}"))
            return
        _log.info("connected to ray", address=self.address or "local")
        self._opened.set_result(None)
        self._stop.wait()
        if not self.theirs:
            with suppress(Exception):  # the cluster may be gone
                ray.shutdown()


def node_is_lost() -> bool:
    """Tell whether Ray's part on this machine is gone, so that only a new connection helps."""
    ray = _ray()
    try:
        own = ray.get_runtime_context().get_node_id()
        return not any(node["Alive"] for node in ray.nodes() if node["NodeID"] == own)
    except Exception:  # noqa: BLE001 - whatever it says, it is not there
        return True


def _knock(address: str) -> None:
    """Look whether anything listens at an address: Ray goes on trying for minutes."""
    where = urlsplit(f"//{address}")
    if where.hostname is not None and where.port is not None:
        create_connection((where.hostname, where.port), _KNOCK_SECONDS).close()


def _arguments(address: str, namespace: str) -> dict[str, Any]:
    common = {"namespace": namespace, "log_to_driver": False, "logging_level": logging.ERROR}
    if address:
        return {"address": address, **common}
    root = str(Path(flightllm.__file__).parents[1])  # the actors import the same modules as this process
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    return {
        "address": "local",
        "include_dashboard": False,
        "object_store_memory": _OBJECT_STORE_BYTES,
        "runtime_env": {"env_vars": {"PYTHONPATH": path}},
        "_system_config": {"enable_metrics_collection": False},
        **common,
    }


def _quiet_ray(*, loopback: bool) -> Any:
    """Return Ray, which reads most of its settings from the environment when it is imported."""
    for name, value in (_QUIET | _LOOPBACK if loopback else _QUIET).items():
        os.environ.setdefault(name, value)
    return _ray()


def _ray() -> Any:
    try:
        import ray
    except ImportError as exc:
        raise MissingExtraError("the engine 'ray'", "ray") from exc
    return ray
