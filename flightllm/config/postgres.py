"""Where the server speaks PostgreSQL's protocol, and the bounds of its connections."""

from dataclasses import dataclass

from flightllm.config.checks import above_zero, at_least_one, host_and_port


@dataclass(frozen=True, slots=True)
class PostgresConfig:
    """Where PostgreSQL's clients connect; without `listen`, nowhere.

    The connections use the certificate, users and limits of the server. A connection that has not logged in after
    `login_seconds` is closed. A message of a client has at most `message_bytes`.
    """

    listen: str | None = None
    connections: int = 256
    login_seconds: float = 30.0
    message_bytes: int = 32 << 20

    def __post_init__(self) -> None:
        _ = self.address
        at_least_one("postgres", connections=self.connections, message_bytes=self.message_bytes)
        above_zero("postgres", login_seconds=self.login_seconds)

    @property
    def address(self) -> tuple[str, int] | None:
        """Return `listen` as host and port; port 0 means any free port."""
        return None if self.listen is None else host_and_port("[postgres] listen", self.listen)
