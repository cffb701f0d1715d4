"""Addresses `flightllm://user:password@host:port/schema?…`, and the options of ADBC that they mean."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from adbc_driver_flightsql import DatabaseOptions
from adbc_driver_manager import ConnectionOptions
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError

from flightllm.common.flight_address import DEFAULT_PORT, pem_of, scheme_of, truth
from flightllm.errors import InvalidInputError

_HEADER = f"{DatabaseOptions.RPC_CALL_HEADER_PREFIX.value}x-flightllm-"
_OPTIONS = "tls, tls_ca, tls_verify, tls_name, client_cert, client_key, token, timeout, and set.NAME for settings"


@dataclass(frozen=True, slots=True)
class Target:
    """A server, and the options of ADBC for its database and its connections."""

    uri: str
    database: Mapping[str, str] = field(default_factory=dict)
    connection: Mapping[str, str] = field(default_factory=dict)


def read_url(url: URL) -> Target:
    """Return the options of ADBC for the server of `url`.

    `common.flight_address.scheme_of` tells whether the connection has TLS.

    Raises:
        ArgumentError: an option is unknown or has a wrong value.
    """
    try:
        return _target(url)
    except InvalidInputError as error:
        raise ArgumentError(str(error)) from error


def _target(url: URL) -> Target:
    options = {name: value if isinstance(value, str) else value[-1] for name, value in url.query.items()}
    database: dict[str, str] = {}
    scheme = scheme_of(url.host, options)
    options.pop("tls", None)
    for name, key in (
        ("tls_ca", DatabaseOptions.TLS_ROOT_CERTS),
        ("client_cert", DatabaseOptions.MTLS_CERT_CHAIN),
        ("client_key", DatabaseOptions.MTLS_PRIVATE_KEY),
    ):
        if name in options:
            database[key.value] = pem_of(name, options.pop(name))
    if "tls_name" in options:
        database[DatabaseOptions.TLS_OVERRIDE_HOSTNAME.value] = options.pop("tls_name")
    if not truth("tls_verify", options.pop("tls_verify", "true")):
        database[DatabaseOptions.TLS_SKIP_VERIFY.value] = "true"
    if "timeout" in options:
        seconds = options.pop("timeout")
        for key in (DatabaseOptions.TIMEOUT_FETCH, DatabaseOptions.TIMEOUT_QUERY, DatabaseOptions.TIMEOUT_UPDATE):
            database[key.value] = _seconds(seconds)
    database.update(_login(url, options.pop("token", None)))
    for name in [name for name in options if name.startswith("set.")]:
        database[_HEADER + name.removeprefix("set.")] = options.pop(name)
    if options:
        raise ArgumentError(f"the address has the unknown option {next(iter(options))!r}: it can have {_OPTIONS}")
    host = url.host or "127.0.0.1"
    shown = f"[{host}]" if ":" in host else host
    connection = {ConnectionOptions.CURRENT_DB_SCHEMA.value: url.database} if url.database else {}
    return Target(f"{scheme}://{shown}:{url.port or DEFAULT_PORT}", database, connection)


def _login(url: URL, token: str | None) -> dict[str, str]:
    if token is not None:
        if url.username:
            raise ArgumentError("the address has both a user and a token: leave one out")
        return {DatabaseOptions.AUTHORIZATION_HEADER.value: f"Bearer {token}"}
    return {"username": url.username, "password": url.password or ""} if url.username else {}


def _seconds(value: str) -> str:
    try:
        return str(float(value))
    except ValueError:
        raise ArgumentError(f"timeout={value!r} of the address is not a number of seconds") from None
