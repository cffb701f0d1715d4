"""Databases that the server reads where they lie."""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from flightllm.config.secrets import REFERENCE
from flightllm.errors import ConfigError

ATTACHED_TYPES: Final = ("postgres", "sqlite", "duckdb", "flightsql")
_OF_SCHEME: Final = {
    "postgresql": "postgres",
    "postgres": "postgres",
    **dict.fromkeys(("grpc", "grpc+tcp", "grpc+tls", "grpc+unix"), "flightsql"),
}
_OF_ENDING: Final = {".sqlite": "sqlite", ".sqlite3": "sqlite", ".duckdb": "duckdb", ".ddb": "duckdb"}
OF_FILES: Final = frozenset({"sqlite", "duckdb"})
"""The types whose databases are files on the server's disk."""
_LONGEST_WAIT: Final = 600
_SECRET: Final = re.compile(r"pass|secret|token|key|auth", re.IGNORECASE)
"""The names of parameters of an address that hold secrets."""


@dataclass(frozen=True, slots=True)
class AttachedConfig:
    """A database that the server reads where it lies.

    `url` is an address, the path of a file, or `env:NAME` or `file:PATH` for an address that has a password. `type` is
    one of `ATTACHED_TYPES`; it follows from most addresses. `schema` is the schema of names with two parts.
    """

    url: str
    type: str = ""
    schema: str = ""
    user: str | None = None
    password: str | None = None
    ttl_seconds: float = 300.0
    connect_seconds: int = 10

    def __post_init__(self) -> None:
        kind = self.type.lower() or self._guessed
        if kind not in ATTACHED_TYPES:
            found = f"there is no type {self.type[:40]!r}" if self.type else "its type does not follow from the address"
            raise ConfigError(f"{found}: write type {', '.join(ATTACHED_TYPES[:-1])} or {ATTACHED_TYPES[-1]}")
        object.__setattr__(self, "type", kind)
        if not self.url.strip():
            raise ConfigError("url is empty: write an address, or the path of a file")
        if self.ttl_seconds < 0:
            raise ConfigError("ttl_seconds: expected a number of at least 0")
        if not 1 <= self.connect_seconds <= _LONGEST_WAIT:
            raise ConfigError(f"connect_seconds: expected a whole number from 1 to {_LONGEST_WAIT}")
        if kind in OF_FILES and (self.user or self.password):
            raise ConfigError(f"a database of the type {kind} is a file, and takes no user and no password")

    @property
    def _guessed(self) -> str:
        if "://" in self.url:
            return _OF_SCHEME.get(urlsplit(self.url).scheme.lower(), "")
        ending = self.url[self.url.rfind(".") :].lower() if "." in self.url else ""
        return _OF_ENDING.get(ending, "")

    @property
    def holds_secret(self) -> bool:
        """Return whether a value here can be a secret, so that nothing must store or show it.

        The name of a user does not count.
        """
        if self.password and not REFERENCE.fullmatch(self.password):
            return True
        if self.type in OF_FILES or REFERENCE.fullmatch(self.url):
            return False
        if "://" not in self.url:
            return _SECRET.search(self.url) is not None
        try:
            parts = urlsplit(self.url)
            return parts.password is not None or any(_SECRET.search(name) for name, _ in parse_qsl(parts.query))
        except ValueError:  # no valid address, so its login is not known
            return True
