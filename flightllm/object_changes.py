"""CREATE and DROP of models and prompts: who may, what is checked, and what it does to engines that run."""

from flightllm.access.principal import LOCAL, Principal
from flightllm.config import ENGINES
from flightllm.engines import without_section
from flightllm.errors import ConfigError, InvalidInputError, PermissionDeniedError
from flightllm.llm import check_engine
from flightllm.objects import Options, check_name, engine_config
from flightllm.services import Services
from flightllm.sql.statement import Statement


def change_object(statement: Statement, services: Services, principal: Principal = LOCAL) -> int:
    """Run a statement about a model or a prompt; it is on disk once this returns -1.

    Raises:
        PermissionDeniedError: the principal may not do this.
        InvalidInputError: the name is taken, or an option is wrong.
        NotFoundError: there is no such object.
        MissingExtraError: the engine's packages are not installed.
    """
    name = statement.key or ""
    match statement.kind:
        case "create_model":
            _create_model(name, statement, services, principal)
        case "drop_model":
            _check_admin(principal)
            if services.objects.model(name) is not None or not statement.exists_ok:
                services.objects.drop_model(name)
                services.engines.settle(name)
        case "create_prompt":
            _create_prompt(name, statement, services, principal)
        case _:
            _drop_prompt(name, services, principal, exists_ok=statement.exists_ok)
    return -1


def _create_model(name: str, statement: Statement, services: Services, principal: Principal) -> None:
    _check_admin(principal)
    check_name("model", name)
    if name == services.config.engine.model:
        raise InvalidInputError(f"{name!r} is the model in the server's configuration: choose another name")
    if not _is_new("model", statement, there=services.objects.model(name) is not None):
        return
    _check_options(name, statement.model_options)
    services.objects.put_model(name, statement.model_options, principal.name)
    services.engines.settle(name)


def _check_options(name: str, options: Options) -> None:
    """Check what can be checked without loading the model.

    Raises:
        InvalidInputError: an option is missing or wrong.
    """
    if options.get("engine") not in ENGINES:
        found = f"not {options['engine']!r}" if "engine" in options else "and must be given"
        raise InvalidInputError(f"the option engine of the model {name!r} is one of {', '.join(ENGINES)}; {found}")
    if "model" not in options and options["engine"] != "fake":
        raise InvalidInputError(f"the model {name!r} needs the option model: what its engine calls the model")
    try:
        check_engine(engine_config(options))
    except ConfigError as error:
        raise InvalidInputError(f"the model {name!r}: {without_section(error)}") from error


def _create_prompt(name: str, statement: Statement, services: Services, principal: Principal) -> None:
    if principal.role == "readonly":
        raise PermissionDeniedError("prompts are made by the roles user and admin")
    check_name("prompt", name)
    text = statement.value or ""
    if not text.strip():
        raise InvalidInputError(f"the text of the prompt {name!r} is empty")
    versions = _versions(name, services)
    if _is_new("prompt", statement, there=bool(versions)):
        _check_owner(name, versions, principal)
        services.objects.put_prompt(name, text, principal.name)


def _drop_prompt(name: str, services: Services, principal: Principal, *, exists_ok: bool) -> None:
    if principal.role == "readonly":
        raise PermissionDeniedError("prompts are dropped by the roles user and admin")
    versions = _versions(name, services)
    _check_owner(name, versions, principal)
    if versions or not exists_ok:
        services.objects.drop_prompt(name)


def _versions(name: str, services: Services) -> list[str]:
    """Return the owner of each version of a prompt."""
    return [prompt.owner for prompt in services.objects.prompts() if prompt.name == name]


def _check_owner(name: str, owners: list[str], principal: Principal) -> None:
    """Let nobody change what others' queries say, but for an admin."""
    if owners and owners[0] != principal.name and not principal.is_admin:
        raise PermissionDeniedError(
            f"the prompt {name!r} belongs to {owners[0]!r}: only that user or an admin changes it"
        )


def _check_admin(principal: Principal) -> None:
    if not principal.is_admin:
        raise PermissionDeniedError(
            "models name addresses, files and keys of the server: only the role admin changes them"
        )


def _is_new(kind: str, statement: Statement, *, there: bool) -> bool:
    """Tell whether CREATE is to do anything; raises `InvalidInputError` where the name is taken."""
    if there and statement.exists_ok:
        return False
    if there and not statement.or_replace:
        raise InvalidInputError(
            f"the {kind} {statement.key!r} exists: write CREATE OR REPLACE {kind.upper()}, or IF NOT EXISTS"
        )
    return True
