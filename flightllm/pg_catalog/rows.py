"""The rows of the relations of `pg_catalog` for one session: one function per relation."""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from itertools import chain
from typing import Any, Final

import pyarrow as pa

from flightllm.common.cached import cached_property
from flightllm.common.json_columns import json_types
from flightllm.common.names import CATALOG
from flightllm.common.principal import LOCAL
from flightllm.pg_catalog.columns import fixed_table, rows_table, schema_of, table
from flightllm.pg_catalog.data import has_fixed_rows, relations
from flightllm.pg_catalog.facts import PG_CATALOG, TOP_ROLE, Constraint, Facts, Seen, Session
from flightllm.pg_catalog.types import PgType, oids_by_name, pg_type, type_oid, type_rows
from flightllm.sql.keys import ForeignKey

_HEAP, _BTREE = 2, 403
_INTERNAL, _TEXT = 12, 25
_ARRAY_SUBSCRIPTS: Final = 6179
"""The function of the elements of arrays."""
_ANY_ARRAY: Final = 2277
"""The type of the few columns that hold rows of system tables."""
_SPACE, _GLOBAL_SPACE = 1663, 1664
_RULES: Final = {"NO ACTION": "a", "RESTRICT": "r", "CASCADE": "c", "SET NULL": "n", "SET DEFAULT": "d"}
_LETTERS: Final = {"INSERT": "a", "SELECT": "r", "UPDATE": "w", "DELETE": "d", "CREATE": "C"}

_SPELLED: Final = {"datestyle": "DateStyle", "intervalstyle": "IntervalStyle", "timezone": "TimeZone"}
"""The parameters whose names have capitals in `pg_settings`."""

EMPTY: Final = frozenset(
    (
        *("pg_aggregate", "pg_amop", "pg_amproc", "pg_auth_members", "pg_cast", "pg_conversion", "pg_db_role_setting"),
        *("pg_default_acl", "pg_depend", "pg_description", "pg_enum", "pg_event_trigger", "pg_extension"),
        *("pg_foreign_data_wrapper", "pg_foreign_server", "pg_foreign_table", "pg_inherits", "pg_init_privs"),
        *("pg_largeobject", "pg_largeobject_metadata", "pg_opfamily", "pg_operator", "pg_parameter_acl"),
        *("pg_partitioned_table", "pg_policy", "pg_publication", "pg_publication_namespace", "pg_publication_rel"),
        *("pg_replication_origin", "pg_seclabel", "pg_sequence", "pg_shdepend", "pg_shdescription", "pg_shseclabel"),
        *("pg_statistic_ext", "pg_subscription", "pg_subscription_rel", "pg_transform", "pg_trigger"),
        *("pg_ts_config", "pg_ts_config_map", "pg_ts_dict", "pg_ts_parser", "pg_ts_template", "pg_user_mapping"),
        *("pg_matviews", "pg_policies", "pg_rules", "pg_sequences", "pg_seclabels", "pg_publication_tables"),
        *("pg_prepared_xacts", "pg_prepared_statements", "pg_cursors", "pg_locks", "pg_available_extensions"),
        *("pg_available_extension_versions", "pg_replication_slots", "pg_stat_replication", "pg_stat_ssl"),
        *(
            "pg_stat_wal_receiver",
            "pg_stat_subscription",
            "pg_user_mappings",
            "pg_stats_ext",
            "pg_statio_all_sequences",
        ),
        *("pg_stat_progress_vacuum", "pg_stat_progress_analyze", "pg_stat_progress_create_index", "pg_stat_gssapi"),
        *("pg_stats", "pg_statio_all_tables", "pg_statio_sys_tables", "pg_statio_user_tables"),
        *("pg_statio_all_indexes", "pg_statio_sys_indexes", "pg_statio_user_indexes"),
        *("pg_stat_user_functions", "pg_statio_user_sequences", "pg_stat_progress_cluster", "pg_stat_progress_copy"),
    )
)
"""Relations about what this server does not have, such as triggers. They have no row on any server."""


