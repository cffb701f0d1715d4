"""Write the fields of JSON values as BigQuery spells them: `d.a.b[0]`, `d['a']` and `PARSE_JSON(j).a`."""

from typing import TYPE_CHECKING, Any, Final

from flightllm.functions.json_values import Step, written_path
from flightllm.sql.passes.variants import FIELD

if TYPE_CHECKING:
    from sqlglot import exp


_OF_JSON: Final = frozenset({"TO_JSON", "JSON_QUERY", "JSON_EXTRACT", "JSON_OBJECT"})
"""Functions whose values are JSON."""


def write_json_fields(tree: "exp.Expr") -> None:
    """Rewrite `d.a[0]` as `__json_field(d, '$."a"[0]', d.a[0])`: a later step chooses by the type of `d`.

    A name after the name of a table is a column, and stays.
    """
    from sqlglot import exp

    tables = {one.name.lower() for one in tree.find_all(exp.Table)}
    tables |= {one.name.lower() for one in tree.find_all(exp.TableAlias) if one.name}
    for found in list(tree.find_all(exp.Column, exp.Dot, exp.Bracket)):
        if isinstance(found.parent, exp.Dot | exp.Bracket) and found.arg_key == "this":
            continue  # a part of a longer path
        value, steps = _read(found, tables)
        if value is None or not steps:
            continue
        path = exp.Literal.string(written_path(tuple(steps)))
        made: Any = exp.Anonymous(this=FIELD, expressions=[value, path, found.copy()])
        if isinstance(found.parent, exp.Select) and found.arg_key == "expressions" and isinstance(steps[-1], str):
            made = exp.alias_(made, steps[-1], quoted=True)
        found.replace(made)


def _read(found: Any, tables: set[str]) -> tuple[Any, list[Step]]:
    """Return the value that a path reads, and its steps; no value for another expression."""
    from sqlglot import exp

    steps: list[Step] = []
    while isinstance(found, exp.Dot | exp.Bracket):
        key = found.expression if isinstance(found, exp.Dot) else _key(found)
        if isinstance(key, exp.Identifier):
            steps.insert(0, key.name)
        elif isinstance(key, exp.Literal):
            steps.insert(0, str(key.this) if key.is_string else int(key.this))
        else:
            return None, []
        found = found.this
    if isinstance(found, exp.Column) and isinstance(found.this, exp.Identifier):
        parts = found.parts
        at = next((at + 1 for at, part in enumerate(parts[:-1]) if part.name.lower() in tables), 0)
        value = exp.Column(**dict(zip(("this", "table", "db"), (part.copy() for part in parts[at::-1]), strict=False)))
        return value, [*(part.name for part in parts[at + 1 :]), *steps]
    made = isinstance(found, exp.ParseJSON | exp.Subquery) or str(found.args.get("this")).upper() in _OF_JSON
    return (found.copy(), steps) if made else (None, [])


def _key(found: Any) -> Any:
    """Return the key of a subscript; None for OFFSET and ORDINAL, which only lists have."""
    from sqlglot import exp

    plain = len(found.expressions) == 1 and found.args.get("offset") is None and not found.args.get("safe")
    key = found.expressions[0] if plain else None
    return key if isinstance(key, exp.Literal) and (key.is_string or str(key.this).isdecimal()) else None
