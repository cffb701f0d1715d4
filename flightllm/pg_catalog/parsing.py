"""Read a statement of a PostgreSQL client, and find out whether it asks only the catalog."""

import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import ClassVar, Final

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import SqlglotError
from sqlglot.tokens import TokenType  # type: ignore[attr-defined]

from flightllm.common.names import CATALOG
from flightllm.pg_catalog.data import Relation, relations
from flightllm.pg_catalog.words import LONGEST, QUERY

_USER_TYPES: Final = "oid|name|xid|cid|tid|regclass|regtype|regproc|regprocedure|regnamespace|regrole|aclitem"
_ARRAY_OF: Final = re.compile(rf'\b(?:pg_catalog\.)?(?:({_USER_TYPES})|"char")\s*\[\s*\]', re.IGNORECASE)
_NUMBERS: Final = {"oid": "oid[]", "xid": "bigint[]", "cid": "bigint[]"}
_ALONE: Final = frozenset(
    (
        *("pg_backend_pid", "pg_is_in_recovery", "format_type", "current_setting", "set_config", "to_regclass"),
        *("to_regtype", "to_regproc", "to_regnamespace", "to_regrole", "txid_current", "pg_my_temp_schema"),
        *("quote_ident", "obj_description", "col_description", "current_schemas"),
        *("shobj_description", "inet_server_port", "inet_server_addr", "inet_client_addr", "inet_client_port"),
        *("generate_subscripts", "parse_ident"),
    )
)
"""Functions that only this part answers; a statement without a table asks the catalog if it calls one of them."""
_ALONE_PREFIXES: Final = ("pg_", "has_")
_OTHER_FUNCTIONS: Final = frozenset(("pg_sleep", "pg_advisory_unlock_all"))
"""Functions that are not about the catalog; the dialect answers the second one, as pools send it often."""
_SHARED: Final = frozenset(("version", "current_schema", "current_database"))
_TABLE: Final = frozenset(("table_catalog", "table_schema", "table_name"))
_CONSTRAINT: Final = frozenset(("constraint_catalog", "constraint_schema", "constraint_name"))
_IN_DATAFUSION: Final[Mapping[str, frozenset[str]]] = {
    "tables": _TABLE | {"table_type"},
    "views": _TABLE | {"definition"},
    "schemata": frozenset(
        (
            *("catalog_name", "schema_name", "schema_owner", "default_character_set_catalog", "sql_path"),
            *("default_character_set_schema", "default_character_set_name"),
        )
    ),
    "columns": _TABLE
    | {"column_name", "ordinal_position", "column_default", "is_nullable", "data_type", "character_maximum_length"}
    | {"character_octet_length", "numeric_precision", "numeric_precision_radix", "numeric_scale"}
    | {"datetime_precision", "interval_type"},
    "table_constraints": _CONSTRAINT | _TABLE | {"constraint_type", "is_deferrable", "initially_deferred", "enforced"},
    "key_column_usage": _CONSTRAINT | _TABLE | {"column_name", "ordinal_position", "position_in_unique_constraint"},
    "referential_constraints": _CONSTRAINT
    | {"unique_constraint_catalog", "unique_constraint_schema", "unique_constraint_name"}
    | {"match_option", "update_rule", "delete_rule"},
    "constraint_column_usage": _CONSTRAINT | _TABLE | {"column_name"},
}
"""The tables of `information_schema` that need no further package, with their columns."""


class CatalogDialect(Postgres):
    """PostgreSQL's dialect; each function stays under the name that the text has."""

    class Parser(Postgres.Parser):  # type: ignore[misc, valid-type]
        """Keep the names of functions."""

        FUNCTIONS: ClassVar[dict[str, object]] = {}
        RESERVED_TOKENS: ClassVar = Postgres.Parser.RESERVED_TOKENS - {TokenType.SELECT}
        """PostgreSQL reads any word after AS as a name, also `AS select`."""

    class Tokenizer(Postgres.Tokenizer):
        """Read the operators that psql and the drivers write."""

        KEYWORDS: ClassVar = {**Postgres.Tokenizer.KEYWORDS, "OID": TokenType.UINT}


@dataclass(frozen=True, slots=True)
class Asked:
    """A statement that asks the catalog: its tree, which the reader must copy before a change."""

    tree: exp.Query
    only_here: bool
    """Whether DataFusion cannot answer it."""
    names: frozenset[str]
    """The relations of `pg_catalog` that the statement names without a schema."""
    mixed: bool = False
    """Whether the statement reads other tables, too."""

    def asks(self, *, as_postgres: bool) -> bool:
        """Return whether the catalog answers the statement.

        `as_postgres` is true for a client of PostgreSQL's protocol. For other clients, DataFusion answers what it can
        about `information_schema`, with this server's own names of types, and `version()`.
        """
        return not self.mixed and (self.only_here or as_postgres)


def read(sql: str) -> Asked | None:
    """Return the tree of a statement that asks the catalog; None for another statement."""
    return _TREES.of(sql) if len(sql) <= LONGEST and QUERY.match(sql) is not None else None


