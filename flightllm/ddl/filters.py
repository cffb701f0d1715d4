"""CREATE, ALTER … REFIT and DROP of filters that are learned from people's labels."""

from dataclasses import replace

from flightllm.catalog.functions import CreatedFunction
from flightllm.catalog.models import missing
from flightllm.common.names import TEMPORARY_PREFIX
from flightllm.common.stopping import text_is_read
from flightllm.config.session_settings import Settings
from flightllm.ddl.functions import checked_type, drop_function, is_new_function, readable, to_change
from flightllm.errors import NotFoundError, UnknownTableError
from flightllm.execution.context import Services
from flightllm.execution.learn import learn, wanted_of
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
        function = StoredFunction(name, statement.columns, readable(statement.value or ""), rights.principal.name)
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
    before = to_change(name, services, "filter", "ALTER")
    if before.fit is None:
        raise missing("filter", name)
    try:
        fit, done = learn(
            before.stored(), before.fit.query, before.fit.options, services, settings, record, objects.count_look
        )
    except UnknownTableError as error:
        if TEMPORARY_PREFIX not in str(error):
            raise
        raise NotFoundError(
            f"the labels of the filter {name!r} were in a temporary table or a frame, which has ended with its session:"
            f" write CREATE OR REPLACE FILTER {name} AS … FIT ON …"
        ) from error
    for note in done.notes:
        record.warn(note)
    objects.put_function(replace(before, fit=fit, figures=done.figures), before)
    return -1
