"""Values as text and as JSON, wherever people or programs read them."""

import json
import math
from typing import Any


def plain_text(value: Any) -> str:
    """Return a value as text: bytes in hexadecimal digits, all else as Python writes it."""
    return value.hex() if isinstance(value, bytes) else str(value)


def json_text(value: Any) -> str:
    """Return a value as JSON, which knows no NaN and no infinity: they become null."""
    try:
        return json.dumps(value, ensure_ascii=False, default=plain_text, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), ensure_ascii=False, default=plain_text)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value
