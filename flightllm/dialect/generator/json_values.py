"""Write the functions that read JSON texts, and make typed values, lists and structs of them."""

import re
from collections.abc import Mapping
from typing import Any

from flightllm.dialect.generator.automatic_times import time_cast
from flightllm.dialect.generator.calls import vendor_call
from flightllm.dialect.generator.dates import formatted
from flightllm.dialect.generator.duckdb_forms import nested_cast
from flightllm.dialect.generator.reading import written_name
from flightllm.dialect.generator.spark_casts import spark_cast
from flightllm.dialect.generator.tables.bigquery_values import UNFAILING
from flightllm.dialect.generator.variants import equal_values, whole_value
from flightllm.dialect.generator.written import SPARKS, Written
from flightllm.errors import UnsupportedError
from flightllm.functions.java_json import JAVA_KEYS
from flightllm.functions.jsonb import JSON, JSONB
from flightllm.functions.variants import ELEMENTS, PARSED_JSON, VARIANT_JSON, VARIANT_TEXT
from flightllm.sql.literals import text_literal
from flightllm.sql.passes.variants import JOINED

_UNTYPED = ("VARIANT", "OBJECT", "MAP")
_CHECKED = {"JSON": JSON, "JSONB": JSONB}
"""The functions that check and write the JSON of PostgreSQL's types."""
_WHOLE = re.compile(r"\s*(?:struct|array|map)\s*<|\s*\w+\s*\Z", re.IGNORECASE)
"""A schema that is one type, and no list of names with types."""


def json_values() -> Mapping[type, Written]:
    """Return the function that writes an expression, by sqlglot's class."""
    from sqlglot import exp

    return {
        exp.Cast: _cast,
        exp.TryCast: _cast,
        exp.ConcatWs: _joined,
        exp.EQ: equal_values,
        exp.FromJson: _from_json,
        exp.NEQ: equal_values,
        exp.ParseJSON: _parsed,
        exp.SafeFunc: _safe,
        exp.StripNullValue: _stripped,
        exp.ToBoolean: _boolean,
        exp.ToVariant: lambda generator, found: generator.sql(found, "this"),
    }


def _boolean(generator: Any, found: Any) -> str:
    """Write TRY_CAST(text AS BOOLEAN) of Snowflake by the function that reads its words."""
    name = "TRY_TO_BOOLEAN" if found.args.get("safe") else "TO_BOOLEAN"
    made: Any = vendor_call()
    if generator.read_from != "snowflake" or name not in generator.table:
        raise UnsupportedError(f"{name} of {generator.read_from} has no counterpart here: write CAST(x AS BOOLEAN)")
    return str(generator.sql(made(this=name, expressions=[found.this])))


def _parsed(generator: Any, found: Any) -> str:
    text = generator.sql(found, "this")
    if found.args.get("safe"):
        made = f"{VARIANT_JSON}({text}, '$')"
    else:
        made = f"{PARSED_JSON}({text}, {'true' if generator.read_from == 'bigquery' else 'false'})"
    return whole_value(generator, found, made) if generator.read_from == "snowflake" else made


def _safe(generator: Any, found: Any) -> str:
    """Write SAFE.INT64(j) and SAFE.PARSE_JSON(j) of BigQuery, whose errors are NULL."""
    from sqlglot import exp

    inner: Any = found.this
    if isinstance(inner, exp.ParseJSON):
        return f"{VARIANT_JSON}({generator.sql(inner, 'this')}, '$')"
    made: Any = vendor_call()
    name = f"SAFE.{inner.this}"
    if isinstance(inner, made) and name in generator.table:
        return str(generator.sql(made(this=name, expressions=inner.args["expressions"])))
    called = written_name(inner)
    if (name := f"SAFE.{called}") in generator.table:
        return str(generator.sql(made(this=name, expressions=list(inner.iter_expressions()))))
    if called in UNFAILING:
        return str(generator.sql(inner))
    raise UnsupportedError(
        f"SAFE.{called} of {generator.read_from} has no counterpart here: write SAFE_CAST, SAFE_DIVIDE, or"
        " CASE WHEN with a test of the arguments"
    )


def _cast(generator: Any, found: Any) -> str:
    """Write a cast to a type of JSON: a VARIANT and an OBJECT are JSON texts, and an ARRAY is a list."""
    from sqlglot import exp

    to = found.to
    if (nested := nested_cast(generator, found)) is not None:
        return nested
    if found.args.get("format") is not None:
        return formatted(generator, found)
    if generator.read_from == "postgres" and (made := _of_postgres(generator, found)) is not None:
        return made
    if generator.read_from == "snowflake" and to.this.name == "ARRAY":
        inner = f"{ELEMENTS}({generator.sql(found, 'this')})"
        return f"CAST({inner} AS {generator.sql(to.expressions[0])}[])" if to.expressions else inner
    if generator.read_from in {"snowflake", *SPARKS} and to.this.name in _UNTYPED and not to.expressions:
        return str(generator.sql(found, "this"))
    if generator.read_from in SPARKS and (written := spark_cast(generator, found)) is not None:
        return written
    # sqlglot reads each CAST of Spark as one that returns NULL; Spark raises an error.
    tries = isinstance(found, exp.TryCast) and (generator.read_from not in SPARKS or bool(found.args.get("safe")))
    if (made := time_cast(generator, found, tries=tries)) is not None:
        return made
    return str(generator.trycast_sql(found) if tries else generator.cast_sql(found))


