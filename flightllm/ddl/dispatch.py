"""Statements that change tables, indexes, models, prompts or rights; each can be cancelled until it takes effect."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import islice, pairwise
from typing import Final

import pyarrow as pa
from datafusion import DataFrame

from flightllm.catalog import IngestMode
from flightllm.catalog.scope import check_policy
from flightllm.common.stopping import text_is_read
from flightllm.config.session_settings import Settings
from flightllm.datafusion.run import Batches
from flightllm.ddl.attached import change_attached
from flightllm.ddl.filters import change_filter, explain_filter
from flightllm.ddl.functions import change_function, checked_function, returned_type
from flightllm.ddl.grants import check_there
from flightllm.ddl.labels import change_labels, changes_labels, check_labels
from flightllm.ddl.models import change_object
from flightllm.ddl.vector_index import change_index, check_no_index, drop_indexes
from flightllm.dml import (
    Changed,
    check_row_change,
    explain_row_change,
    leaves_values,
    run_row_change,
    whole_values,
)
from flightllm.errors import AnswerError, CancelledError, FlightLLMError, InternalError, UnsupportedError
from flightllm.execution.cancel_token import stopped
from flightllm.execution.context import Services
from flightllm.execution.planning import plan, uses_ai
from flightllm.execution.utility import ExplainQuery
from flightllm.functions import FunctionRegistry
from flightllm.observe.query_record import QueryRecord
from flightllm.plan.bounds import unbounded
from flightllm.sql.classify import classify
from flightllm.sql.guard import check_bound
from flightllm.sql.parameters import bind, each_row
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.statement import Statement
from flightllm.sql.tokens import Token, tokenize
from flightllm.sql.truncate_statements import ANSWER_CACHE

_OBJECTS: Final[Mapping[str, Callable[[Statement, QueryRecord, Services, Settings], int]]] = {
    **dict.fromkeys(
        ("create_model", "drop_model", "create_prompt", "drop_prompt"),
        lambda statement, _, services, __: change_object(statement, services),
    ),
    **dict.fromkeys(
        ("create_function", "drop_function"),
        lambda statement, _, services, settings: change_function(statement, services, settings),
    ),
    **dict.fromkeys(("create_filter", "refit_filter", "drop_filter"), change_filter),
}
"""The parts that create and drop what is not in the catalog of tables, by the kind of statement."""
_ATTACHED = ("attach", "detach", "refresh_database")
_FOR_ADMINS = ("grant", "revoke", "create_policy", "drop_policy", "create_external", *_ATTACHED)
_ROWS_TOGETHER, _TEXT_TOGETHER = 1_000, 1 << 20
"""A bound statement ends after this many rows of parameters, or this many characters of their text."""


def change(
    statement: Statement,
    record: QueryRecord,
    fresh: Callable[[], Services],
    settings: Settings,
    more: Iterable[ParsedText] | None = None,
) -> Changed:
    """Run DDL or DML; return the number of affected rows, or -1.

    If `record` is cancelled, the statement changes nothing.

    `fresh` returns the server's services with the tables as they are now.

    `more` holds further texts of the same INSERT … VALUES without AI calls. Their rows are added in the same step.

    Raises:
        CancelledError: the record was cancelled.
        FlightLLMError: the statement is wrong.
    """
    if record.cancelled.is_set():
        raise CancelledError("the statement was cancelled")
    _refuse(statement)
    if changes_labels(statement):
        return Changed(change_labels(statement, record, _storing(fresh(), settings), settings, more))
    statement = _whole(statement, fresh)
    try:
        if is_row_change(statement, fresh):
            return run_row_change(statement, record, lambda: _storing(fresh(), settings), settings)
        return Changed(_changed(statement, record, _storing(fresh(), settings), settings, more))
    except AnswerError as error:
        keep = " (in SET, on_error => 'keep' keeps the old value)" if _sets_answers(statement, fresh()) else ""
        error.args = (f"{error}; nothing was changed{keep}",)
        raise


def _sets_answers(statement: Statement, services: Services) -> bool:
    """Return whether a statement gives the rows that exist new values by AI calls."""
    change = statement.change
    if change is None:
        return False
    actions = (*change.actions, *([change.conflict.action] if change.conflict else ()))
    values = (value for action in actions if action.kind == "update" for _, value in action.values if value)
    return any(map(services.functions.may_be_in, values))


def _storing(services: Services, settings: Settings) -> Services:
    """Return services for a statement that stores rows: it fails as a whole if an answer is unusable."""
    return replace(services, on_error=settings.on_error_of_stored, stores=True)


def _changed(
    statement: Statement, record: QueryRecord, services: Services, settings: Settings, more: Iterable[ParsedText] | None
) -> int:
    if statement.kind in _FOR_ADMINS or _empties_cache(statement):
        return _administer(statement, services)
    catalog = services.catalog
    match statement.kind:
        case "create_table_as":
            return _create_table_as(statement, record, services, settings)
        case "insert" if more is not None or _is_plain(statement, services.functions):
            frame = catalog.values(statement)
            text_is_read()
            with closing(_values(statement, frame, more or (), record, services, settings)) as rows:
                return catalog.insert(replace(statement, columns=()), frame.schema(), rows)
        case "insert":
            query = plan(statement.parsed_query, services, settings)
            with closing(_rows(query.run(record), record)) as rows:
                return catalog.insert(statement, query.schema, rows)
        case "create_view" if _is_ai_view(statement.parsed_query, services, settings):
            statement = _with_names(statement, services, settings)
            catalog.create_ai_view(statement, plan(statement.parsed_query, services, settings).schema)
            return -1
        case "create_index" | "refresh_index" | "drop_index":
            text_is_read()
            return change_index(statement, record, services, settings)
        case "rename_table" | "rename_view":
            catalog.check(statement)
            check_no_index(catalog.targets(statement), services)
            return catalog.execute(statement)
        case kind if kind in _OBJECTS:
            return _OBJECTS[kind](statement, record, services, settings)
        case _:
            if statement.kind == "create_view":
                statement = _with_names(statement, services, settings)
            dropped = catalog.targets(statement) if statement.kind == "drop_table" else ()
            affected = catalog.execute(statement, partial(services.loop.stream, cancelled=record.cancelled.is_set))
            drop_indexes(dropped, services)
            return affected


def check(statement: Statement, services: Services, settings: Settings) -> pa.Schema:
    """Plan a statement without running it; return the columns of RETURNING.

    Raises the errors of `change` that planning can detect.

    Raises:
        FlightLLMError: the statement is wrong.
    """
    _refuse(statement)
    services = _storing(services, settings)
    if changes_labels(statement):
        check_labels(statement, services, settings)
        return pa.schema([])
    statement = _whole(statement, lambda: services)
    catalog = services.catalog
    if is_row_change(statement, lambda: services):
        return check_row_change(statement, services, settings)
    match statement.kind:
        case "insert" if _is_plain(statement, services.functions):
            frame = catalog.values(statement)
            catalog.insert(replace(statement, columns=()), frame.schema(), ())
        case "insert":
            catalog.insert(statement, plan(statement.parsed_query, services, settings).schema, ())
        case "create_table_as" if catalog.check_create(statement):
            plan(statement.parsed_query, services, settings)
        case (
            "create_table"
            | "drop_table"
            | "drop_view"
            | "delete"
            | "update"
            | "truncate"
            | "rename_table"
            | "rename_view"
        ):
            if not _empties_cache(statement):
                catalog.check(statement)
    return pa.schema([])


def is_row_change(statement: Statement, services: Callable[[], Services]) -> bool:
    """Return whether the statement needs a query, either to find the rows to change or to return them."""
    change = statement.change
    return change is not None and not (change.simple and not services().functions.may_be_in(statement.text))


def explain_change(explain: Statement, statement: Statement, services: Services, settings: Settings) -> ExplainQuery:
    """Return EXPLAIN of a change: the plan of the query that finds its rows, or of its fit. The change does not run.

    A function has the plan of its expression over no rows.

    Raises:
        FlightLLMError: the statement is wrong.
    """
    if statement.kind == "create_function":
        planned = checked_function(statement, services, settings)
        lines = [("change", "CREATE FUNCTION: EXPLAIN changes nothing"), ("returns", returned_type(planned))]
        return ExplainQuery(planned, explain, lines)
    services = _storing(services, settings)
    if changes_labels(statement):
        title = f"{statement.kind.upper()} of system.labels: EXPLAIN changes nothing"
        return ExplainQuery(check_labels(statement, services, settings), explain, [("change", title)])
    if statement.kind in ("create_filter", "refit_filter"):
        plan_of_fit, told = explain_filter(statement, services, settings)
        return ExplainQuery(plan_of_fit, explain, [("change", told)])
    statement = _whole(statement, lambda: services)
    if statement.change is None:
        check(statement, services, settings)
        title = f"{statement.kind.replace('_', ' ').upper()}: EXPLAIN changes nothing"
        return ExplainQuery(plan(statement.parsed_query, services, settings), explain, [("change", title)])
    query, line = explain_row_change(statement, services, settings)
    return ExplainQuery(query, explain, [line])


def _whole(statement: Statement, services: Callable[[], Services]) -> Statement:
    """Return an INSERT with an expression for each DEFAULT of its VALUES; return other statements unchanged."""
    if not leaves_values(statement):
        return statement
    return whole_values(statement, services().catalog.adding_to(statement))


def _refuse(statement: Statement) -> None:
    if statement.kind == "transaction":
        raise UnsupportedError("transactions are not supported: every statement takes effect by itself")


def _empties_cache(statement: Statement) -> bool:
    return statement.kind == "truncate" and statement.target == ANSWER_CACHE


def _administer(statement: Statement, services: Services) -> int:
    """Run a statement that requires the admin role."""
    services.rights.check_admin(statement.kind.replace("_", " ").upper())
    if statement.kind == "truncate":
        return services.cache.clear()
    if statement.kind in _ATTACHED:
        return change_attached(statement, services)
    if statement.kind == "create_external":
        services.catalog.create_external(statement, stopped)
        return -1
    if statement.kind == "create_policy" and statement.policy is not None:
        check_policy(services.catalog.store, statement.policy)
    if statement.kind == "grant":
        check_there(services, statement.grants[0])
    return services.access.change(statement)


def _is_ai_view(query: ParsedText, services: Services, settings: Settings) -> bool:
    """Return whether a view has AI calls or searches in FROM or ON, in its own text or in the views it reads."""
    text, functions = services.catalog.inline_views(query), services.functions
    if not functions.may_be_in(text.sql):
        return False
    called = (token.text for token, after in pairwise(text.tokens) if after.is_symbol("("))
    return any(map(functions.is_called_by, called)) or uses_ai(query, services, settings)


def _with_names(statement: Statement, services: Services, settings: Settings) -> Statement:
    """Return CREATE VIEW with the column names that its query shows, unless a star can add columns later."""
    if statement.columns or not statement.names().fixed:
        return statement
    try:
        given = plan(statement.parsed_query, services, settings).schema.names
    except FlightLLMError:  # creating the view reports the error
        return statement
    names = statement.names().shown(given)
    return statement if names == given or len(set(names)) < len(names) else replace(statement, columns=tuple(names))


def _create_table_as(statement: Statement, record: QueryRecord, services: Services, settings: Settings) -> int:
    if statement.target is None:
        raise InternalError("CREATE TABLE AS without a target")
    if not services.catalog.check_create(statement):
        return 0
    mode: IngestMode = "replace" if statement.or_replace else "create"
    query = plan(statement.parsed_query, services, settings, names=statement.names())
    with closing(_rows(query.run(record), record)) as rows:
        return services.catalog.ingest(statement.target, query.schema, rows, mode)


def _values(
    statement: Statement,
    frame: DataFrame,
    more: Iterable[ParsedText],
    record: QueryRecord,
    services: Services,
    settings: Settings,
) -> Batches:
    """Yield the rows of VALUES, whose plan is `frame`, then those of `more`. Each text is planned in its turn."""
    yield from _rows(_value_rows(statement, frame, record, services, settings), record)
    for text in more:
        check_bound(text, services.config.limits)
        with services.watch.changing(text.sql, record.query_id, services.rights.blamed):
            whole = classify(text)
            if whole.columns != statement.columns or "default" in text.sql.lower():  # as in the first text
                whole = _whole(whole, lambda: services)
            yield from _rows(_value_rows(whole, services.catalog.values(whole), record, services, settings), record)


def _value_rows(
    statement: Statement, frame: DataFrame, record: QueryRecord, services: Services, settings: Settings
) -> Batches:
    """Run VALUES, planned as `frame`; yield rows that have all columns of the table.

    VALUES without a row bound run as a query, and the result is then fitted to the table.
    """
    catalog, limits = services.catalog, services.config.limits
    if unbounded(catalog.context(), frame, limits) is None:
        yield from services.loop.stream(frame, record.cancelled.is_set)
        return
    query = plan(statement.parsed_query, services, settings)
    with closing(query.run(record)) as rows:
        yield from catalog.filled(statement, query.schema, rows)


def _rows(batches: Batches, record: QueryRecord) -> Batches:
    """Yield a query's rows. A cancelled query raises an error before its rows are stored, at its end at the latest."""
    with closing(batches):
        yield from batches
    if record.cancelled.is_set():
        raise CancelledError("the statement was cancelled")


