"""DataFusion contexts, a fresh one per query over the one shared catalog."""

from collections.abc import Callable, Iterable
from functools import cache

import pyarrow as pa
from datafusion import DataFrame, RuntimeEnvBuilder, SessionConfig, SessionContext, SQLOptions, col
from datafusion.catalog import Catalog

from flightllm.common.arrow_types import with_plain_types
from flightllm.common.names import CATALOG, DEFAULT_SCHEMA, quoted
from flightllm.config import LimitsConfig
from flightllm.datafusion.table_size import TableSize

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
FOLDING_RULES = ("simplify_expressions", "push_down_filter")
"""Rules that evaluate expressions: constants, and conditions on rows of NULLs."""
DECORRELATING_RULES = ("decorrelate_predicate_subquery", "scalar_subquery_to_join", "decorrelate_lateral_join")
"""Rules that evaluate what a correlated subquery computes from the aggregates of no rows."""
_AFTER = "logical_plan after "


def plain_config() -> SessionConfig:
    """Return settings under which every text is plain Utf8: several clients lose string views.

    TIMESTAMP WITH TIME ZONE keeps its zone, UTC, which DataFusion leaves out unless a session has one.

    A check is left out that refuses an aggregate over `x IS FALSE` or `x IS TRUE` used twice: DataFusion's physical
    plans say that this can be NULL, its logical ones that it may not.
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


def analyzed(context: SessionContext, frame: DataFrame) -> DataFrame:
    """Return a frame with its types resolved and coerced, whose plan is otherwise the same.

    Nothing is evaluated: DataFusion folds constants while it holds the GIL, so that every other client waits.

    Raises whatever DataFusion raises where types do not fit.
    """
    plain = _analyzing_context().create_dataframe_from_logical_plan(frame.logical_plan())
    return context.create_dataframe_from_logical_plan(plain.optimized_logical_plan())


@cache
def _analyzing_context() -> SessionContext:
    return with_rules_alone()


def with_rules_alone(*rules: str) -> SessionContext:
    """Return a context without optimizer rules but these; a plan brings its tables and functions along."""
    context = SessionContext(plain_config())
    steps = context.sql("EXPLAIN VERBOSE SELECT 1").to_pydict()["plan_type"]
    for step in steps:
        rule = step.removeprefix(_AFTER)
        if rule not in rules:
            context.remove_optimizer_rule(rule)
    return context


def unfolded(context: SessionContext, frame: DataFrame, rules: Iterable[str] = FOLDING_RULES) -> DataFrame:
    """Return a frame over the same plan that DataFusion optimizes without some rules, those that evaluate.

    The context loses these rules for good.
    """
    for rule in rules:
        context.remove_optimizer_rule(rule)
    return context.create_dataframe_from_logical_plan(frame.logical_plan())


def row_types(context: SessionContext, frame: DataFrame) -> list[pa.DataType]:
    """Return the types that a query's rows are to have: a frame says of a CASE or UNION what its first part has.

    They are plain ones: several clients lose views and large layouts, and cannot read dictionaries.

    Raises whatever DataFusion raises where types do not fit.
    """
    return list(with_plain_types(row_schema(context, frame), unions=True).types)


def row_schema(context: SessionContext, frame: DataFrame) -> pa.Schema:
    """Return the columns of a query with their types coerced; see `row_types`. Nothing is evaluated."""
    return analyzed(context, frame).schema()


def with_types(frame: DataFrame, types: Iterable[pa.DataType]) -> DataFrame:
    """Cast the columns of a query, whose names differ."""
    names = frame.schema().names
    return frame.select(*(col(quoted(n)).cast(kind).alias(n) for n, kind in zip(names, types, strict=True)))


class QueryContext(SessionContext):
    """A context that can tell how large the tables of its catalog are, by schema and name."""

    sizes: Callable[[str, str], TableSize | None] | None = None


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

    def context(self, config: SessionConfig) -> QueryContext:
        """Return a context whose operators spill to disk beyond their memory."""
        context = QueryContext(config, self._pool or self._builder(self._limits.memory_bytes))
        kibibytes = -(-self._limits.spill_bytes // 1024)
        context.sql(f"SET datafusion.runtime.max_temp_directory_size = '{kibibytes}K'")
        return context


@cache
def _cores() -> int:
    """Return how many parts DataFusion would run side by side by itself: as many as this process has cores."""
    context = SessionContext(SessionConfig().with_information_schema(enabled=True))
    sql = "SELECT value FROM information_schema.df_settings WHERE name = 'datafusion.execution.target_partitions'"
    [batch] = context.sql(sql).collect()
    return int(batch.column(0)[0].as_py())


def shared_context(catalog: Catalog, memory: Memory, *, planning: bool, parallel: bool) -> QueryContext:
    """Return a context over the shared catalog.

    A planning context parses, resolves, coerces and decorrelates, but leaves AI calls where the SQL put them.
    """
    config = (
        plain_config()
        .with_information_schema(enabled=True)
        .with_create_default_catalog_and_schema(enabled=False)
        .with_default_catalog_and_schema(CATALOG, DEFAULT_SCHEMA)
    )
    # Two on one core as well: with one, DataFusion plans no sort-merge join, and its hash joins can drop rows of right
    # and full joins; see `execution.bind.join_settings`.
    config = config.with_target_partitions(max(2, _cores()) if parallel else 1)
    context = memory.context(config)
    context.register_catalog_provider(CATALOG, catalog)
    if planning:
        for rule in HARMFUL_RULES:
            context.remove_optimizer_rule(rule)
    return context
