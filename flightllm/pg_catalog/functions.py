"""PostgreSQL's functions about the catalog, for one session: each is a function of Python over single values."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from flightllm.common.cached import cached_property
from flightllm.common.names import CATALOG, TableName, quoted
from flightllm.common.principal import LOCAL
from flightllm.errors import InvalidInputError, NotFoundError, SqlError, UnsupportedError
from flightllm.pg_catalog.data import fixed_rows, relations
from flightllm.pg_catalog.facts import Called, Constraint, Facts, Seen, Session
from flightllm.pg_catalog.keywords import RESERVED
from flightllm.pg_catalog.rows import Rows, referred_columns
from flightllm.pg_catalog.types import format_type, type_oid, type_rows
from flightllm.sql.client_parameters import keeps_value
from flightllm.sql.keys import ForeignKey
from flightllm.sql.literals import text_literal

ENGINE_TYPES: Final[Mapping[str, str]] = {
    "oid": "UINTEGER",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "text": "VARCHAR",
    "bool": "BOOLEAN",
}
"""The engine's types by the names that `Function` has for types."""
_PLAIN: Final = re.compile(r"[a-z_][a-z0-9_$]*\Z")
_PARTS: Final = re.compile(r'\s*(?:"((?:[^"]|"")*)"|([^".\s]+))\s*(\.|\Z)')
_UNITS: Final = ("bytes", "kB", "MB", "GB", "TB", "PB")
_ENCODINGS: Final[Mapping[int, str]] = {0: "SQL_ASCII", 6: "UTF8", 8: "LATIN1", 16: "LATIN9", 24: "WIN1252"}


@dataclass(frozen=True, slots=True)
class Function:
    """One function: the types of its parameters, the type of its value, and what it does.

    The types are `oid`, `int`, `text` and `bool`. Parameters from `required` on can be left out. A `strict` function is
    NULL if a value is NULL.
    """

    parameters: tuple[str, ...]
    returns: str
    call: Callable[..., object]
    required: int
    strict: bool = True


