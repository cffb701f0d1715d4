"""Checks that the objects that grants name exist."""

from flightllm.access.store import DEFAULT_MODEL
from flightllm.catalog.models import suggestion
from flightllm.common.names import TableName
from flightllm.errors import NotFoundError
from flightllm.execution.context import Services
from flightllm.sql.grants import Grant, ObjectKind


def is_there(services: Services, kind: ObjectKind, schema: str, name: str) -> bool:
    """Return whether an object exists now, even if the user cannot see it."""
    store = services.catalog.store
    match kind:
        case "SCHEMA":
            return schema in store.schemas()
        case "TABLE":
            table = TableName(schema, name)
            return table in store.entries or any(info.name == table for info in store.system_tables())
        case "MODEL":
            return name == DEFAULT_MODEL or services.objects.model(name) is not None
        case "PROMPT":
            return services.objects.owner_of_prompt(name) is not None
        case "FUNCTION":
            return services.objects.function(name) is not None


def check_there(services: Services, grant: Grant) -> None:
    """Raise `NotFoundError` if the object of a grant does not exist.

    A grant on a missing object would apply to an object that someone later creates with this name.
    """
    if is_there(services, grant.kind, grant.schema, grant.name):
        return
    store = services.catalog.store
    match grant.kind:
        case "SCHEMA":
            raise NotFoundError(f"there is no schema {grant.schema!r}; {suggestion(grant.schema, store.schemas())}")
        case "TABLE":
            raise store.missing(TableName(grant.schema, grant.name), store.entries)
        case "MODEL":
            models = [DEFAULT_MODEL, *(model.name for model in services.objects.models())]
            own = ": the server's own is 'default'" if grant.name == services.config.engine.model else ""
            raise NotFoundError(f"there is no model {grant.name!r}{own}; {suggestion(grant.name, models)}")
        case "PROMPT":
            prompts = sorted({prompt.name for prompt in services.objects.prompts()})
            raise NotFoundError(f"there is no prompt {grant.name!r}; {suggestion(grant.name, prompts)}")
        case "FUNCTION":
            functions = [function.name for function in services.objects.functions()]
            raise NotFoundError(f"there is no function {grant.name!r}; {suggestion(grant.name, functions)}")
