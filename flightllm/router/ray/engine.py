"""The engine kind `ray`: one engine made of engines in actors on a Ray cluster, as many as the load needs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from importlib.util import find_spec

from flightllm.config import EngineConfig
from flightllm.config.replicas import replica_config
from flightllm.engines.options import read_options
from flightllm.errors import MissingExtraError
from flightllm.llm.engine import Engine
from flightllm.router.autoscaler import Autoscaler
from flightllm.router.base import check_policy
from flightllm.router.cluster import check_replica
from flightllm.router.engine import RoutedEngine
from flightllm.router.ray.connection import RayConnection
from flightllm.router.ray.replica import Placement, RayReplica
from flightllm.router.ray.tokens import tokens_of
from flightllm.router.scaling import Scaling


@dataclass(frozen=True, slots=True)
class RayOptions:
    """The Ray cluster, the engine of each replica, and the number of replicas.

    `replica` has the keys of `[engine]` for the engine of each replica, including `kind`. `address` is `auto` or
    `host:6379`: a Ray cluster of which this machine is a node. Without an address, the server starts a cluster on this
    machine, and stops it. See `Scaling` and `Placement` for the other options. `max_replicas` of 0 means
    `min_replicas`.
    """

    replica: Mapping[str, object] = field(default_factory=dict)
    address: str = ""
    namespace: str = "flightllm"
    policy: str = "e2_batch"
    min_replicas: int = 1
    max_replicas: int = 0
    backlog_seconds: float = 10.0
    upscale_delay_s: float = 5.0
    downscale_delay_s: float = 300.0
    num_cpus: float = 1.0
    num_gpus: float = 0.0
    resources: Mapping[str, object] = field(default_factory=dict)
    runtime_env: Mapping[str, object] = field(default_factory=dict)
    start_seconds: float = 600.0

    def __post_init__(self) -> None:
        check_policy(self.policy)
        _ = self.scaling, self.placement
        if "://" in self.address:  # Ray Client does not support concurrency groups
            raise ValueError(
                f"address: run the server on a node of the cluster and write 'auto' or HOST:6379; got {self.address!r}"
            )
        if not self.replica:
            raise ValueError("replica: write a section [engine.replica] with the kind of each replica's engine")

    @property
    def scaling(self) -> Scaling:
        """Return the options for the number of replicas."""
        given = {f.name: getattr(self, f.name) for f in fields(Scaling)}
        return Scaling(**given | {"max_replicas": self.max_replicas or self.min_replicas})

    @property
    def placement(self) -> Placement:
        """Return the requirements of a replica on its node."""
        return Placement(**{f.name: getattr(self, f.name) for f in fields(Placement)})


class RayEngine(RoutedEngine):
    """The replicas on Ray, the connection to Ray, and the autoscaler."""

    def __init__(self, config: EngineConfig, options: RayOptions, replica: EngineConfig) -> None:
        tokens = tokens_of(replica)
        connection = self._connection = RayConnection(options.address, options.namespace)

        def create() -> RayReplica:
            connection.ensure()
            return RayReplica(replica, options.placement, tokens)

        begun = [_Begun(create) for _ in range(options.min_replicas)]
        self._autoscaler: Autoscaler | None = None
        try:
            named = [(f"actor {number}", one) for number, one in enumerate(begun)]
            super().__init__(f"{replica.kind} ({config.model}) on Ray", named, options.policy, replica.max_in_flight)
        except BaseException:
            for one in begun:
                one.discard()
            self._connection.close()
            raise
        self._autoscaler = Autoscaler(self, "actor", create, options.scaling)

    def close(self) -> None:
        """End the actors, and the cluster if this process started it. Idempotent."""
        if self._autoscaler is not None:
            self._autoscaler.close()
        engines = [replica.engine for replica in list(self._replicas.values())]
        with ThreadPoolExecutor(max(1, len(engines))) as pool:  # each takes a while
            for engine in engines:
                pool.submit(engine.close)
        super().close()
        self._connection.close()


class _Begun:
    """A factory of engines that starts the first engine at once, so that several replicas start in parallel."""

    def __init__(self, create: Callable[[], Engine]) -> None:
        self._create = create
        first: Future[Engine] = Future()
        self._first: Future[Engine] | None = first
        # Not a pool's thread: the interpreter waits for a pool's threads when it exits.
        threading.Thread(target=self._begin, args=(first,), name="ray-start", daemon=True).start()

    def __call__(self) -> Engine:
        """Wait for the first engine and return it; in later calls, create and return another engine."""
        first, self._first = self._first, None
        return self._create() if first is None else first.result()

    def _begin(self, first: Future[Engine]) -> None:
        try:
            first.set_result(self._create())
        except BaseException as error:  # noqa: BLE001 - raised in the thread that asks for the engine
            first.set_exception(error)

    def discard(self) -> None:
        """Close the first engine if no caller has taken it."""
        if self._first is not None:
            self._first.add_done_callback(_close)


def create(config: EngineConfig) -> RayEngine:
    """Connect to the cluster, or start a local one, and start the replicas on it."""
    return RayEngine(config, *check(config))


def check(config: EngineConfig) -> tuple[RayOptions, EngineConfig]:
    """Return the options and the configuration of the engine in each actor.

    The engine's own options are checked only for a local cluster, whose actors use this machine's models and packages.

    Raises:
        ConfigError: an option is wrong.
        MissingExtraError: Ray is not installed.
    """
    options, replica = _read(config)
    if find_spec("ray") is None:
        raise MissingExtraError("the engine 'ray'", "ray")
    if not options.address:
        check_replica(replica, "[engine.replica]")
    return options, replica


def replica_of(config: EngineConfig) -> EngineConfig:
    """Return the configuration of the engine in each actor.

    Raises:
        ConfigError: an option is wrong; the engine's own options are not checked.
    """
    return _read(config)[1]


def _read(config: EngineConfig) -> tuple[RayOptions, EngineConfig]:
    options = read_options(RayOptions, "ray", config.options)
    return options, replica_config(config, options.replica, "[engine.replica]")


def _close(made: Future[Engine]) -> None:
    if made.exception() is None:
        made.result().close()
