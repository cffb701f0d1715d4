"""Random answers that are valid under a call's constraint: the same seed gives the same answer.

The fake engine answers with them. EXPLAIN's predictions use them while a call site has too few earlier answers.
"""

import json
import random
from collections.abc import Callable, Mapping
from typing import Any

import rstr

from flightllm.llm.engine import Choice, Constraint, JsonSchema, Regex

_WORDS = (
    "amber", "brisk", "calm", "dusty", "early", "faint", "gentle", "hollow",
    "iron", "jolly", "keen", "lively", "mellow", "noble", "opal", "plain",
)  # fmt: skip
_POOL = 512
_MAX_DEPTH = 8
_STEPS = 10_000


def answerer(constraint: Constraint) -> Callable[[int], str]:
    """Return a function from a 64-bit hash to an answer that is valid under `constraint`."""
    if isinstance(constraint, Choice):
        options = constraint.options
        return lambda seed: options[seed % len(options)]
    if isinstance(constraint, Regex):
        pool = [rstr.Rstr(random.Random(seed)).xeger(constraint.pattern) for seed in range(_POOL)]  # noqa: S311
        return lambda seed: pool[seed % _POOL]
    if isinstance(constraint, JsonSchema):
        schema = json.loads(constraint.schema)
        return lambda seed: json.dumps(instance(schema, random.Random(seed)), ensure_ascii=False)  # noqa: S311
    return lambda seed: f"{_WORDS[seed % 16]} {_WORDS[seed // 16 % 16]} {seed >> 32 & 0xFFFFFFFF:08x}"


def likelihoods(constraint: Constraint, text: str, seed: int) -> tuple[float, ...] | None:
    """Return a probability for each option of a `Choice`, by the hash; for other constraints None.

    The chosen option `text` has a probability from 1 / options to 1. The other options share the rest equally.
    """
    if not isinstance(constraint, Choice) or text not in constraint.options:
        return None
    count = len(constraint.options)
    share = 1 / count
    chosen = share + (1 - share) * ((seed * 0x9E3779B97F4A7C15 >> 32) % _STEPS) / _STEPS
    rest = (1 - chosen) / max(1, count - 1)
    return tuple(chosen if option == text else rest for option in constraint.options)


def instance(schema: Any, rng: random.Random) -> Any:
    """Return a random JSON value that is valid under `schema` (types, enum, bounds, lengths, `$ref` in the schema)."""
    return _value(schema, rng, schema, 0)


def _value(schema: Any, rng: random.Random, root: Any, depth: int) -> Any:
    if not isinstance(schema, dict) or not schema:
        return rng.choice(_WORDS)
    if "$ref" in schema:
        return _value(_resolve(root, schema["$ref"]), rng, root, depth + 1)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return rng.choice(schema["enum"])
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            options = schema[keyword]
            return _value(options[-1] if depth > _MAX_DEPTH else rng.choice(options), rng, root, depth + 1)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if isinstance(kind, list):
        kind = kind[-1] if depth > _MAX_DEPTH else rng.choice(kind)
    return _typed(kind, schema, rng, root, depth)


def _typed(kind: str, schema: Mapping[str, Any], rng: random.Random, root: Any, depth: int) -> Any:
    match kind:
        case "object":
            return _object(schema, rng, root, depth)
        case "array":
            return _array(schema, rng, root, depth)
        case "boolean":
            return rng.random() < 0.5
        case "integer":
            low, high = _bounds(schema, 1)
            return rng.randint(int(low), int(high))
        case "number":
            low, high = _bounds(schema, 0.01)
            return min(max(round(rng.uniform(low, high), 2), low), high)
        case "null":
            return None
        case _:
            return _string(schema, rng)


def _object(schema: Mapping[str, Any], rng: random.Random, root: Any, depth: int) -> dict[str, Any]:
    properties = schema.get("properties", {})
    required = schema.get("required", ())
    names = [name for name in properties if depth <= _MAX_DEPTH or name in required]
    names += [name for name in required if name not in properties]
    return {name: _value(properties.get(name, {}), rng, root, depth + 1) for name in names}


def _array(schema: Mapping[str, Any], rng: random.Random, root: Any, depth: int) -> list[Any]:
    items = schema.get("items", {})
    least = schema.get("minItems", 0)
    most = least if depth > _MAX_DEPTH else min(schema.get("maxItems", least + 3), least + 3)
    if schema.get("uniqueItems") and isinstance(items, dict) and "enum" in items:
        most = min(most, len(items["enum"]))
        chosen = set(rng.sample(range(len(items["enum"])), rng.randint(min(max(least, 1), most), most)))
        return [value for position, value in enumerate(items["enum"]) if position in chosen]
    return [_value(items, rng, root, depth + 1) for _ in range(rng.randint(least, max(least, most)))]


def _string(schema: Mapping[str, Any], rng: random.Random) -> str:
    if "pattern" in schema:
        return str(rstr.Rstr(rng).xeger(schema["pattern"]))
    if schema.get("format") == "date":
        return f"20{rng.randint(10, 29)}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"
    if schema.get("format") == "date-time":
        return (
            f"20{rng.randint(10, 29)}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}T{rng.randint(0, 23):02d}:00:00Z"
        )
    text = f"{rng.choice(_WORDS)} {rng.choice(_WORDS)}"
    return text.ljust(schema.get("minLength", 0), "x")[: schema.get("maxLength", 200)]


def _bounds(schema: Mapping[str, Any], step: float) -> tuple[float, float]:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is None and "exclusiveMinimum" in schema:
        low = schema["exclusiveMinimum"] + step
    if high is None and "exclusiveMaximum" in schema:
        high = schema["exclusiveMaximum"] - step
    if low is None:
        low = 0 if high is None else high - 100
    return low, low + 100 if high is None else high


def _resolve(root: Any, reference: str) -> Any:
    node = root
    for part in reference.removeprefix("#").strip("/").split("/"):
        node = node[part.replace("~1", "/").replace("~0", "~")] if part else node
    return node
