"""Parameters that PostgreSQL's clients set and show: those that change nothing here are kept, others are checked."""

from collections.abc import Iterator, Mapping

from flightllm.pg_catalog.facts import SHOWN_VERSION
from flightllm.postgres.failures import WireError
from flightllm.postgres.local_settings import LocalSettings, PutBack
from flightllm.postgres.modes import LEVELS, read_switch
from flightllm.postgres.times import millis_of, time_text
from flightllm.sql.client_parameters import DEFAULTS

_UTF8 = ("utf8", "utf-8", "unicode", "sql_ascii", "default", "auto")
_REPORTED: Mapping[str, str] = {
    "application_name": "application_name",
    "client_encoding": "client_encoding",
    "datestyle": "DateStyle",
    "intervalstyle": "IntervalStyle",
    "timezone": "TimeZone",
    "integer_datetimes": "integer_datetimes",
    "is_superuser": "is_superuser",
    "server_encoding": "server_encoding",
    "server_version": "server_version",
    "session_authorization": "session_authorization",
    "in_hot_standby": "in_hot_standby",
    "standard_conforming_strings": "standard_conforming_strings",
    "default_transaction_read_only": "default_transaction_read_only",
}
"""The parameters whose values the server reports, with the spelling of PostgreSQL."""
_KNOWN = (
    *("application_name", "extra_float_digits", "client_min_messages", "row_security", "jit"),
    *("default_tablespace", "default_table_access_method"),
)
_FREE: Mapping[str, str] = {
    **{name: DEFAULTS[name] for name in _KNOWN},
    "synchronous_commit": "on",
    "work_mem": "4MB",
    "maintenance_work_mem": "64MB",
    "xmloption": "content",
    "lc_messages": "C",
    "lc_monetary": "C",
    "lc_numeric": "C",
    "lc_time": "C",
    "geqo": "on",
    "check_function_bodies": "on",
    "log_statement": "none",
    "log_min_messages": "warning",
    "escape_string_warning": "on",
    "cursor_tuple_fraction": "1",
    "force_parallel_mode": "off",
    "plan_cache_mode": "auto",
    "random_page_cost": "4",
    "tcp_keepalives_idle": "0",
}
"""Parameters with any value, because they change no result of this server, and their defaults."""
_STYLES = ("postgres", "iso_8601")
"""The values of `IntervalStyle` that the server can write."""
_NO_TIMEOUTS = ("lock_timeout", "idle_in_transaction_session_timeout", "idle_session_timeout")
"""Limits that are kept but end nothing: no statement waits for a lock of another one."""
_READ_ONLY = "default_transaction_read_only"
_AT_START: Mapping[str, str] = {
    **_FREE,
    **dict.fromkeys(_NO_TIMEOUTS, "0"),
    "intervalstyle": _STYLES[0],
    _READ_ONLY: "off",
}
_ISOLATION = ("transaction_isolation", "default_transaction_isolation")
_FIXED: Mapping[str, tuple[str, ...]] = {
    "bytea_output": ("hex",),
    "quote_all_identifiers": ("off",),
    "client_encoding": _UTF8,
    "array_nulls": ("on",),
}
"""The values of each parameter with which results look as they do."""
_SHOWN: Mapping[str, str] = {
    **DEFAULTS,
    "server_version": SHOWN_VERSION,
    "array_nulls": "on",
    "in_hot_standby": "off",
    "max_connections": "0",
    "transaction_deferrable": "off",
    "quote_all_identifiers": "off",
    "wal_level": "replica",
    "password_encryption": "scram-sha-256",
    "backslash_quote": "safe_encoding",
    "default_transaction_deferrable": "off",
}


def _switch(value: bool) -> str:  # noqa: FBT001 - one value, one text
    return "on" if value else "off"


