"""Addresses of Flight servers, and the texts of their errors, for every client of a Flight server."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from flightllm.common.listening import is_loopback
from flightllm.errors import InvalidInputError

DEFAULT_PORT: Final = 31337
"""The port of a server whose address names none."""

_NOISE = re.compile(r"\.? ?(Detail: |gRPC client debug context: |Client context: ).*", re.DOTALL)
"""The text that gRPC and Arrow append to a message."""
_SCHEMES = ("grpc", "grpc+tcp", "grpc+tls")
_TRUTH = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
_NEEDS_TLS = frozenset({"tls_ca", "tls_verify", "tls_name", "client_cert", "client_key"})
"""The options that only a connection with TLS can have."""


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


def truth(name: str, value: str) -> bool:
    """Return an option of an address as a boolean.

    Raises:
        InvalidInputError: the value is neither true nor false.
    """
    if value.lower() not in _TRUTH:
        raise InvalidInputError(f"{name}={value!r} of the address is neither true nor false")
    return _TRUTH[value.lower()]


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
