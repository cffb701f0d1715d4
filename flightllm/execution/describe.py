"""Describe a statement by planning it without running it; its parameters can lack values."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, product
from typing import TYPE_CHECKING

import pyarrow as pa
import structlog
from datafusion import LogicalPlan, SessionContext

from flightllm.catalog import ROWS_ONLY
from flightllm.datafusion.contexts import planned_text
from flightllm.errors import CancelledError, FlightLLMError, SqlError
from flightllm.execution.bind import extract, frame_of, scalar_context, shown_names
from flightllm.execution.context import Services
from flightllm.plan.parameter_casts import cast_types, parameter_call, register_parameters
from flightllm.plan.parameter_types import parameter_types
from flightllm.plan.planner import register_stubs
from flightllm.sql.calls import Extracted
from flightllm.sql.classify import classify
from flightllm.sql.complexity import WEIGHTS, measure
from flightllm.sql.list_parameters import with_single_values
from flightllm.sql.literals import literal
from flightllm.sql.parameters import bind, numbered, with_parameters
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.statement import Statement

if TYPE_CHECKING:
    from flightllm.execution.kept_plans import KeptPlan

_log = structlog.get_logger(__name__)


_EMPTY = pa.schema([])
_INTERVAL = pa.month_day_nano_interval()
_STAND_INS: tuple[Callable[[int], pa.Array], ...] = (
    lambda _: pa.nulls(1),
    lambda index: pa.array([f"text {index}"]),
    lambda index: pa.array([pa.MonthDayNano([0, index + 1, 0])], _INTERVAL),
    lambda index: pa.array([index + 1]),
    lambda index: pa.array([[f"text {index}", "another"]]),
)
"""Stand-in values by a parameter's index; equal values would give two columns the same name.

