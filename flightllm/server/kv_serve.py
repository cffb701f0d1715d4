"""Opens the port of a KV chunk store: in its own process, or in the SQL server's process."""

import os
from dataclasses import replace

import structlog

from flightllm.access.control import open_access
from flightllm.access.login import Login
from flightllm.common.signals import stop_by_signals
from flightllm.config import Config
from flightllm.flight.sockets import keep_alive, told_where
from flightllm.kvcache.store.disk import DiskStore
from flightllm.server.kv_server import KvServer

DEFAULT_LISTEN = "127.0.0.1:31339"
"""The default address of a store in its own process."""
_SIGNAL_SECONDS = 1.0
_log = structlog.get_logger(__name__)


def open_server(config: Config, login: Login) -> KvServer | None:
    """Serve the store that `[kvstore]` configures; return None where `listen` is not set.

    Raises:
        ConfigError: the address cannot be used, or is exposed without login or TLS, or the folder cannot be used.
        StoreUnavailableError: the index cannot be read.
    """
    listen = config.kvstore.listen
    if listen is None:
        return None
    kept = config.kvstore
    store = DiskStore(kept.folder or config.data_folder / "kvstore", kept.max_bytes, kept.eviction)
    try:
        with told_where(listen, "[kvstore] listen"):
            server = KvServer(store, listen, config.server, login)
    except BaseException:
        store.close()
        raise
    keep_alive(server.port, config.recovery.dead_peer_seconds)
    status = store.status()
    _log.info("serving KV caches", uri=server.uri, chunks=status.chunks, bytes=status.bytes)
    return server


def serve(config: Config) -> None:
    """Serve only the store: print `listening grpc://HOST:PORT`, and block until SIGTERM or SIGINT.

    Raises:
        ConfigError: see `open_server`; or the token or the users cannot be read.
    """
    stop = stop_by_signals()
    os.umask(0o077)  # only this user can read the store's files
    listen = config.kvstore.listen or DEFAULT_LISTEN
    access = open_access(config)
    try:
        server = open_server(replace(config, kvstore=replace(config.kvstore, listen=listen)), access.login)
        if server is None:
            return
        print(f"listening {server.uri}", flush=True)  # noqa: T201 - a script waits for this line
        while not stop.wait(_SIGNAL_SECONDS):
            pass
        ended = server.stop()
    finally:
        access.close()
    if not ended:
        _log.warning("a client neither reads its call's rows nor disconnects: its call is cancelled")
        os._exit(0)  # the interpreter would wait for the call
