"""The services that all queries of a server share."""

from collections.abc import Callable, Sequence
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
from flightllm.observe.query_record import QueryRecord
from flightllm.operators.answer_store import AnswerStore
from flightllm.operators.in_flight import InFlightRequests
from flightllm.operators.workers import Workers
from flightllm.pg_catalog.kept import KeptCatalogs
from flightllm.recovery.watch import Watch
from flightllm.sandbox.pool import Isolation
from flightllm.system_tables.labels import LabelStore
from flightllm.vector.store import VectorIndexes


@dataclass(frozen=True, slots=True)
class Services:
    """The services that all queries of a server share, as one user and session sees them."""

    config: Config
    catalog: Catalog
    functions: FunctionRegistry
    objects: Objects
    engines: Engines
    cache: AnswerStore
    in_flight: InFlightRequests
    loop: Loop
    workers: Workers
    indexes: VectorIndexes
    access: AccessControl
    rights: Rights
    """The rights of the query's user; `catalog` holds the tables that this user can see."""
    backends: Backends
    """Answer the AI calls that need no language model."""
    labels: LabelStore
    isolation: Isolation
    """Runs queries that can exceed their share of memory in separate processes."""
    watch: Watch = field(default_factory=Watch)
    """Notes the statements in flight, for the process that starts after a crash."""
    files: KeptRows = field(default_factory=KeptRows)
    """The session's cache for the rows of a file in FROM."""
    pg_catalogs: KeptCatalogs = field(default_factory=KeptCatalogs)
    """The rows of `pg_catalog` that were made last."""
    running: Callable[[], Sequence[QueryRecord]] = tuple
    """Returns the queries that have not finished."""
    on_error: str = "null"
    """The value of this option in calls without it; a statement that stores rows fails."""

    @property
    def engine(self) -> Engine:
        """Return the engine of the server's own model."""
        return self.engines.own.engine
