"""A model that ranks records by the number in their text, as a scripted engine and over HTTP."""

import json
import re

from flightllm.functions.ranking import FIRST, RECORDS, SECOND
from flightllm.llm.engine import Request

_NUMBER, _RECORD = re.compile(r"urgency (\d+)"), re.compile(r"^\s*\[(\d+)\] ", re.MULTILINE)


def urgency(text: str) -> int:
    """Return the number in a record's text."""
    found = _NUMBER.search(text)
    return -1 if found is None else int(found[1])


def order_of(records: str) -> list[int]:
    """Return the numbers of the records of a window, the most urgent first."""
    parts = _RECORD.split(records)
    found = {int(number): urgency(text) for number, text in zip(parts[1::2], parts[2::2], strict=True)}
    return sorted(found, key=lambda number: -found[number])


def judged(request: Request) -> str:
    """Answer a question of ai_rank or ai_compare, so that the most urgent record is first."""
    fields = dict(request.fields)
    if RECORDS in fields:
        return json.dumps({"order": order_of(fields[RECORDS])})
    if FIRST in fields and SECOND in fields:
        one, other = urgency(fields[FIRST]), urgency(fields[SECOND])
        return FIRST if one > other else SECOND if one < other else FIRST
    return str(min(100, max(map(urgency, fields.values()))))


def asked_in_chat(text: str) -> str:
    """Answer a chat that asks about records, as `judged` does: the chat has a line for each of them."""
    if _RECORD.search(text.replace(f"{RECORDS}: ", "")):
        return json.dumps({"order": order_of(text.replace(f"{RECORDS}: ", ""))})
    found = {role: urgency(line) for role in (FIRST, SECOND) for line in text.splitlines() if line.startswith(role)}
    return FIRST if found[FIRST] > found[SECOND] else SECOND
