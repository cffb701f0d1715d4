"""Prompts in the form that users write: `{name}` refers to a field, `{{` and `}}` are literal braces."""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from flightllm.errors import AICallError

_REFERENCE, _NAME = re.compile(r"\{\{|\}\}|\{([\s\w$.-]++)\}"), re.compile(r"[\w$. -]+")

_COMPARED = 200
"""Characters of a name that are compared with others, because the time grows with their square."""

_MISSPELT, _ALIKE = 0.7, 0.6
"""Similarity, from 0 to 1, at which a name in braces counts as a misspelt field; and at which the error hints at it."""


def reference(name: str) -> str:
    """Return an instruction's reference to a field whose value follows below the instruction."""
    return f"`{name}`"


def resolve_template(template: str, fields: Sequence[str]) -> str:
    """Replace `{name}` by a reference to the field of that name, never by its value, so that all rows share the text.

    `{0}`, `{1}` … refer to fields by position, from 0. Names match exactly, or else without regard to case. Names that
    match no field take the fields that no name refers to, in order: `{movie}` is `m.title` if that is the only field.
    Braces around anything except a name, such as JSON, stay; so does `}}` in a prompt without `{{`.

    Raises:
        AICallError: a name matches no field, and it is a misspelt field or too few fields are left; the error lists the
            fields.
    """
    escapes = "{{" in template
    known = _known(template, fields)

    def replace(match: re.Match[str]) -> str:
        if (name := _name(match)) is None:
            return match[0][0] if match[1] is None and escapes else match[0]
        return reference(known[name] if name in known else known[name.lower()])

    return _REFERENCE.sub(replace, template)


def _known(template: str, fields: Sequence[str]) -> Mapping[str, str]:
    """Return the field of each name in a template, by the exact name or the name in lower case."""
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
    """Return the name in braces; None for doubled braces, and for braces around anything else."""
    name = "" if match[1] is None else match[1].strip()
    return name if _NAME.fullmatch(name) else None


def _may_mean(name: str, field: str, fields: Sequence[str]) -> bool:
    """Return whether an unknown name can take a field by position: it is neither a number nor a misspelt field."""
    if name.isdecimal():
        return False
    compared = name[:_COMPARED]
    close = get_close_matches(compared, fields, n=1, cutoff=_ALIKE)
    return not close or (close[0] == field and not get_close_matches(compared, close, cutoff=_MISSPELT))


def referred_fields(template: object) -> frozenset[str]:
    """Return the names in a prompt's braces, in lower case; an empty set if the prompt is not a text."""
    found = _REFERENCE.finditer(template) if isinstance(template, str) else ()
    return frozenset(match[1].strip().lower() for match in found if match[1] is not None)


def _missing(name: str, fields: Sequence[str]) -> str:
    if not fields:
        return f"the prompt names {{{name}}} but the call has no fields; pass it: {name} => expression"
    close = get_close_matches(name[:_COMPARED], fields, n=1, cutoff=_ALIKE)
    hint = f"did you mean {{{close[0]}}}?" if close else f"pass it: {name} => expression"
    return f"the prompt names {{{name}}}, which is not a field of the call (fields: {', '.join(fields)}); {hint}"
