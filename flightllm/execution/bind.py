"""From SQL text to DataFusion's frames: AI calls become stubs, contexts know what stands for them."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import TYPE_CHECKING

import pyarrow as pa
from datafusion import DataFrame, SessionContext
from datafusion.catalog import Catalog, Schema
from datafusion.substrait import Consumer, Serde

from flightllm.catalog import QUERY_ONLY
from flightllm.catalog.memory import memory_table
from flightllm.catalog.model_names import CallNames
from flightllm.catalog.numbered import NumberedTable
from flightllm.common.arrow_types import with_plain_types
from flightllm.common.declared_types import shown_fields, wrapped
from flightllm.common.names import TableName
from flightllm.datafusion.contexts import DECORRELATING_RULES, FOLDING_RULES, analyzed, row_schema, unfolded
from flightllm.datafusion.errors import full_disk_mapped, mapped_error
from flightllm.datafusion.run import Batches
from flightllm.dialect import duplicates
from flightllm.errors import SqlError
from flightllm.execution.context import Services
from flightllm.functions.search import VECTOR_BYTES
from flightllm.plan.list_arguments import list_arguments
from flightllm.plan.planner import register_stubs
from flightllm.sql.calls import Extracted, extract_calls
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.unpivot_types import MARK as UNPIVOT
from flightllm.sql.unpivot_types import check_types

if TYPE_CHECKING:
    from flightllm.execution.vector_search import PlannedIndex
    from flightllm.vector.index import VectorIndex

SEARCH_CATALOG = "search"
"""The catalog of a query's own context that holds the rows of searches in FROM."""
MERGE_JOINS = "SET datafusion.optimizer.prefer_hash_join = false"
"""Has right and full joins run as sort-merge joins; DataFusion plans these in a parallel context alone."""
_OUTER_JOIN = re.compile(r"^ *(Left|Right|Full) Join:", re.MULTILINE)
_FILE_GROUPS, _BETWEEN_PATHS = "file_groups={", re.compile(r"([\[\],\s])")
"""What physical plans say of files, whose folders are no client's business."""
_MAY_BE_OUTER_JOIN = re.compile(r"^ *(?:(?:Left|Right|Full) Join|Subquery):", re.MULTILINE)
_JOIN_FILTER = re.compile(r"^ *\w+ Join:.* Filter: ", re.MULTILINE)


def extract(
    text: str | ParsedText, services: Services, tables: Mapping[str, pa.Table | NumberedTable] = MappingProxyType({})
) -> Extracted:
    """Replace the AI calls of an SQL text by stubs; `tables` are the query's own.

    Raises:
        SqlError: the text cannot be read; an `AICallError` where a call in it is wrong.
    """

    def columns_of(name: str) -> Sequence[str]:
        found: Sequence[str] = tables[name].schema.names if name in tables else services.catalog.columns_of(name)
        return found

    def columns_of_query(inner: Extracted) -> list[str]:
        inner = replace(inner, tables=tables)
        context = scalar_context(services, inner, planning=True)
        register_stubs(context, inner.calls)
        return list(frame_of(context, inner).schema().names)

    def index(name: str) -> "PlannedIndex":
        from flightllm.execution.vector_search import PlannedIndex

        opened.append(services.indexes.open(name))
        services.catalog.check_unrestricted(TableName(*opened[-1].manifest.table))
        return PlannedIndex(opened[-1], services)

    opened: list[VectorIndex] = []
    parsed = ParsedText.of(text)
    names = CallNames(services.objects, services.config.engine.model, services.rights)
    read = partial(extract_calls, parsed, services.functions, columns_of, columns_of_query, index, names=names)
    extracted = replace(_equal_calls_apart(parsed.sql, read()), tables=tables)
    if lists := _lists(extracted, services):
        extracted = _equal_calls_apart(parsed.sql, read(lists=lists))
    return replace(extracted, tables=tables, opened=tuple(opened))


