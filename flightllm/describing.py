"""What can be told of a statement with parameters before it gets their values."""

from dataclasses import dataclass

import pyarrow as pa
import structlog
from datafusion import LogicalPlan, SessionContext

from flightllm.catalog import ROWS_ONLY
from flightllm.frames import extract, frame_of, scalar_context, shown
from flightllm.plan.parameter_types import parameter_types
from flightllm.plan.planner import register_stubs
from flightllm.services import Services
from flightllm.sql.calls import Extracted
from flightllm.sql.classify import classify
from flightllm.sql.parameters import count_parameters, numbered

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Parameters:
    """One field per parameter, named 0, 1, …, and a query's column names as they are for any values, if known.

    A field has the type its parameter's place asks for, else text. Clients may bind other types, but JDBC drivers bind
    only what is asked for here.
    """

    schema: pa.Schema
    columns: tuple[str, ...] = ()


def describe_parameters(sql: str, services: Services) -> Parameters:
    """Return what is known of the parameters of `sql`.

    Raises:
        SqlError: the placeholders are wrong.
    """
    count = count_parameters(sql)
    if not count:
        return Parameters(pa.schema([]))
    types: dict[int, pa.DataType] = {}
    columns: tuple[str, ...] = ()
    try:
        plan, context, columns = _planned(numbered(sql), services)
        types.update(parameter_types(plan, context))
    except Exception as error:  # noqa: BLE001 - whatever is wrong is said when the statement is planned with values
        _log.debug("no parameter types", error=str(error))
    return Parameters(pa.schema([pa.field(str(i), types.get(i, pa.string())) for i in range(count)]), columns)


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
    names = shown(frame.schema(), extracted).names if statement.kind == "query" else []
    return frame.logical_plan(), context, tuple(names)
