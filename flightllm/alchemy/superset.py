"""The engine spec with which Superset reads this server: grains of time, literals of times, limits, schemas."""

from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import types
from superset.constants import TimeGrain
from superset.db_engine_specs.base import BaseEngineSpec, LimitMethod


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
    _time_grain_expressions: ClassVar = {
        None: "{col}",
        TimeGrain.SECOND: "date_trunc('second', {col})",
        TimeGrain.MINUTE: "date_trunc('minute', {col})",
        TimeGrain.FIVE_MINUTES: "date_bin(INTERVAL '5 minutes', {col})",
        TimeGrain.TEN_MINUTES: "date_bin(INTERVAL '10 minutes', {col})",
        TimeGrain.FIFTEEN_MINUTES: "date_bin(INTERVAL '15 minutes', {col})",
        TimeGrain.THIRTY_MINUTES: "date_bin(INTERVAL '30 minutes', {col})",
        TimeGrain.HOUR: "date_trunc('hour', {col})",
        TimeGrain.DAY: "date_trunc('day', {col})",
        TimeGrain.WEEK: "date_trunc('week', {col})",
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
