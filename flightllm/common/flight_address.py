"""Addresses of Flight servers, and the texts of their errors, for every client of a Flight server."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from flightllm.common.listening import is_loopback
from flightllm.common.switches import switch
from flightllm.errors import InvalidInputError

DEFAULT_PORT: Final = 31337
"""The port of a server whose address names none."""

_NOISE = re.compile(r"\.? ?(Detail: |gRPC client debug context: |Client context: ).*", re.DOTALL)
"""The text that gRPC and Arrow append to a message."""
_SCHEMES = ("grpc", "grpc+tcp", "grpc+tls")
_NEEDS_TLS = frozenset({"tls_ca", "tls_verify", "tls_name", "client_cert", "client_key"})
"""The options that only a connection with TLS can have."""
_OPTIONS = ("tls", *sorted(_NEEDS_TLS), "token", "timeout")
TWO_LOGINS: Final = "the address has both a user and a token: leave one out"
_SETTING = "set."
"""The prefix of the options that are settings."""


@dataclass(frozen=True, slots=True)
class Tls:
    """How a client and a server prove who they are; the certificates and the key are PEM."""

    trusted: str | None = None
    """The certificates to trust in place of the system's."""
    certificate: str | None = None
    """The certificate of the client, with its key in `key`."""
    key: str | None = field(default=None, repr=False)
    name: str | None = None
    """The name in the server's certificate, if it differs from the host."""
    verify: bool = True
    """Whether the server must have a certificate that is trusted."""


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """A server's address as Flight wants it, and what its options say; `timeout` is in seconds."""

    uri: str
    tls: Tls
    token: str | None = field(default=None, repr=False)
    timeout: float | None = None
    settings: Mapping[str, str] = field(default_factory=dict)


def plain(text: str) -> str:
    """Return a status's message without the text that gRPC and Arrow append."""
    return _NOISE.sub("", text).strip()


def checked_uri(uri: str) -> str:
    """Return a server's address unchanged; raise `InvalidInputError` if it is not valid."""
    try:
        parts = urlsplit(uri)
        good = parts.scheme in _SCHEMES and bool(parts.hostname) and bool(parts.port)
    except ValueError:  # a port out of range, or a bracket left open
        good = False
    if not good:
        raise InvalidInputError(f"{uri!r} is not the address of a server: write grpc://HOST:PORT")
    return uri


def scheme_of(host: str | None, options: Mapping[str, str]) -> str:
    """Return `grpc` or `grpc+tls` for the host of an address `flightllm://…` and its options.

    The option `tls` decides. Without it, an option that needs TLS turns TLS on. Else TLS is off for the addresses of
    this machine, and on for all others.

    Raises:
        InvalidInputError: the option `tls` is neither true nor false.
    """
    if "tls" in options:
        encrypted = truth("tls", options["tls"])
    else:
        encrypted = not _NEEDS_TLS.isdisjoint(options) or bool(host and not is_loopback(host))
    return "grpc+tls" if encrypted else "grpc"


def read_server(
    host: str | None, port: int | None, options: Mapping[str, str], *, scheme: str | None = None
) -> ServerAddress:
    """Read the parts of an address `flightllm://HOST:PORT?OPTIONS`; without a host, the server is on this machine.

    `scheme` is `grpc` or `grpc+tls` where the address decides about TLS itself, else `scheme_of` decides.

    Raises:
        InvalidInputError: an option is unknown, has a wrong value, or needs TLS while TLS is off.
    """
    settings = {name.removeprefix(_SETTING): value for name, value in options.items() if name.startswith(_SETTING)}
    unknown = [name for name in options if name not in _OPTIONS and not name.startswith(_SETTING)]
    if unknown or "" in settings:
        name = unknown[0] if unknown else _SETTING
        known = ", ".join(_OPTIONS)
        raise InvalidInputError(
            f"the address has the unknown option {name!r}: it can have {known}, and {_SETTING}NAME for settings"
        )
    meant = scheme_of(host or "127.0.0.1", options)
    if scheme is not None and "tls" in options and meant != scheme:
        raise InvalidInputError(f"the address says both {scheme}:// and tls={options['tls']}: leave one out")
    scheme = scheme or meant
    if scheme == "grpc" and (useless := sorted(_NEEDS_TLS.intersection(options))):
        raise InvalidInputError(f"{useless[0]} has no use without TLS: write grpc+tls://, or tls=true after `?`")
    shown = f"[{host}]" if host and ":" in host else host or "127.0.0.1"
    timeout = _seconds(options["timeout"]) if "timeout" in options else None
    uri = f"{scheme}://{shown}:{port or DEFAULT_PORT}"
    return ServerAddress(uri, _tls(options), options.get("token"), timeout, settings)


def _tls(options: Mapping[str, str]) -> Tls:
    if ("client_cert" in options) != ("client_key" in options):
        raise InvalidInputError("a client's certificate needs its key: give both client_cert and client_key")
    trusted, certificate, key = (
        pem_of(name, options[name]) if name in options else None for name in ("tls_ca", "client_cert", "client_key")
    )
    return Tls(
        trusted, certificate, key, options.get("tls_name"), truth("tls_verify", options.get("tls_verify", "true"))
    )


def _seconds(value: str) -> float | None:
    """Return a limit in seconds; None for 0, which means no limit."""
    try:
        seconds = float(value)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise InvalidInputError(f"timeout={value!r} of the address is not a number of seconds")
    return seconds or None


def truth(name: str, value: str) -> bool:
    """Return an option of an address as a boolean.

    Raises:
        InvalidInputError: the value is neither true nor false.
    """
    found = switch(value)
    if found is None:
        raise InvalidInputError(f"{name}={value!r} of the address is neither true nor false")
    return found


def pem_of(name: str, path: str) -> str:
    """Return the text of a PEM file, which the option `name` gives.

    Raises:
        InvalidInputError: the file cannot be read, or does not hold PEM.
    """
    try:
        text = Path(path).expanduser().read_text(encoding="ascii")
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or "it is not a text"
        raise InvalidInputError(f"{name}={path!r} cannot be read as a PEM file: {reason}") from error
    if "-----BEGIN " not in text:
        raise InvalidInputError(f"{name}={path!r} cannot be read as a PEM file: it has no line -----BEGIN …-----")
    return text
