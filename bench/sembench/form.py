"""The form of the answer that a request wants: options, or a JSON document."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

_QUOTED: Final = re.compile(
    r"one of (?:these|the following)(?: texts| and nothing else)?: (\".+\")\.?\s*$", re.MULTILINE
)
_LABELS: Final = re.compile(r"one of these labels: (.+?)\.?\s*$", re.MULTILINE)
_WORD: Final = re.compile(r"Answer with one word: (.+?)\.?\s*$", re.MULTILINE)
_YES_NO: Final = re.compile(r"\b(yes)\b[^.\n]{0,20}\bor\b[^.\n]{0,20}\b(no)\b", re.IGNORECASE)
_RANGE: Final = re.compile(r"\b(?:number|score|scale|rate|rating)?[^.\n]{0,40}\bfrom (\d+)\b[^.\n]{0,40}\bto (\d+)\b")
_WIDEST: Final = 1_000
_TOLD: Final = "by this schema: "


@dataclass(frozen=True, slots=True)
class Form:
    """The options of an answer, or the JSON Schema of a document; neither for free text."""

    options: tuple[str, ...] = ()
    schema: Mapping[str, Any] | None = None


def form_of(body: Mapping[str, Any], said: str) -> Form:
    """Return the form that a request of OpenAI's chat completions wants; the words count where no field says it."""
    structured = body.get("structured_outputs") or {}
    if choice := structured.get("choice") or body.get("guided_choice"):
        return Form(tuple(choice))
    if schema := structured.get("json") or body.get("guided_json"):
        return Form(schema=json.loads(schema) if isinstance(schema, str) else schema)
    if schema := (body.get("response_format") or {}).get("json_schema"):
        return Form(schema=schema["schema"])
    if (place := said.find(_TOLD)) >= 0:
        told, _ = json.JSONDecoder().raw_decode(said, place + len(_TOLD))
        return Form(schema=told)
    return Form(offered(said))


def offered(said: str) -> tuple[str, ...]:
    """Return the options that the words of a prompt offer, the last ones where there are several."""
    if quoted := _QUOTED.findall(said):
        return tuple(json.loads(f"[{quoted[-1]}]"))
    if (labels := _LABELS.findall(said)) or (labels := _WORD.findall(said)):
        return tuple(re.split(r", | or ", labels[-1]))
    if yes_no := _YES_NO.findall(said):
        return tuple(yes_no[-1])
    if numbers := _RANGE.findall(said):
        low, high = map(int, numbers[-1])
        return tuple(map(str, range(low, high + 1))) if low < high < low + _WIDEST else ()
    return ()


def enumerated(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the options that a schema of one value allows; empty for values of other kinds."""
    if "const" in schema:
        return (str(schema["const"]),)
    if "enum" in schema:
        return tuple(map(str, schema["enum"]))
    if schema.get("type") == "boolean":
        return ("true", "false")
    if schema.get("type") in {"integer", "number"} and {"minimum", "maximum"} <= schema.keys():
        return tuple(map(str, range(int(schema["minimum"]), int(schema["maximum"]) + 1)))
    return ()


def listed(options: Sequence[str]) -> Mapping[str, str]:
    """Return options by their words in small letters."""
    return {option.strip().lower(): option for option in options}
