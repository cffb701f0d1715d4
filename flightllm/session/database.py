"""The database: the resources that all sessions of a server share. They are opened and closed together."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress

import structlog

from flightllm.access.control import check_owners, open_access
from flightllm.access.tables import AccessTables
from flightllm.catalog import Catalog
from flightllm.catalog.configured import register_tables
from flightllm.catalog.entries import Entry
from flightllm.catalog.models import Objects
from flightllm.catalog.scoped import PrincipalScopes
from flightllm.common.atomic_files import make_private
from flightllm.common.names import TableName
from flightllm.common.principal import LOCAL, Principal
from flightllm.config import Config
from flightllm.config.engine_kinds import EMBEDDERS, ENGINES
from flightllm.config.session_settings import Settings
from flightllm.datafusion.run import Loop
from flightllm.deferred.deferral import DeferredStatements
from flightllm.engines.extras import extras_of
from flightllm.engines.registry import Engines
from flightllm.engines.supervised import supervised
from flightllm.errors import UnsupportedError
from flightllm.execution.backends import Backends
from flightllm.execution.context import Services
from flightllm.execution.deferral import Deferral, DeferredStatement
from flightllm.execution.learn import labelled
from flightllm.execution.next_labels import RowsToLabel
from flightllm.functions import FunctionRegistry
from flightllm.functions.registry import scalars_registrar
from flightllm.llm.engine import Engine
from flightllm.observe.query_log import QueryLog
from flightllm.observe.session_log import SessionLog
from flightllm.observe.tracing import create_spans
from flightllm.operators.answer_store import AnswerStore
from flightllm.operators.cache import AnswerCache
from flightllm.operators.in_flight import InFlightRequests
from flightllm.operators.temporary_answers import TemporaryAnswers
from flightllm.operators.workers import Workers
from flightllm.recovery.watch import Watch
from flightllm.router.replica import ReplicaStatus
from flightllm.sandbox.memory_guard import MemoryGuard
from flightllm.sandbox.pool import Isolation
from flightllm.session.deferring import PassLog, PassRunner
from flightllm.session.revocation import Revocation
from flightllm.session.session import Session
from flightllm.storage.damage import list_of_tables, named_files
from flightllm.storage.decoded import DecodedCounts
from flightllm.storage.file_check import FileStatus
from flightllm.storage.lock import FolderLock
from flightllm.storage.rows import StoredFile
from flightllm.system_tables.batches import BatchTable
from flightllm.system_tables.data_files import FileTable
from flightllm.system_tables.indexes import CacheTable, IndexTable, ServerTables
from flightllm.system_tables.keys import KeyTables
from flightllm.system_tables.labels import LabelStore
from flightllm.system_tables.models import ObjectTables
from flightllm.system_tables.replicas import ReplicaTable, replicas
from flightllm.system_tables.settings import SettingsTable
from flightllm.vector.store import VectorIndexes

_log = structlog.get_logger(__name__)


class Database:
    """One server's tables, functions, engine and answers. Safe to use from several threads."""

    def __init__(
        self,
        services: Services,
        queries: QueryLog,
        sessions: SessionLog | None = None,
        notes: Sequence[str] = (),
        lock: FolderLock | None = None,
    ) -> None:
        self._services = services
        self._revocation = Revocation(services, queries)
        self._memory = MemoryGuard(
            queries, services.config.limits.memory_bytes, make_room=services.catalog.store.decoded.shrink
        )
        self._scopes = PrincipalScopes(services.catalog)
        self.queries = queries
        self.sessions = sessions or SessionLog()
        self.notes = tuple(notes)
        """Notes about the configuration's files, one line each. The log has the same notes."""
        self.catalog = services.catalog
        self.access = services.access
        self.functions = services.functions
        self.cache = services.cache
        self.labels = services.labels
        self.config = services.config
        self.quarantine = services.watch.quarantine
        self._lock = lock

    @classmethod
    def open(
        cls, config: Config, *, watch: Watch | None = None, restarted: bool = False, lazily: bool = False
    ) -> "Database":
        """Load functions, tables and the engine.

        `watch` notes the statements in flight. After a restart the server's own engine opens in the background. Until
        then, queries wait or fail, as `[recovery] on_engine_down` says. With `lazily`, the first AI call opens it.

        Raises:
            ConfigError: a table, function or engine setting is wrong.
            MissingExtraError: the engine's packages are not installed.
        """
        with suppress(OSError):  # code that uses the folder later raises a clear error
            make_private(config.data_folder)
            if config.data_folder.stat().st_mode & 0o077:
                _log.warning("other users of this machine can read the data folder", folder=str(config.data_folder))
        with ExitStack() as held:
            lock = FolderLock(config.data_folder)  # before any file of the folder changes
            held.callback(lock.close)
            tables = config.data_folder / "tables"
            named_files(tables, list_of_tables(tables))  # before indexes and answers are tidied
            database = cls._opened(config, watch, lock, restarted=restarted, lazily=lazily)
            held.pop_all()
        return database

    @classmethod
    def _opened(
        cls, config: Config, watch: Watch | None, lock: FolderLock, *, restarted: bool, lazily: bool
    ) -> "Database":
        workers = Workers.of_process()  # before DataFusion starts its threads
        functions = FunctionRegistry.load(config.functions.folders)
        objects, sessions = Objects(config.data_folder), SessionLog()
        engines = Engines(
            config.engine,
            objects.engine,
            supervised(config.recovery, config.engine if restarted else None),
            config.models,
        )
        queries = QueryLog(price=engines.price, spans=create_spans(config.tracing))
        cache = _open_cache(config)
        labels = LabelStore(config.data_folder / "labels.sqlite")
        with ExitStack() as opened:
            opened.callback(cache.close)
            indexes = VectorIndexes(config.data_folder / "vectors")

            def revision(table: TableName) -> str:
                return catalog.revision(table)

            def tables() -> Mapping[TableName, Entry]:
                return catalog.store.visible()

            def data_files() -> Iterator[tuple[TableName, StoredFile, FileStatus]]:
                return catalog.store.data_files()

            batches = BatchTable()
            access = open_access(config)
            opened.callback(access.close)
            system = ServerTables(
                queries,
                CacheTable(cache),
                IndexTable(indexes, revision, config.embedding.model),
                AccessTables(access.store),
                ObjectTables(objects, engines),
                ReplicaTable(engines),
                sessions,
                SettingsTable(config, sessions),
                KeyTables(tables),
                FileTable(data_files),
                labels,
                batches,
            )
            catalog = Catalog(config.limits, system, config.data_folder / "tables", config.storage)
            opened.callback(catalog.close)
            catalog.open_attached(config.data_folder, config.attached)
            catalog.store.forget = access.store.forget
            catalog.store.moving = access.store.moving
            catalog.store.functions = scalars_registrar(functions, lambda: engines.own.engine)
            check_owners(access.store, _owners(catalog, objects))
            notes = register_tables(catalog, config.tables)
            backends = Backends(config.embedding, config.recovery, config.limits, indexes, cache)
            deferred = DeferredStatements(config.data_folder / "batches", engines, config.limits.deferred_seconds)
            batches.of = deferred.rows
            if not lazily:
                _ = engines.own  # so that a wrong engine setting fails at the start
            services = Services(
                config=config,
                catalog=catalog,
                running=queries.running,
                functions=functions,
                objects=objects,
                engines=engines,
                cache=cache,
                in_flight=InFlightRequests(),
                loop=Loop(),
                workers=workers,
                indexes=indexes,
                access=access,
                rights=access.rights(LOCAL),
                backends=backends,
                labels=labels,
                learner=labelled,
                next_labels=RowsToLabel,
                isolation=Isolation(config.limits, config.storage),
                watch=watch or Watch(),
                deferral=deferred,
            )
            opened.pop_all()
        database = cls(services, queries, sessions, notes, lock)
        database._revocation.start()
        deferred.start(PassRunner(services, database._session_of_pass))
        return database

    def session(self, principal: Principal = LOCAL, *, peer: str = "") -> Session:
        """Open a session of a user. The user's grants at the time of each statement apply to that statement.

        `peer` is the client's address.
        """
        return Session(self._services, self.queries, self.sessions, self._scopes, principal, peer)

    def _session_of_pass(self, services: Services, statement: DeferredStatement) -> Session:
        """Return a session in which a pass of a deferred statement runs; its records are not among the queries."""
        queries = PassLog(price=self._services.engines.price)
        session = Session(services, queries, SessionLog(), self._scopes, statement.principal, "")
        session.go_back((Settings().with_values(statement.settings), statement.path))
        if statement.as_postgres:
            session.speak_postgres()
        return session

    @property
    def deferred(self) -> Deferral:
        """Return the statements that wait for a batch endpoint.

        Raises:
            UnsupportedError: the database has no data folder for them.
        """
        if self._services.deferral is None:
            raise UnsupportedError("this database keeps no deferred statements: it has no data folder")
        return self._services.deferral

    def catalog_of(self, principal: Principal) -> Catalog:
        """Return the catalog as a user sees it now."""
        return self._scopes.of(self.access.rights(principal))

    @property
    def engine(self) -> Engine:
        """Return the engine of the server's own model; open it if it is not open."""
        return self._services.engine

    @property
    def engine_up(self) -> bool:
        """Return whether the engine answered when it was last checked."""
        return self._services.engines.own.health.up and extras_of(self.engine).alive

    @property
    def replicas(self) -> list[tuple[str, ReplicaStatus]]:
        """Return the replicas of models that have several, with the models' names."""
        return [(model, status) for model, _, status in replicas(self._services.engines)]

    @property
    def spilled_bytes(self) -> int:
        """Return how many bytes relational operators have spilled to disk."""
        return self._services.loop.spilled.value + self._services.isolation.spilled.value

    @property
    def decoded(self) -> DecodedCounts:
        """Return the counts of the cache of decoded tables."""
        return self._services.catalog.store.decoded.counts()

    @property
    def isolated(self) -> int:
        """Return how many separate processes run statements, or parts of statements, without a memory bound."""
        return self._services.isolation.running

    def tidy(self) -> None:
        """Delete what earlier processes left, complete the users' file, and start to compare data files with digests.

        A server calls it once it listens.
        """
        self.catalog.store.tidy()
        self.access.tidy(_owners(self.catalog, self._services.objects))

    def warm(self) -> None:
        """Start the sandbox processes ahead of the first statement, and the memory guard. Do not wait for them."""
        self._services.isolation.warm()
        self._memory.start()

    @property
    def can_move(self) -> bool:
        """Return whether another process can open all models at once, because no model runs in this process."""
        embedder = self._services.backends.kind
        engines = all(ENGINES[kind].elsewhere for kind in self._services.engines.kinds())
        return engines and (embedder is None or EMBEDDERS[embedder].elsewhere)

    def write(self) -> None:
        """Write to disk what only memory has: answers and spending."""
        self._services.cache.flush()
        self.access.write()

    def close(self) -> None:
        """Cancel running statements, keep the cached answers and release the engine. Idempotent."""
        if self._services.deferral is not None:
            self._services.deferral.close()
        self._revocation.close()
        self._memory.close()
        for record in self.queries.running():
            record.cancel()
        self._services.isolation.close()
        self._services.cache.close()
        self._services.engines.close()
        self._services.backends.close()
        self._services.loop.close()
        self.access.close()
        self.catalog.close()
        self.queries.close()
        if self._lock is not None:
            self._lock.close()


def _open_cache(config: Config) -> AnswerStore:
    most = config.cache.max_bytes
    path = config.cache.path or config.data_folder / "answers.sqlite"
    return AnswerCache(path, most) if config.cache.enabled else TemporaryAnswers(most)


def _owners(catalog: Catalog, objects: Objects) -> set[str]:
    """Return the names of all users who own something."""
    return objects.owners | {entry.owner for entry in catalog.store.entries.values()}
