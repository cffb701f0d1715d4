"""Columns, items of SELECT and tables of FROM: write them, and find the items that other clauses name."""

from collections.abc import Sequence

from flightllm.sql.nodes import Json, body, kind, name_of, new_identifier
from flightllm.sql.tree import written, written_query
from flightllm.sql.types import expressions_of


def column(table: str, name: str) -> Json:
    """Return a column of a table."""
    return {"CompoundIdentifier": [new_identifier(table), new_identifier(name)]}


def item(value: Json, name: str) -> Json:
    """Return an item of SELECT with an alias."""
    return {"ExprWithAlias": {"expr": value, "alias": new_identifier(name)}}


def derived(rows: Json, name: str) -> Json:
    """Return a query as a table of FROM."""
    alias = {"explicit": True, "name": new_identifier(name), "columns": []}
    return {"Derived": {"lateral": False, "subquery": rows, "alias": alias, "sample": None}}


def without(star: Json, names: Sequence[str]) -> Json:
    """Return a star without some columns."""
    options = body(star)
    before = options["opt_exclude"]
    listed = [] if before is None else body(before) if kind(before) == "Multiple" else [body(before)]
    return {"Wildcard": {**options, "opt_exclude": {"Multiple": [*listed, *map(new_identifier, names)]}}}


def by_number(key: Json, items: Sequence[Json]) -> Json:
    """Return the item that a number of GROUP BY means, or the key. In place of another number it is a constant."""
    place, listed = _number(key), expressions_of({"Select": {"projection": items}})
    if not (place.isdecimal() and 0 < int(place) <= len(listed)):
        return key
    found = listed[int(place) - 1]
    # A number in GROUP BY would mean a place again.
    return written("v IS NULL", v=found) if _number(found) else found


def _number(expression: Json) -> str:
    """Return the digits of a number; empty for any other expression."""
    value: Json = body(expression)["value"] if kind(expression) == "Value" else None
    return str(body(value)[0]) if kind(value) == "Number" else ""


def by_name(key: Json, items: Sequence[Json]) -> Json:
    """Return the item that a name or a number of ORDER BY means, or the key."""
    name = name_of(body(key)) if kind(key) == "Identifier" else None
    for one in items:
        if kind(one) == "ExprWithAlias" and name_of(body(one)["alias"]) == name:
            return body(one)["expr"]
    return by_number(key, items)


def rows_as_selects(rows: Sequence[Json]) -> Json:
    """Return the rows of VALUES as a UNION ALL of one SELECT for each row, with the same names of columns."""
    found: Json = None
    select = body(written_query("SELECT 0")["body"])
    union = body(written_query("SELECT 0 UNION ALL SELECT 0")["body"])
    for row in rows:
        part = {"Select": {**select, "projection": [item(one, f"column{n}") for n, one in enumerate(row, 1)]}}
        found = part if found is None else {"SetOperation": {**union, "left": found, "right": part}}
    return found
