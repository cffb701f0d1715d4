"""CREATE, ALTER … REFIT and DROP of filters that are learned from people's labels."""

from dataclasses import replace

from flightllm.catalog.functions import CreatedFunction
from flightllm.catalog.models import missing
from flightllm.common.stopping import text_is_read
from flightllm.config.session_settings import Settings
from flightllm.ddl.functions import checked_type, drop_function, is_new_function
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
        if not is_new_function(statement, services, "filter"):
            return -1
        function = StoredFunction(name, statement.columns, statement.value or "", rights.principal.name)
        returns = checked_type(function, (), services, settings)
        fit, done = learn(
            function, statement.labelled, statement.model_options, services, settings, record, objects.count_look
        )
        objects.put_function(
            CreatedFunction(name, function.parameters, function.body, returns, done.figures, function.owner, fit)
        )
        return -1
    before = objects.function(name)
    there = before is not None and before.fit is not None
    if statement.kind == "drop_filter":
        if not there and not statement.exists_ok:
            raise missing("filter", name)
        if there:
            drop_function(name, services, exists_ok=statement.exists_ok)
        return -1
    rights.check_writer("ALTER FILTER")
    if before is None or before.fit is None or not rights.may_use("FUNCTION", name, before.owner):
        raise missing("filter", name)
    rights.check_change(f"the filter {name!r}", before.owner)
    fit, done = learn(
        before.stored(), before.fit.query, before.fit.options, services, settings, record, objects.count_look
    )
    objects.put_function(replace(before, fit=fit, figures=done.figures))
    return -1