def _equal_calls_apart(sql: str, extracted: Extracted) -> Extracted:
    """Name the columns of calls that are written apart and ask the same: DataFusion refuses two of one name."""
    if all(extracted.sql.count(f"{stub}(") < 2 for stub in extracted.calls):
        return extracted
    return replace(extracted, sql=duplicates.with_equal_calls_apart(sql, extracted.sql))


def _lists(extracted: Extracted, services: Services) -> Mapping[str, frozenset[int]]:
    if all(call.takes != pa.string() for call in extracted.calls.values()):
        return {}
    context = scalar_context(services, extracted, planning=True)

    def planned() -> object:
        return analyzed(context, context.sql_with_options(extracted.sql, QUERY_ONLY))

    return list_arguments(context, planned, extracted.calls)


def scalar_context(
    services: Services, extracted: Extracted, *, planning: bool = False, parallel: bool = True
) -> SessionContext:
    """Return a context with all tables, those of the query too, and the functions that need no answers of a model.

    Where it numbers the rows of a table, the context is not parallel.
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


def _numbering(services: Services, name: str, table: NumberedTable) -> DataFrame:
    numbering = Extracted(f"SELECT * FROM {name}", {}, {name: replace(table, due=False)})
    return frame_of(scalar_context(services, numbering, parallel=False), numbering)


def numbered_schema(services: Services, name: str, table: NumberedTable) -> pa.Schema:
    """Return the columns of a table and of its numbers; nothing is read."""
    schema: pa.Schema = _numbering(services, name, table).schema()
    return schema


@contextmanager
def numbered_file(
    services: Services, name: str, table: NumberedTable, cancelled: Callable[[], bool]
) -> Iterator[tuple[pa.Schema, Path]]:
    """Write the rows of a table to an Arrow file, with their numbers; give its columns and path until the block's end.

    Raises:
        CancelledError: `cancelled()` turned true.
        LimitExceededError: the disk is full.
    """
    frame = _numbering(services, name, table)
    schema: pa.Schema = frame.schema()
    where = services.config.limits.spill_folder
    with full_disk_mapped(), TemporaryDirectory(prefix="flightllm-", dir=where) as folder:
        path = Path(folder) / "rows.arrow"
        with (
            closing(services.loop.stream(frame, cancelled)) as rows,
            pa.OSFile(str(path), "wb") as sink,
            pa.ipc.new_file(sink, schema) as writer,
        ):
            for batch in rows:
                writer.write_batch(batch)
        yield schema, path


def with_numbers_due(extracted: Extracted) -> Extracted | None:
    """Return a query whose numbered tables are to be stored when it runs; None where they all are stored."""
    numbered = {
        name: replace(table, due=True)
        for name, table in extracted.tables.items()
        if isinstance(table, NumberedTable) and not table.stored
    }
    return replace(extracted, tables={**extracted.tables, **numbered}) if numbered else None


def with_stored_numbers(services: Services, extracted: Extracted, cancelled: Callable[[], bool]) -> Extracted | None:
    """Return a query that reads the due tables from files; None for a query without due tables.

    A parallel context can run it. The files have no name any more, and go with the query.

    Raises:
        CancelledError: `cancelled()` turned true.
        LimitExceededError: the disk is full.
    """

    def stored(name: str, table: NumberedTable) -> NumberedTable:
        with numbered_file(services, name, table, cancelled) as (schema, path):
            reader = pa.ipc.open_file(pa.memory_map(str(path)))
        batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]
        return NumberedTable(table.schema, memory_table(batches, schema))

    due = {
        name: stored(name, table)
        for name, table in extracted.tables.items()
        if isinstance(table, NumberedTable) and table.due
    }
    return replace(extracted, tables={**extracted.tables, **due}) if due else None


def frame_of(context: SessionContext, extracted: Extracted) -> DataFrame:
    """Plan a query in a context that knows its stubs.

    Raises:
        SqlError: DataFusion cannot plan it, or an UNPIVOT in it is of texts and others.
    """
    try:
        if extracted.plan is not None:
            decoded = Serde.deserialize_bytes(extracted.plan)
            return context.create_dataframe_from_logical_plan(Consumer.from_substrait_plan(context, decoded))
        planned = context.sql_with_options(extracted.sql, QUERY_ONLY)
    except Exception as error:  # the boundary to DataFusion, which raises builtin exceptions
        mapped = mapped_error(error, extracted.sql)
        text = extracted.display_name(str(mapped))
        if f"'{VECTOR_BYTES}(" in text:
            raise SqlError("an index over vectors is searched for a list of numbers, as in [0.1, 0.2]") from error
        if "automatically convert" in text and extracted.calls:
            text += "; an AI call takes texts, numbers, dates and lists: pass the parts of a struct, as in addr['city']"
        mapped.args = (text,)
        raise mapped from error
    if UNPIVOT in extracted.sql:
        check_types(planned.logical_plan().display_indent_schema)
    return planned


def join_settings(planned: DataFrame) -> list[str]:
    """Return what to set in a context so that the outer joins of a plan run right in it; nothing where there are none.

    DataFusion pushes a filter on one side of a right or full hash join to the other side, where columns have the same
    name and place: rows that the filter should drop then stay, and others go. It may turn a left join into a right one.
    The sort-merge joins to take instead lose columns that only a further condition of an ON reads: where there is one,
    hash joins are the smaller evil.
    """
    if not _MAY_BE_OUTER_JOIN.search(planned.logical_plan().display_indent()):
        return []
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
    """Return a frame over the same plan for `join_settings`: DataFusion optimizes it without evaluating anything."""
    return unfolded(scalar_context(services, extracted), planned, (*FOLDING_RULES, *DECORRELATING_RULES))


def shown(context: SessionContext, planned: DataFrame, extracted: Extracted) -> pa.Schema:
    """Return the schema its user sees: AI calls named as written, and any column can be NULL.

    A plain column of a table is as it was declared: of an extension type, with metadata.

    Raises:
        SqlError: types in the query do not fit.
    """
    try:
        coerced = row_schema(context, planned)
    except Exception as error:  # the boundary to DataFusion, which raises builtin exceptions
        raise mapped_error(error) from error
    types = list(with_plain_types(coerced, unions=True).types)
    return shown_fields(shown_names(planned, extracted), types, coerced, planned)


def shown_names(planned: DataFrame, extracted: Extracted) -> list[str]:
    """Return the names of a query's columns, with expressions as they are written."""
    names = duplicates.shown_names([extracted.display_name(name) for name in planned.schema().names])
    return extracted.names.shown(names)


