"""The engine spec with which Superset reads this server: times, schemas, what a query would cost, and its end."""

import json
import re
from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import types
from sqlalchemy.dialects.postgresql import DOUBLE_PRECISION
from superset.constants import TimeGrain
from superset.db_engine_specs.base import BaseEngineSpec, LimitMethod
from superset.utils.core import GenericDataType

from flightllm.common.amounts import money

_NOTHING = {"calls": 0, "prompt_tokens": 0, "completion_tokens": 0, "price": None, "seconds": 0.0}


class FlightLLMEngineSpec(BaseEngineSpec):
    """The engine spec of `flightllm://…`."""

    engine = "flightllm"
    engine_name = "FlightLLM"
    default_driver = "adbc"
    sqlalchemy_uri_placeholder = "flightllm://user:password@host:port/schema"
    limit_method = LimitMethod.FORCE_LIMIT
    allows_joins = True
    allows_subqueries = True
    allows_alias_in_select = True
    supports_dynamic_schema = True
    max_column_name_length = 255
    column_type_mappings: ClassVar = (
        (re.compile("^double", re.IGNORECASE), DOUBLE_PRECISION(), GenericDataType.NUMERIC),
        (re.compile("^blob", re.IGNORECASE), types.LargeBinary(), GenericDataType.STRING),
        (re.compile("^(uuid|json)", re.IGNORECASE), types.String(), GenericDataType.STRING),
    )
    _time_grain_expressions: ClassVar = {
        None: "{col}",
        TimeGrain.SECOND: "date_trunc('second', {col})",
        TimeGrain.FIVE_SECONDS: "date_bin(INTERVAL '5 seconds', {col})",
        TimeGrain.THIRTY_SECONDS: "date_bin(INTERVAL '30 seconds', {col})",
        TimeGrain.MINUTE: "date_trunc('minute', {col})",
        TimeGrain.FIVE_MINUTES: "date_bin(INTERVAL '5 minutes', {col})",
        TimeGrain.TEN_MINUTES: "date_bin(INTERVAL '10 minutes', {col})",
        TimeGrain.FIFTEEN_MINUTES: "date_bin(INTERVAL '15 minutes', {col})",
        TimeGrain.THIRTY_MINUTES: "date_bin(INTERVAL '30 minutes', {col})",
        TimeGrain.HOUR: "date_trunc('hour', {col})",
        TimeGrain.SIX_HOURS: "date_bin(INTERVAL '6 hours', {col})",
        TimeGrain.DAY: "date_trunc('day', {col})",
        TimeGrain.WEEK: "date_trunc('week', {col})",
        TimeGrain.WEEK_STARTING_SUNDAY: "date_trunc('week', {col} + INTERVAL '1 day') - INTERVAL '1 day'",
        TimeGrain.WEEK_STARTING_MONDAY: "date_trunc('week', {col})",
        TimeGrain.WEEK_ENDING_SATURDAY: "date_trunc('week', {col} + INTERVAL '1 day') + INTERVAL '5 days'",
        TimeGrain.WEEK_ENDING_SUNDAY: "date_trunc('week', {col}) + INTERVAL '6 days'",
        TimeGrain.MONTH: "date_trunc('month', {col})",
        TimeGrain.QUARTER: "date_trunc('quarter', {col})",
        TimeGrain.YEAR: "date_trunc('year', {col})",
    }

    @classmethod
    def convert_dttm(cls, target_type: str, dttm: datetime, db_extra: dict[str, Any] | None = None) -> str | None:
        """Return a time as a literal of a column's type; None for types without a time."""
        del db_extra
        kind = cls.get_sqla_column_type(target_type)
        if isinstance(kind, types.Date):
            return f"DATE '{dttm.date().isoformat()}'"
        if isinstance(kind, types.DateTime):
            return f"TIMESTAMP '{dttm.isoformat(sep=' ', timespec='microseconds')}'"
        return None

    @classmethod
    def epoch_to_dttm(cls) -> str:
        """Return the time of seconds since 1970."""
        return "to_timestamp({col})"

    @classmethod
    def epoch_ms_to_dttm(cls) -> str:
        """Return the time of milliseconds since 1970."""
        return "to_timestamp_millis({col})"

    @classmethod
    def adjust_engine_params(
        cls, uri: Any, connect_args: dict[str, Any], catalog: str | None = None, schema: str | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Return the address with the schema that the user chose in SQL Lab."""
        del catalog
        return (uri.set(database=schema) if schema else uri), connect_args

    @classmethod
    def get_schema_from_engine_params(cls, sqlalchemy_uri: Any, connect_args: dict[str, Any]) -> str | None:
        """Return the schema of the address."""
        del connect_args
        return sqlalchemy_uri.database or None

    @classmethod
    def get_allow_cost_estimate(cls, extra: dict[str, Any]) -> bool:
        """Return yes: SQL Lab can ask what a query would cost."""
        del extra
        return True

    @classmethod
    def estimate_statement_cost(cls, database: Any, statement: str, cursor: Any) -> dict[str, Any]:
        """Return the predicted use of the model by one statement, which does not run."""
        del database
        cursor.execute(f"EXPLAIN (FORMAT JSON, SAVINGS off) {statement}")
        predicted: dict[str, Any] = json.loads(cursor.fetchone()[0])["total"]["predicted"] or _NOTHING
        return predicted

    @classmethod
    def query_cost_formatter(cls, raw_cost: list[dict[str, Any]]) -> list[dict[str, str]]:
        """Return what each statement would cost, as texts by name."""
        return [
            {
                "Model calls": f"{one['calls']:,}",
                "Tokens": f"{one['prompt_tokens'] + one['completion_tokens']:,}",
                "Price": "no known price" if one["price"] is None else money(one["price"]),
                "Time": f"{one['seconds'] or 0:,.1f} s",
            }
            for one in raw_cost
        ]

    @classmethod
    def get_cancel_query_id(cls, cursor: Any, query: Any) -> str:
        """Return the number of the session that runs a query."""
        del query
        cursor.execute("SELECT pg_backend_pid()")
        return str(cursor.fetchone()[0])

    @classmethod
    def cancel_query(cls, cursor: Any, query: Any, cancel_query_id: str) -> bool:
        """Stop the statement of a session, and its model calls; return whether there was one."""
        del query
        cursor.execute("SELECT pg_cancel_backend(CAST(? AS INT))", [cancel_query_id])
        return bool(cursor.fetchone()[0])
