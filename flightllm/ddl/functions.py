"""CREATE and DROP of functions: required rights, and checks of the name and the expression."""

import re
from dataclasses import replace
from itertools import pairwise
from typing import Final, TypeAlias

from flightllm.catalog.functions import CreatedFunction, Kind
from flightllm.catalog.models import check_name, missing
from flightllm.common.names import quoted
from flightllm.common.type_names import type_name
from flightllm.config.session_settings import Settings
from flightllm.ddl.models import is_new
from flightllm.dialect.functions import NAMES as DIALECT_FUNCTIONS
from flightllm.dialect.vendor_calls import NAMES as VENDOR_FUNCTIONS
from flightllm.errors import AICallError, FlightLLMError, InvalidInputError, NotFoundError
from flightllm.execution.batch_query import BatchQuery
from flightllm.execution.context import Services
from flightllm.execution.late_query import LateQuery
from flightllm.execution.plain_query import PlainQuery
from flightllm.execution.planning import plan
from flightllm.execution.staged_query import StagedQuery
from flightllm.functions.stored import StoredFunction
from flightllm.sql.alignment import edited
from flightllm.sql.calls import EXPRESSION_FOLLOWS
from flightllm.sql.keywords import ENDS_EXPRESSION
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.passes.passes import edits
from flightllm.sql.statement import Statement
from flightllm.sql.tokens import tokenize

PlannedCalls: TypeAlias = PlainQuery | BatchQuery | StagedQuery
_BEFORE, _AFTER = "SELECT (\n", "\n)"
_NAME: Final = re.compile(r"[^\W\d]\w*")
_SYNTAX: Final = frozenset((*EXPRESSION_FOLLOWS, *ENDS_EXPRESSION, "cast", "extract", "exists", "interval", "row"))


def change_function(statement: Statement, services: Services, settings: Settings) -> int:
    """Run CREATE or DROP FUNCTION. When this returns -1, the change is on disk.

    Raises:
        PermissionDeniedError: the user lacks the right to do this.
        InvalidInputError: the name is taken.
        NotFoundError: there is no such function.
        FlightLLMError: the expression is wrong.
    """
    name = statement.key or ""
    if statement.kind == "drop_function":
        drop_function(name, services, "function", exists_ok=statement.exists_ok)
        return -1
    function, new, before = _of_statement(statement, services)
    if new:
        returns = checked_type(function, statement.parameter_types, services, settings)
        created = CreatedFunction(
            name, statement.columns, function.body, returns, statement.model_options, function.owner
        )
        services.objects.put_function(created, before)
    return -1


def checked_function(statement: Statement, services: Services, settings: Settings) -> PlannedCalls:
    """Check all that CREATE FUNCTION checks, and create nothing; return the plan of the expression over no rows.

    Raises:
        PermissionDeniedError: the user lacks the right to do this.
        InvalidInputError: the name is taken.
        FlightLLMError: the expression is wrong.
    """
    function, _, _ = _of_statement(statement, services)
    return _planned(function, statement.parameter_types, services, settings, rows="WHERE false")


def _of_statement(statement: Statement, services: Services) -> tuple[StoredFunction, bool, CreatedFunction | None]:
    """Return the function of a CREATE, and what `is_new_function` returns."""
    services.rights.check_writer("CREATE FUNCTION")
    new, before = is_new_function(statement, services, "function")
    body = readable(statement.value or "")
    return StoredFunction(statement.key or "", statement.columns, body, services.rights.principal.name), new, before


def is_new_function(statement: Statement, services: Services, kind: Kind) -> tuple[bool, CreatedFunction | None]:
    """Return whether CREATE must create a function, whose name and owner are checked, and the one of this name.

    Raises:
        InvalidInputError: the name is taken, also by an object of the other kind, or cannot be the name of a function.
        PermissionDeniedError: the function belongs to another user.
    """
    name = statement.key or ""
    check_function_name(name, services)
    before = services.objects.function(name)
    if before is not None and not statement.exists_ok and before.kind != kind:
        raise InvalidInputError(f"{name!r} is a {before.kind}: drop it first, or choose another name")
    if not is_new(kind, statement, there=before is not None):
        return False, before
    if before is not None:
        services.rights.check_change(f"the {kind} {name!r}", before.owner)
    return True, before


