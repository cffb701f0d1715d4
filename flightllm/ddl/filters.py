"""CREATE, ALTER … REFIT and DROP of filters that are learned from people's labels."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from flightllm.catalog.functions import CreatedFit, CreatedFunction
from flightllm.catalog.models import missing
from flightllm.common.names import TEMPORARY_PREFIX
from flightllm.common.stopping import text_is_read
from flightllm.config.session_settings import Settings
from flightllm.ddl.functions import checked_type, drop_function, is_new_function, readable, to_change
from flightllm.errors import NotFoundError, UnknownTableError
from flightllm.execution.context import Services
from flightllm.execution.learn import learn, wanted_of
from flightllm.execution.planned_fit import PlannedFit
from flightllm.functions.stored import StoredFunction
from flightllm.observe.query_record import QueryRecord
from flightllm.sql.statement import Statement


def change_filter(statement: Statement, record: QueryRecord, services: Services, settings: Settings) -> int:
    """Run a statement about a learned filter. When this returns -1, the change is on disk.

    Raises:
        PermissionDeniedError: the user lacks the right to do this.
        NotFoundError: there is no such filter.
        InvalidInputError: the name is taken, the labels are too few, or a target is not certified.
        FlightLLMError: the call or the query is wrong.
    """
    text_is_read()
    name = statement.key or ""
    rights, objects = services.rights, services.objects
    if statement.kind == "create_filter":
        rights.check_writer("CREATE FILTER")
        wanted_of(statement.model_options)
        new, before = is_new_function(statement, services, "filter")
        if not new:
            return -1
        function = _function(statement, services)
        returns = checked_type(function, (), services, settings)
        fit, done = learn(
            function, statement.labelled, statement.model_options, services, settings, record, objects.count_look
        )
        for note in done.notes:
            record.warn(note)
        created = CreatedFunction(name, function.parameters, function.body, returns, done.figures, function.owner, fit)
        objects.put_function(created, before)
        return -1
    if statement.kind == "drop_filter":
        drop_function(name, services, "filter", exists_ok=statement.exists_ok)
        return -1
    before, made = _to_refit(name, services)
    with _labels_of(name):
        fit, done = learn(before.stored(), made.query, made.options, services, settings, record, objects.count_look)
    for note in done.notes:
        record.warn(note)
    objects.put_function(replace(before, fit=fit, figures=done.figures), before)
    return -1


def explain_filter(statement: Statement, services: Services, settings: Settings) -> tuple[PlannedFit, str]:
    """Return the fit of CREATE FILTER or ALTER FILTER … REFIT for EXPLAIN, and a sentence about the statement.

    Raises:
        FlightLLMError: see `change_filter`.
    """
    name = statement.key or ""
    if statement.kind == "refit_filter":
        before, made = _to_refit(name, services)
        told = f"REFIT of the filter {name}, version {before.version}: EXPLAIN changes nothing"
        with _labels_of(name):
            return PlannedFit(before.stored(), made.query, made.options, services, settings), told
    services.rights.check_writer("CREATE FILTER")
    new, _ = is_new_function(statement, services, "filter")
    function = _function(statement, services)
    checked_type(function, (), services, settings)
    kept = "" if new else ", and the statement would change nothing, because there is a filter of this name"
    planned = PlannedFit(function, statement.labelled, statement.model_options, services, settings)
    return planned, f"CREATE FILTER {name}: EXPLAIN changes nothing{kept}"


def _function(statement: Statement, services: Services) -> StoredFunction:
    body = readable(statement.value or "")
    return StoredFunction(statement.key or "", statement.columns, body, services.rights.principal.name)


def _to_refit(name: str, services: Services) -> tuple[CreatedFunction, CreatedFit]:
    before = to_change(name, services, "filter", "ALTER")
    if before.fit is None:
        raise missing("filter", name)
    return before, before.fit


@contextmanager
def _labels_of(name: str) -> Iterator[None]:
    """Say that the labels have ended with their session, where their table is missing."""
    try:
        yield
    except UnknownTableError as error:
        if TEMPORARY_PREFIX not in str(error):
            raise
        raise NotFoundError(
            f"the labels of the filter {name!r} were in a temporary table or a frame, which has ended with its session:"
            f" write CREATE OR REPLACE FILTER {name} AS … FIT ON …"
        ) from error
