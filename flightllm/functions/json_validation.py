"""Checks of values by a JSON Schema. Import it where a schema is at hand: `jsonschema` takes long to import."""

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from jsonschema import Draft202012Validator, SchemaError, ValidationError
from jsonschema.exceptions import best_match
from jsonschema.validators import extend
from referencing import Registry

from flightllm.errors import AICallError


def check_schema(document: Mapping[str, Any]) -> None:
    """Check that a document is a JSON Schema.

    Raises:
        AICallError: it is not.
    """
    try:
        Draft202012Validator.check_schema(document)
    except (SchemaError, RecursionError) as error:
        raise AICallError(f"the schema is not a JSON Schema: {str(error).splitlines()[0]}") from error


def validator_of(schema: Mapping[str, Any]) -> Draft202012Validator:
    """Return the validator of a schema; it never fetches another schema."""
    validator: Draft202012Validator = _Validator(schema, registry=Registry())  # an empty registry fetches nothing
    return validator


def fault_of(validator: Draft202012Validator, value: Any) -> str | None:
    """Return where a value breaks the schema, and how; None for a value that follows it."""
    found = best_match(validator.iter_errors(value))
    return None if found is None else f"{found.json_path}: {found.message[:200]}"


def finds(pattern: str, text: str) -> bool:
    """Return whether RE2 finds a pattern in a text.

    Raises:
        ArrowInvalid: the pattern is not one of RE2.
    """
    return bool(pc.match_substring_regex(pa.scalar(text, pa.string()), pattern=pattern).as_py())


def _matches(validator: Any, pattern: str, value: Any, _schema: Any) -> Iterator[ValidationError]:
    """Check a text by RE2, because Python can take years for a pattern of ten characters."""
    if validator.is_type(value, "string") and not finds(pattern, value):
        yield ValidationError(f"the pattern {pattern!r} does not fit {value!r}")


_Validator = extend(Draft202012Validator, {"pattern": _matches})  # type: ignore[no-untyped-call]
