"""DataFusion contexts: each query gets a new one, over the shared catalog."""

from collections.abc import Callable, Iterable
from functools import cache

import pyarrow as pa
from datafusion import DataFrame, RuntimeEnvBuilder, SessionConfig, SessionContext, SQLOptions, col
from datafusion.catalog import Catalog
from datafusion.substrait import Consumer, Serde

from flightllm.common.arrow_types import with_plain_types
from flightllm.common.names import CATALOG, DEFAULT_SCHEMA, LAMBDA_PREFIX, quoted
from flightllm.config import LimitsConfig
from flightllm.datafusion.random_filters import NAMES, with_random_filters
from flightllm.datafusion.table_size import TableSize

QUERY_ONLY = SQLOptions().with_allow_ddl(allow=False).with_allow_dml(allow=False).with_allow_statements(allow=False)
"""Allows only SELECT, SHOW and DESCRIBE: no statement that changes, writes or sets anything."""
ROWS_ONLY = SQLOptions().with_allow_ddl(allow=False).with_allow_dml().with_allow_statements(allow=False)
"""Also allows INSERT, UPDATE and DELETE."""

HARMFUL_RULES = (
    "push_down_filter",
    "push_down_limit",
    "common_sub_expression_eliminate",
    "push_down_leaf_projections",
    "extract_leaf_expressions",
)
"""Optimizer rules that would move or copy AI calls, because at planning time these look like plain functions."""
FOLDING_RULES = ("simplify_expressions", "push_down_filter")
"""Optimizer rules that evaluate expressions: constants, and conditions on rows of NULLs."""
DECORRELATING_RULES = ("decorrelate_predicate_subquery", "scalar_subquery_to_join", "decorrelate_lateral_join")
"""Optimizer rules that evaluate a correlated subquery's expressions over the aggregates of zero rows."""
_AFTER = "logical_plan after "
_ROWS_OF_LISTS, _MADE_STRUCT, _JOIN = "Unnest: ", "named_struct(", "Join"


def plain_config() -> SessionConfig:
    """Return settings under which every text is plain Utf8, because several clients cannot read string views.

    TIMESTAMP WITH TIME ZONE keeps its zone, UTC. DataFusion drops the zone unless the session has a time zone.

    One check is off: it rejects an aggregate over `x IS FALSE` or `x IS TRUE` that is used twice. There, DataFusion's
    physical plan has a nullable column and its logical plan a non-nullable one.
    """
    return (
        SessionConfig()
        .set("datafusion.sql_parser.map_string_types_to_utf8view", "false")
        .set("datafusion.execution.parquet.schema_force_view_types", "false")
        .set("datafusion.execution.time_zone", "UTC")
        .set("datafusion.execution.skip_physical_aggregate_schema_check", "true")
    )


def scratch_context(*, parallel: bool = True) -> SessionContext:
    """Return a separate context without the shared catalog; if not parallel, it keeps the order of rows."""
    return SessionContext(plain_config() if parallel else plain_config().with_target_partitions(1))


def planned_text(context: SessionContext, text: str, options: SQLOptions) -> DataFrame:
    """Return the frame of a text. A text with lambdas changes the context's dialect, which sandboxes take over.

    DataFusion's parser reads lambdas only in some dialects. DuckDB's dialect lacks three forms of the generic one:
    `E'…'`, `* EXCEPT (…)`, and IGNORE NULLS inside of a call.

    DataFusion's own exceptions pass through.
    """
    if LAMBDA_PREFIX in text:
        context.sql("SET datafusion.sql_parser.dialect = 'duckdb'")
    frame = _with_whole_structs(context, context.sql_with_options(text, options))
    return with_random_filters(context, frame) if _can_be_random(text) else frame


def encoded_frame(context: SessionContext, plan: bytes) -> DataFrame:
    """Return the frame of a plan in Substrait.

    DataFusion's own exceptions pass through.
    """
    decoded = Serde.deserialize_bytes(plan)
    frame = context.create_dataframe_from_logical_plan(Consumer.from_substrait_plan(context, decoded))
    return with_random_filters(context, frame) if _can_be_random(plan) else frame


def _with_whole_structs(context: SessionContext, frame: DataFrame) -> DataFrame:
    """Return a frame over the same plan in which scans below rows of lists, and below joins of made structs, are whole.

    There, DataFusion's rule that reads single fields gives two columns one name. Other plans keep the rule, because it
    spares most of the bytes of a wide struct. The context keeps the setting.
    """
    plan = frame.logical_plan().display_indent()
    if _ROWS_OF_LISTS not in plan and not (_MADE_STRUCT in plan and _JOIN in plan):
        return frame
    context.sql("SET datafusion.optimizer.enable_leaf_expression_pushdown = false")
    return context.create_dataframe_from_logical_plan(frame.logical_plan())


def _can_be_random(text: str | bytes) -> bool:
    """Return whether a text or an encoded plan can call a function with random values."""
    if isinstance(text, bytes):
        return any(name.encode() in text for name in NAMES)
    lower = text.lower()
    return any(name in lower for name in NAMES)


def analyzed(context: SessionContext, frame: DataFrame) -> DataFrame:
    """Return a frame with resolved and coerced types, and otherwise the same plan.

    Nothing is evaluated: DataFusion folds constants while it holds the GIL, which blocks all other clients.

    DataFusion's own exceptions pass through where types do not fit.
    """
    plain = _analyzing_context().create_dataframe_from_logical_plan(frame.logical_plan())
    return context.create_dataframe_from_logical_plan(plain.optimized_logical_plan())


