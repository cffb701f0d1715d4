"""What planning alone says about a statement, also one with parameters that have no values yet."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice, product

import pyarrow as pa
import structlog
from datafusion import LogicalPlan, SessionContext

from flightllm.catalog import ROWS_ONLY
from flightllm.errors import SqlError
from flightllm.frames import extract, frame_of, scalar_context, shown_names
from flightllm.plan.parameter_types import parameter_types
from flightllm.plan.planner import register_stubs
from flightllm.services import Services
from flightllm.sql.calls import Extracted
from flightllm.sql.classify import classify
from flightllm.sql.parameters import bind, count_parameters, numbered
from flightllm.sql.statement import Statement

_log = structlog.get_logger(__name__)


_EMPTY = pa.schema([])
_STAND_INS = (pa.nulls(1), pa.array(["a text"]), pa.array([1]), pa.array([["a text", "another"]]))
"""A text of one word could be the name of a prompt, and there may be none; labels are a list."""
_MOST_TRIES = 40


@dataclass(frozen=True, slots=True)
class Description:
    """What planning says of a statement: result columns (none for an update) and one field per parameter.

    Parameters are named 0, 1, … and have the type that their place asks for, else text. Clients may bind other types,
    but JDBC drivers bind only what is asked for here.
    """

    schema: pa.Schema
    is_update: bool
    parameters: pa.Schema


def describe(sql: str, services: Services, schema_of: Callable[[Statement], pa.Schema]) -> Description:
    """Describe a statement; `schema_of` plans one whose parameters are bound, here by values that stand in for them.

    Raises:
        FlightLLMError: the statement is wrong.
    """
    count = count_parameters(sql)
    types, names = _inferred(sql, services) if count else ({}, ())
    parameters = pa.schema([pa.field(str(index), types.get(index, pa.string())) for index in range(count)])
    if classify(sql).is_update:
        return Description(_EMPTY, is_update=True, parameters=parameters)
    schema = _schema_of_any(sql, parameters, schema_of)
    if len(names) == len(schema):
        schema = pa.schema([field.with_name(name) for field, name in zip(schema, names, strict=True)])
    return Description(schema, is_update=False, parameters=parameters)


def _schema_of_any(sql: str, parameters: pa.Schema, schema_of: Callable[[Statement], pa.Schema]) -> pa.Schema:
    """Plan with NULL of the right type for each parameter, or where that cannot be, with plain values for some.

    An error that is the same whether all are NULL, texts, numbers or lists is about something else and ends the search.
    """
    errors: list[SqlError] = []
    uniform = len(_STAND_INS) + _some_known(parameters)
    for values in islice(_stand_ins(parameters), _MOST_TRIES):
        try:
            bound = bind(sql, pa.RecordBatch.from_arrays(values, names=parameters.names))
            return schema_of(classify(bound))
        except SqlError as error:
            errors.append(error)
        if len(errors) == uniform and len({str(error) for error in errors}) == 1:
            break
    raise errors[0]


def _stand_ins(parameters: pa.Schema) -> Iterator[list[pa.Array]]:
    """Yield values: NULLs of the types known, then all of one kind, NULLs and texts, any mixture; none twice."""
    if _some_known(parameters):
        yield [pa.nulls(1, pa.null() if field.type == pa.string() else field.type) for field in parameters]
    count, kinds, tried = len(parameters), range(len(_STAND_INS)), set()
    uniform = ((kind,) * count for kind in kinds)
    for choice in chain(uniform, product(kinds[:2], repeat=count), product(kinds, repeat=count)):
        if choice not in tried:
            tried.add(choice)
            yield [_STAND_INS[kind] for kind in choice]


def _some_known(parameters: pa.Schema) -> bool:
    return any(field.type != pa.string() for field in parameters)


def _inferred(sql: str, services: Services) -> tuple[Mapping[int, pa.DataType], tuple[str, ...]]:
    """Return the types of parameters by index, and a query's column names as they are for any values, if known."""
    try:
        plan, context, names = _planned(numbered(sql), services)
        return parameter_types(plan, context), names
    except Exception as error:  # noqa: BLE001 - whatever is wrong is said when the statement is planned with values
        _log.debug("no parameter types", error=str(error))
        return {}, ()


def _planned(sql: str, services: Services) -> tuple[LogicalPlan, SessionContext, tuple[str, ...]]:
    """Plan a statement that still has its parameters; return the names of a query's columns too."""
    statement = classify(sql)
    if statement.kind in {"insert", "update", "delete"}:
        context = services.catalog.context()
        (plan,) = context.sql_with_options(statement.text, ROWS_ONLY).logical_plan().inputs()
        return plan, context, ()
    text = services.catalog.inline_views(statement.query or statement.text)
    extracted = extract(text, services) if services.functions.may_be_in(text) else Extracted(text, {})
    context = scalar_context(services, extracted, planning=True)
    register_stubs(context, extracted.calls)
    frame = frame_of(context, extracted)
    names = shown_names(frame, extracted) if statement.kind == "query" else []
    return frame.logical_plan(), context, tuple(names)