class Rows:
    """The relations of one session. The rows about its tables are made once."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._kept: dict[str, pa.Table] = {}

    def relation(self, name: str, session: Session) -> pa.Table | None:
        """Return the rows of a relation of `pg_catalog`; None if it is a view over others, or unknown."""
        if (found := self._kept.get(name)) is not None:
            return found
        if name in EMPTY:
            return schema_of(relations()["pg_catalog", name]).empty_table()
        changing: Callable[[Session], pa.Table] | None = getattr(self, f"_now_{name}", None)
        if changing is not None:
            return changing(session)
        lasting: Callable[[], pa.Table] | None = getattr(self, f"_{name}", None)
        if lasting is not None:
            self._kept[name] = lasting()
            return self._kept[name]
        return fixed_table(name) if has_fixed_rows(name) and name != "relations" else None

    # --- schemas, relations and columns

    @cached_property
    def constraints(self) -> list[Constraint]:
        """Return the keys of all tables."""
        return list(self.facts.constraints())

    def _pg_namespace(self) -> pa.Table:
        names = [*dict.fromkeys(["pg_catalog", "information_schema", *self.facts.schemas])]
        rows = [{"oid": self.facts.schema_oid(name), "nspname": name, "nspowner": TOP_ROLE} for name in names]
        return rows_table("pg_namespace", rows)

    def _now_pg_class(self, session: Session) -> pa.Table:
        lists = self._access_lists(session)
        rows = chain(self._system_classes(), self._own_classes(lists), self._index_classes())
        return rows_table("pg_class", list(rows))

    def _access_lists(self, session: Session) -> Mapping[tuple[str, str], list[str]]:
        """Return the privileges of tables as PostgreSQL writes them, such as `ann=r/local`."""
        owners = {(one.name.schema, one.name.name): one.owner for one in self.facts.tables}
        letters: dict[tuple[str, str], dict[str, str]] = {}
        for grant in session.grants():
            schema, name = str(grant["schema"]), str(grant["name"])
            letter = _LETTERS.get(str(grant["privilege"]), "")
            covered = [one for one in owners if one[0] == schema] if grant["kind"] == "SCHEMA" else [(schema, name)]
            for one in covered if grant["kind"] in {"SCHEMA", "TABLE"} and letter != "C" else ():
                held = letters.setdefault(one, {})
                grantee = str(grant["grantee"])
                held[grantee] = "".join(sorted({*held.get(grantee, ""), letter}, key="arwd".find))
        return {
            one: [f"{owners[one]}=arwd/{owners[one]}", *(f"{who}={what}/{owners[one]}" for who, what in held.items())]
            for one, held in letters.items()
            if one in owners
        }

    def _system_classes(self) -> Iterable[dict[str, object]]:
        for one in relations().values():
            schema = self.facts.schema_oid(one.schema)
            kind = {
                "relkind": one.kind,
                "relam": _HEAP if one.kind == "r" else 0,
                "relacl": ["=r/local"],
                "relreplident": "n",
            }
            yield _class(one.oid, one.name, schema, TOP_ROLE, len(one.columns), kind)

    def _own_classes(self, lists: Mapping[tuple[str, str], list[str]]) -> Iterable[dict[str, object]]:
        indexed = {one.table.name for one in self.constraints if one.kind != "f"}
        keys = [(one.table.name, one.key.table) for one in self.constraints if isinstance(one.key, ForeignKey)]
        referring = {name for pair in keys for name in pair}  # PostgreSQL checks foreign keys by triggers
        for one in self.facts.tables:
            names = (one.name.schema, one.name.name)
            kind = {
                "relkind": "v" if one.is_view else "r",
                "relreplident": "n" if one.is_view else "d",
                "relam": 0 if one.is_view else _HEAP,
                "relhasindex": one.name in indexed,
                "relhastriggers": one.name in referring,
                "relhasrules": one.is_view,
                "reltuples": one.rows if not one.is_view else -1,
                "relpages": -(-one.size // 8192),
                "reltype": self.facts.numbers.of("type", *names),
                "relacl": lists.get(names),
            }
            oid, schema, owner = (
                self.facts.oid(one.name),
                self.facts.schema_oid(names[0]),
                self.facts.role_oid(one.owner),
            )
            yield _class(oid, names[1], schema, owner, len(one.schema), kind)

    def _index_classes(self) -> Iterable[dict[str, object]]:
        for one in self.constraints:
            if one.kind != "f":
                schema, owner = self.facts.schema_oid(one.table.name.schema), self.facts.role_oid(one.table.owner)
                yield _class(
                    one.index,
                    one.key.name,
                    schema,
                    owner,
                    len(one.key.columns),
                    {"relkind": "i", "relam": _BTREE, "relreplident": "n"},
                )

    def _pg_attribute(self) -> pa.Table:
        oids = oids_by_name()
        owned: list[tuple[int, str, int, int, int, int, bool, bool]] = []
        for relation in relations().values():
            owned += (
                (
                    relation.oid,
                    one.name,
                    oids.get(one.kind, _ANY_ARRAY),
                    -1,
                    int(one.kind.startswith("_")),
                    number,
                    one.required,
                    False,
                )
                for number, one in enumerate(relation.columns, 1)
            )
        for seen in self.facts.tables:
            owned += _columns(seen, self.facts.oid(seen.name))
        for key in self.constraints:
            if key.kind != "f":
                kinds = [pg_type(key.table.schema.field(name).type) for name in key.key.columns]
                owned += (
                    (key.index, name, kind.oid, kind.modifier, kind.dimensions, number, False, False)
                    for number, (name, kind) in enumerate(zip(key.key.columns, kinds, strict=True), 1)
                )
        relation_oids, names, types, modifiers, dimensions, numbers, required, defaults = map(
            list, zip(*owned, strict=True)
        )
        facts = {oid: _physical(row) for oid, row in type_rows().items()}
        physical = [facts[oid] for oid in types]
        return table(
            "pg_attribute",
            len(owned),
            {
                "attrelid": relation_oids,
                "attname": names,
                "atttypid": types,
                "atttypmod": modifiers,
                "attndims": dimensions,
                "attnum": numbers,
                "attnotnull": required,
                "atthasdef": defaults,
                "attlen": [one[0] for one in physical],
                "attbyval": [one[1] for one in physical],
                "attalign": [one[2] for one in physical],
                "attstorage": [one[3] for one in physical],
                "attcollation": [one[4] for one in physical],
                "attcacheoff": -1,
                "attstattarget": -1,
                "attislocal": True,
            },
        )

    def _pg_attrdef(self) -> pa.Table:
        rows = []
        for seen in self.facts.tables:
            for number, name in enumerate(seen.schema.names, 1):
                if name in seen.defaults:
                    oid = self.facts.numbers.of("default", seen.name.schema, seen.name.name, name)
                    place = {"adrelid": self.facts.oid(seen.name), "adnum": number}
                    rows.append({"oid": oid, **place, "adbin": seen.defaults[name]})
        return rows_table("pg_attrdef", rows)

    def _pg_type(self) -> pa.Table:
        fixed = fixed_table("pg_type")
        schema = self.facts.schema_oid("information_schema")
        spaces = [
            PG_CATALOG if space == PG_CATALOG else schema for space in fixed.column("typnamespace").to_pylist()
        ]  # only the types of columns of information_schema are elsewhere
        fixed = fixed.set_column(2, "typnamespace", pa.array(spaces, pa.uint32()))
        rows = []
        for seen in self.facts.tables:
            names = (seen.name.schema, seen.name.name)
            rows.append(
                {
                    "oid": self.facts.numbers.of("type", *names),
                    "typname": names[1],
                    "typnamespace": self.facts.schema_oid(names[0]),
                    "typowner": self.facts.role_oid(seen.owner),
                    "typrelid": self.facts.oid(seen.name),
                    "typarray": self.facts.numbers.of("array", *names),
                }
            )
        values: dict[str, Any] = {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}
        constant = {"typlen": -1, "typtype": "c", "typcategory": "C", "typisdefined": True, "typdelim": ","}
        physical = {"typalign": "d", "typstorage": "x", "typtypmod": -1, "typinput": 2290, "typoutput": 2291}
        io = {"typreceive": 2402, "typsend": 2403}
        shared = {**constant, **physical, **io}
        arrays = {
            **shared,
            "typcategory": "A",
            "typtype": "b",
            "typsubscript": _ARRAY_SUBSCRIPTS,
            "typinput": 750,
            "typoutput": 751,
            "typreceive": 2400,
            "typsend": 2401,
            **{name: values.get(name, []) for name in ("typnamespace", "typowner")},
            "oid": values.get("typarray", []),
            "typelem": values.get("oid", []),
            "typname": [f"_{name}" for name in values.get("typname", [])],
        }
        own = [table("pg_type", len(rows), columns) for columns in ({**shared, **values}, arrays)]
        return pa.concat_tables([fixed, *own])

    def _pg_proc(self) -> pa.Table:
        """Return PostgreSQL's functions that clients look up, and the server's own, such as `ai_filter`.

        An own function has no list of types: it takes values of any type, and `pg_get_function_arguments` has its form.
        """
        own = self.facts.functions
        names = [one.name for one in own]
        columns = {
            "oid": [self.facts.function_oid(name) for name in names],
            "proname": names,
            "pronamespace": self.facts.schema_oid("public"),
            "proowner": TOP_ROLE,
            "prolang": _INTERNAL,
            "procost": 1.0,
            "prokind": "f",
            "provolatile": "v",
            "proparallel": "u",
            "prorettype": [self._type_of(one.result) for one in own],
            "prosrc": names,
        }
        return pa.concat_tables([fixed_table("pg_proc"), table("pg_proc", len(own), columns)])

    @staticmethod
    def _type_of(result: str) -> int:
        """Return the type with which a description of a function's result begins; others are text."""
        return type_oid(re.split("[;:]", result, maxsplit=1)[0]) or _TEXT

    # --- keys

    def _pg_index(self) -> pa.Table:
        rows = []
        for one in self.constraints:
            if one.kind == "f":
                continue
            numbers = _numbers(one.table, one.key.columns)
            types = [pg_type(one.table.schema.field(name).type).oid for name in one.key.columns]
            rows.append(
                {
                    "indexrelid": one.index,
                    "indrelid": one.table_oid,
                    "indnatts": len(numbers),
                    "indnkeyatts": len(numbers),
                    "indisprimary": one.kind == "p",
                    "indkey": numbers,
                    "indcollation": [int(type_rows()[oid]["typcollation"] or 0) for oid in types],
                    "indclass": [_operator_class(oid) for oid in types],
                    "indoption": [0] * len(numbers),
                }
            )
        flags = dict.fromkeys(("indisunique", "indimmediate", "indisvalid", "indisready", "indislive"), True)
        named = {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}
        return table("pg_index", len(rows), {**flags, **named})

    def _pg_constraint(self) -> pa.Table:
        by_name = {one.name: one for one in self.facts.tables}
        indexes = {(one.table.name, one.key.columns): one.index for one in self.constraints if one.kind != "f"}
        rows = []
        for one in self.constraints:
            key = one.key
            foreign = isinstance(key, ForeignKey)
            other = by_name[key.table] if isinstance(key, ForeignKey) else None
            references = referred_columns(key, other) if isinstance(key, ForeignKey) and other is not None else ()
            rows.append(
                {
                    "oid": one.oid,
                    "conname": key.name,
                    "connamespace": self.facts.schema_oid(one.table.name.schema),
                    "contype": one.kind,
                    "conrelid": one.table_oid,
                    "conindid": indexes.get((other.name, references), 0) if other is not None else one.index,
                    "confrelid": self.facts.oid(other.name) if other is not None else 0,
                    "confupdtype": _RULES[key.on_update] if isinstance(key, ForeignKey) else " ",
                    "confdeltype": _RULES[key.on_delete] if isinstance(key, ForeignKey) else " ",
                    "confmatchtype": "s" if foreign else " ",
                    "connoinherit": True,
                    "conkey": _numbers(one.table, key.columns),
                    "confkey": _numbers(other, references) if other is not None else None,
                }
            )
        named = {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}
        return table("pg_constraint", len(rows), {"convalidated": True, "conislocal": True, **named})

    def _pg_rewrite(self) -> pa.Table:
        views = [one for one in self.facts.tables if one.is_view]
        numbers = [self.facts.numbers.of("rule", one.name.schema, one.name.name) for one in views]
        said = {"rulename": "_RETURN", "ev_type": "1", "ev_enabled": "O", "is_instead": True}
        return table(
            "pg_rewrite", len(views), {"oid": numbers, "ev_class": [self.facts.oid(one.name) for one in views], **said}
        )

    # --- the server

    def _pg_database(self) -> pa.Table:
        row = {
            "oid": self.facts.database_oid,
            "datname": CATALOG,
            "datdba": TOP_ROLE,
            "encoding": 6,
            "datlocprovider": "c",
            "datallowconn": True,
            "datconnlimit": -1,
            "dattablespace": _SPACE,
            "datcollate": "C.UTF-8",
            "datctype": "C.UTF-8",
            "datfrozenxid": 3,
            "datminmxid": 1,
        }
        return rows_table("pg_database", [row])

    def _pg_tablespace(self) -> pa.Table:
        spaces = {_SPACE: "pg_default", _GLOBAL_SPACE: "pg_global"}
        return rows_table(
            "pg_tablespace", [{"oid": oid, "spcname": name, "spcowner": TOP_ROLE} for oid, name in spaces.items()]
        )

    def _now_pg_authid(self, session: Session) -> pa.Table:
        known = {str(one["name"]): str(one["role"]) for one in session.roles()}
        names = {**{one.owner: "user" for one in self.facts.tables}, LOCAL.name: "admin", **known}
        rows = []
        for name, role in names.items():
            top = role == "admin"
            rights = dict.fromkeys(("rolsuper", "rolcreaterole", "rolcreatedb", "rolbypassrls", "rolreplication"), top)
            rows.append({"oid": self.facts.role_oid(name), "rolname": name, **rights})
        named = {name: [row[name] for row in rows] for name in rows[0]}
        return table("pg_authid", len(rows), {"rolinherit": True, "rolcanlogin": True, "rolconnlimit": -1, **named})

    def _now_pg_settings(self, session: Session) -> pa.Table:
        settings = sorted(session.settings().items())
        values = [value for _, value in settings]
        return table(
            "pg_settings",
            len(settings),
            {
                "name": [_SPELLED.get(name, name) for name, _ in settings],
                "setting": values,
                "category": "FlightLLM",
                "context": "user",
                "vartype": "string",
                "source": "default",
                "boot_val": values,
                "reset_val": values,
                "pending_restart": False,
            },
        )

    def _now_pg_stat_activity(self, session: Session) -> pa.Table:
        rows = [
            {
                "datid": self.facts.database_oid,
                "datname": CATALOG,
                "pid": process_number(str(one["session_id"])),
                "usesysid": self.facts.role_oid(str(one["user"])),
                "usename": str(one["user"]),
                "backend_start": _moment(one.get("opened_at")),
                "state_change": _moment(one.get("last_used_at")),
                "state": "active",
                "backend_type": "client backend",
            }
            for one in session.sessions()
        ]
        return rows_table("pg_stat_activity", rows)


