"""Show an aggregate over a model as a user writes it; its rewritten text collects the texts of a group first."""

import re
from typing import Final

from flightllm.functions.group_texts import GROUP_KEYED, GROUP_TEXTS, KEYED_TEXT

REWRITTEN: Final = "(text => __group"
"""A part of the text of each rewritten call."""
_FORM: Final = re.compile(
    rf"(?P<name>\w+)\(text => (?:{GROUP_TEXTS}|{GROUP_KEYED})\(array_agg\((?P<distinct>DISTINCT )?"
    rf"(?:{KEYED_TEXT}\()?CAST\(\((?P<text>.*?)\) AS VARCHAR\)(?:, CAST\(\((?P<key>.*?)\) AS VARCHAR\)\))?"
    r"(?: ORDER BY .*?)?\)(?P<filter>\s*FILTER .*?)?\)(?:, instruction => (?P<told>'(?:[^']|'')*'))?"
    r"(?:, (?P<options>\w+ => .*))?\)",
    re.DOTALL,
)


def as_written(text: str) -> str:
    """Return `ai_agg(note, 'Sum up')` for the text to which a rule rewrote this call; other texts stay as they are."""
    found = _FORM.fullmatch(text)
    if found is None:
        return text
    options = found["options"] or ""
    if found["key"] is not None:
        options = options.replace("citations => true", f"citations => {found['key']}")
    given = (f"{found['distinct'] or ''}{found['text']}", found["told"], options)
    return f"{found['name']}({', '.join(part for part in given if part)}){found['filter'] or ''}"