class Functions:
    """The functions for one session, by name."""

    def __init__(self, rows: Rows, session: Session) -> None:
        self._rows = rows
        self._facts: Facts = rows.facts
        self._session = session
        self.by_name: Mapping[str, Function] = dict(self._all())

    def _all(self) -> Iterator[tuple[str, Function]]:
        yield from self._about_session()
        yield from self._about_objects()
        yield from self._about_texts()
        yield from self._about_rights()

    # --- the session

    def _about_session(self) -> Iterator[tuple[str, Function]]:
        session, first = self._session, (self._session.path or ("public",))[0]
        constants: dict[str, tuple[str, object]] = {
            "version": ("text", session.version),
            "current_database": ("text", CATALOG),
            "current_catalog": ("text", CATALOG),
            "current_schema": ("text", first),
            **dict.fromkeys(("current_user", "session_user", "current_role", "user"), ("text", session.user)),
            "pg_backend_pid": ("int", session.process),
            "pg_is_in_recovery": ("bool", False),
            "pg_is_wal_replay_paused": ("bool", False),
            **dict.fromkeys(("inet_server_addr", "inet_client_addr"), ("text", None)),
            **dict.fromkeys(("inet_server_port", "inet_client_port"), ("int", None)),
            **dict.fromkeys(("txid_current", "pg_current_xact_id"), ("bigint", 3)),
            "txid_current_if_assigned": ("bigint", None),
            "pg_my_temp_schema": ("oid", 0),
            "getdatabaseencoding": ("text", "UTF8"),
            "pg_client_encoding": ("text", "UTF8"),
        }
        for name, (kind, value) in constants.items():
            yield name, Function((), kind, lambda value=value: value, 0, strict=False)
        yield "current_setting", Function(("text", "bool"), "text", self._setting, 1)
        yield "set_config", Function(("text", "text", "bool"), "text", self._set_config, 3)
        for name in ("pg_advisory_unlock_all", "pg_stat_clear_snapshot"):
            yield name, Function((), "text", lambda: "", 0, strict=False)
        yield "pg_cancel_backend", Function(("int",), "bool", session.cancel, 1)
        yield "pg_terminate_backend", Function(("int", "bigint"), "bool", self._terminate, 1)
        yield "pg_is_other_temp_schema", Function(("oid",), "bool", lambda _: False, 1)

    def _setting(self, name: str, missing_ok: bool | None = None) -> str | None:  # noqa: FBT001 - as in SQL
        settings = self._session.settings()
        if (found := settings.get(name.lower())) is not None:
            return found
        if missing_ok:
            return None
        raise NotFoundError(f"there is no parameter {name!r}: see SELECT name FROM pg_settings")

    def _set_config(self, name: str, value: str, local: bool) -> str:  # noqa: FBT001 - as in SQL
        name = name.lower()
        if self._session.settings().get(name) == value or keeps_value(name, value):
            return value
        if local:
            raise UnsupportedError(f"set_config cannot change {name!r} for one transaction: send SET {name} = …")
        if self._session.set_parameter(name, value):
            return value
        raise UnsupportedError(f"set_config cannot change {name!r} inside a query: send SET {name} = …")

    def _terminate(self, _process: int, _wait: int | None = None) -> bool:
        raise UnsupportedError("pg_terminate_backend is not supported: pg_cancel_backend stops a session's statements")

    # --- objects

    def _about_objects(self) -> Iterator[tuple[str, Function]]:
        yield "format_type", Function(("oid", "int"), "text", self._format_type, 2, strict=False)
        yield "pg_get_userbyid", Function(("oid",), "text", self._role_name, 1)
        yield "pg_get_expr", Function(("text", "oid", "bool"), "text", lambda text, *_: text, 2)
        yield "pg_get_indexdef", Function(("oid", "int", "bool"), "text", self._index_definition, 1)
        yield "pg_get_constraintdef", Function(("oid", "bool"), "text", self._constraint_definition, 1)
        yield "pg_get_viewdef", Function(("text", "bool"), "text", self._view_definition, 1)
        yield "obj_description", Function(("oid", "text"), "text", lambda oid, *_: self._told(oid, "summary"), 1)
        yield "shobj_description", Function(("oid", "text"), "text", lambda *_: None, 1)
        yield "col_description", Function(("oid", "int"), "text", lambda *_: None, 2)
        for name in ("ruledef", "triggerdef", "functiondef", "statisticsobjdef", "statisticsobjdef_columns"):
            yield f"pg_get_{name}", Function(("oid", "bool"), "text", lambda *_: None, 1)
        for name in ("partkeydef", "partition_constraintdef", "statisticsobjdef_expressions"):
            yield f"pg_get_{name}", Function(("oid",), "text", lambda *_: None, 1)
        for name in ("arguments", "identity_arguments"):
            yield f"pg_get_function_{name}", Function(("oid",), "text", lambda oid: self._told(oid, "arguments"), 1)
        yield "pg_get_function_result", Function(("oid",), "text", lambda oid: self._told(oid, "result"), 1)
        yield "pg_get_function_sqlbody", Function(("oid",), "text", lambda *_: None, 1)
        yield "pg_get_serial_sequence", Function(("text", "text"), "text", self._no_sequence, 2)
        yield "pg_table_is_visible", Function(("oid",), "bool", self._is_visible.get, 1)
        yield "pg_type_is_visible", Function(("oid",), "bool", self._type_is_visible, 1)
        for name in ("function", "operator", "opclass", "opfamily", "collation", "conversion"):
            yield f"pg_{name}_is_visible", Function(("oid",), "bool", lambda _: True, 1)
        for name in ("statistics_obj", "ts_config", "ts_dict", "ts_parser", "ts_template"):
            yield f"pg_{name}_is_visible", Function(("oid",), "bool", lambda _: None, 1)
        for name in ("pg_relation_size", "pg_table_size", "pg_total_relation_size"):
            yield name, Function(("text", "text"), "bigint", self._size, 1)
        yield "pg_indexes_size", Function(("text",), "bigint", lambda text: self._size(text) and 0, 1)
        yield "pg_database_size", Function(("text",), "bigint", self._database_size, 1)
        yield "pg_tablespace_size", Function(("text",), "bigint", self._database_size, 1)
        yield "pg_tablespace_location", Function(("oid",), "text", lambda _: "", 1)
        yield "pg_relation_filenode", Function(("text",), "oid", self._relation_input, 1)
        yield "pg_relation_is_publishable", Function(("text",), "bool", lambda _: False, 1)
        yield "pg_relation_is_updatable", Function(("text", "bool"), "int", self._updatable, 2)
        yield (
            "pg_column_is_updatable",
            Function(("text", "int", "bool"), "bool", lambda text, *_: self._updatable(text) != 0, 3),
        )
        yield "pg_encoding_to_char", Function(("int",), "text", lambda number: _ENCODINGS.get(number, ""), 1)
        yield "pg_char_to_encoding", Function(("text",), "int", _encoding_number, 1)
        for name, read in self._inputs.items():
            yield f"in_{name}", Function(("text",), "oid", read, 1)
            yield f"to_{name}", Function(("text",), "oid", _or_none(read), 1)
        for name, write in self._outputs.items():
            yield f"out_{name}", Function(("oid",), "text", write, 1)

    @cached_property
    def _inputs(self) -> Mapping[str, Callable[[str], int]]:
        return {
            "regclass": self._relation_input,
            "regtype": self._type_input,
            "regnamespace": self._schema_input,
            "regrole": self._role_input,
            "regproc": self._function_input,
            "regprocedure": self._function_input,
            "regcollation": lambda text: _number(text) or 100,
        }

    @cached_property
    def _outputs(self) -> Mapping[str, Callable[[int], str | None]]:
        return {
            "regclass": self._relation_name,
            "regtype": lambda oid: self._format_type(oid, None),
            "regnamespace": lambda oid: self._schemas.get(oid, str(oid)),
            "regrole": lambda oid: self._roles.get(oid, str(oid)),
            "regproc": lambda oid: self._functions.get(oid, "-" if oid == 0 else str(oid)),
            "regprocedure": lambda oid: self._functions.get(oid, "-" if oid == 0 else str(oid)),
            "regcollation": lambda oid: {100: '"default"', 950: '"C"', 951: '"POSIX"'}.get(oid, str(oid)),
        }

    @cached_property
    def _own_types(self) -> Mapping[int, str]:
        numbers = self._facts.numbers
        named = [((one.name.schema, one.name.name), self._shown(one.name)) for one in self._facts.tables]
        arrays = {numbers.of("array", *names): f"{shown}[]" for names, shown in named}
        return {**{numbers.of("type", *names): shown for names, shown in named}, **arrays}

    def _format_type(self, oid: int | None, modifier: int | None) -> str | None:
        return None if oid is None else format_type(oid, modifier, self._own_types)

    @cached_property
    def _roles(self) -> Mapping[int, str]:
        names = {LOCAL.name, self._session.user, *(one.owner for one in self._facts.tables)}
        names |= {str(one["name"]) for one in self._session.roles()}
        return {self._facts.role_oid(name): name for name in names}

    def _role_name(self, oid: int) -> str:
        return self._roles.get(oid, f"unknown (OID={oid})")

    @cached_property
    def _schemas(self) -> Mapping[int, str]:
        names = ["pg_catalog", "information_schema", *self._facts.schemas]
        return {self._facts.schema_oid(name): name for name in names}

    @cached_property
    def _functions(self) -> Mapping[int, str]:
        own = {oid: one.name for oid, one in self._own_functions.items()}
        return {int(row["oid"] or 0): str(row["proname"]) for row in fixed_rows("pg_proc")} | own

    @cached_property
    def _own_functions(self) -> Mapping[int, Called]:
        return {self._facts.function_oid(one.name): one for one in self._facts.functions}

    def _told(self, oid: int, part: str) -> str | None:
        """Return the arguments, the result or the summary of a function of the server's own."""
        found = self._own_functions.get(oid)
        return None if found is None else str(getattr(found, part))

    @cached_property
    def _relations(self) -> Mapping[TableName, int]:
        """The oids of all relations: the system's, the session's tables, and the indexes of keys."""
        facts = self._facts
        found = {TableName(one.schema, one.name): one.oid for one in relations().values()}
        found |= {one.name: facts.oid(one.name) for one in facts.tables}
        keys = [one for one in self._rows.constraints if one.kind != "f"]
        for one in keys:
            found.setdefault(TableName(one.table.name.schema, one.key.name), one.index)
        return found

    @cached_property
    def _names(self) -> Mapping[int, TableName]:
        return {oid: name for name, oid in self._relations.items()}

    @cached_property
    def _tables(self) -> Mapping[int, Seen]:
        return {self._facts.oid(one.name): one for one in self._facts.tables}

    @cached_property
    def _search(self) -> Sequence[str]:
        return ("pg_catalog", *self._session.path)

    @cached_property
    def _is_visible(self) -> Mapping[int, bool]:
        return {oid: self._first(name.name) == name for oid, name in self._names.items()}

    def _first(self, name: str) -> TableName | None:
        """Return the relation that a name without a schema means."""
        places = (TableName(schema, name) for schema in self._search)
        return next((place for place in places if place in self._relations), None)

    def _type_is_visible(self, oid: int) -> bool | None:
        if oid in type_rows():
            return int(type_rows()[oid]["typnamespace"] or 0) == 11
        return True if oid in self._own_types else None

    def _shown(self, name: TableName) -> str:
        own = _ident(name.name)
        return own if self._first(name.name) == name else f"{_ident(name.schema)}.{own}"

    def _relation_name(self, oid: int) -> str:
        if oid == 0:
            return "-"
        name = self._names.get(oid)
        return str(oid) if name is None else self._shown(name)

    def _relation_input(self, text: str) -> int:
        if (number := _number(text)) is not None:
            return number
        parts = name_parts(text)
        if len(parts) == 3 and parts[0] == CATALOG:
            parts = parts[1:]
        name = self._first(parts[0]) if len(parts) == 1 else TableName(*parts[-2:])
        if name is None or len(parts) > 2 or name not in self._relations:
            raise NotFoundError(f"there is no relation {text!r}")
        return self._relations[name]

    def _type_input(self, text: str) -> int:
        if (number := _number(text)) is not None:
            return number
        if (found := type_oid(text)) is not None:
            return found
        own = {name: oid for oid, name in self._own_types.items()}
        if text.strip() in own:
            return own[text.strip()]
        raise NotFoundError(f"there is no type {text!r}")

    def _schema_input(self, text: str) -> int:
        names = {name: oid for oid, name in self._schemas.items()}
        return _found(text, names, "schema")

    def _role_input(self, text: str) -> int:
        return _found(text, {name: oid for oid, name in self._roles.items()}, "user")

    def _function_input(self, text: str) -> int:
        plain = text.partition("(")[0].removeprefix("pg_catalog.")
        return _found(plain, {name: oid for oid, name in self._functions.items()}, "function")

    def _no_sequence(self, table: str, _column: str) -> None:
        self._relation_input(table)

    @cached_property
    def _constraints(self) -> Mapping[int, Constraint]:
        return {one.oid: one for one in self._rows.constraints}

    @cached_property
    def _indexes(self) -> Mapping[int, Constraint]:
        return {one.index: one for one in self._rows.constraints if one.kind != "f"}

    def _index_definition(self, oid: int, column: int | None = None, pretty: bool | None = None) -> str | None:  # noqa: FBT001
        one = self._indexes.get(oid)
        if one is None:
            return None
        names = [_ident(name) for name in one.key.columns]
        if column:
            return names[column - 1] if column <= len(names) else ""
        name = one.table.name
        table = self._shown(name) if pretty else f"{_ident(name.schema)}.{_ident(name.name)}"
        return f"CREATE UNIQUE INDEX {_ident(one.key.name)} ON {table} USING btree ({', '.join(names)})"

    def _constraint_definition(self, oid: int, _pretty: bool | None = None) -> str | None:  # noqa: FBT001 - as in SQL
        one = self._constraints.get(oid)
        if one is None:
            return None
        names = ", ".join(map(_ident, one.key.columns))
        if not isinstance(one.key, ForeignKey):
            return f"{'PRIMARY KEY' if one.kind == 'p' else 'UNIQUE'} ({names})"
        other = next(table for table in self._facts.tables if table.name == one.key.table)
        columns = ", ".join(map(_ident, referred_columns(one.key, other)))
        rules = (("UPDATE", one.key.on_update), ("DELETE", one.key.on_delete))
        told = "".join(f" ON {what} {rule}" for what, rule in rules if rule != "NO ACTION")
        return f"FOREIGN KEY ({names}) REFERENCES {self._shown(other.name)}({columns}){told}"

    def _view_definition(self, text: str, _pretty: bool | None = None) -> str | None:  # noqa: FBT001 - as in SQL
        seen = self._tables.get(self._relation_input(text))
        if seen is None or not seen.is_view or seen.query is None:
            return None
        return f"{seen.query.strip().removesuffix(';')};"

    def _size(self, text: str, _fork: str | None = None) -> int | None:
        seen = self._tables.get(self._relation_input(text))
        return 0 if seen is None else seen.size

    def _database_size(self, _text: str) -> int:
        return sum(one.size for one in self._facts.tables)

    def _updatable(self, text: str, *_: object) -> int:
        seen = self._tables.get(self._relation_input(text))
        return 0 if seen is None or seen.is_view else 28

    # --- texts

    def _about_texts(self) -> Iterator[tuple[str, Function]]:
        yield "quote_ident", Function(("text",), "text", _ident, 1)
        yield "quote_literal", Function(("text",), "text", _literal, 1)
        yield (
            "quote_nullable",
            Function(("text",), "text", lambda text: "NULL" if text is None else _literal(text), 1, strict=False),
        )
        yield "pg_size_pretty", Function(("bigint",), "text", _pretty_size, 1)
        yield "age", Function(("oid",), "int", lambda _: 1, 1)

    # --- rights

    def _about_rights(self) -> Iterator[tuple[str, Function]]:
        for kind, check in (
            ("table", self._may_table),
            ("schema", self._may_schema),
            ("any_column", self._may_table),
            ("column", lambda table, _column, right: self._may_table(table, right)),
        ):
            count = 3 if kind == "column" else 2
            yield f"has_{kind}_privilege", Function(("text",) * (count + 1), "bool", self._as_user(check, count), count)
        for kind in ("database", "function", "type", "language", "tablespace", "parameter"):
            allowed = self._as_user(self._may_use, 2)
            yield f"has_{kind}_privilege", Function(("text",) * 3, "bool", allowed, 2)
        for kind in ("sequence", "server", "foreign_data_wrapper"):
            yield f"has_{kind}_privilege", Function(("text",) * 3, "bool", self._as_user(lambda *_: False, 2), 2)
        yield "pg_has_role", Function(("text",) * 3, "bool", self._as_user(self._has_role, 2), 2)
        yield "row_security_active", Function(("text",), "bool", lambda _: False, 1)

    def _as_user(self, check: Callable[..., bool | None], count: int) -> Callable[..., bool | None]:
        """Return a function that can take the name or number of the session's user before its other arguments."""

        def checked(*given: str | None) -> bool | None:
            values = [one for one in given if one is not None]
            if len(values) > count:
                role = self._role_name(int(values[0])) if values[0].isdecimal() else values[0]
                if role not in {self._session.user, "public"}:
                    raise UnsupportedError(f"only the rights of {self._session.user!r} are known here, not of {role!r}")
                values = values[1:]
            return check(*values)

        return checked

    def _may_table(self, table: str, right: str) -> bool | None:
        oid = self._relation_input(table)
        seen = self._tables.get(oid)
        wanted = [part.strip().upper().removesuffix(" WITH GRANT OPTION") for part in right.split(",")]
        if seen is None:
            return None if oid not in self._names else "SELECT" in wanted
        return any(self._session.may(one, seen.name) for one in wanted)

    def _may_schema(self, schema: str, right: str) -> bool:
        oid = self._schema_input(schema)
        wanted = {part.strip().upper().removesuffix(" WITH GRANT OPTION") for part in right.split(",")}
        return "USAGE" in wanted or self._session.may("CREATE", self._schemas[oid])

    def _may_use(self, _what: str, right: str) -> bool:
        wanted = {part.strip().upper().removesuffix(" WITH GRANT OPTION") for part in right.split(",")}
        return bool(wanted & {"CONNECT", "TEMP", "TEMPORARY", "USAGE", "EXECUTE"}) or self._session.may("CREATE", "")

    def _has_role(self, role: str, _right: str) -> bool:
        name = self._role_name(int(role)) if role.isdecimal() else role
        return name == self._session.user or self._session.may("CREATE", "")


