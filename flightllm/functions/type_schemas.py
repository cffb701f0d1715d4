"""JSON Schemas of SQL types: `STRUCT<city: STRING, rooms: INT>` describes an object with two properties."""

import json
import re
from collections.abc import Mapping
from typing import Any

_JSON_TYPES: Mapping[str, str] = {
    **dict.fromkeys(("VARCHAR", "TEXT", "CHAR", "DATE", "TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPNTZ"), "string"),
    **dict.fromkeys(("DATETIME", "TIMESTAMPLTZ", "JSON", "VARIANT"), "string"),
    **dict.fromkeys(("BIGINT", "INT", "SMALLINT", "TINYINT"), "integer"),
    **dict.fromkeys(("DOUBLE", "FLOAT", "DECIMAL"), "number"),
    "BOOLEAN": "boolean",
}
_LONGEST = 20_000
_IS_TYPE = re.compile(r"\s*(?:type\s+)?(?:struct\s*<|object\s*\(|array\s*[<(])", re.IGNORECASE)
"""The beginning of a text that is a type, which no JSON begins with."""
_DESCRIPTION = re.compile(r"(?i)\bOPTIONS\s*\(\s*description\s*=\s*('[^']*'|\"[^\"']*\")\s*\)")
"""BigQuery's description of a column."""
_SIZES, _QUOTED = re.compile(r"\(\s*\d+\s*(?:,\s*\d+\s*)?\)"), re.compile(r"'[^']*'")
_DIALECTS = ("databricks", "bigquery", "snowflake", "duckdb")


def schema_of_type(text: str) -> str | None:
    """Return the JSON Schema of a type in the words of Databricks, BigQuery or Snowflake; None for another text.

    Databricks wraps the fields in one outer field, which names the schema: `STRUCT<result: STRUCT<…>>` has the fields
    of the inner type.
    """
    if _IS_TYPE.match(text) is None:
        return None
    schema = _read(re.sub(r"(?i)^\s*type\s+", "", text))
    if schema is None or schema["type"] != "object":
        return None
    properties = schema["properties"]
    inner = next(iter(properties.values()))
    named = len(properties) == 1 and inner["type"] == "object"
    return json.dumps(inner if named else schema, ensure_ascii=False)


def schema_of_columns(text: str) -> str | None:
    """Return the JSON Schema of columns with types, such as `city STRING, rooms INT64`; None for another text."""
    schema = _read(f"STRUCT<{text}>") if text.strip() else None
    return None if schema is None or schema["type"] != "object" else json.dumps(schema, ensure_ascii=False)


def _read(text: str) -> dict[str, Any] | None:
    from sqlglot import exp  # slow to import
    from sqlglot.errors import SqlglotError

    if len(text) > _LONGEST:
        return None
    plain = _DESCRIPTION.sub(lambda found: f"COMMENT '{found[1][1:-1]}'", text)
    commas = _QUOTED.sub("", _SIZES.sub("", plain)).count(",")
    for dialect in _DIALECTS:
        try:
            found = exp.DataType.build(plain, dialect=dialect)
        except (SqlglotError, RecursionError):
            continue
        schema = _json_schema(found)
        if schema is not None and _commas(schema) == commas:  # sqlglot leaves out what it cannot read
            return schema
    return None


def _commas(schema: Mapping[str, Any]) -> int:
    """Return how many commas the type of a schema has between its fields."""
    if schema["type"] == "array":
        return _commas(schema["items"])
    fields = schema.get("properties", {}).values()
    return sum(map(_commas, fields)) + max(0, len(fields) - 1)


def _json_schema(kind: Any) -> dict[str, Any] | None:
    """Return the JSON Schema of a type of sqlglot's; None for a type without a JSON Schema."""
    from sqlglot import exp

    if kind.is_type("struct", "object"):
        fields: dict[str, Any] = {}
        for column in kind.expressions:
            one = _json_schema(column.kind) if isinstance(column, exp.ColumnDef) and column.kind else None
            if one is None:
                return None
            fields[column.name] = one | _described(column)
        return {"type": "object", "properties": fields, "required": list(fields)} if fields else None
    if kind.is_type("array"):
        items = _json_schema(kind.expressions[0]) if kind.expressions else None
        return None if items is None else {"type": "array", "items": items}
    named = _JSON_TYPES.get(kind.this.name if isinstance(kind.this, exp.DType) else "")
    return None if named is None else {"type": named}


def _described(column: Any) -> dict[str, str]:
    """Return the description that `COMMENT 'text'` gives a column."""
    from sqlglot import exp

    for constraint in column.args.get("constraints") or ():
        if isinstance(constraint.args.get("kind"), exp.CommentColumnConstraint):
            return {"description": constraint.args["kind"].name}
    return {}
