"""DataFusion contexts, a fresh one per query over the one shared catalog."""

from collections.abc import Iterable

import pyarrow as pa
from datafusion import DataFrame, RuntimeEnvBuilder, SessionConfig, SessionContext, SQLOptions, col
from datafusion.catalog import Catalog

from flightllm.config import LimitsConfig
from flightllm.plain_types import with_plain_types
from flightllm.sql.names import CATALOG, DEFAULT_SCHEMA, quoted

QUERY_ONLY = SQLOptions().with_allow_ddl(allow=False).with_allow_dml(allow=False).with_allow_statements(allow=False)
"""Lets SELECT, SHOW and DESCRIBE through, and nothing that changes, writes or sets anything."""
ROWS_ONLY = SQLOptions().with_allow_ddl(allow=False).with_allow_dml().with_allow_statements(allow=False)
"""Lets INSERT, UPDATE and DELETE through too."""

HARMFUL_RULES = (
    "push_down_filter",
    "push_down_limit",
    "common_sub_expression_eliminate",
    "push_down_leaf_projections",
    "extract_leaf_expressions",
)
"""Rules that would move or copy AI calls while they still look like plain functions."""


def plain_config() -> SessionConfig:
    """Return settings under which every text is plain Utf8: several clients lose string views.

    TIMESTAMP WITH TIME ZONE keeps its zone, UTC, which DataFusion leaves out unless a session has one.

    A check is left out that refuses an aggregate over `x IS FALSE` or `x IS TRUE` used twice: DataFusion's physical
    plans say that this may be NULL, its logical ones that it may not.
    """
    return (
        SessionConfig()
        .set("datafusion.sql_parser.map_string_types_to_utf8view", "false")
        .set("datafusion.execution.parquet.schema_force_view_types", "false")
        .set("datafusion.execution.time_zone", "UTC")
        .set("datafusion.execution.skip_physical_aggregate_schema_check", "true")
    )


def scratch_context(*, parallel: bool = True) -> SessionContext:
    """Return a context of its own, without the shared catalog; one that is not parallel keeps the order of rows."""
    return SessionContext(plain_config() if parallel else plain_config().with_target_partitions(1))


def row_types(context: SessionContext, frame: DataFrame) -> list[pa.DataType]:
    """Return the types that a query's rows are to have: a frame says of a CASE or UNION what its first part has.

    They are plain ones: several clients lose views and large layouts, and cannot read dictionaries.

    Raises whatever DataFusion raises where constants cannot be computed.
    """
    coerced = context.create_dataframe_from_logical_plan(frame.optimized_logical_plan())
    return list(with_plain_types(coerced.schema(), unions=True).types)


def with_types(frame: DataFrame, types: Iterable[pa.DataType]) -> DataFrame:
    """Cast the columns of a query, whose names differ."""
    names = frame.schema().names
    return frame.select(*(col(quoted(n)).cast(kind).alias(n) for n, kind in zip(names, types, strict=True)))


class Memory:
    """The memory and disk of contexts: as much for each, or one pool of memory for all of a server.

    Contexts made with the same builder share its pool; each has a quota of disk by itself, as DataFusion counts it.
    The folder is the process's temporary one: DataFusion forgets its own option for that for the quota's sake.
    """

    def __init__(self, limits: LimitsConfig) -> None:
        self._limits = limits
        self._pool = None if limits.server_memory_bytes is None else self._builder(limits.server_memory_bytes)

    def _builder(self, memory_bytes: int) -> RuntimeEnvBuilder:
        return RuntimeEnvBuilder().with_fair_spill_pool(memory_bytes).with_disk_manager_os()

    def context(self, config: SessionConfig) -> SessionContext:
        """Return a context whose operators spill to disk beyond their memory."""
        context = SessionContext(config, self._pool or self._builder(self._limits.memory_bytes))
        kibibytes = -(-self._limits.spill_bytes // 1024)
        context.sql(f"SET datafusion.runtime.max_temp_directory_size = '{kibibytes}K'")
        return context


def shared_context(catalog: Catalog, memory: Memory, *, planning: bool, parallel: bool) -> SessionContext:
    """Return a context over the shared catalog.

    A planning context parses, resolves, coerces and decorrelates, but leaves AI calls where the SQL put them.
    """
    config = (
        plain_config()
        .with_information_schema(enabled=True)
        .with_create_default_catalog_and_schema(enabled=False)
        .with_default_catalog_and_schema(CATALOG, DEFAULT_SCHEMA)
    )
    if not parallel:
        config = config.with_target_partitions(1)
    context = memory.context(config)
    context.register_catalog_provider(CATALOG, catalog)
    if planning:
        for rule in HARMFUL_RULES:
            context.remove_optimizer_rule(rule)
    return context