def named(batches: Batches, schema: pa.Schema) -> Batches:
    """Yield batches with the names and types that a query's user sees.

    Raises:
        SqlError: DataFusion promised another type than its values fit.
    """
    with closing(batches):
        for batch in batches:
            if not len(schema):  # Substrait leaves a projection to nothing out
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
            f"the column {field.name!r} is of the type {field.type}, but has other values ({error}): CAST its parts to"
            " one type"
        ) from error


def datafusion_plans(frame: DataFrame, physical: str | None = None) -> list[tuple[str, str]]:
    """Return titles and texts of DataFusion's own plans; where the physical one is given, nothing is evaluated here."""
    if physical is not None:
        return [
            ("logical_plan", frame.logical_plan().display_indent()),
            ("physical_plan", without_folders(physical)),
        ]
    physical = frame.execution_plan().display_indent()
    return [
        ("logical_plan", frame.optimized_logical_plan().display_indent()),
        ("physical_plan", without_folders(physical)),
    ]


def without_folders(physical: str) -> str:
    """Return a physical plan that names files, but not where they are."""
    before, *groups = physical.split(_FILE_GROUPS)
    return _FILE_GROUPS.join([before, *map(_files_alone, groups)])


def _files_alone(groups: str) -> str:
    """Return a text without the folders of the paths before its first closing brace."""
    paths, brace, after = groups.partition("}")
    return "".join(path.rpartition("/")[2] for path in _BETWEEN_PATHS.split(paths)) + brace + after
