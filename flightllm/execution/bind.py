"""From SQL text to DataFusion's frames: each AI call becomes a stub, and contexts register the stubs and tables."""

import re
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

import pyarrow as pa
from datafusion import DataFrame, SessionContext
from datafusion.catalog import Catalog, Schema

from flightllm.catalog import QUERY_ONLY
from flightllm.catalog.model_names import CallNames
from flightllm.catalog.numbered import NumberedTable
from flightllm.common.arrow_types import shown_fields, with_plain_types, wrapped
from flightllm.common.names import TableName
from flightllm.common.stopping import check_wanted
from flightllm.datafusion.contexts import (
    DECORRELATING_RULES,
    FOLDING_RULES,
    analyzed,
    encoded_frame,
    planned_text,
    row_schema,
    unfolded,
)
from flightllm.datafusion.errors import mapped_error
from flightllm.datafusion.run import Batches
from flightllm.dialect import output_names
from flightllm.engines.embed import can_train
from flightllm.errors import FlightLLMError, SqlError
from flightllm.execution.context import Services
from flightllm.execution.learned_models import check_made_with
from flightllm.functions.learned import question_of
from flightllm.functions.search import VECTOR_BYTES
from flightllm.learning.learned import Learned
from flightllm.plan.planner import list_arguments, register_stubs, schema_without_cast
from flightllm.sql.aggregate_calls import with_calls_as_written
from flightllm.sql.calls import Extracted, extract_calls
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.passes.names_apart import SAME_NAME, names_apart
from flightllm.sql.unpivot_types import MARK as UNPIVOT
from flightllm.sql.unpivot_types import check_types

if TYPE_CHECKING:
    from flightllm.execution.vector_search import PlannedIndex