The text has two words because a text of one word can be the name of a prompt, which can be missing. The list stands in
for labels.
"""
_MOST_TRIES = 60
_DEEP_CHAIN = 150
"""Protobuf reads messages up to 100 levels deep; each operator of a chain takes at least one."""
_MOST_ALONE = 16
"""The most parameters whose types are found one by one."""


@dataclass(frozen=True, slots=True)
class Description:
    """The result columns of a statement (of an update: the columns of RETURNING) and one field per parameter.

    Parameters are named 0, 1, … or as the text names them. A parameter has the type that its place needs: the type of a
    cast, of the other side of a comparison, of a function's signature, or of a column. Otherwise it is a text.
    Clients can bind other types, which can change a column's type; but JDBC drivers bind only the types given here.
    """

    schema: pa.Schema
    is_update: bool
    parameters: pa.Schema
    plan: "KeptPlan | None" = None
    """The plan of a query without parameters, for its first execution."""
    asks_no_model: bool = False
    """Whether the plan is known to have no AI calls."""

    def __reduce__(self) -> tuple[type["Description"], tuple[pa.Schema, bool, pa.Schema]]:
        """Leave the plan out of a pickle: a plan works only in its own process."""
        return Description, (self.schema, self.is_update, self.parameters)


def describe(
    statement: Statement,
    services: Services,
    schema_of: Callable[[Statement], pa.Schema],
    row: pa.RecordBatch | None = None,
) -> Description:
    """Describe a statement with the parameter values of `row`, or with stand-in values.

    `schema_of` plans a statement whose parameters are bound.

    Raises:
        FlightLLMError: the statement is wrong.
    """
    wanted, text = statement.parameters, statement.whole
    types, names = _inferred(numbered(text), services) if wanted else ({}, ())
    types = _with_casts(text, _with_lists(text, types, services), len(wanted), services)
    parameters = _parameters(wanted, types)
    if not wanted and row is None:
        return Description(schema_of(statement), statement.is_update, parameters)
    if statement.is_update:
        schema = _check_any(statement, parameters, schema_of)
        return Description(schema, is_update=True, parameters=parameters)
    if row is not None:
        schema = _schema_of(text, row.columns, schema_of)
    else:
        schema, values = _schema_of_any(text, parameters, schema_of)
        if intervals := {index: _INTERVAL for index, value in enumerate(values) if value.type == _INTERVAL}:
            others, names = _inferred(numbered(text, intervals), services)
            parameters = _parameters(wanted, {**types, **others, **intervals})
    if len(names) == len(schema):
        names = tuple(statement.names().shown(names))
        schema = pa.schema([field.with_name(name) for field, name in zip(schema, names, strict=True)])
    return Description(schema, is_update=False, parameters=parameters)


def _parameters(names: Sequence[str], types: Mapping[int, pa.DataType]) -> pa.Schema:
    return pa.schema([pa.field(name, types.get(index, pa.string())) for index, name in enumerate(names)])


def _schema_of(text: ParsedText, values: Sequence[pa.Array], schema_of: Callable[[Statement], pa.Schema]) -> pa.Schema:
    return schema_of(classify(bind(text, pa.RecordBatch.from_arrays(values, [str(i) for i in range(len(values))]))))


def _schema_of_any(
    text: ParsedText, parameters: pa.Schema, schema_of: Callable[[Statement], pa.Schema]
) -> tuple[pa.Schema, list[pa.Array]]:
    """Plan with a NULL of the right type for each parameter; if this fails, try other stand-in values.

    If the error stays the same with NULLs, texts, numbers, intervals and lists, it does not concern the parameters and
    ends the search. Return the schema and the values.
    """
    errors: list[SqlError] = []
    uniform = len(_STAND_INS) + _some_known(parameters)
    for values in islice(_stand_ins(parameters), _MOST_TRIES):
        try:
            schema = _schema_of(text, values, schema_of)
            return _with_texts(schema, text, values, schema_of), values
        except SqlError as error:
            errors.append(error)
        if len(errors) == uniform and len({str(error) for error in errors}) == 1:
            break
    raise errors[0]


def _check_any(statement: Statement, parameters: pa.Schema, schema_of: Callable[[Statement], pa.Schema]) -> pa.Schema:
    """Return the columns of RETURNING; raise the errors of a change that no parameter values can avoid.

    Other errors appear when the client binds values.
    """
    errors: list[FlightLLMError] = []
    for values in islice(_stand_ins(parameters), len(_STAND_INS) + _some_known(parameters)):
        try:
            return _schema_of(statement.whole, values, schema_of)
        except CancelledError:
            raise
        except FlightLLMError as error:
            errors.append(error)
    if len({str(error) for error in errors}) == 1 or statement.returning:
        raise errors[0]
    return _EMPTY


def _with_texts(
    schema: pa.Schema, text: ParsedText, values: Sequence[pa.Array], schema_of: Callable[[Statement], pa.Schema]
) -> pa.Schema:
    """Return the schema; its untyped columns get the type that they have if unknown parameters are texts."""
    if pa.null() not in schema.types or all(value.type != pa.null() for value in values):
        return schema
    texts = [pa.nulls(1, pa.string()) if value.type == pa.null() else value for value in values]
    try:
        types = _schema_of(text, texts, schema_of).types
    except SqlError:
        return schema
    pairs = zip(schema, types, strict=True)
    return pa.schema([field.with_type(kind) if field.type == pa.null() else field for field, kind in pairs])


def _stand_ins(parameters: pa.Schema) -> Iterator[list[pa.Array]]:
    """Yield lists of stand-in values: NULLs of known types, one kind for all, then mixtures; no list twice."""
    if _some_known(parameters):
        yield [pa.nulls(1, pa.null() if field.type == pa.string() else field.type) for field in parameters]
    count, kinds, tried = len(parameters), range(len(_STAND_INS)), set()
    uniform = ((kind,) * count for kind in kinds)
    mixed = (product(some, repeat=count) for some in (kinds[:2], kinds[:3:2], kinds))
    for choice in chain(uniform, *mixed):
        if choice not in tried:
            tried.add(choice)
            yield [_STAND_INS[kind](index) for index, kind in enumerate(choice)]


def _some_known(parameters: pa.Schema) -> bool:
    return any(field.type != pa.string() for field in parameters)


def _inferred(text: ParsedText, services: Services) -> tuple[Mapping[int, pa.DataType], tuple[str, ...]]:
    """Return the types of parameters by index, and a query's column names if they do not depend on values."""
    names: tuple[str, ...] = ()
    try:
        if _is_too_deep(text):
            return {}, names
        plan, context, names = _planned(text, services)
        return parameter_types(plan, context), names
    except CancelledError:
        raise
    except Exception as error:  # noqa: BLE001 - planning the statement with values raises the error again
        _log.debug("no parameter types", error=str(error))
        return {}, names