def bound_texts(
    text: ParsedText, parameters: pa.Table, functions: FunctionRegistry
) -> Iterator[tuple[ParsedText, Iterable[ParsedText] | None]]:
    """Yield the statement with bound parameters, paired with None: one text for each row of parameters.

    INSERT … VALUES without AI calls is one statement for all rows. The pair is then a text with many rows, and an
    iterator of further texts, which are bound lazily.

    Raises:
        SqlError: the values do not fit the parameters; see `bind`.
    """
    rows = each_row(parameters)
    values = _split_values(text)
    if values is None or functions.may_be_in(values[1].sql):
        yield from ((bind(text, row), None) for row in rows)
        return
    texts = _together(*values, rows)
    yield from ((together, texts) for together in islice(texts, 1))


def _together(before: str, values: ParsedText, rows: Iterable[pa.RecordBatch]) -> Iterator[ParsedText]:
    bound, size = list[str](), 0
    for row in rows:
        bound.append(bind(values, row).sql)
        size += len(bound[-1])
        if len(bound) == _ROWS_TOGETHER or size >= _TEXT_TOGETHER:
            yield ParsedText(before + ", ".join(bound))
            bound, size = [], 0
    if bound:
        yield ParsedText(before + ", ".join(bound))


def _split_values(text: ParsedText) -> tuple[str, ParsedText] | None:
    """Split `INSERT INTO t VALUES (…), …` before its rows; return None for any other statement.

    Another statement is one with ON CONFLICT or RETURNING, too.
    """
    statement = classify(text)
    if statement.change is not None:
        return None
    tokens = tokenize(statement.text)
    start = next((i for i, token in enumerate(tokens) if token.is_word("values")), len(tokens)) + 1
    if not statement.adds_values or start >= len(tokens) or not _only_groups(tokens[start:]):
        return None
    at = tokens[start].start
    return statement.text[:at], ParsedText(statement.text[at:])


def _is_plain(statement: Statement, functions: FunctionRegistry) -> bool:
    """Return whether the rows of an INSERT are VALUES without AI calls."""
    return statement.adds_values and not functions.may_be_in(statement.query or "")


def _only_groups(tokens: Sequence[Token]) -> bool:
    """Return whether the tokens are a list of groups in parentheses: `(…), (…)`."""
    depth = 0
    for token in tokens:
        depth += token.is_symbol("(") - token.is_symbol(")")
        if depth == 0 and not (token.is_symbol(")") or token.is_symbol(",")):
            return False
    return True
