"""Parameters of PostgreSQL's and MySQL's clients: their values here, and the SET statements that keep them so."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from flightllm.common.switches import ON
from flightllm.errors import UnsupportedError
from flightllm.sql.cursor import Cursor
from flightllm.sql.tokens import Token

PARAMETERS: Mapping[str, str] = {
    "client_encoding": "UTF8",
    "datestyle": "ISO, YMD",
    "integer_datetimes": "on",
    "max_identifier_length": "1024",
    "server_encoding": "UTF8",
    "standard_conforming_strings": "on",
    "transaction isolation level": "read committed",
    "transaction_isolation": "read committed",
    "default_transaction_isolation": "read committed",
    "transaction_read_only": "off",
    "is_superuser": "off",
}
"""Parameters that PostgreSQL's clients ask for, and their values here.

The isolation level is "read committed": each statement sees the data committed before it begins.
"""
DEFAULTS: Mapping[str, str] = {
    **PARAMETERS,
    "server_version_num": "150000",
    "timezone": "UTC",
    "lc_collate": "C.UTF-8",
    "lc_ctype": "C.UTF-8",
    "max_index_keys": "32",
    "block_size": "8192",
    "jit": "off",
    "default_table_access_method": "heap",
    "default_tablespace": "",
    "default_with_oids": "off",
    "row_security": "on",
    "idle_in_transaction_session_timeout": "0",
    "lock_timeout": "0",
    "idle_session_timeout": "0",
    "client_min_messages": "notice",
    "statement_timeout": "0",
    "application_name": "",
    "extra_float_digits": "1",
    "intervalstyle": "postgres",
    "bytea_output": "hex",
    "default_transaction_read_only": "off",
}
"""Parameters and their values in the tables of the catalog, unless the client's connection has others."""
_KEPT: Mapping[str, tuple[str, ...]] = {
    "autocommit": ON,
    "client_encoding": ("utf8", "utf-8", "unicode"),
    "datestyle": ("iso", "iso, ymd", "iso, mdy", "iso, dmy"),
    "default_transaction_isolation": ("read committed", "read uncommitted"),
    "names": ("utf8", "utf-8", "utf8mb4", "unicode"),
    "standard_conforming_strings": ON,
    "statement_timeout": ("0", "0ms", "0s", "default"),
    "timezone": ("utc", "gmt", "etc/utc", "+00:00", "0", "default", "local"),
    "transaction_isolation": ("read committed", "read uncommitted"),
}
"""The values of each parameter with which the server works as it does without the statement."""
_FREE = ("application_name", "extra_float_digits")
"""Parameters whose value changes no result of this server."""
CLIENT_PARAMETERS = frozenset((*DEFAULTS, *_KEPT, *_FREE))
"""The names of all parameters that clients set or read."""
_MODES = ("isolation level read committed", "isolation level read uncommitted", "read write", "not deferrable")
"""The properties of transactions that hold here anyway."""


class ParameterTable(Protocol):
    """The parameters of one connection of a PostgreSQL client."""

    def present(self) -> Mapping[str, str]:
        """Return the present values by the names of the parameters."""

    def set(self, name: str, value: str) -> bool:
        """Keep a value; return False for a parameter that is not one of these."""


def keeps_parameter(tokens: Sequence[Token]) -> bool:
    """Return whether a SET statement asks for what holds here anyway, such as `SET TIME ZONE 'UTC'`.

    Raises:
        UnsupportedError: it gives another value to a parameter that clients set.
    """
    cursor = Cursor(tokens, 1)
    if cursor.take("session", "characteristics", "as", "transaction"):
        return _keeps_modes(_words(tokens[cursor.at :]))
    _ = cursor.take("session") or cursor.take("local")
    if cursor.take("transaction"):
        return _keeps_modes(_words(tokens[cursor.at :]))
    name = "timezone" if cursor.take("time", "zone") else (cursor.next() or tokens[0]).text.lower()
    _ = cursor.symbol("=") or cursor.take("to")
    value = _words(tokens[cursor.at :])
    if name in _FREE:
        return bool(value)
    if name not in _KEPT:
        return False
    if value not in _KEPT[name]:
        if name == "statement_timeout":
            raise UnsupportedError(
                "statement_timeout can only be 0 here: write SET flightllm.timeout = 5 to stop a statement after 5 s"
            )
        raise UnsupportedError(f"{name} cannot be {value[:40]!r} here: it is {PARAMETERS.get(name, _KEPT[name][0])!r}")
    return True


def keeps_value(name: str, value: str) -> bool:
    """Return whether a parameter with this value leaves the server as it works anyway."""
    return name != "statement_timeout" and value.lower() in _KEPT.get(name, ())


def resets_parameter(tokens: Sequence[Token]) -> bool:
    """Return whether a RESET statement names a parameter of clients, such as `RESET timezone`: no SET changed it."""
    words = _words(tokens[1:])
    return words == "time zone" or words in {*_FREE, *_KEPT} - {"names", "autocommit"}


def _keeps_modes(modes: str) -> bool:
    for mode in modes.split(","):
        if mode.strip() not in _MODES:
            raise UnsupportedError(
                f"transactions cannot be {mode.strip()[:40].upper()!r} here: every statement reads committed rows and"
                " takes effect by itself"
            )
    return True


def _words(tokens: Sequence[Token]) -> str:
    """Return tokens in lower case, with a space between words."""
    return " ".join("," if token.is_symbol(",") else token.text.lower() for token in tokens).replace(" ,", ",")
