"""Addresses `flightllm://user:password@host:port/schema?…`, and the options of ADBC that they mean."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from adbc_driver_flightsql import DatabaseOptions
from adbc_driver_manager import ConnectionOptions
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError

from flightllm.common.flight_address import TWO_LOGINS, read_server
from flightllm.errors import InvalidInputError

_HEADER = f"{DatabaseOptions.RPC_CALL_HEADER_PREFIX.value}x-flightllm-"


@dataclass(frozen=True, slots=True)
class Target:
    """A server, and the options of ADBC for its database and its connections."""

    uri: str
    database: Mapping[str, str] = field(default_factory=dict)
    connection: Mapping[str, str] = field(default_factory=dict)


def read_url(url: URL) -> Target:
    """Return the options of ADBC for the server of `url`.

    `common.flight_address.read_server` reads them, as for `flightllm.connect`.

    Raises:
        ArgumentError: an option is unknown or has a wrong value.
    """
    try:
        return _target(url)
    except InvalidInputError as error:
        raise ArgumentError(str(error)) from error


def _target(url: URL) -> Target:
    options = {name: value if isinstance(value, str) else value[-1] for name, value in url.query.items()}
    server = read_server(url.host, url.port, options)
    tls = server.tls
    given = {
        DatabaseOptions.TLS_ROOT_CERTS: tls.trusted,
        DatabaseOptions.MTLS_CERT_CHAIN: tls.certificate,
        DatabaseOptions.MTLS_PRIVATE_KEY: tls.key,
        DatabaseOptions.TLS_OVERRIDE_HOSTNAME: tls.name,
        DatabaseOptions.TLS_SKIP_VERIFY: None if tls.verify else "true",
    }
    limits = (DatabaseOptions.TIMEOUT_FETCH, DatabaseOptions.TIMEOUT_QUERY, DatabaseOptions.TIMEOUT_UPDATE)
    given |= dict.fromkeys(limits, None if server.timeout is None else str(server.timeout))
    database = {key.value: value for key, value in given.items() if value is not None}
    database |= _login(url, server.token)
    database |= {_HEADER + name: value for name, value in server.settings.items()}
    connection = {ConnectionOptions.CURRENT_DB_SCHEMA.value: url.database} if url.database else {}
    return Target(server.uri, database, connection)


def _login(url: URL, token: str | None) -> dict[str, str]:
    if token is not None:
        if url.username:
            raise InvalidInputError(TWO_LOGINS)
        return {DatabaseOptions.AUTHORIZATION_HEADER.value: f"Bearer {token}"}
    return {"username": url.username, "password": url.password or ""} if url.username else {}
