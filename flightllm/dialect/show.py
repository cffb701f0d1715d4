"""Rewrite SHOW of schemas, tables and parameters, which clients send when they connect and browse."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from flightllm.common.names import quoted
from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit
from flightllm.errors import NotFoundError
from flightllm.sql.client_parameters import PARAMETERS
from flightllm.sql.literals import text_literal
from flightllm.sql.names import read_parts
from flightllm.sql.tokens import TokenKind

_TABLES = "SELECT table_catalog, table_schema, table_name, table_type FROM information_schema.tables"
_OWN = f"{_TABLES} WHERE table_schema NOT IN ('information_schema', 'system')"
_KINDS_OF_PLACES = ("schema", "database", "catalog")
_CATALOGS = "SELECT DISTINCT catalog_name AS {name} FROM information_schema.schemata"


def show_without_case(source: Source) -> Iterator[Edit]:
    """Rewrite SHOW as `show` does; the pattern after LIKE has no case, as in Snowflake."""
    for edit in show(source):
        yield replace(edit, text=edit.text.replace("_name LIKE ", "_name ILIKE ", 1))


def show(source: Source) -> Iterator[Edit]:
    """Rewrite `SHOW SCHEMAS` as `SELECT schema_name FROM information_schema.schemata ORDER BY 1`, and so on.

    `SHOW TABLES` leaves out the tables of the system: `SHOW ALL TABLES` and `SHOW TABLES FROM system` list them.
    `DESCRIBE TABLE t` is `DESCRIBE t`, and `SHOW COLUMNS IN TABLE t` is `SHOW COLUMNS IN t`.
    """
    if source.is_word(0, "describe", "desc") and source.is_word(1, "table") and len(source.tokens) > 2:
        yield Edit(source.tokens[1].start, source.tokens[2].start, "")
    if not source.is_word(0, "show"):
        return
    if source.is_word(1, "columns") and source.is_word(2, "in", "from") and source.is_word(3, "table"):
        if len(source.tokens) > 4:
            yield Edit(source.tokens[3].start, source.tokens[4].start, "")
        return
    query = _query(source)
    if query is not None:
        yield Edit(source.tokens[0].start, source.tokens[-1].end, query)


def _query(source: Source) -> str | None:
    if source.is_word(1, "schemas"):
        return _listed(source, 2, "SELECT schema_name FROM information_schema.schemata", "schema_name", "catalog_name")
    if source.is_word(1, "databases", "catalogs"):
        name = "database_name" if source.is_word(1, "databases") else "catalog_name"
        attached = "".join(f" UNION ALL SELECT {text_literal(one)}" for one in source.place.databases())
        query = f"SELECT {name} FROM ({_CATALOGS.format(name=name)}{attached})"
        return _listed(source, 2, query, name, None)
    if source.is_word(1, "tables"):
        within = source.is_word(2, "from", "in")
        return _listed(source, 2, _TABLES if within else _OWN, "table_name", "table_schema")
    if source.is_word(1, "all") and source.is_word(2, "tables"):
        return _listed(source, 3, _TABLES, "table_name", "table_schema")
    if source.is_word(1, "views"):
        return _listed(source, 2, f"{_TABLES} WHERE table_type = 'VIEW'", "table_name", "table_schema")
    return _parameter(source)


def _listed(source: Source, at: int, query: str, named: str, within: str | None) -> str | None:
    """Return a query with the conditions of `[FROM place] [LIKE 'pattern']`, in any order; None if other words follow.

    Snowflake and Databricks have the word SCHEMA before the place, and the pattern before both.
    """
    conditions = []
    for _ in range(2):
        if within is not None and source.is_word(at, "from", "in"):
            kind = at + 1 if source.is_word(at + 1, *_KINDS_OF_PLACES) and _is_name(source, at + 2) else at
            parts, at = read_parts(source.tokens, kind + 1)
            if not parts:
                return None
            conditions.append(_of_place(source, within, parts, of_catalog=source.is_word(kind, "database", "catalog")))
        if source.is_word(at, "like") and _is_text(source, at + 1):
            conditions.append(f"{named} LIKE {text_literal(source.tokens[at + 1].text)}")
            at += 2
    while source.is_symbol(at, ";"):
        at += 1
    if at < len(source.tokens):
        return None
    joint = " AND " if " WHERE " in query else " WHERE "
    return f"{query}{joint if conditions else ''}{' AND '.join(conditions)} ORDER BY 1, {min(2, query.count(',') + 1)}"


def _is_text(source: Source, at: int) -> bool:
    return at < len(source.tokens) and source.tokens[at].kind is TokenKind.STRING


def _is_name(source: Source, at: int) -> bool:
    is_name = at < len(source.tokens) and source.tokens[at].kind in {TokenKind.WORD, TokenKind.QUOTED}
    return is_name and not source.is_word(at, "like")


def _of_place(source: Source, within: str, parts: Sequence[str], *, of_catalog: bool) -> str:
    """Return the condition of a place.

    Raises:
        NotFoundError: the place does not exist.
    """
    if within == "table_schema" and of_catalog:
        if parts[-1] != source.place.catalog:
            raise NotFoundError(f"there is no catalog {parts[-1]!r}, only {source.place.catalog!r}: leave IN out")
        return f"table_catalog = {text_literal(parts[-1])}"
    if within == "table_schema" and parts[-1] not in source.place.schemas():
        raise NotFoundError(f"there is no schema {parts[-1]!r}: see SHOW SCHEMAS")
    return f"{within} = {text_literal(parts[-1])}"


def _parameter(source: Source) -> str | None:
    name = " ".join(token.text.lower() for token in source.tokens[1:] if not token.is_symbol(";"))
    known = {**PARAMETERS, "search_path": ", ".join(source.place.path), "server_version": source.place.version}
    return f"SELECT {text_literal(known[name])} AS {quoted(name.replace(' ', '_'))}" if name in known else None
