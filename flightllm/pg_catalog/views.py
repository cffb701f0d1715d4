"""The views of `pg_catalog` and `information_schema`, as queries over the relations with rows.

In the queries, names of relations of `pg_catalog` begin with `c_`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from flightllm.common.names import CATALOG
from flightllm.pg_catalog.columns import arrow_type
from flightllm.pg_catalog.data import Relation

_DB: Final = f"'{CATALOG}'"


@dataclass(frozen=True, slots=True)
class View:
    """The text from FROM on, and the expressions of columns; a column that is not named is NULL."""

    rest: str
    columns: Mapping[str, str]


_CLASSES = "FROM c_pg_class AS c JOIN c_pg_namespace AS n ON n.oid = c.relnamespace"
_COLUMNS = f"""{_CLASSES} JOIN c_pg_attribute AS a ON a.attrelid = c.oid JOIN c_pg_type AS t ON t.oid = a.atttypid
 JOIN c_pg_namespace AS nt ON nt.oid = t.typnamespace
 LEFT JOIN c_pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum
 WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'v', 'f', 'p')"""
_KEYS = """FROM c_pg_constraint AS k JOIN c_pg_class AS c ON c.oid = k.conrelid
 JOIN c_pg_namespace AS n ON n.oid = c.relnamespace"""
_EACH = "CROSS JOIN LATERAL unnest({}) WITH ORDINALITY AS u(number, place)"
_NUMERIC = "a.atttypid = 1700 AND a.atttypmod <> -1"
_NAMED = {"constraint_catalog": _DB, "constraint_schema": "n.nspname", "constraint_name": "k.conname"}
_TABLE = {"table_catalog": _DB, "table_schema": "n.nspname", "table_name": "c.relname"}
_GRANTS = """FROM (SELECT c.oid, n.nspname, c.relname, unnest(c.relacl) AS acl FROM c_pg_class AS c
 JOIN c_pg_namespace AS n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'v')) AS c
 CROSS JOIN (VALUES ('a', 'INSERT'), ('r', 'SELECT'), ('w', 'UPDATE'), ('d', 'DELETE')) AS p(letter, privilege)
 {} WHERE contains(split_part(split_part(c.acl, '=', 2), '/', 1), p.letter)"""
_GRANT = {
    "grantor": "split_part(c.acl, '/', 2)",
    "grantee": "CASE WHEN starts_with(c.acl, '=') THEN 'PUBLIC' ELSE split_part(c.acl, '=', 1) END",
    "table_catalog": _DB,
    "table_schema": "c.nspname",
    "table_name": "c.relname",
    "privilege_type": "p.privilege",
    "is_grantable": "'NO'",
}
_TABLE_STATS = {"relid": "c.oid", "schemaname": "n.nspname", "relname": "c.relname"}
_OWN = "n.nspname NOT IN ('pg_catalog', 'information_schema')"

_LOGINS = "FROM c_pg_authid AS r WHERE r.rolcanlogin"
_LOGIN = {
    "usename": "r.rolname",
    "usesysid": "r.oid",
    "usecreatedb": "r.rolcreatedb",
    "usesuper": "r.rolsuper",
    "userepl": "r.rolreplication",
    "usebypassrls": "r.rolbypassrls",
}

_CATALOG_VIEWS: Final[Mapping[str, View]] = {
    "pg_tables": View(
        f"{_CLASSES} WHERE c.relkind IN ('r', 'p')",
        {
            "schemaname": "n.nspname",
            "tablename": "c.relname",
            "tableowner": "f_pg_get_userbyid(c.relowner)",
            "hasindexes": "c.relhasindex",
            "hasrules": "c.relhasrules",
            "hastriggers": "c.relhastriggers",
            "rowsecurity": "c.relrowsecurity",
        },
    ),
    "pg_views": View(
        f"{_CLASSES} WHERE c.relkind = 'v'",
        {
            "schemaname": "n.nspname",
            "viewname": "c.relname",
            "viewowner": "f_pg_get_userbyid(c.relowner)",
            "definition": "f_pg_get_viewdef(CAST(c.oid AS VARCHAR), NULL)",
        },
    ),
    "pg_indexes": View(
        """FROM c_pg_index AS x JOIN c_pg_class AS c ON c.oid = x.indrelid JOIN c_pg_class AS i ON i.oid = x.indexrelid
 JOIN c_pg_namespace AS n ON n.oid = c.relnamespace""",
        {
            "schemaname": "n.nspname",
            "tablename": "c.relname",
            "indexname": "i.relname",
            "indexdef": "f_pg_get_indexdef(i.oid, 0, NULL)",
        },
    ),
    "pg_roles": View(
        "FROM c_pg_authid AS r",
        {
            **{f"rol{what}": f"r.rol{what}" for what in ("name", "super", "inherit", "createrole", "createdb")},
            **{f"rol{what}": f"r.rol{what}" for what in ("canlogin", "replication", "connlimit", "bypassrls")},
            "rolpassword": "'********'",
            "oid": "r.oid",
        },
    ),
    "pg_user": View(_LOGINS, {**_LOGIN, "passwd": "'********'"}),
    "pg_shadow": View(_LOGINS, _LOGIN),
    "pg_group": View("FROM c_pg_authid AS r WHERE NOT r.rolcanlogin", {"groname": "r.rolname", "grosysid": "r.oid"}),
    **{
        f"pg_stat_{which}_tables": View(f"{_CLASSES} WHERE c.relkind = 'r' AND {condition}", _TABLE_STATS)
        for which, condition in (("all", "true"), ("user", _OWN), ("sys", f"NOT ({_OWN})"))
    },
    "pg_stat_database": View("FROM c_pg_database AS d", {"datid": "d.oid", "datname": "d.datname"}),
}
_COLUMN = {
    "table_catalog": _DB,
    "table_schema": "n.nspname",
    "table_name": "c.relname",
    "column_name": "a.attname",
    "ordinal_position": "a.attnum",
    "column_default": "CASE WHEN a.attgenerated = '' THEN d.adbin END",
    "is_nullable": "CASE WHEN a.attnotnull OR (t.typtype = 'd' AND t.typnotnull) THEN 'NO' ELSE 'YES' END",
    "data_type": """CASE WHEN t.typelem <> 0 AND t.typlen = -1 THEN 'ARRAY'
 WHEN t.typtype = 'd' THEN f_format_type(t.typbasetype, NULL)
 WHEN nt.nspname = 'pg_catalog' THEN f_format_type(a.atttypid, NULL) ELSE 'USER-DEFINED' END""",
    "character_maximum_length": "CASE WHEN a.atttypid IN (1042, 1043) AND a.atttypmod <> -1 THEN a.atttypmod - 4 END",
    "character_octet_length": "CASE WHEN a.atttypid IN (25, 1042, 1043) THEN 1073741824 END",
    "numeric_precision": f"""CASE a.atttypid WHEN 21 THEN 16 WHEN 23 THEN 32 WHEN 20 THEN 64 WHEN 700 THEN 24
 WHEN 701 THEN 53 ELSE CASE WHEN {_NUMERIC} THEN ((a.atttypmod - 4) >> 16) & 65535 END END""",
    "numeric_precision_radix": "CASE WHEN a.atttypid IN (20, 21, 23, 700, 701) THEN 2"
    " WHEN a.atttypid = 1700 THEN 10 END",
    "numeric_scale": f"""CASE WHEN a.atttypid IN (20, 21, 23) THEN 0
 WHEN {_NUMERIC} THEN xor((a.atttypmod - 4) & 2047, 1024) - 1024 END""",
    "datetime_precision": """CASE WHEN a.atttypid = 1082 THEN 0 WHEN a.atttypid IN (1083, 1114, 1184, 1266, 1186)
 THEN CASE WHEN a.atttypmod < 0 THEN 6 ELSE a.atttypmod END END""",
    "domain_catalog": f"CASE WHEN t.typtype = 'd' THEN {_DB} END",
    "domain_schema": "CASE WHEN t.typtype = 'd' THEN nt.nspname END",
    "domain_name": "CASE WHEN t.typtype = 'd' THEN t.typname END",
    "udt_catalog": _DB,
    "udt_schema": "CASE WHEN t.typtype = 'd' THEN 'pg_catalog' ELSE nt.nspname END",
    "udt_name": "CASE WHEN t.typtype = 'd' THEN (SELECT b.typname FROM c_pg_type AS b WHERE b.oid = t.typbasetype)"
    " ELSE t.typname END",
    "dtd_identifier": "CAST(a.attnum AS VARCHAR)",
    "is_self_referencing": "'NO'",
    "is_identity": "'NO'",
    "identity_cycle": "'NO'",
    "is_generated": "'NEVER'",
    "is_updatable": "CASE WHEN c.relkind IN ('r', 'p') THEN 'YES' ELSE 'NO' END",
}
_INFORMATION_VIEWS: Final[Mapping[str, View]] = {
    "information_schema_catalog_name": View("", {"catalog_name": _DB}),
    "columns": View(f"{_COLUMNS} ORDER BY n.nspname, c.relname, a.attnum", _COLUMN),
    "tables": View(
        f"{_CLASSES} WHERE c.relkind IN ('r', 'v', 'f', 'p')",
        {
            **_TABLE,
            "table_type": "CASE WHEN starts_with(n.nspname, 'pg_temp_') THEN 'LOCAL TEMPORARY' WHEN c.relkind = 'v'"
            " THEN 'VIEW' ELSE 'BASE TABLE' END",
            "is_insertable_into": "CASE WHEN c.relkind IN ('r', 'p') THEN 'YES' ELSE 'NO' END",
            "is_typed": "'NO'",
        },
    ),
    "views": View(
        f"{_CLASSES} WHERE c.relkind = 'v'",
        {
            **_TABLE,
            "view_definition": "f_pg_get_viewdef(CAST(c.oid AS VARCHAR), NULL)",
            "check_option": "'NONE'",
            **dict.fromkeys(("is_updatable", "is_insertable_into", "is_trigger_updatable"), "'NO'"),
            **dict.fromkeys(("is_trigger_deletable", "is_trigger_insertable_into"), "'NO'"),
        },
    ),
    "schemata": View(
        "FROM c_pg_namespace AS n",
        {"catalog_name": _DB, "schema_name": "n.nspname", "schema_owner": "f_pg_get_userbyid(n.nspowner)"},
    ),
    "table_constraints": View(
        _KEYS,
        {
            **_NAMED,
            **_TABLE,
            "constraint_type": "CASE k.contype WHEN 'p' THEN 'PRIMARY KEY' WHEN 'u' THEN 'UNIQUE'"
            " WHEN 'f' THEN 'FOREIGN KEY' END",
            "is_deferrable": "'NO'",
            "initially_deferred": "'NO'",
            "enforced": "'NO'",
            "nulls_distinct": "CASE WHEN k.contype = 'u' THEN 'YES' END",
        },
    ),
    "key_column_usage": View(
        f"""{_KEYS} {_EACH.format("k.conkey")} JOIN c_pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = u.number
 LEFT JOIN c_pg_index AS x ON k.contype = 'f' AND x.indexrelid = k.conindid""",
        {
            **_NAMED,
            **_TABLE,
            "column_name": "a.attname",
            "ordinal_position": "u.place",
            "position_in_unique_constraint": "CASE WHEN k.contype = 'f' THEN list_position(x.indkey,"
            " k.confkey[u.place]) END",
        },
    ),
    "constraint_column_usage": View(
        f"""FROM c_pg_constraint AS k JOIN c_pg_namespace AS nk ON nk.oid = k.connamespace
 JOIN c_pg_class AS c ON c.oid = CASE WHEN k.contype = 'f' THEN k.confrelid ELSE k.conrelid END
 JOIN c_pg_namespace AS n ON n.oid = c.relnamespace
 {_EACH.format("CASE WHEN k.contype = 'f' THEN k.confkey ELSE k.conkey END")}
 JOIN c_pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = u.number""",
        {**_TABLE, "column_name": "a.attname", **_NAMED, "constraint_schema": "nk.nspname"},
    ),
    "constraint_table_usage": View(
        """FROM c_pg_constraint AS k JOIN c_pg_namespace AS nk ON nk.oid = k.connamespace
 JOIN c_pg_class AS c ON c.oid = CASE WHEN k.contype = 'f' THEN k.confrelid ELSE k.conrelid END
 JOIN c_pg_namespace AS n ON n.oid = c.relnamespace""",
        {**_TABLE, **_NAMED, "constraint_schema": "nk.nspname"},
    ),
    "referential_constraints": View(
        f"""{_KEYS} LEFT JOIN c_pg_constraint AS o ON o.conindid = k.conindid AND o.contype IN ('p', 'u')
 AND k.conindid <> 0 LEFT JOIN c_pg_namespace AS no ON no.oid = o.connamespace WHERE k.contype = 'f'""",
        {
            **_NAMED,
            "unique_constraint_catalog": f"CASE WHEN o.oid IS NOT NULL THEN {_DB} END",
            "unique_constraint_schema": "no.nspname",
            "unique_constraint_name": "o.conname",
            "match_option": "'NONE'",
            **{
                rule: f"CASE k.{column} WHEN 'c' THEN 'CASCADE' WHEN 'n' THEN 'SET NULL' WHEN 'd' THEN 'SET DEFAULT'"
                " WHEN 'r' THEN 'RESTRICT' WHEN 'a' THEN 'NO ACTION' END"
                for rule, column in (("update_rule", "confupdtype"), ("delete_rule", "confdeltype"))
            },
        },
    ),
    "character_sets": View(
        "",
        {
            "character_set_name": "'UTF8'",
            "character_repertoire": "'UCS'",
            "form_of_use": "'UTF8'",
            "default_collate_catalog": _DB,
            "default_collate_schema": "'pg_catalog'",
            "default_collate_name": "'ucs_basic'",
        },
    ),
    "collations": View(
        "FROM c_pg_collation AS l JOIN c_pg_namespace AS n ON n.oid = l.collnamespace",
        {
            "collation_catalog": _DB,
            "collation_schema": "n.nspname",
            "collation_name": "l.collname",
            "pad_attribute": "'NO PAD'",
        },
    ),
    "table_privileges": View(
        _GRANTS.format(""),
        {**_GRANT, "with_hierarchy": "CASE WHEN p.letter = 'r' THEN 'YES' ELSE 'NO' END"},
    ),
    "role_table_grants": View(
        _GRANTS.format("") + " AND NOT starts_with(c.acl, '=')",
        {**_GRANT, "with_hierarchy": "CASE WHEN p.letter = 'r' THEN 'YES' ELSE 'NO' END"},
    ),
    "column_privileges": View(
        _GRANTS.format("JOIN c_pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0") + " AND p.letter <> 'd'",
        {**_GRANT, "column_name": "a.attname"},
    ),
    "enabled_roles": View("FROM c_pg_authid AS r WHERE r.rolname = f_current_user()", {"role_name": "r.rolname"}),
    "applicable_roles": View("WHERE false", {}),
    "administrable_role_authorizations": View("WHERE false", {}),
    **{
        name: View("WHERE false", {})
        for name in (
            *("attributes", "check_constraints", "check_constraint_routine_usage", "column_column_usage"),
            *("column_domain_usage", "column_options", "domains", "domain_constraints", "domain_udt_usage"),
            *("foreign_data_wrapper_options", "foreign_data_wrappers", "foreign_server_options", "foreign_servers"),
            *("foreign_table_options", "foreign_tables", "parameters", "role_column_grants", "role_routine_grants"),
            *("role_udt_grants", "role_usage_grants", "routine_column_usage", "routine_privileges", "routines"),
            *("routine_routine_usage", "routine_sequence_usage", "routine_table_usage", "sequences", "transforms"),
            *("triggered_update_columns", "triggers", "udt_privileges", "usage_privileges", "user_defined_types"),
            *("user_mapping_options", "user_mappings", "view_column_usage", "view_routine_usage", "view_table_usage"),
        )
    },
}


def local_name(relation: Relation) -> str:
    """Return the name of a relation in the engine."""
    return f"{'c' if relation.schema == 'pg_catalog' else 'i'}_{relation.name}"


def view_query(relation: Relation) -> str | None:
    """Return the query of a view; None if this module does not know the view."""
    known = _CATALOG_VIEWS if relation.schema == "pg_catalog" else _INFORMATION_VIEWS
    view = known.get(relation.name)
    if view is None:
        return None
    items = [
        f"CAST({view.columns.get(column.name, 'NULL')} AS {duck_type(column.kind)}) AS {column.name}"
        for column in relation.columns
    ]
    if unknown := set(view.columns) - {column.name for column in relation.columns}:
        raise KeyError(f"{relation.name} has no columns {sorted(unknown)}")
    return f"SELECT {', '.join(items)} {view.rest}"


_DUCK: Final = {
    "bool": "BOOLEAN",
    "int16": "SMALLINT",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "uint32": "UINTEGER",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "binary": "BLOB",
    "timestamp[us, tz=UTC]": "TIMESTAMPTZ",
}


def duck_type(kind: str) -> str:
    """Return the engine's name of the type of a column; `kind` is a name in `pg_type`."""
    found = arrow_type(kind)
    listed = 0
    while hasattr(found, "value_type"):
        found, listed = found.value_type, listed + 1
    return _DUCK[str(found)] + "[]" * listed
