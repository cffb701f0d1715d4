"""`flightllm.connect`: a database in this process, or a server."""

import os
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypedDict
from urllib.parse import parse_qsl, unquote, urlsplit

from flightllm.common.flight_address import TWO_LOGINS, ServerAddress, read_server
from flightllm.common.names import quoted
from flightllm.config import Config
from flightllm.connection.callers import plain_errors, warn, warn_once
from flightllm.connection.configuration import configuration_here
from flightllm.connection.connection import Connection
from flightllm.errors import ConfigError, InvalidInputError

Target: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Mapping[str, Any] | Config | None
_SCHEMES = {
    "grpc": "grpc",
    "grpc+tcp": "grpc",
    "grpc+tls": "grpc+tls",
    "flightllm": "",
    "flightllm+tls": "grpc+tls",
}
"""The scheme of Flight for each scheme of an address; "" where the host and the options decide."""
_LIKE_SERVER = re.compile(r"(?:https?://)?((?:[\w.-]+|\[[0-9a-f:]+\]):\d+)/?", re.IGNORECASE)
"""Matches a host and a port without a path: perhaps the address of a server."""


class Options(TypedDict, total=False):
    """The options of `connect`, which describes them."""

    config: Config | str | os.PathLike[str] | None
    engine: str | None
    model: str | None
    data_folder: str | os.PathLike[str] | None
    csv: Mapping[str, str] | None
    user: str | None
    password: str | None
    token: str | None
    tls_ca: str | os.PathLike[str] | None
    settings: Mapping[str, object] | None
    progress: bool | None


@plain_errors
def connect(  # noqa: PLR0913 - all but one have names at the call
    target: Target = None,
    *,
    config: Config | str | os.PathLike[str] | None = None,
    engine: str | None = None,
    model: str | None = None,
    data_folder: str | os.PathLike[str] | None = None,
    csv: Mapping[str, str] | None = None,
    user: str | None = None,
    password: str | None = None,
    token: str | None = None,
    tls_ca: str | os.PathLike[str] | None = None,
    settings: Mapping[str, object] | None = None,
    progress: bool | None = None,
) -> Connection:
    """Open a database in this process, or connect to a server.

    Args:
        target: None for an empty database, or a file, folder or address, or a list of these: each becomes a table. Also
            a dict of frames by the names of their tables, a configuration, or the address of a server. Such an
            address is `grpc://HOST:PORT`, `grpc+tls://HOST:PORT`, or `flightllm://HOST:PORT`, which has TLS beyond
            this machine. `flightllm://HOST:PORT/SCHEMA?OPTIONS` has the options of SQLAlchemy's addresses.
        config: a TOML file, the name of a shipped one, or a `Config`; by default `flightllm.toml` of this folder.
        engine: the engine in place of the configuration's; the first AI call loads it.
        model: the model in place of the configuration's.
        data_folder: a folder in which tables stay; without it, tables last as long as the connection.
        csv: how CSV files are written, as for `flightllm query --csv`.
        user: the user of a server, by default `FLIGHTLLM_USER`.
        password: the user's password, by default `FLIGHTLLM_PASSWORD`.
        token: a token in place of a user, by default `FLIGHTLLM_TOKEN`.
        tls_ca: a file with the certificates to trust (PEM), where the system does not trust the server's.
        settings: settings of the session, such as `{"max_cost": 1}`.
        progress: whether to show a bar while models are asked; by default in terminals and notebooks.

    Raises:
        ConfigError: a file or a setting is wrong.
        FlightLLMError: no server answers, or it does not accept the login.
    """
    of_server = {"user": user, "password": password, "token": token, "tls_ca": tls_ca}
    of_files = {"config": config, "engine": engine, "model": model, "data_folder": data_folder, "csv": csv}
    if isinstance(target, str) and target.split("://", 1)[0].lower() in _SCHEMES and "://" in target:
        _refuse(of_files, "a database in this process: a server has its own")
        connection = _to_server(target, user, password, token, tls_ca, set(settings or ()), progress)
    else:
        _refuse(of_server, "a server: name one with grpc://HOST:PORT")
        connection = _embedded(target, config, engine, model, data_folder, csv, progress)
    try:
        for name, value in (settings or {}).items():
            text = ("off", "on")[value] if isinstance(value, bool) else "none" if value is None else str(value)
            connection.sql(f"SET flightllm.{name} = '{text.replace(chr(39), chr(39) * 2)}'")
        if isinstance(target, Mapping):
            for name, frame in target.items():
                connection.register(name, frame)
    except BaseException:
        connection.close()
        raise
    return connection


def _refuse(options: Mapping[str, object], where: str) -> None:
    """Raise `InvalidInputError` for an option that belongs to the other kind of target."""
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise InvalidInputError(f"{given[0]}= is an option of {where}")


