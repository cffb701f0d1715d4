"""Prompts as users write them: `{name}` refers to a field, `{{` and `}}` are braces."""

import re
from collections.abc import Sequence
from difflib import get_close_matches

from flightllm.errors import AICallError

_REFERENCE, _NAME = re.compile(r"\{\{|\}\}|\{([\s\w$.-]++)\}"), re.compile(r"[\w$. -]+")

_COMPARED = 200
"""Characters of a name that are compared with others, which takes the square of them."""


def reference(name: str) -> str:
    """Return how an instruction refers to a field whose value follows below it."""
    return f"`{name}`"


def resolve_template(template: str, fields: Sequence[str]) -> str:
    """Replace `{name}` by a reference to the field of that name, never by its value, so that all rows share the text.

    `{0}`, `{1}` … refer by position, from 0. Names match exactly, else without regard to case. Braces around anything
    that is no name, as in JSON, stay; so does `}}` in a prompt that has no `{{`.

    Raises:
        AICallError: no field has that name; lists those there are.
    """
    escapes = "{{" in template
    known = {str(index): name for index, name in enumerate(fields)}
    known |= {name.lower(): name for name in reversed(fields)}
    known |= {name: name for name in fields}

    def replace(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0][0] if escapes else match[0]
        name = match[1].strip()
        if not _NAME.fullmatch(name):
            return match[0]
        found = known.get(name) or known.get(name.lower())
        if found is None:
            raise AICallError(_missing(name, fields))
        return reference(found)

    return _REFERENCE.sub(replace, template)


def referred_fields(template: object) -> frozenset[str]:
    """Return the names in braces of a prompt, in lower case; of anything else than a text none."""
    found = _REFERENCE.finditer(template) if isinstance(template, str) else ()
    return frozenset(match[1].strip().lower() for match in found if match[1] is not None)


def _missing(name: str, fields: Sequence[str]) -> str:
    if not fields:
        return f"the prompt names {{{name}}} but the call has no fields; pass it: {name} => expression"
    close = get_close_matches(name[:_COMPARED], fields, n=1)
    hint = f"did you mean {{{close[0]}}}?" if close else f"pass it: {name} => expression"
    return f"the prompt names {{{name}}}, which is no field of the call (fields: {', '.join(fields)}); {hint}"
