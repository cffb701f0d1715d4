"""From SQL text to a planned query: read files and run searches in FROM, extract AI calls, and choose how to run it."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias
from uuid import uuid4

import pyarrow as pa
from google.protobuf.message import DecodeError

from flightllm.catalog.numbered import NumberedTable
from flightllm.common.stopping import check_wanted, text_is_read
from flightllm.config.session_settings import Settings
from flightllm.errors import UnsupportedError
from flightllm.execution.batch_query import BatchQuery
from flightllm.execution.bind import SEARCH_CATALOG, Planned, extract
from flightllm.execution.cancel_token import stop_of_planning
from flightllm.execution.context import Services
from flightllm.execution.plain_query import PlainQuery
from flightllm.execution.query import Query
from flightllm.execution.read_files import MAY_BE_FILE, replace_files
from flightllm.execution.row_numbers import with_numbers_due
from flightllm.execution.row_spellings import with_row_spellings
from flightllm.execution.staged_query import StagedQuery
from flightllm.functions.call import EMBEDDING, SEARCH
from flightllm.observe.query_record import QueryRecord
from flightllm.plan.substrait import NotExpressibleError
from flightllm.sql.batch_results import RESULT, result_at
from flightllm.sql.calls import Extracted
from flightllm.sql.calls_in_from import replace_calls
from flightllm.sql.evaluations import evaluates, evaluation_at
from flightllm.sql.guard import check_sql
from flightllm.sql.names import NO_NAMES, OutputNames
from flightllm.sql.next_labels import NAME as NEXT_LABELS
from flightllm.sql.next_labels import names_next_labels, next_labels_at
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.semantic_joins import Pairs, SemanticJoin, replace_semantic_joins
from flightllm.sql.table_functions import TableCall, replace_table_functions

if TYPE_CHECKING:
    from flightllm.execution.late_query import LateQuery

SqlQuery: TypeAlias = "PlainQuery | BatchQuery | StagedQuery | LateQuery"
"""The kinds of queries that a text can become."""
_EVALUATE = "ai_evaluate"
"""The name of the function whose calls in FROM are evaluations."""
_FILE = f"{SEARCH_CATALOG}.public.file"
"""The prefix of the names of tables that stand for files in FROM."""


def plan(
    text: ParsedText,
    services: Services,
    settings: Settings,
    tables: Mapping[str, pa.Table | NumberedTable] = MappingProxyType({}),
    *,
    names: OutputNames = NO_NAMES,
) -> "SqlQuery":
    """Plan one SELECT, SHOW or DESCRIBE text whose parameters are bound.

    `tables` are tables of only this query, by names in `SEARCH_CATALOG`. `names` are the names of its columns.

    Raises:
        SqlError: the text cannot be planned, or an AI call in it is wrong (`AICallError`).
    """
    given, text = text, services.catalog.inline_views(text)
    if text is not given:
        check_sql(text, services.config.limits)
    if _is_late(text):
        return _late(text, services, settings, names)
    text, read = _files_read(text, services)
    if RESULT in text.sql.lower():
        text, results = _results_read(text, services)
        read = {**read, **results}
    tables = {**tables, **read}
    extracted, planned = Extracted(text.sql, {}, tables), None
    if services.functions.may_be_in(text.sql):
        text, found, searched = _searched(text, services, settings)
        extracted, planned = extract(text, services, {**tables, **found}, settings.layout)
        extracted = replace(extracted, searched=searched)
    check_wanted()
    query = plan_extracted(replace(extracted, names=names), services, settings, planned)
    text_is_read()
    return query


def _is_late(text: ParsedText) -> bool:
    """Return whether a table in FROM asks models for its rows."""
    lowered = text.sql.lower()
    return (_EVALUATE in lowered and evaluates(text)) or (NEXT_LABELS in lowered and names_next_labels(text))


def _late(text: ParsedText, services: Services, settings: Settings, names: OutputNames) -> "LateQuery":
    from flightllm.execution.evaluate import Evaluations
    from flightllm.execution.late_query import LateQuery
    from flightllm.execution.late_table import LateTable

    def planned(
        sql: str, tables: Mapping[str, pa.Table], settings: Settings, names: OutputNames = NO_NAMES
    ) -> SqlQuery:
        return plan(ParsedText(sql), services, settings, tables, names=names)

    late, evaluations = dict[str, LateTable](), Evaluations(services, settings, planned)

    def table(index: int) -> str | None:
        name = f"{SEARCH_CATALOG}.public.late{len(late)}"
        if (found := evaluation_at(text, index)) is not None:
            late[name] = evaluations.part(found)
        elif (wanted := next_labels_at(text, index)) is not None:
            late[name] = services.next_labels(services, settings, wanted)
        else:
            return None
        return name

    return LateQuery(replace_calls(text, table), late, services, settings, planned, names)


def plan_extracted(
    extracted: Extracted, services: Services, settings: Settings, planned: Planned | None = None
) -> PlainQuery | BatchQuery | StagedQuery:
    """Plan a query whose AI calls are already stubs; `planned` is its first plan, if that exists."""
    query = _planned(extracted, services, settings, planned)
    # Sort-merge joins need a parallel context, in which rows cannot be numbered.
    due = with_numbers_due(extracted) if query.merges_joins else None
    return query if due is None else _planned(due, services, settings)


def _planned(
    extracted: Extracted, services: Services, settings: Settings, planned: Planned | None = None
) -> PlainQuery | BatchQuery | StagedQuery:
    if not extracted.calls:
        return PlainQuery(services, extracted, sends=settings.optimizer and settings.rules)
    if not settings.optimizer:
        return BatchQuery(services, settings, extracted, "the setting flightllm.optimizer is off")
    try:
        return StagedQuery(services, settings, extracted, planned=planned)
    except NotExpressibleError as reason:
        return BatchQuery(services, settings, extracted, str(reason))
    except DecodeError:  # protobuf's limit
        return BatchQuery(services, settings, extracted, "its expressions are too deep")


def _files_read(text: ParsedText, services: Services) -> tuple[ParsedText, Mapping[str, pa.Table]]:
    """Read the files in FROM; return the text with tables in their place, and these tables by name."""
    tables: dict[str, pa.Table] = {}

    def kept(found: pa.Table) -> str:
        name = f"{_FILE}{uuid4().hex}"
        tables[name] = found
        return name

    if not MAY_BE_FILE.search(text.sql):
        return text, tables
    found = replace_files(text, services, kept)
    return with_row_spellings(found, tables, services), tables


def _results_read(text: ParsedText, services: Services) -> tuple[ParsedText, Mapping[str, pa.Table]]:
    """Put the rows of deferred queries in the place of `batch_result('id')`; return the text and these tables."""
    tables: dict[str, pa.Table] = {}

    def table(index: int) -> str | None:
        batch_id = result_at(text, index)
        if batch_id is None or services.deferral is None:
            return None
        name = f"{_FILE}{uuid4().hex}"
        tables[name] = services.deferral.result(batch_id, services.rights.principal)
        return name

    return replace_calls(text, table), tables


def _searched(
    text: ParsedText, services: Services, settings: Settings
) -> tuple[ParsedText, Mapping[str, pa.Table], frozenset[str]]:
    """Run the searches in FROM and ON; return the text with tables in their place, the tables, and the indexes."""
    tables: dict[str, pa.Table] = {}
    indexes: set[str] = set()

    def rows(sql: str) -> pa.Table:
        query = plan(ParsedText(sql), services, settings)
        with closing(query.run(QueryRecord("", sql, stop_of_planning()))) as batches:
            return pa.Table.from_batches(batches, query.schema)

    def table(call: TableCall) -> str:
        from flightllm.execution.vector_search import search_table

        text_is_read()  # a search asks an endpoint: no other text waits for that
        return kept(call.index, search_table(call, rows))

    def pairs(join: SemanticJoin) -> Pairs:
        from flightllm.execution.vector_search import join_table

        text_is_read()
        found, column = join_table(join, services, rows)
        return Pairs(kept(join.index, found), column)

    def kept(index: str, found: pa.Table) -> str:
        indexes.add(index)
        name = f"{SEARCH_CATALOG}.public.found{len(tables)}"
        tables[name] = found
        return name

    if not services.functions.may_search(text.sql):
        return text, tables, frozenset()
    joined = replace_semantic_joins(text, services.functions, pairs)
    found = replace_table_functions(joined, services.functions, table)
    return with_row_spellings(found, tables, services), tables, frozenset(indexes)


def is_lasting(query: Query) -> bool:
    """Return whether a plan holds only text and tables: no rows of a search or of a file in FROM, and no index."""
    if not isinstance(query, PlainQuery | BatchQuery | StagedQuery):
        return False
    extracted = query.extracted
    searches = any(call.backend in {SEARCH, EMBEDDING} for call in extracted.calls.values())
    files = any(name.startswith(_FILE) for name in extracted.tables)  # a file can change
    return not (searches or files or extracted.searched or extracted.opened)


def uses_ai(text: ParsedText, services: Services, settings: Settings) -> bool:
    """Return whether the text, or a view that it reads, has AI calls."""
    text = services.catalog.inline_views(text)
    if not services.functions.may_be_in(text.sql):
        return False
    if _EVALUATE in text.sql.lower() and evaluates(text):
        raise UnsupportedError("a view cannot evaluate a call: keep the figures by CREATE TABLE … AS")
    if NEXT_LABELS in text.sql.lower() and names_next_labels(text):
        raise UnsupportedError("a view cannot choose rows to label: keep the rows by CREATE TABLE … AS")
    text, read = _files_read(text, services)
    text, tables, _ = _searched(text, services, settings)
    extracted, _ = extract(text, services, {**read, **tables})
    return bool(extracted.calls)
