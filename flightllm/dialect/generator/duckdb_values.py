"""Write the values that functions and operators of DuckDB read."""

from typing import Any

from flightllm.common.names import DUCKDB_JOINED
from flightllm.dialect.generator.forms import text_of
from flightllm.functions.duckdb_json import DUCKDB_JSON


def as_joined(generator: Any, value: Any) -> str:
    """Write an operand of a join of texts: another value becomes its text."""
    from sqlglot import exp

    text = str(generator.sql(value))
    inner = value.unnest() if isinstance(value, exp.Paren) else value
    plain = isinstance(inner, exp.Literal | exp.DPipe | exp.Array | exp.Null)
    asked = value.find_ancestor(exp.Anonymous)  # a prompt takes values with their types
    return text if plain or asked is not None else text_of(text, DUCKDB_JOINED)


def json_of(generator: Any, value: Any) -> Any:
    """Return a JSON text in DuckDB's writing, whose parts have no spaces then."""
    from sqlglot import exp

    inner = value.unnest() if isinstance(value, exp.Paren) else value
    read = isinstance(inner, exp.JSONExtract | exp.JSONExtractScalar) or inner.name == DUCKDB_JSON
    if generator.read_from != "duckdb" or read:
        return value
    return exp.Anonymous(this=DUCKDB_JSON, expressions=[value.copy()])
