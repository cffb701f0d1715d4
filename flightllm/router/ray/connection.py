"""The connection to Ray, one for the process: the first user opens it, and the last user closes it."""

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
"""The size of a local cluster's object store; only long prompts, or many prompts, pass through the store."""
_QUIET: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # otherwise Ray warns that this default will change
    "RAY_SCHEDULER_EVENTS": "0",
    "RAY_DISABLE_FAILURE_SIGNAL_HANDLER": "1",  # otherwise SIGTERM, which drains the server, logs a stack trace
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",  # skips all that Ray would print to this process's output
    "RAY_ENABLE_AUTO_CONNECT": "0",  # otherwise a call after the disconnect starts a cluster
}
_LOOPBACK: Final = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""Ray's default on desktop systems: a cluster of only this machine, which listens only on the loopback address."""
_KNOCK_SECONDS: Final = 10.0
_STOP_SECONDS: Final = 30.0
_log = structlog.get_logger(__name__)
_lock = threading.Lock()
"""Guards `_shared`."""
_shared: list[_Held] = []
"""The open connection, or empty: Ray has one connection per process, which it keeps as global state."""


class RayConnection:
    """One user's handle of the connection; the user must close it."""

    def __init__(self, address: str, namespace: str) -> None:
        """Connect to the cluster at `address`; where `address` is empty, start a cluster on this machine.

        Raises:
            ConfigError: this process is connected to another cluster.
            MissingExtraError: Ray is not installed.
            EngineUnavailableError: there is no cluster, or a local one cannot start.
        """
        with _lock:
            if not _shared:
                _shared.append(_Held(address, namespace))
            self._held: _Held | None = _shared[0]
            if self._held.address != address:
                raise ConfigError(
                    f"[engine] address: this process already uses the Ray cluster {self._held.address or 'local'!r},"
                    f" and a process can use only one; got {address!r}: write the same address"
                )
            self._held.users += 1

    def ensure(self) -> None:
        """Reconnect if this machine's node of the cluster is gone; restart a local cluster.

        Raises:
            EngineUnavailableError: there is no cluster, or a local one cannot start.
        """
        held = self._held
        if held is None or held.theirs:
            return
        times = held.times
        if not node_is_lost():  # slow where the head node does not answer
            return
        with _lock:
            if self._held is not None and held.times == times:  # otherwise another user has reconnected
                _log.warning("ray is gone from this machine", address=held.address or "local")
                held.reopen()

    def close(self) -> None:
        """Release the connection. The last user disconnects, which ends the actors. Idempotent."""
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
    """The connection itself, in its own thread.

    The thread has two reasons. Linux ends the processes of a local cluster when the thread that started them ends. Ray
    installs a SIGTERM handler when it is initialized in the main thread.
    """

    def __init__(self, address: str, namespace: str) -> None:
        self.address = address
        self.users = 0
        self.times = 0
        """How often the connection was opened."""
        self.theirs = False
        """Whether the host program of this library opened the connection, so that it must stay open."""
        self._namespace = namespace
        self._open()

    def reopen(self) -> None:
        """Reconnect."""
        self.close()
        self._open()

    def close(self) -> None:
        """Disconnect, and stop a local cluster."""
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
        except Exception as error:  # noqa: BLE001 - no cluster at the address, no room, another version of Ray, ...
            where = f"no Ray cluster at {self.address}" if self.address else "cannot start a local Ray cluster"
            why = f"{error}: {error.__cause__}" if error.__cause__ else str(error)
            self._opened.set_exception(EngineUnavailableError(f"{where}: {why}"))
            return
        _log.info("connected to ray", address=self.address or "local")
        self._opened.set_result(None)
        self._stop.wait()
        if not self.theirs:
            with suppress(Exception):  # the cluster can be gone already
                ray.shutdown()


def node_is_lost() -> bool:
    """Return whether the Ray node of this machine is gone, so that only a new connection helps."""
    ray = _ray()
    try:
        own = ray.get_runtime_context().get_node_id()
        return not any(node["Alive"] for node in ray.nodes() if node["NodeID"] == own)
    except Exception:  # noqa: BLE001 - any error means that the node is not reachable
        return True


def _knock(address: str) -> None:
    """Raise `OSError` unless a process listens at an address: Ray itself would retry for minutes."""
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
    """Set Ray's environment variables, which Ray reads on import, and return Ray."""
    for name, value in (_QUIET | _LOOPBACK if loopback else _QUIET).items():
        os.environ.setdefault(name, value)
    return _ray()


def _ray() -> Any:
    try:
        import ray
    except ImportError as exc:
        raise MissingExtraError("the engine 'ray'", "ray") from exc
    return ray
