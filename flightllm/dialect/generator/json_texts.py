"""Write functions over JSON texts."""

from collections.abc import Mapping
from typing import Any

from flightllm.common.array_texts import array_items
from flightllm.dialect.generator.duckdb_values import json_of
from flightllm.dialect.generator.written import Written
from flightllm.errors import UnsupportedError
from flightllm.functions.jsonb import HAS, WITHOUT
from flightllm.sql.literals import text_literal


def json_texts() -> Mapping[type, Written]:
    """Return the function that writes an expression over JSON, by sqlglot's class."""
    from sqlglot import exp

    return {
        exp.JSONExtractScalar: _read_as_text,
        exp.JSONBExtract: _operator("#>"),
        exp.JSONBExtractScalar: _operator("#>>"),
        exp.JSONBContainsTopKey: _has("make_array({})", every=False),
        exp.JSONBContainsAnyTopKeys: _has("{}", every=False),
        exp.JSONBContainsAllTopKeys: _has("{}", every=True),
        exp.JSONBDeleteAtPath: _deleted,
    }


def _operator(sign: str) -> Written:
    """Return a function that writes an operator of jsonb, which a pass reads later."""

    def written(generator: Any, found: Any) -> str:
        return f"({generator.sql(found, 'this')} {sign} {generator.sql(found, 'expression')})"

    return written


def _deleted(generator: Any, found: Any) -> str:
    """Write `j #- '{a,b}'`; another path than a literal is a list already."""
    path = found.expression
    try:
        items = array_items(path.name) if path.is_string else None
    except ValueError as error:
        raise UnsupportedError(f"the path {path.name[:60]!r} of #- cannot be read: write '{{a,0}}'") from error
    steps = (
        generator.sql(path) if items is None else f"make_array({', '.join(text_literal(str(one)) for one in items)})"
    )
    return f"{WITHOUT}({generator.sql(found, 'this')}, {steps}, 'path')"


def _has(keys: str, *, every: bool) -> Written:
    """Return a function that writes whether a JSON value has one or all of some keys."""

    def written(generator: Any, found: Any) -> str:
        given = keys.format(generator.sql(found, "expression"))
        return f"{HAS}({generator.sql(found, 'this')}, {given}, {'true' if every else 'false'})"

    return written


def _read_as_text(generator: Any, found: Any) -> str:
    name = "JSON_VALUE" if found.args.get("scalar_only") else "JSON_EXTRACT_STRING"
    return str(generator.func(name, json_of(generator, found.this), found.expression))