def process_number(session: str) -> int:
    """Return the number that stands for a session where PostgreSQL has the number of its process."""
    return int(session[:7], 16) if session else os.getpid()


def referred_columns(key: ForeignKey, other: Seen) -> tuple[str, ...]:
    """Return the columns to which a foreign key refers; without a list, they are those of the primary key."""
    return key.references or (other.keys.primary.columns if other.keys.primary is not None else ())


def _class(oid: int, name: str, schema: int, owner: int, columns: int, more: Mapping[str, object]) -> dict[str, object]:
    usual = {
        "oid": oid,
        "relname": name,
        "relnamespace": schema,
        "relowner": owner,
        "relnatts": columns,
        "relam": 0,
        "relhasindex": False,
        "relhastriggers": False,
        "relhasrules": False,
        "reltuples": -1,
        "relpages": 0,
        "reltype": 0,
        "relacl": None,
        "relfilenode": 0 if more["relkind"] == "v" else oid,
        "relpersistence": "p",
        "relispopulated": True,
        "relreplident": "d",
    }
    return {**usual, **more}


def _columns(seen: Seen, oid: int) -> Iterable[tuple[int, str, int, int, int, int, bool, bool]]:
    primary = seen.keys.primary.columns if seen.keys.primary is not None else ()
    of_json = json_types(seen.schema)
    for number, column in enumerate(seen.schema, 1):
        name = column.name
        kind = PgType(oids_by_name()[of_json[name]]) if of_json.get(name) in oids_by_name() else pg_type(column.type)
        required = not seen.is_view and (not column.nullable or name in primary)
        yield oid, name, kind.oid, kind.modifier, kind.dimensions, number, required, name in seen.defaults


def _numbers(seen: Seen, columns: Iterable[str]) -> list[int]:
    return [seen.schema.get_field_index(name) + 1 for name in columns]


def _physical(row: Mapping[str, str | None]) -> tuple[int, bool, str, str, int]:
    length, collation = int(row["typlen"] or 0), int(row["typcollation"] or 0)
    return length, row["typbyval"] == "true", str(row["typalign"]), str(row["typstorage"]), collation


@cache
def _operator_class(oid: int) -> int:
    """Return the default B-tree operator class of a type, or 0 for a type that has no order."""
    rows = fixed_table("pg_opclass").to_pylist()
    wanted = (row for row in rows if row["opcmethod"] == _BTREE and row["opcintype"] == oid and row["opcdefault"])
    return next((int(row["oid"]) for row in wanted), 0)


def _moment(value: object) -> datetime | None:
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    return datetime.fromisoformat(value).astimezone(UTC) if isinstance(value, str) and value else None
