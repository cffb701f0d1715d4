"""Where the server listens, and how it logs."""

from dataclasses import dataclass, field
from pathlib import Path

from flightllm.common.listening import is_loopback
from flightllm.config.checks import host_and_port, one_of
from flightllm.config.secrets import check_reference, read_secret
from flightllm.errors import ConfigError

LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS = ("console", "json")


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """Where the server listens, and who can connect.

    `token` refers to the bearer token that clients must send, as `env:NAME` or `file:PATH`; the file never holds it.
    """

    listen: str = "127.0.0.1:31337"
    token: str | None = None
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    client_listen: str | None = None
    """The address for clients with a certificate that `client_authority` signed; its name is the user's name."""
    client_authority: Path | None = None
    insecure: bool = False
    """Allow plain text, or callers without a login, also beyond this machine."""
    check_engine: bool = True
    """Before the first start, send one short question to an engine's endpoint; if it fails, do not start."""

    def __post_init__(self) -> None:
        _ = self.address
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ConfigError("[server] tls_certificate and tls_key: set both, the files of a certificate and its key")
        if (self.client_listen is None) != (self.client_authority is None):
            raise ConfigError("[server] client_listen and client_authority: set both, an address and a CA's file")
        if self.client_listen is not None:
            host_and_port("[server] client_listen", self.client_listen)
            if self.tls_certificate is None:
                raise ConfigError(
                    "[server] client_listen needs tls_certificate and tls_key: client certificates work only with TLS"
                )
        check_reference("[server] token", self.token)

    @property
    def address(self) -> tuple[str, int]:
        """Return `listen` as host and port; port 0 means any free port."""
        return host_and_port("[server] listen", self.listen)

    def check_exposure(self, *, asks_nobody: bool, section: str = "server", listen: str | None = None) -> None:
        """Check that no other machine can read the traffic or connect without a login, unless `insecure` allows it.

        `listen` is another address with the same certificate and users; `section` configures it.

        Raises:
            ConfigError: the server listens beyond this machine in plain text, or authenticates nobody.
        """
        key, where = f"[{section}] listen", listen or self.listen
        if self.insecure or is_loopback(host_and_port(key, where)[0]):
            return
        instead = "or pass --insecure where everybody on the network is trusted"
        if self.tls_certificate is None:
            raise ConfigError(
                f"{key}: {where} can be reached from other machines, and without TLS they send passwords"
                f" and rows in plain text: set tls_certificate and tls_key, {instead}"
            )
        if asks_nobody:
            raise ConfigError(
                f"{key}: {where} can be reached from other machines, and anybody there would be an admin:"
                f" add a user by `flightllm user add NAME --role admin`, set token, {instead}"
            )

    def read_tls(self) -> "Tls | None":
        """Return the certificate and key, and the settings of the second port, where they are configured.

        Raises:
            ConfigError: a file cannot be read.
        """
        if self.tls_certificate is None or self.tls_key is None:
            return None
        address, authority = None, None
        if self.client_listen is not None and self.client_authority is not None:
            address = host_and_port("[server] client_listen", self.client_listen)
            authority = _read("client_authority", self.client_authority)
        certificate, key = _read("tls_certificate", self.tls_certificate), _read("tls_key", self.tls_key)
        return Tls(certificate, key, address, authority)

    def read_token(self) -> str | None:
        """Return the token that `token` refers to, or None if the server requires no token.

        Raises:
            ConfigError: the variable is not set, or the file cannot be read or is empty.
        """
        return None if self.token is None else read_secret("[server] token", self.token)


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS files in PEM; `address` and `client_authority` belong to the port for clients with certificates."""

    certificate: bytes
    key: bytes = field(repr=False)
    address: tuple[str, int] | None = None
    client_authority: bytes | None = None


def _read(key: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"[server] {key}: cannot read the file {path}: {error.strerror}") from error


@dataclass(frozen=True, slots=True)
class LogConfig:
    """How much the server logs to standard error, and in which form."""

    level: str = "info"
    format: str = "console"

    def __post_init__(self) -> None:
        one_of("[log] level", self.level, LOG_LEVELS)
        one_of("[log] format", self.format, LOG_FORMATS)