def _with_lists(text: ParsedText, types: Mapping[int, pa.DataType], services: Services) -> Mapping[int, pa.DataType]:
    """Return `types` and those of the parameters in `x = ANY($1)`: lists of the type of `x`."""
    single, lists = with_single_values(numbered(text))
    asked = lists - types.keys()
    if not asked:
        return types
    found, _ = _inferred(single, services)
    return {**types, **{index: pa.list_(found[index]) for index in asked & found.keys()}}


def _is_too_deep(text: ParsedText) -> bool:
    """Return whether a chain of operators is too deep for protobuf's limit, so Substrait cannot show its types.

    DataFusion would take seconds to plan such a chain of unbound parameters: 900 additions took 8 s.
    """
    found = measure(text.tokens)
    links = sum(count * WEIGHTS[what] for what, count in found.counts.items() if what != "operators")
    return found.deepest - links > _DEEP_CHAIN * WEIGHTS["operators"]


def _with_casts(
    text: ParsedText, types: Mapping[int, pa.DataType], count: int, services: Services
) -> Mapping[int, pa.DataType]:
    """Return `types` and the types of further parameters: those to which DataFusion casts an untyped value there.

    If planning fails with all unknown parameters at once, each is tried by itself.
    """
    unknown = [index for index in range(count) if index not in types]
    found: Mapping[int, pa.DataType] = dict(types)
    for together in ([unknown], [[index] for index in unknown[:_MOST_ALONE]]):
        for asked in filter(None, together):
            found = {**_casts(text, found, asked, services), **found}
        if any(index in found for index in unknown) or len(unknown) == 1:
            break
    return found


def _casts(
    text: ParsedText, known: Mapping[int, pa.DataType], asked: Sequence[int], services: Services
) -> Mapping[int, pa.DataType]:
    def write(index: int) -> str:
        if index in asked:
            return parameter_call(index)
        return literal(pa.nulls(1, known[index])[0]) if index in known else f"${index + 1}"

    try:
        plan, context, _ = _planned(with_parameters(text, write), services, asked)
        return cast_types(plan, context, asked, deep=_is_too_deep(text))
    except CancelledError:
        raise
    except Exception as error:  # noqa: BLE001 - planning the statement with values raises the error again
        _log.debug("no casts of parameters", error=str(error))
        return {}


def _planned(
    text: ParsedText, services: Services, asked: Sequence[int] = ()
) -> tuple[LogicalPlan, SessionContext, tuple[str, ...]]:
    """Plan a statement with unbound parameters; also return the names of a query's columns.

    `asked` holds the indexes of the parameters that a call replaces.
    """
    statement = classify(text)
    if statement.kind in {"insert", "update", "delete"}:
        context = services.catalog.context()
        register_parameters(context, asked)
        (plan,) = planned_text(context, statement.text, ROWS_ONLY).logical_plan().inputs()
        return plan, context, ()
    query = services.catalog.inline_views(statement.parsed_query)
    extracted = extract(query, services)[0] if services.functions.may_be_in(query.sql) else Extracted(query.sql, {})
    context = scalar_context(services, extracted, planning=True)
    register_parameters(context, asked)
    register_stubs(context, extracted.calls)
    frame = frame_of(context, extracted)
    own = statement.kind != "query" or statement.summarized or statement.described is not None
    names = [] if own else shown_names(frame, extracted)
    return frame.logical_plan(), context, tuple(names)