def _or_none(read: Callable[[str], int]) -> Callable[[str], int | None]:
    def found(text: str) -> int | None:
        try:
            return read(text)
        except NotFoundError:
            return None

    return found


def _found(text: str, numbers: Mapping[str, int], what: str) -> int:
    if (number := _number(text)) is not None:
        return number
    parts = name_parts(text)
    if len(parts) == 1 and parts[0] in numbers:
        return numbers[parts[0]]
    raise NotFoundError(f"there is no {what} {text!r}")


def _number(text: str) -> int | None:
    """Return the number of an object in a text of digits; None for other texts; `-` stands for 0."""
    plain = text.strip()
    if plain == "-":
        return 0
    if not plain.isdecimal():
        return None
    if int(plain) >= 2**32:
        raise InvalidInputError(f"{plain} is too large for the number of an object")
    return int(plain)


def name_parts(text: str) -> list[str]:
    """Return the parts of a dotted name; those without quotes are in lower case."""
    found, at = [], 0
    while at <= len(text):
        match = _PARTS.match(text, at)
        if match is None:
            raise SqlError(f"{text!r} is not a name: write NAME or SCHEMA.NAME")
        found.append(match[1].replace('""', '"') if match[1] is not None else match[2].lower())
        at = match.end()
        if not match[3]:
            return found
    return found


