"""CREATE and DROP of models and prompts: required rights, checks, and the effect on running engines."""

from flightllm.access.store import DEFAULT_MODEL
from flightllm.catalog.models import Options, check_name, engine_config, missing, suggestion
from flightllm.common.redaction import kept_if_done
from flightllm.config import ENGINES, ModelsConfig
from flightllm.engines import check_engine
from flightllm.engines.registry import without_section
from flightllm.engines.sql_secrets import restricted
from flightllm.errors import ConfigError, InvalidInputError
from flightllm.execution.context import Services
from flightllm.sql.statement import Statement


def change_object(statement: Statement, services: Services) -> int:
    """Run a statement about a model or a prompt. When this returns -1, the change is on disk.

    Raises:
        PermissionDeniedError: the user lacks the right to do this.
        InvalidInputError: the name is taken, or an option is wrong.
        NotFoundError: there is no such object.
        MissingExtraError: the engine's packages are not installed.
    """
    name = statement.key or ""
    match statement.kind:
        case "create_model":
            services.rights.check_admin("CREATE MODEL")  # its options name the server's addresses, files and keys
            _create_model(name, statement, services)
        case "drop_model":
            services.rights.check_admin("DROP MODEL")
            if services.objects.model(name) is not None or not statement.exists_ok:
                services.access.store.forget("MODEL", [("", name)])
                services.objects.drop_model(name)
                services.engines.settle(name)
        case "create_prompt":
            services.rights.check_writer("CREATE PROMPT")
            _create_prompt(name, statement, services)
        case _:
            services.rights.check_writer("DROP PROMPT")
            owner = services.objects.owner_of_prompt(name)
            if owner is not None and not services.rights.may_use("PROMPT", name, owner):
                if not statement.exists_ok:  # a prompt that the user cannot use is reported as missing
                    raise missing("prompt", name)
                return -1
            _check_owner(name, owner, services)
            if owner is not None:
                services.access.store.forget("PROMPT", [("", name)])
            if owner is not None or not statement.exists_ok:
                services.objects.drop_prompt(name)
    return -1


def _create_model(name: str, statement: Statement, services: Services) -> None:
    check_name("model", name)
    if name in {DEFAULT_MODEL, services.config.engine.model}:
        raise InvalidInputError(f"{name!r} is the model in the server's configuration: choose another name")
    if is_new("model", statement, there=services.objects.model(name) is not None):
        with kept_if_done():
            _check_options(name, statement.model_options, services.config.models)
            _check_proxied(name, statement.model_options, services)
        services.objects.put_model(name, statement.model_options, services.rights.principal.name)
        services.engines.settle(name)


def _check_options(name: str, options: Options, models: ModelsConfig) -> None:
    """Check the options as far as possible without loading the model.

    Raises:
        InvalidInputError: an option is missing or wrong.
    """
    if options.get("engine") not in ENGINES:
        found = f"it is {options['engine']!r}" if "engine" in options else "it is missing"
        raise InvalidInputError(f"the option engine of the model {name!r} must be one of {', '.join(ENGINES)}; {found}")
    if "model" not in options and options["engine"] != "fake":
        raise InvalidInputError(f"the model {name!r} needs the option model: the name that its engine uses")
    try:
        check_engine(restricted(engine_config(options), models))
    except ConfigError as error:
        raise InvalidInputError(f"the model {name!r}: {without_section(error)}") from error


def _check_proxied(name: str, options: Options, services: Services) -> None:
    """Check that a proxy names other models that exist.

    Raises:
        InvalidInputError: it names itself, or a model that does not exist.
    """
    models = {DEFAULT_MODEL, services.config.engine.model, *(one.name for one in services.objects.models())}
    for proxied in engine_config(options).proxy_for:
        if proxied == name:
            raise InvalidInputError(f"the model {name!r} cannot be a proxy for itself: proxy_for names other models")
        if proxied not in models:
            raise InvalidInputError(
                f"the model {name!r} cannot be a proxy for {proxied!r}: there is no such model;"
                f" {suggestion(proxied, sorted(models - {name}))}"
            )


def _create_prompt(name: str, statement: Statement, services: Services) -> None:
    check_name("prompt", name)
    text = statement.value or ""
    if not text.strip():
        raise InvalidInputError(f"the text of the prompt {name!r} is empty")
    owner = services.objects.owner_of_prompt(name)
    if is_new("prompt", statement, there=owner is not None):
        _check_owner(name, owner, services)
        services.objects.put_prompt(name, text, services.rights.principal.name)


def _check_owner(name: str, owner: str | None, services: Services) -> None:
    """Raise `PermissionDeniedError` if the prompt belongs to another user."""
    if owner is not None:
        services.rights.check_change(f"the prompt {name!r}", owner)


def is_new(kind: str, statement: Statement, *, there: bool) -> bool:
    """Return whether CREATE must create the object.

    Raises:
        InvalidInputError: the name is taken, and the statement has neither OR REPLACE nor IF NOT EXISTS.
    """
    if there and statement.exists_ok:
        return False
    if there and not statement.or_replace:
        raise InvalidInputError(
            f"the {kind} {statement.key!r} exists: write CREATE OR REPLACE {kind.upper()}, or IF NOT EXISTS"
        )
    return True