def _embedded(
    target: Target,
    config: Config | str | os.PathLike[str] | None,
    engine: str | None,
    model: str | None,
    data_folder: str | os.PathLike[str] | None,
    csv: Mapping[str, str] | None,
    progress: bool | None,  # noqa: FBT001 - private
) -> Connection:
    from flightllm.connection.embedded import EmbeddedSession, OpenDatabase
    from flightllm.connection.sources import DEMONSTRATION, named_tables

    sources = _sources(target)
    if isinstance(target, Config) or (len(sources) == 1 and sources[0].lower().endswith(".toml")):
        if config is not None:
            raise InvalidInputError("there are two configurations: the target is one, and config= names another")
        config, sources = target if isinstance(target, Config) else sources[0], []
    nothing_said = False
    if not isinstance(config, Config):
        path, about = configuration_here(None if config is None else Path(config))
        if about:
            instead = "config='default' leaves it out" if path else "config='flightllm.toml' reads it"
            warn(f"{about}; {instead}")
        nothing_said = not (path or engine or model)
        config = Config.load(path)
    notes: list[str] = []
    try:
        tables = dict(named_tables(sources, notes.append, tuple((csv or {}).items())))
    except ConfigError as error:
        raise ConfigError(f"{error}{_server_hint(sources)}") from error
    full = config.with_options(engine=engine, model=model, tables=tables)
    _quiet()
    opened = OpenDatabase.open(full, None if data_folder is None else Path(data_folder))
    try:
        warn_once([*notes, *opened.database.notes])  # under `python -W error` this raises
        session = EmbeddedSession(opened)
    except BaseException:
        opened.leave()
        raise
    note = DEMONSTRATION if nothing_said else ""
    return Connection(session, reads_variables=True, progress=progress, note=note)


def _server_hint(sources: Sequence[str]) -> str:
    """Return what to write if a source that cannot be opened was meant as a server; else an empty text."""
    found = next(filter(None, map(_LIKE_SERVER.fullmatch, sources)), None)
    return "" if found is None else f"; if this is a server of FlightLLM, write grpc://{found[1]}"


def _sources(target: Target) -> list[str]:
    """Return the files, folders and addresses of a target."""
    if (isinstance(target, str) and not target) or (isinstance(target, list | tuple) and "" in target):
        raise InvalidInputError("the name of the file is empty: connect() without a name opens an empty database")
    if target is None or isinstance(target, Config | Mapping):
        return []
    if isinstance(target, str | os.PathLike):
        return [] if target == ":memory:" else [os.fspath(target)]
    given: object = target
    if isinstance(given, list | tuple) and all(isinstance(one, str | os.PathLike) for one in given):
        return [os.fspath(one) for one in given]
    raise InvalidInputError(
        f"connect() takes a file, a folder, the address of a server, or a dict of frames, not {type(target).__name__}:"
        " connect({'name': frame}) makes a frame a table"
    )


def _to_server(
    address: str,
    user: str | None,
    password: str | None,
    token: str | None,
    tls_ca: str | os.PathLike[str] | None,
    replaced: Collection[str],
    progress: bool | None,  # noqa: FBT001 - private
) -> Connection:
    """Connect to a server. `replaced` are the settings that the caller gives in place of those of the address."""
    from flightllm.client import BOOKKEEPING, IN_PYTHON, Client
    from flightllm.connection.remote import RemoteSession

    place = _read_address(address, None if tls_ca is None else os.fspath(tls_ca))
    server = place.server
    name = user or place.user or (None if token or server.token else os.environ.get("FLIGHTLLM_USER"))
    secret = password or place.password or os.environ.get("FLIGHTLLM_PASSWORD")
    if name and secret is None:
        raise InvalidInputError(f"give the password of {name} as password=, or in FLIGHTLLM_PASSWORD")
    bearer = None if name else token or server.token or os.environ.get("FLIGHTLLM_TOKEN")
    headers = {"authorization": f"Bearer {bearer}"} if bearer else {}
    headers |= {f"x-flightllm-{key}": value for key, value in server.settings.items() if key not in replaced}
    login = (name, secret) if name and secret is not None else None

    def open_client() -> Client:
        client = Client(server.uri, headers, login=login, tls=server.tls, timeout=server.timeout, options=IN_PYTHON)
        try:
            if place.schema is not None:
                list(client.query(f"{BOOKKEEPING}USE {quoted(place.schema)}")[1])
        except BaseException:
            client.close()
            raise
        return client

    session = RemoteSession(open_client)
    connection = Connection(session, progress=progress)
    try:
        connection.execute(f"{BOOKKEEPING}SELECT 1")  # fails at once if no server answers
    except BaseException:
        connection.close()
        raise
    return connection


class _Address(NamedTuple):
    """A server, and what else the given address holds."""

    server: ServerAddress
    user: str | None
    password: str | None
    schema: str | None


def _read_address(address: str, tls_ca: str | None) -> _Address:
    """Read the address of a server; `tls_ca` stands for the option of the same name in the address."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise InvalidInputError(f"this is not the address of a server: {error}; write grpc://HOST:PORT") from error
    scheme = _SCHEMES[parts.scheme.lower()] or None
    if scheme and not host:
        raise InvalidInputError("the address of a server lacks its host: write grpc://HOST:PORT")
    if parts.fragment:
        raise InvalidInputError(f"the address has {'#' + parts.fragment!r}, which means nothing: write %23 for #")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if tls_ca is not None:
        options["tls_ca"] = tls_ca
    server = read_server(host, port, options, scheme=scheme)
    user, password = (None if one is None else unquote(one) for one in (parts.username, parts.password))
    if user and server.token:
        raise InvalidInputError(TWO_LOGINS)
    return _Address(server, user, password, unquote(parts.path.removeprefix("/")) or None)


def _quiet() -> None:
    """Log errors only, unless the program has set up structlog itself."""
    import structlog

    from flightllm.config import LogConfig
    from flightllm.log import configure_logging

    if not structlog.is_configured():
        configure_logging(LogConfig(level="error"))
