"""Flock's prompts and names of fields as this server writes them."""

import re

from flightllm.functions.reserved import is_option

_REFERENCE = re.compile(r"\{\{\s*([\w.]+)\s*\}\}")
_BRACES = re.compile(r"[{}]")
_KNOWN = (
    *("prompt", "model", "max_tokens", "temperature", "reasoning", "top_p", "seed", "instructions", "examples"),
    *("on_error", "on_truncated", "normalize", "ordered", "fresh", "response_format", "labels", "confidence"),
)


def our_prompt(text: str) -> str:
    """Return a prompt with `{name}` for Flock's `{{name}}`; other braces are text here, and doubled."""
    parts = _REFERENCE.split(text)
    plain = [_BRACES.sub(lambda one: one[0] * 2, part) for part in parts[::2]]
    names = [f"{{{our_field(name)}}}" for name in parts[1::2]]
    return "".join(part for pair in zip(plain, [*names, ""], strict=True) for part in pair)


def our_field(name: str) -> str:
    """Return the name of a field in lower case; an option's name gets an ending, because an option is not a field."""
    safe = re.sub(r"\W+", "_", name.lower())
    return f"{safe}_" if safe in _KNOWN or is_option(safe, _KNOWN) else safe
