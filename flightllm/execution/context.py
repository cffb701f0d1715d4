"""What all queries of a server share."""

from dataclasses import dataclass, field

from flightllm.access.control import AccessControl
from flightllm.access.rights import Rights
from flightllm.catalog import Catalog
from flightllm.catalog.kept_rows import KeptRows
from flightllm.catalog.models import Objects
from flightllm.config import Config
from flightllm.datafusion.run import Loop
from flightllm.engines.registry import Engines
from flightllm.execution.backends import Backends
from flightllm.functions import FunctionRegistry
from flightllm.llm.engine import Engine
from flightllm.operators.cache import AnswerCache
from flightllm.operators.in_flight import InFlightRequests
from flightllm.operators.workers import Workers
from flightllm.recovery.watch import Watch
from flightllm.sandbox.pool import Isolation
from flightllm.vector.store import VectorIndexes


@dataclass(frozen=True, slots=True)
class Services:
    """What all queries of a server share."""

    config: Config
    catalog: Catalog
    functions: FunctionRegistry
    objects: Objects
    engines: Engines
    cache: AnswerCache
    in_flight: InFlightRequests
    loop: Loop
    workers: Workers
    indexes: VectorIndexes
    access: AccessControl
    rights: Rights
    """Of whoever asks; `catalog` is what they see of all tables."""
    backends: Backends
    """What answers calls that are not a language model's."""
    isolation: Isolation
    """Runs what can take more than its share in processes of its own."""
    watch: Watch = field(default_factory=Watch)
    """Notes the statements in flight, for the process that comes after a crash."""
    files: KeptRows = field(default_factory=KeptRows)
    """Of the session that asks."""

    @property
    def engine(self) -> Engine:
        """Return the engine of the server's own model."""
        return self.engines.own.engine
