"""How a server reports about itself: over HTTP, and as traces."""

from dataclasses import dataclass

from flightllm.common.listening import is_loopback
from flightllm.config.checks import host_and_port
from flightllm.errors import ConfigError


@dataclass(frozen=True, slots=True)
class HttpConfig:
    """Where `/metrics`, `/healthz`, `/readyz` and the web page are served; without `listen`, nowhere.

    Anybody who reaches the address can read the metrics. So on an address that other machines reach, the metrics are
    served only if `metrics` is true. The page asks for user and password, or for a token. Browsers can use the loopback
    names, the address it listens on, the machine's name, and the names in `hosts`.
    """

    listen: str | None = None
    metrics: bool | None = None
    page: bool = False
    hosts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _ = self.address
        for name in self.hosts:
            if not name or set(name) & set(":/@ *"):
                raise ConfigError(f"[http] hosts: expected names such as llm.example.com, without a port, got {name!r}")
        if self.page and self.listen is None:
            raise ConfigError("[http] page needs listen, the address to serve it on, such as 127.0.0.1:9090")

    @property
    def address(self) -> tuple[str, int] | None:
        """Return `listen` as host and port; port 0 means any free port."""
        return None if self.listen is None else host_and_port("[http] listen", self.listen)

    @property
    def shows_metrics(self) -> bool:
        """Return whether metrics are served."""
        if self.metrics is None:
            return self.address is not None and is_loopback(self.address[0])
        return self.metrics


@dataclass(frozen=True, slots=True)
class TracingConfig:
    """Where OpenTelemetry traces are sent, by OTLP over HTTP; without `endpoint`, nowhere."""

    endpoint: str | None = None
    service_name: str = "flightllm"

    def __post_init__(self) -> None:
        if self.endpoint is not None and not self.endpoint.startswith(("http://", "https://")):
            example = "http://127.0.0.1:4318/v1/traces"
            raise ConfigError(f"[tracing] endpoint: expected an address such as {example}")