def _ident(name: str) -> str:
    return name if _PLAIN.match(name) and name not in RESERVED else quoted(name)


def _literal(text: str) -> str:
    doubled = text.replace("\\", "\\\\")
    return text_literal(text) if "\\" not in text else f" E{text_literal(doubled)}".strip()


def _encoding_number(name: str) -> int:
    return next((number for number, one in _ENCODINGS.items() if one == name.upper()), -1)


def _pretty_size(size: int) -> str:
    """Return a size as PostgreSQL writes it: the next unit from 10,240 of the former one on, rounded half up."""
    amount, unit = abs(size), 0
    if amount >= 10 * 1024:
        amount, unit = amount * 2 // 1024, 1  # twice the number, for the rounding
        while amount >= 2 * 10 * 1024 - 1 and unit < len(_UNITS) - 1:
            amount, unit = amount // 1024, unit + 1
        amount = (amount + 1) // 2
    return f"{'-' if size < 0 else ''}{amount} {_UNITS[unit]}"


@cache
def function_table() -> Mapping[str, Function]:
    """Return all functions; only their parameters and types are the same for every session."""

    def no(*_: object) -> bool:
        return False

    nothing = Session("", (), "", 0, list, list, list, dict, no, no, no)
    return Functions(Rows(Facts((), ())), nothing).by_name