def _stripped(generator: Any, found: Any) -> str:
    """Write a VARIANT that is NULL for null of JSON; the text at a path is NULL already."""
    from sqlglot import exp

    value = generator.sql(found, "this")
    return str(value) if isinstance(found.this, exp.JSONExtract | exp.GetExtract) else f"nullif({value}, 'null')"


def _of_postgres(generator: Any, found: Any) -> str | None:
    """Write a cast to json, jsonb and char, whose length a pass fills with blanks; None for other types."""
    kind, value = found.to.this.name, generator.sql(found, "this")
    if kind == "CHAR":
        length = generator.sql(found.to.expressions[0]) if found.to.expressions else "1"
        return f"CAST({value} AS CHAR({length}))"
    return f"{_CHECKED[kind]}({value})" if kind in _CHECKED else None


def _joined(generator: Any, found: Any) -> str:
    """Write concat_ws of Spark, which joins the elements of lists too."""
    if generator.read_from not in SPARKS:
        return str(generator.concatws_sql(found))
    return str(generator.func(JOINED, *found.expressions))


def _from_json(generator: Any, found: Any) -> str:
    """Write `from_json(j, 'a INT, b ARRAY<STRING>')` as a struct, and `from_json(j, 'ARRAY<INT>')` as a list.

    Raises:
        UnsupportedError: the schema is not a literal, or it has a type that JSON texts do not give here.
    """
    from sqlglot import exp

    schema = found.expression
    if found.args.get("options") is not None:
        raise UnsupportedError("from_json takes no options here: write from_json(j, 'a STRING') and read its parts")
    if not (isinstance(schema, exp.Literal) and schema.is_string):
        raise UnsupportedError("the schema of from_json must be a text literal: write from_json(j, 'a INT, b STRING')")
    text = str(schema.this)
    whole = _WHOLE.match(text) is not None
    type_ = _type_of(text if whole else f"STRUCT<{text}>", text, generator.read_from)
    value = generator.sql(found, "this")
    if type_.this.name == "STRUCT":  # another text than an object gives a struct of NULLs
        return f"(CASE WHEN trim({value}) <> '' THEN {_struct(generator, value, '$', type_)} END)"
    return _typed(generator, value, "$", type_)


def _type_of(type_: str, text: str, dialect: str) -> Any:
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    try:
        return exp.DataType.build(type_, dialect=dialect)
    except (SqlglotError, ValueError) as error:
        raise UnsupportedError(
            f"the schema {text[:100]!r} of from_json cannot be read: write names and types, as in 'a INT, b STRING'"
        ) from error


def _typed(generator: Any, value: str, path: str, type_: Any) -> str:
    """Write the value at a path of a JSON text as a value of a type."""
    kind = type_.this.name
    where = text_literal(path)
    if kind == "STRUCT":
        made = _struct(generator, value, path, type_)
        return f"(CASE WHEN {VARIANT_JSON}({value}, {where}) IS NOT NULL THEN {made} END)"
    if kind in {"ARRAY", "LIST"}:
        inner = type_.expressions[0]
        listed = f"{ELEMENTS}({VARIANT_JSON}({value}, {where}))"
        if inner.this.name in {"STRUCT", "MAP", "ARRAY"}:
            item = f"{value}_" if value.startswith("__item") else "__item"
            return f"array_transform({listed}, {item} -> {_typed(generator, item, '$', inner)})"
        if inner.this.name in {"TEXT", "VARCHAR", "VARIANT"}:
            return listed
        return f"CAST({listed} AS {generator.sql(inner)}[])"
    if kind == "MAP":
        return _map_of(generator, f"{VARIANT_JSON}({value}, {where})", type_)
    if kind == "VARIANT":
        return f"{VARIANT_JSON}({value}, {where})"
    text = f"{VARIANT_TEXT}({value}, {where})"
    return text if kind in {"TEXT", "VARCHAR"} else f"TRY_CAST({text} AS {generator.sql(type_)})"


def _struct(generator: Any, value: str, path: str, type_: Any) -> str:
    """Write the fields of a JSON object at a path as a struct."""
    named = []
    for field in type_.expressions:
        inner = _typed(generator, value, f"{path}.{_quoted(field.name)}", field.args["kind"])
        named.append(f"{text_literal(field.name)}, {inner}")
    return f"named_struct({', '.join(named)})"


def _map_of(generator: Any, text: str, type_: Any) -> str:
    """Write the fields of a JSON object as a map of texts to simple values.

    Raises:
        UnsupportedError: the values of the map are lists, structs or maps.
    """
    kind = type_.expressions[1]
    if kind.this.name in {"ARRAY", "LIST", "MAP", "STRUCT"}:
        raise UnsupportedError(
            "from_json gives no MAP of lists, structs or maps here: write MAP<STRING, STRING>, and read the parts of a"
            " value by get_json_object(value, '$.name')"
        )
    path = """concat('$."', replace(replace(__key, '\\', '\\\\'), '"', '\\"'), '"')"""
    found = f"{VARIANT_TEXT}({text}, {path})"
    if kind.this.name not in {"TEXT", "VARCHAR"}:
        found = f"TRY_CAST({found} AS {generator.sql(kind)})"
    keys = f"{JAVA_KEYS}({text})"
    return f"(CASE WHEN {keys} IS NOT NULL THEN map({keys}, array_transform({keys}, __key -> {found})) END)"


def _quoted(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
