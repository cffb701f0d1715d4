"""One attached database: its source, and its tables as they were read last."""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Final

import structlog

from flightllm.attached.columns import SourceTable
from flightllm.attached.scan import source_error
from flightllm.attached.source import Source
from flightllm.common.redaction import keep_secret
from flightllm.config.attached import OF_FILES, AttachedConfig
from flightllm.config.secrets import REFERENCE, keep_pasted, read_secret
from flightllm.errors import ConfigError, FlightLLMError, InvalidInputError

_log = structlog.get_logger(__name__)
_AGAIN_SECONDS: Final = 5.0
"""A source that failed is asked again after this time."""


class AttachedDatabase:
    """A database that the server reads where it lies. Its tables are read at their first use. Thread-safe."""

    def __init__(self, name: str, config: AttachedConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self.name, self.config = name, config
        self.lock = Lock()
        """Held while the tables are read, so that one thread reads them."""
        self.problem = ""
        """Why the tables could not be read last."""
        self.read = False
        """Whether the tables were read once."""
        self._clock = clock
        self._due = clock()
        self._source: Source | None = None

    @property
    def default_schema(self) -> str:
        """Return the schema of names with two parts."""
        if self.config.schema:
            return self.config.schema
        return "main" if self.config.type in OF_FILES else "public"

    @property
    def is_due(self) -> bool:
        """Return whether the tables must be read."""
        return self._clock() >= self._due

    def expire(self) -> None:
        """Read the tables at their next use."""
        self._due = self._clock()

    def source(self) -> Source:
        """Return the source; the driver is loaded at the first use.

        Raises:
            MissingExtraError: the driver is not installed.
            InvalidInputError: a reference leads to nothing.
        """
        if self._source is None:
            self._source = opened(self.config)
        return self._source

    def tables(self) -> list[SourceTable]:
        """Read the tables from the source; the caller holds `lock`.

        Raises:
            FlightLLMError: the source failed.
        """
        try:
            found = self.source().tables()
        except Exception as error:
            failure = error if isinstance(error, FlightLLMError) else source_error(self.name, error)
            if isinstance(error, InvalidInputError):
                failure = source_error(self.name, error)
            self.problem = str(failure)
            self._due = self._clock() + min(_AGAIN_SECONDS, self.config.ttl_seconds)
            _log.warning("an attached database cannot be read", database=self.name, error=str(failure))
            raise failure from error
        self.problem, self.read = "", True
        self._due = self._clock() + self.config.ttl_seconds
        _log.info("the tables of an attached database were read", database=self.name, tables=len(found))
        return found

    def close(self) -> None:
        """Release the source."""
        source, self._source = self._source, None
        if source is not None:
            with suppress(Exception):
                source.close()


def opened(config: AttachedConfig) -> Source:
    """Return the source of a configuration; this connects to nothing.

    Raises:
        MissingExtraError: the driver is not installed.
        InvalidInputError: a reference leads to nothing.
    """
    if config.type == "sqlite":
        from flightllm.attached.sqlite import SqliteSource

        return SqliteSource(Path(config.url).expanduser())
    if config.type == "duckdb":
        from flightllm.attached.duckdb import DuckdbSource

        return DuckdbSource(Path(config.url).expanduser(), config.schema)
    try:
        address = read_secret("url", config.url) if REFERENCE.fullmatch(config.url) else config.url
        password = config.password
        if password and REFERENCE.fullmatch(password):
            password = read_secret("password", password)
    except ConfigError as error:
        raise InvalidInputError(str(error)) from error
    keep_pasted(address, "url")
    if password:
        keep_secret(password)
    login = {"user": config.user or "", "password": password or ""}
    if config.type == "postgres":
        from flightllm.attached.postgres import PostgresSource

        given = {name: value for name, value in login.items() if value}
        return PostgresSource(address, config.schema, given, config.connect_seconds)
    from flightllm.attached.flightsql import FlightSqlSource

    options = {"username": login["user"], "password": login["password"]}
    if password and not config.user:  # a bearer token
        options = {"adbc.flight.sql.authorization_header": f"Bearer {password}"}
    return FlightSqlSource(
        address, config.schema, {name: value for name, value in options.items() if value}, config.connect_seconds
    )