def to_change(name: str, services: Services, kind: Kind, verb: str) -> CreatedFunction:
    """Return the function or filter that `verb` changes.

    Raises:
        PermissionDeniedError: it belongs to another user.
        NotFoundError: there is no such function, or the user has no right to it.
        InvalidInputError: the name is that of an object of the other kind.
    """
    services.rights.check_writer(f"{verb} {kind.upper()}")
    function = services.objects.function(name)
    if function is None or not services.rights.may_use("FUNCTION", name, function.owner):
        raise missing(kind, name)  # a function that the user cannot use is reported as missing
    if function.kind != kind:
        instead = f"write DROP {function.kind.upper()}" if verb == "DROP" else "only a filter is fitted again"
        raise InvalidInputError(f"{name!r} is a {function.kind}: {instead}")
    services.rights.check_change(f"the {kind} {name!r}", function.owner)
    return function


def drop_function(name: str, services: Services, kind: Kind, *, exists_ok: bool) -> None:
    """Drop a function or a filter, and the rights to it.

    Raises:
        PermissionDeniedError: it belongs to another user.
        NotFoundError: there is no such function, or the user has no right to it.
        InvalidInputError: the name is that of an object of the other kind.
    """
    try:
        to_change(name, services, kind, "DROP")
    except NotFoundError:
        if exists_ok:
            return
        raise
    services.access.store.forget("FUNCTION", [("", name)])
    services.objects.drop_function(name)


def check_function_name(name: str, services: Services) -> None:
    """Check that a name can be that of a new function.

    Raises:
        InvalidInputError: the server has a function of this name, or a call cannot be written with it.
    """
    check_name("function", name)
    if _NAME.fullmatch(name) is None or name != name.lower():
        raise InvalidInputError(
            f"{name!r} cannot be the name of a function: write letters in lower case, digits and '_'"
        )
    taken = services.functions.knows(name) or name in DIALECT_FUNCTIONS or name in VENDOR_FUNCTIONS
    if taken or name in _SYNTAX or name.startswith("ai_") or _is_known(name, services):
        raise InvalidInputError(f"{name!r} is a name of SQL or of the server's own functions: choose another name")


def _is_known(name: str, services: Services) -> bool:
    """Return whether the planner knows a function of this name."""
    context = services.catalog.context(planning=True)
    listed = context.sql(f"SHOW FUNCTIONS LIKE '{name.replace('_', chr(92) + '_')}'").to_arrow_table()
    return name in listed["function_name"].to_pylist()


def readable(body: str) -> str:
    """Return an expression as DataFusion reads it, such as `t` for `t COLLATE "C"`.

    The passes of a statement do not reach the expression in CREATE. Those that all dialects share run here.

    Raises:
        UnsupportedError: no pass can put a construct right.
    """
    text = f"{_BEFORE}{body}{_AFTER}"
    changes = edits(
        ParsedText(text), lambda _: {}, lambda _: False, lambda _: False, as_postgres=False, as_duckdb=False
    )
    return edited(text, changes).removeprefix(_BEFORE).removesuffix(_AFTER)


def checked_type(function: StoredFunction, types: tuple[str, ...], services: Services, settings: Settings) -> str:
    """Plan a function's expression over parameters of these types; return the name of the type of its values.

    Raises:
        FlightLLMError: the expression cannot be planned, or has no AI call, or calls a function that SQL created.
    """
    return returned_type(_planned(function, types, services, settings))


def returned_type(query: PlannedCalls) -> str:
    """Return the name of the type of a planned function's values."""
    return type_name(query.schema.field(0).type)


def _planned(
    function: StoredFunction, types: tuple[str, ...], services: Services, settings: Settings, *, rows: str = ""
) -> PlannedCalls:
    given = [*types, *([""] * (len(function.parameters) - len(types)))]
    columns = [
        f"CAST(NULL AS {type_ or 'VARCHAR'}) AS {quoted(name)}"
        for name, type_ in zip(function.parameters, given, strict=True)
    ]
    stored = {**services.functions.stored, function.name: function}
    names = [token.text.lower() for token, after in pairwise(tokenize(function.body)) if after.is_symbol("(")]
    names = [name for name in names if name in stored]
    if function.name in names:
        raise AICallError(f"the expression of {function.name} calls {function.name} itself: write an AI call")
    if names:
        raise AICallError(
            f"the expression of {function.name} calls the function {names[0]}: write its expression there"
        )
    services = replace(services, functions=services.functions.with_stored(stored))
    source = f" FROM (SELECT {', '.join(columns)}) AS given" if columns else ""
    text = f"SELECT {function.name}({', '.join(map(quoted, function.parameters))}) AS value{source} {rows}"
    try:
        query = plan(ParsedText(text), services, settings)
    except FlightLLMError as error:
        error.args = (f"the expression of the function {function.name}: {error}",)
        raise
    if isinstance(query, LateQuery) or not query.extracted.calls:
        raise AICallError(f"the expression of {function.name} has no call of an AI function")
    return query