SEARCH_CATALOG = "search"
"""The catalog in a query's own context that holds the rows of searches in FROM."""
MERGE_JOINS = "SET datafusion.optimizer.prefer_hash_join = false"
"""Makes right and full joins run as sort-merge joins; DataFusion plans these only in a parallel context."""
_OUTER_JOIN = re.compile(r"^ *(Left|Right|Full) Join:", re.MULTILINE)
_MAY_BE_OUTER_JOIN = re.compile(r"^ *(?:(?:Left|Right|Full) Join|Subquery):", re.MULTILINE)
_JOIN_FILTER = re.compile(r"^ *\w+ Join:.* Filter: ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Planned:
    """A query's plan, and the planning context that made it and has its stubs."""

    context: SessionContext
    frame: DataFrame
    schema: pa.Schema | None = None
    """The query's columns with coerced types, where these are known."""


def call_names(services: Services, layout: str = "") -> CallNames:
    """Return the names of models and prompts that the calls of the user's next text can use.

    `layout` is the setting by which the prompts of the text are written; empty where nothing runs.
    """
    return CallNames(
        services.objects,
        services.config.engine,
        services.rights,
        services.on_error,
        partial(services.learner, services, layout),
        partial(can_train, services.config.embedding),
        services.config.models.aliases,
    )


def extract(
    text: ParsedText,
    services: Services,
    tables: Mapping[str, pa.Table | NumberedTable] = MappingProxyType({}),
    layout: str = "",
) -> tuple[Extracted, Planned | None]:
    """Replace the AI calls of a SQL text by stubs; `tables` are the query's own, and `layout` is that of `call_names`.

    Also return the query's plan if the types of arguments needed one, and the plan stays right.

    Raises:
        SqlError: the text cannot be parsed, or an AI call in it is wrong (`AICallError`).
    """

    def columns_of(name: str) -> Sequence[str]:
        found: Sequence[str] = tables[name].schema.names if name in tables else services.catalog.columns_of(name)
        return found

    def columns_of_query(inner: Extracted) -> list[str]:
        return list(plan_stubs(services, replace(inner, tables=tables)).frame.schema().names)

    def index(name: str) -> "PlannedIndex":
        from flightllm.execution.vector_search import PlannedIndex

        found = services.indexes.open(name)
        opened.append(found)
        services.catalog.check_unrestricted(TableName(*found.manifest.table))
        return PlannedIndex(found, services)

    opened: list[object] = []
    names = call_names(services, layout)
    registry = services.functions
    read = partial(extract_calls, text, registry, columns_of, columns_of_query, index, names=names)
    extracted = replace(_equal_calls_apart(text.sql, read()), tables=tables)
    lists, planned = _lists(extracted, services)
    if lists:
        extracted = _equal_calls_apart(text.sql, read(lists=lists))
    for fit, bound in names.held:
        if isinstance(fit, Learned):
            check_made_with(fit, services, question_of(bound.call), layout)
    fits = tuple(fit for fit, _ in names.held)
    decided = {bound.call.stub: bound for _, bound in names.held}
    found = replace(extracted, tables=tables, opened=(*opened, *fits), decided=tuple(decided.values()))
    return found, planned


def _equal_calls_apart(sql: str, extracted: Extracted) -> Extracted:
    """Give equal calls distinct column names if the user wrote them twice: DataFusion rejects equal names."""
    if all(extracted.sql.count(f"{stub}(") < 2 for stub in extracted.calls):
        return extracted
    return replace(extracted, sql=output_names.with_equal_calls_apart(sql, extracted.sql))


def _lists(extracted: Extracted, services: Services) -> tuple[Mapping[str, frozenset[int]], Planned | None]:
    """Return the arguments that are lists, by stub, and a plan of the query that stays right; see `list_arguments`."""
    if all(call.takes != pa.string() for call in extracted.calls.values()):
        return {}, None
    planned = None
    with suppress(FlightLLMError):  # the real planning raises it again
        planned = plan_stubs(services, extracted)
        schema = schema_without_cast(planned.context, planned.frame)
        if schema is not None:
            return {}, replace(planned, schema=schema)
    context = scalar_context(services, extracted, planning=True)

    def plan() -> DataFrame:
        return analyzed(context, planned_text(context, extracted.sql, QUERY_ONLY))

    lists = list_arguments(context, plan, extracted.calls)
    return lists, None if lists else planned


def plan_stubs(services: Services, extracted: Extracted) -> Planned:
    """Plan a query in a context of its own that has its stubs.

    Raises:
        SqlError: DataFusion cannot plan the query; see `frame_of`.
    """
    context = scalar_context(services, extracted, planning=True)
    register_stubs(context, extracted.calls)
    return Planned(context, frame_of(context, extracted))


def scalar_context(
    services: Services, extracted: Extracted, *, planning: bool = False, parallel: bool = True
) -> SessionContext:
    """Return a context with all tables, including the query's own, and the functions that call no model.

    The context is not parallel if it numbers the rows of a table.
    """
    in_order = any(isinstance(t, NumberedTable) and not (t.stored or t.due) for t in extracted.tables.values())
    context = services.catalog.context(planning=planning, parallel=parallel and not in_order)
    if extracted.tables:
        context.register_catalog_provider(SEARCH_CATALOG, Catalog.memory_catalog())
        context.catalog(SEARCH_CATALOG).register_schema("public", Schema.memory_schema())
    for name, table in extracted.tables.items():
        if isinstance(table, NumberedTable):
            table.register(context, name)
            continue
        batches = table.to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)]
        context.register_record_batches(name, [batches])
    return context


def frame_of(context: SessionContext, extracted: Extracted) -> DataFrame:
    """Plan a query in a context that has its stubs.

    Raises:
        SqlError: DataFusion cannot plan the query, or an UNPIVOT mixes texts with other types.
        CancelledError: nobody waits for the statement any more; DataFusion itself cannot be stopped.
    """
    check_wanted()
    try:
        if extracted.plan is not None:
            return encoded_frame(context, extracted.plan)
        planned = _planned(context, extracted.sql)
    except Exception as error:  # the boundary to DataFusion, which raises builtin exceptions
        written = {name: call.text for name, call in extracted.calls.items() if call.over and not call.over.whole}
        shown = partial(with_calls_as_written, sql=extracted.sql, written=written)
        mapped = mapped_error(error, extracted.sql, shown)
        text = extracted.display_name(str(mapped))
        if f"'{VECTOR_BYTES}(" in text:
            raise SqlError("search an index over vectors for a list of numbers, as in [0.1, 0.2]") from error
        if "automatically convert" in text and extracted.calls:
            text += "; an AI call takes texts, numbers, dates and lists: pass the parts of a struct, as in addr['city']"
        mapped.args = (text,)
        raise mapped from error
    if UNPIVOT in extracted.sql:
        check_types(planned.logical_plan().display_indent_schema)
    return planned