@cache
def _analyzing_context() -> SessionContext:
    return with_rules_alone()


def with_rules_alone(*rules: str) -> SessionContext:
    """Return a context with only these optimizer rules; a plan brings its own tables and functions."""
    context = SessionContext(plain_config())
    steps = context.sql("EXPLAIN VERBOSE SELECT 1").to_pydict()["plan_type"]
    for step in steps:
        rule = step.removeprefix(_AFTER)
        if rule not in rules:
            context.remove_optimizer_rule(rule)
    return context


def unfolded(context: SessionContext, frame: DataFrame, rules: Iterable[str] = FOLDING_RULES) -> DataFrame:
    """Return a frame over the same plan, which DataFusion optimizes without some rules that evaluate expressions.

    The rules are removed from the context permanently.
    """
    for rule in rules:
        context.remove_optimizer_rule(rule)
    return context.create_dataframe_from_logical_plan(frame.logical_plan())


def row_types(frame: DataFrame) -> list[pa.DataType]:
    """Return the types of a query's rows; a frame itself reports only the first branch's type of a CASE or UNION.

    The types are plain ones: several clients cannot read views, large layouts or dictionaries.

    DataFusion's own exceptions pass through where types do not fit.
    """
    return list(with_plain_types(row_schema(frame), unions=True).types)


def row_schema(frame: DataFrame) -> pa.Schema:
    """Return a query's columns with coerced types; see `row_types`. Nothing is evaluated.

    `analyzed` holds the GIL while DataFusion resolves types, which takes a second for 900 operators in a row. So this
    executes the query with LIMIT 0, which one rule replaces by an empty plan. DataFusion keeps such a result only if
    its columns have different names.
    """
    names = frame.schema().names
    if len(set(names)) < len(names):
        return analyzed(_typing_context(), frame).schema()
    empty = _typing_context().create_dataframe_from_logical_plan(frame.limit(0).logical_plan())
    return empty.cache().schema()


@cache
def _typing_context() -> SessionContext:
    return with_rules_alone("eliminate_limit")


def with_types(frame: DataFrame, types: Iterable[pa.DataType]) -> DataFrame:
    """Cast the columns of a query, whose names must differ."""
    names = frame.schema().names
    return frame.select(*(col(quoted(n)).cast(kind).alias(n) for n, kind in zip(names, types, strict=True)))


class QueryContext(SessionContext):
    """A context that knows the sizes of its catalog's tables, by schema and name."""

    sizes: Callable[[str, str], TableSize | None] | None = None


class Memory:
    """The memory and disk limits of contexts: one limit for each context, or one pool of memory for the whole server.

    Contexts from the same builder share its pool, but DataFusion counts each context's disk quota separately. Spill
    files go to the process's temporary folder, because DataFusion ignores its folder option when a quota is set.
    """

    def __init__(self, limits: LimitsConfig) -> None:
        self._limits = limits
        self._pool = None if limits.pool_bytes is None else self._builder(limits.pool_bytes)

    def _builder(self, memory_bytes: int) -> RuntimeEnvBuilder:
        return RuntimeEnvBuilder().with_fair_spill_pool(memory_bytes).with_disk_manager_os()

    def context(self, config: SessionConfig, *, spills: bool = True) -> QueryContext:
        """Return a context; with `spills`, its operators write to disk when their memory is full."""
        context = QueryContext(config, self._pool or self._builder(self._limits.memory_bytes))
        if spills:
            kibibytes = -(-self._limits.spill_bytes // 1024)
            context.sql(f"SET datafusion.runtime.max_temp_directory_size = '{kibibytes}K'")
        return context


@cache
def _cores() -> int:
    """Return DataFusion's default number of partitions: the cores of this process."""
    context = SessionContext(SessionConfig().with_information_schema(enabled=True))
    sql = "SELECT value FROM information_schema.df_settings WHERE name = 'datafusion.execution.target_partitions'"
    [batch] = context.sql(sql).collect()
    return int(batch.column(0)[0].as_py())


@cache
def _shared_config(*, parallel: bool) -> SessionConfig:
    """Return the settings that each context begins with; a context copies them."""
    config = (
        plain_config()
        .with_information_schema(enabled=True)
        .with_create_default_catalog_and_schema(enabled=False)
        .with_default_catalog_and_schema(CATALOG, DEFAULT_SCHEMA)
    )
    # At least two partitions, even on one core. With one, DataFusion plans no sort-merge join, and its hash joins can
    # drop rows of right and full joins; see `execution.bind.join_settings`.
    return config.with_target_partitions(max(2, _cores()) if parallel else 1)


def shared_context(catalog: Catalog, memory: Memory, *, planning: bool, parallel: bool) -> QueryContext:
    """Return a context over the shared catalog.

    A planning context parses, resolves, coerces and decorrelates, but leaves AI calls where the SQL put them.
    """
    # Planning spills nothing, and the setting for spills takes twice the time of the context itself.
    context = memory.context(_shared_config(parallel=parallel), spills=not planning)
    context.register_catalog_provider(CATALOG, catalog)
    if planning:
        for rule in HARMFUL_RULES:
            context.remove_optimizer_rule(rule)
    return context