class Trees:
    """The trees of the texts that were read last. Thread-safe."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[str, Asked | None] = OrderedDict()
        self._lock = Lock()
        self.size = 0
        """The characters of the kept texts."""

    def of(self, sql: str) -> Asked | None:
        """Return the tree of a text, or None if it does not ask the catalog."""
        with self._lock:
            if sql in self._kept:
                self._kept.move_to_end(sql)
                return self._kept[sql]
        asked = _asked(sql)
        with self._lock:
            if sql not in self._kept:
                self._kept[sql] = asked
                self.size += len(sql)
            while self.size > self._most:
                self.size -= len(self._kept.popitem(last=False)[0])
        return asked


_TREES: Final = Trees(LONGEST)
"""A tree takes about 280 times the memory of its text, so all of them take about 18 MB."""


def _asked(sql: str) -> Asked | None:
    tree = _parsed(sql)
    if tree is None:
        return None
    tables = [table for table in tree.find_all(exp.Table) if isinstance(table.this, exp.Identifier)]
    named = [table for table in tables if not names_common(table)]
    found = [relation_of(table) for table in named]
    stored = [relation for relation in found if relation is not None]
    short = frozenset(
        relation.name
        for table, relation in zip(named, found, strict=True)
        if relation is not None and not table.args.get("db")
    )
    mixed = len(stored) < len(found)
    own = _calls_catalog(tree)
    if mixed:
        return Asked(tree, own, short, mixed) if short else None
    if not stored:
        return Asked(tree, own, short) if own or any(name in _SHARED for name in _called(tree)) else None
    return Asked(tree, own or not all(_in_datafusion(relation, tree) for relation in stored), short)


def _parsed(sql: str) -> exp.Query | None:
    text = _ARRAY_OF.sub(lambda found: _NUMBERS.get((found[1] or "").lower(), "text[]"), sql)
    try:
        trees = [tree for tree in CatalogDialect().parse(text) if tree is not None]
    except (SqlglotError, RecursionError):
        return None
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        return None
    tree = trees[0]
    if tree.find(exp.Insert, exp.Update, exp.Delete, exp.Into, exp.Merge) is not None:
        return None
    return tree


def _in_datafusion(relation: Relation, tree: exp.Query) -> bool:
    """Return whether DataFusion has a relation, with all columns that a statement names."""
    if relation.schema != "information_schema" or relation.name not in _IN_DATAFUSION:
        return False
    lacking = {column.name for column in relation.columns} - _IN_DATAFUSION[relation.name]
    return lacking.isdisjoint(folded(column.this) for column in tree.find_all(exp.Column) if not column.is_star)


def relation_of(table: exp.Table) -> Relation | None:
    """Return the relation of the catalog that a table in FROM names, as PostgreSQL looks it up."""
    if table.catalog and folded(table.args["catalog"]) != CATALOG:
        return None
    schema = folded(table.args["db"]) if table.args.get("db") else "pg_catalog"
    return relations().get((schema, folded(table.this)))


def names_common(table: exp.Table) -> bool:
    """Return whether a table in FROM names a query of WITH that is in scope there."""
    if table.args.get("db") or not isinstance(table.this, exp.Identifier):
        return False
    name = folded(table.this)
    inside: exp.Expr = table
    place = table.parent
    while place is not None:
        queries = place.args.get("with_")
        if isinstance(place, exp.With):  # a query of WITH sees those before it, and itself after RECURSIVE
            before = place.expressions[: (inside.index or 0) + bool(place.args.get("recursive"))]
            if name in map(common_name, before):
                return True
        elif queries is not None and inside is not queries and name in map(common_name, queries.expressions):
            return True
        inside, place = place, place.parent
    return False


def common_name(query: exp.CTE) -> str:
    """Return the name of a query of WITH, as PostgreSQL reads it."""
    return folded(query.args["alias"].this)


def folded(name: exp.Expression) -> str:
    """Return a name as PostgreSQL reads it: in lower case, unless it is quoted."""
    return name.name if name.args.get("quoted") else name.name.lower()


def _calls_catalog(tree: exp.Query) -> bool:
    qualified = any(folded(one) == "pg_catalog" for one in tree.find_all(exp.Identifier))
    return (
        qualified
        or any(_is_own(name) for name in _called(tree))
        or any(cast_name(one.to).startswith("reg") for one in tree.find_all(exp.Cast))
    )


def _is_own(name: str) -> bool:
    return (name in _ALONE or name.startswith(_ALONE_PREFIXES)) and name not in _OTHER_FUNCTIONS


def _called(tree: exp.Query) -> Iterator[str]:
    for one in tree.find_all(exp.Anonymous):
        yield str(one.this).lower() if isinstance(one.this, str) else one.this.name.lower()


def cast_name(kind: exp.DataType) -> str:
    """Return the name of the type of a cast, in lower case and without its schema, such as `regclass`."""
    given = kind.args.get("kind")
    if kind.this == exp.DataType.Type.USERDEFINED and given is not None:
        found = given if isinstance(given, str) else given.name if isinstance(given, exp.Identifier) else given.sql()
        return found.rpartition(".")[2].strip('"').lower()
    return str(kind.this.value if hasattr(kind.this, "value") else kind.this).lower()