def _planned(context: SessionContext, sql: str) -> DataFrame:
    try:
        return planned_text(context, sql, QUERY_ONLY)
    except Exception as error:
        apart = names_apart(sql, output_names.repeated_name) if SAME_NAME in str(error) else sql
        if apart == sql:
            raise
        try:
            return planned_text(context, apart, QUERY_ONLY)
        except Exception:  # noqa: BLE001 - the first error quotes what the client wrote
            raise error from None


def join_settings(planned: DataFrame) -> list[str]:
    """Return the SET statements that make the outer joins of a plan run correctly; empty for a plan without these.

    This works around two bugs of DataFusion. It can push a filter from one side of a right or full hash join to the
    other side. This happens if columns there have the same name and position. The join then keeps rows that the filter
    must drop, and drops others. Left joins are affected too, because the optimizer can turn them into right joins.

    Sort-merge joins avoid this bug, but they lose columns that only a further condition of ON reads. A plan with such a
    condition keeps its hash joins, because they do less harm.
    """
    if not _MAY_BE_OUTER_JOIN.search(planned.logical_plan().display_indent()):
        return []
    check_wanted()
    try:
        text = planned.optimized_logical_plan().display_indent()
    except Exception as error:  # the boundary to DataFusion, which raises builtin exceptions
        raise mapped_error(error) from error
    kinds = set(_OUTER_JOIN.findall(text))
    settings = ["SET datafusion.optimizer.join_reordering = false"] if kinds else []
    if kinds - {"Left"} and not _JOIN_FILTER.search(text):
        settings.append(MERGE_JOINS)
    return settings


def unevaluated(services: Services, extracted: Extracted, planned: DataFrame) -> DataFrame:
    """Return a frame over the same plan for `join_settings`; DataFusion optimizes the frame without evaluating it."""
    return unfolded(scalar_context(services, extracted), planned, (*FOLDING_RULES, *DECORRELATING_RULES))


def shown(planned: DataFrame, extracted: Extracted, coerced: pa.Schema | None = None) -> pa.Schema:
    """Return the schema that users see: AI calls have their written names, and each column is nullable.

    A plain column of a table keeps its declared extension type and metadata. `coerced` are the query's columns with
    coerced types, where these are known.

    Raises:
        SqlError: types in the query do not fit together.
    """
    check_wanted()
    try:
        coerced = row_schema(planned) if coerced is None else coerced
    except Exception as error:  # the boundary to DataFusion, which raises builtin exceptions
        raise mapped_error(error) from error
    types = list(with_plain_types(coerced, unions=True).types)
    return shown_fields(shown_names(planned, extracted), types, coerced, planned)


def shown_names(planned: DataFrame, extracted: Extracted) -> list[str]:
    """Return the names of a query's columns; an expression's name is its written text."""
    names = output_names.shown_names([extracted.display_name(name) for name in planned.schema().names])
    return extracted.names.shown(names)


def named(batches: Batches, schema: pa.Schema) -> Batches:
    """Yield batches with the names and types that users see.

    Raises:
        SqlError: DataFusion's values do not fit the type that it planned.
    """
    with closing(batches):
        for batch in batches:
            if not len(schema):  # Substrait omits a projection to no columns
                yield pa.RecordBatch.from_struct_array(
                    pa.StructArray.from_buffers(pa.struct([]), batch.num_rows, [None])
                )
                continue
            columns = [_fitted(column, field) for column, field in zip(batch.columns, schema, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _fitted(column: pa.Array, field: pa.Field) -> pa.Array:
    if column.type == field.type:
        return column
    if isinstance(field.type, pa.BaseExtensionType):
        return wrapped(_fitted(column, pa.field(field.name, field.type.storage_type)), field.type)
    try:
        return column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SqlError(
            f"the column {field.name!r} has the type {field.type}, but some values do not fit ({error}):"
            " CAST its parts to one type"
        ) from error
