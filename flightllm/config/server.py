"""Where the server listens, and how it logs."""

import os
from dataclasses import dataclass
from pathlib import Path

from flightllm.config.checks import host_and_port, one_of
from flightllm.errors import ConfigError

LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS = ("console", "json")


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """Where the server listens and who may connect.

    `token` refers to the bearer token clients must send, `env:NAME` or `file:PATH`; it is never written in the file.
    """

    listen: str = "127.0.0.1:31337"
    token: str | None = None

    def __post_init__(self) -> None:
        _ = self.address
        if self.token is not None and not self.token.startswith(("env:", "file:")):
            raise ConfigError("[server] token: write env:NAME or file:PATH, never the token itself")

    @property
    def address(self) -> tuple[str, int]:
        """Return `listen` as host and port; port 0 means any free one."""
        return host_and_port("[server] listen", self.listen)

    def read_token(self) -> str | None:
        """Return the token that `token` refers to, or None where no token is asked for.

        Raises:
            ConfigError: the variable is not set, the file cannot be read, or it is empty.
        """
        if self.token is None:
            return None
        kind, _, place = self.token.partition(":")
        try:
            value = os.environ[place] if kind == "env" else Path(place).expanduser().read_text(encoding="utf-8")
        except KeyError as error:
            raise ConfigError(f"[server] token: set the environment variable {place}") from error
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
            raise ConfigError(f"[server] token: cannot read the file {place}: {reason}") from error
        if not value.strip():
            raise ConfigError(f"[server] token: {self.token!r} is empty")
        return value.strip()


@dataclass(frozen=True, slots=True)
class LogConfig:
    """How much the server logs to standard error, and in which form."""

    level: str = "info"
    format: str = "console"

    def __post_init__(self) -> None:
        one_of("[log] level", self.level, LOG_LEVELS)
        one_of("[log] format", self.format, LOG_FORMATS)
