"""Prompts as users write them: `{name}` refers to a field, `{{` and `}}` are braces."""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from flightllm.errors import AICallError

_REFERENCE, _NAME = re.compile(r"\{\{|\}\}|\{([\s\w$.-]++)\}"), re.compile(r"[\w$. -]+")

_COMPARED = 200
"""Characters of a name that are compared with others, which takes the square of them."""

_MISSPELT, _ALIKE = 0.7, 0.6
"""How alike a name in braces and a field's are, of 1, to be taken for that field misspelt; to be told as a hint."""


def reference(name: str) -> str:
    """Return how an instruction refers to a field whose value follows below it."""
    return f"`{name}`"


def resolve_template(template: str, fields: Sequence[str]) -> str:
    """Replace `{name}` by a reference to the field of that name, never by its value, so that all rows share the text.

    `{0}`, `{1}` … refer by position, from 0. Names match exactly, else without regard to case. Names of no field mean,
    in the order in which they come, the fields that no name means: `{movie}` is `m.title` where that is the only one.
    Braces around anything that is no name, as in JSON, stay; so does `}}` in a prompt that has no `{{`.

    Raises:
        AICallError: no field has that name, and there are too few others, or it is one's misspelt; lists the fields.
    """
    escapes = "{{" in template
    known = _known(template, fields)

    def replace(match: re.Match[str]) -> str:
        if (name := _name(match)) is None:
            return match[0][0] if match[1] is None and escapes else match[0]
        return reference(known[name] if name in known else known[name.lower()])

    return _REFERENCE.sub(replace, template)


def _known(template: str, fields: Sequence[str]) -> Mapping[str, str]:
    """Return the field of each name in a template, by the exact name or by that in lower case."""
    known = {str(index): name for index, name in enumerate(fields)}
    known |= {name.lower(): name for name in reversed(fields)}
    known |= {name: name for name in fields}
    names = [name for match in _REFERENCE.finditer(template) if (name := _name(match)) is not None]
    unknown = [name for name in dict.fromkeys(names) if name not in known and name.lower() not in known]
    by_case: dict[str, str] = {}
    for name in unknown:
        by_case.setdefault(name.lower(), name)
    meant = {known.get(name) or known.get(name.lower()) for name in names}
    free = [field for field in fields if field not in meant]
    for place, name in enumerate(by_case.values()):
        if len(by_case) > len(free) or not _may_mean(name, free[place], fields):
            raise AICallError(_missing(name, fields))
        known[name.lower()] = free[place]
    return known


def _name(match: re.Match[str]) -> str | None:
    """Return the name in braces; None where these are doubled, or around something else."""
    name = "" if match[1] is None else match[1].strip()
    return name if _NAME.fullmatch(name) else None


def _may_mean(name: str, field: str, fields: Sequence[str]) -> bool:
    """Tell whether a name that is no field's can mean one by its place: it is no number, and no other's misspelt."""
    if name.isdecimal():
        return False
    compared = name[:_COMPARED]
    close = get_close_matches(compared, fields, n=1, cutoff=_ALIKE)
    return not close or (close[0] == field and not get_close_matches(compared, close, cutoff=_MISSPELT))


def referred_fields(template: object) -> frozenset[str]:
    """Return the names in braces of a prompt, in lower case; of anything else than a text none."""
    found = _REFERENCE.finditer(template) if isinstance(template, str) else ()
    return frozenset(match[1].strip().lower() for match in found if match[1] is not None)


def _missing(name: str, fields: Sequence[str]) -> str:
    if not fields:
        return f"the prompt names {{{name}}} but the call has no fields; pass it: {name} => expression"
    close = get_close_matches(name[:_COMPARED], fields, n=1, cutoff=_ALIKE)
    hint = f"did you mean {{{close[0]}}}?" if close else f"pass it: {name} => expression"
    return f"the prompt names {{{name}}}, which is no field of the call (fields: {', '.join(fields)}); {hint}"
