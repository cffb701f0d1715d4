"""The services that all queries of a server share."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from flightllm.access.control import AccessControl
from flightllm.access.rights import Rights
from flightllm.catalog import Catalog
from flightllm.catalog.kept_rows import KeptRows
from flightllm.catalog.models import Objects
from flightllm.common.newest import Newest
from flightllm.config import Config
from flightllm.config.session_settings import Settings
from flightllm.datafusion.run import Loop
from flightllm.engines.registry import Engines
from flightllm.errors import AICallError
from flightllm.execution.backends import Backends
from flightllm.execution.deferral import Deferral
from flightllm.execution.late_table import LateTable
from flightllm.functions import FunctionRegistry
from flightllm.functions.call import AICall
from flightllm.functions.stored import LearnedUse, StoredFunction
from flightllm.llm.engine import Engine
from flightllm.observe.query_record import QueryRecord
from flightllm.operators.answer_store import AnswerStore
from flightllm.operators.collecting import Collecting
from flightllm.operators.in_flight import InFlightRequests
from flightllm.operators.workers import Workers
from flightllm.pg_catalog.kept import KeptCatalogs
from flightllm.recovery.watch import Watch
from flightllm.sandbox.pool import Isolation
from flightllm.sql.next_labels import NextLabels
from flightllm.system_tables.labels import LabelStore
from flightllm.vector.store import VectorIndexes

_MOST_FITS: Final = 64


def no_labels(services: "Services", layout: str, function: StoredFunction, table: str, call: AICall) -> LearnedUse:
    """Refuse labels, in a place that runs no queries.

    Raises:
        AICallError: always.
    """
    del services, layout, function
    raise AICallError(f"{call.function} cannot read the labels in {table} here")


def no_rows(services: "Services", settings: Settings, wanted: NextLabels) -> LateTable:
    """Refuse to choose rows, in a place that runs no queries.

    Raises:
        AICallError: always.
    """
    del services, settings
    raise AICallError(f"the rows for the filter {wanted.filter} cannot be chosen here")


class KeptFits:
    """The fits to labels in tables that were made last. Thread-safe."""

    def __init__(self) -> None:
        self._kept = Newest[Hashable, LearnedUse](_MOST_FITS)
        self._lock = Lock()

    def of(self, key: Hashable) -> LearnedUse | None:
        """Return the fit of a key, or None."""
        with self._lock:
            return self._kept.use(key)

    def keep(self, key: Hashable, made: LearnedUse) -> None:
        """Keep the fit of a key."""
        with self._lock:
            self._kept[key] = made


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
    learner: "Callable[[Services, str, StoredFunction, str, AICall], LearnedUse]" = field(default=no_labels, repr=False)
    """Fits a call to the labels in a table; see `learn.labelled`."""
    next_labels: "Callable[[Services, Settings, NextLabels], LateTable]" = field(default=no_rows, repr=False)
    """Plans the rows to label next; see `RowsToLabel`."""
    fits: KeptFits = field(default_factory=KeptFits)
    """The fits that queries made last."""
    collecting: Collecting | None = None
    """Set in a pass of a deferred statement."""
    deferral: Deferral | None = None
    """Takes the statements of sessions with `delivery = 'batch'`."""
    on_error: str = "null"
    """The value of this option in calls without it; a statement that stores rows fails."""
    stores: bool = False
    """Whether the statement stores the rows of its query."""

    @property
    def engine(self) -> Engine:
        """Return the engine of the server's own model."""
        return self.engines.own.engine