class ClientSettings:
    """The values of one connection's parameters."""

    def __init__(self, user: str, *, is_superuser: bool, has_tls: bool = False) -> None:
        named = {"session_authorization": user, "is_superuser": _switch(is_superuser), "ssl": _switch(has_tls)}
        self._fixed = {**_SHOWN, **named}
        self._values = dict(_AT_START)
        self.timeout = "0"
        """The value of `statement_timeout`."""
        self._at_start = dict(_AT_START)
        self.local = LocalSettings()
        """The settings whose values end with the open transaction."""
        self.transaction_read_only: bool | None = None
        """Whether the open transaction is read-only; None between transactions."""
        self._told: dict[str, str] = {}
        """The values that the client knows."""

    def set(self, name: str, value: str) -> bool:
        """Keep a value; return False for a parameter that is not one of these.

        Raises:
            WireError: the server does not have this value of the parameter.
        """
        name = name.lower()
        if name == "intervalstyle":
            value = value.lower().strip("'\"")
            if value not in (*_STYLES, "default"):
                raise WireError("22023", f"IntervalStyle cannot be {value[:40]!r} here: set {' or '.join(_STYLES)}")
        if name in _ISOLATION:
            if value.lower().strip("'\"") not in (*LEVELS, "default"):
                raise WireError("22023", f'invalid value for parameter "{name}": {value[:40]!r}')
            return True
        if name == _READ_ONLY and value.lower() != "default":
            value = _switch(read_switch(name, value))
        if name in _NO_TIMEOUTS and value.lower() != "default":
            value = time_text(millis_of(value.strip("'\"")))
        if name in self._values:
            self.local.drop(name)
            self._values[name] = self._at_start[name] if value.lower() == "default" else value
            return True
        if name in _FIXED:
            if value.lower().strip("'\"") not in (*_FIXED[name], "default"):
                raise WireError("22023", f"{name} cannot be {value[:40]!r} here: it is {self.show(name)!r}")
            return True
        return False

    @property
    def is_read_only(self) -> bool:
        """Return whether statements must change nothing now."""
        if self.transaction_read_only is not None:
            return self.transaction_read_only
        return self._values[_READ_ONLY] == "on"

    def kept(self) -> PutBack:
        """Return a function that goes back to the present values."""
        values, timeout, read_only, local = (
            dict(self._values),
            self.timeout,
            self.transaction_read_only,
            self.local.kept(),
        )

        def go_back() -> None:
            self._values, self.timeout, self.transaction_read_only = dict(values), timeout, read_only
            self.local.go_back(local)

        return go_back

    def kept_value(self, name: str) -> PutBack | None:
        """Return a function that gives a parameter its present value again; None for an unknown parameter."""
        value = self._values.get(name)

        def put_back() -> None:
            self._values[name] = value or ""

        return None if value is None else put_back

    def begin(self) -> None:
        """Take the present values as those to go back to."""
        self._at_start = dict(self._values)

    def reset(self, name: str) -> bool:
        """Go back to a parameter's first value, or to all; return False for a parameter that is not one of these."""
        if name == "all":
            self.local.drop(name)
            self._values = dict(self._at_start)
            self.timeout = "0"
            return True
        return name in (*self._values, *_FIXED) and self.set(name, "default")

    @property
    def interval_style(self) -> str:
        """Return how texts of intervals look: `postgres` or `iso_8601`."""
        return self._values["intervalstyle"]

    def show(self, name: str) -> str | None:
        """Return a value, or None for a parameter that is not one of these."""
        return self.present().get(name.lower())

    def all(self) -> Iterator[tuple[str, str]]:
        """Yield names and values in the order of names."""
        yield from sorted(self.present().items())

    def present(self) -> dict[str, str]:
        """Return the present values by the names of the parameters."""
        now = {"statement_timeout": self.timeout, "transaction_read_only": _switch(self.is_read_only)}
        return {**self._fixed, **self._values, **now}

    def untold(self) -> Iterator[tuple[str, str]]:
        """Yield the names and values that the server reports, and whose present values the client does not know."""
        for key, spelled in _REPORTED.items():
            value = self.show(key) or ""
            if self._told.get(key) != value:
                self._told[key] = value
                yield spelled, value
