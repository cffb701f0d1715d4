"""`flightllm kvstore`, or `flightllm-kv` without the database server: serve a store of KV caches, or inspect one."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from flightllm.common.command_line import OneLineErrors, Server, login_options, read_login
from flightllm.config import Config, KvStoreConfig
from flightllm.kvcache.store.client import FlightStore
from flightllm.log import configure_logging

_DEFAULT_URI = "grpc://127.0.0.1:31339"


def _store_options(command: Callable[..., Any]) -> Callable[..., Any]:
    uri = click.argument("uri", metavar="[URI]", envvar="FLIGHTLLM_KVSTORE_URI", default=_DEFAULT_URI)
    return login_options(command, uri)


@click.group(cls=OneLineErrors)
def kvstore() -> None:
    """Serve a store of KV caches, or inspect one.

    \b
    flightllm kvstore serve --folder /data/kv --max-bytes 500000000000
    flightllm kvstore status grpc://127.0.0.1:31339
    flightllm-kv serve --folder /data/kv               without the database server
    """


@kvstore.command()
@click.option("--config", "config_file", type=click.Path(path_type=Path), metavar="FILE",
              help="TOML file with the sections [kvstore], [server] and [auth].")  # fmt: skip
@click.option("--listen", metavar="HOST:PORT", help="Address to listen on; port 0 takes any free port.")
@click.option("--folder", type=click.Path(path_type=Path, file_okay=False), help="Folder of the caches.")
@click.option("--max-bytes", type=click.IntRange(1), help="Bytes to store at most; the store evicts chunks beyond.")
@click.option("--insecure", is_flag=True, help="Listen beyond this machine without TLS or without users.")
def serve(
    config_file: Path | None, listen: str | None, folder: Path | None, max_bytes: int | None, *, insecure: bool
) -> None:
    """Serve a store of KV caches over Arrow Flight.

    It prints `listening grpc://HOST:PORT` once it is ready, and runs until it is told to stop. It uses the token and
    certificate of [server] in the file, and the users in its data folder.
    """
    from flightllm.server.kv_serve import serve as run

    config = Config.load(config_file)
    kept = KvStoreConfig(
        listen or config.kvstore.listen,
        folder.absolute() if folder else config.kvstore.folder,
        max_bytes or config.kvstore.max_bytes,
        config.kvstore.eviction,
    )
    server = replace(config.server, insecure=True) if insecure else config.server
    configure_logging(config.log)
    run(replace(config, kvstore=kept, server=server))


@kvstore.command()
@_store_options
def status(server: Server) -> None:
    """Show the content of a store, by codec, and its hits and misses.

    Without URI, the command uses FLIGHTLLM_KVSTORE_URI, or else the store on this machine.
    """
    with _store(server) as store:
        told = store.status()
    if told.codecs:
        click.echo(f"{'codec':<12}{'bitstreams':>12}{'bytes':>20}")
    for codec, held in told.codecs.items():
        click.echo(f"{codec:<12}{held.bitstreams:>12,}{held.bytes:>20,}")
    click.echo(f"{told.chunks:,} chunks, {told.bytes:,} of {told.max_bytes:,} bytes")
    click.echo(f"{told.hits:,} hits, {told.misses:,} misses, {told.evicted:,} evicted, {told.damaged:,} damaged")


@kvstore.command()
@_store_options
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def clear(server: Server, *, yes: bool) -> None:
    """Delete the content of a store."""
    with _store(server) as store:
        held = store.status().chunks
        if not yes:
            click.confirm(f"Delete the {held:,} chunks at {server.uri}? (--yes skips this question)", abort=True)
        click.echo(f"deleted {store.clear():,} bitstreams")


@contextmanager
def _store(server: Server) -> Iterator[FlightStore]:
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # otherwise gRPC prints its own lines between our messages
    login = read_login(server.user)
    token = server.token if login is None else None
    with FlightStore(server.uri, token=token, login=login, tls_ca=server.tls_ca) as store:
        yield store
