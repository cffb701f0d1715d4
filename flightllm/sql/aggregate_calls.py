"""Show an aggregate over a model as a user writes it; its rewritten text collects the texts of a group first."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from flightllm.functions.group_texts import GROUP_KEYED, GROUP_TEXTS, KEYED_TEXT

REWRITTEN: Final = "(text => __group"
"""A part of the text of each rewritten call."""
_FORM: Final = re.compile(
    rf"(?P<name>\w+)\(text => (?:{GROUP_TEXTS}|{GROUP_KEYED})\s*\((?:array_sort\()?array_agg\((?P<distinct>DISTINCT )?"
    rf"(?:coalesce\()*(?:{KEYED_TEXT}\()?CAST\(\((?P<text>.*?)\) AS VARCHAR\)"
    r"(?:, CAST\(\((?P<key>.*?)\) AS VARCHAR\)\))?\)*"
    r"(?: ORDER BY .*?)?\)(?P<filter>\s*FILTER .*?)?(?:, 'ASC', 'NULLS LAST'\))?\)"
    r"(?:, instruction => (?P<told>'(?:[^']|'')*'))?"
    r"(?:, (?P<options>\w+ => .*))?\)",
    re.DOTALL,
)
"""The form of a rewritten call. `coalesce` tells it from another aggregate of the same column."""
_LISTED: Final = re.compile(
    r'(?P<before>, currently only )"(?P<list>.*)"(?= appears in the SELECT clause satisfies this)', re.DOTALL
)
"""DataFusion's list of the parts of SELECT that need no GROUP BY."""
_PARTS: Final = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|(?P<name>\w*)(?P<open>[(\[])|(?P<close>[)\]])|(?P<comma>,[ ])"""
)
_COLLECTING: Final = ("array_agg", "string_agg")
"""The aggregates that collect the texts of a group, into which aggregates over a model are rewritten."""


def with_calls_as_written(text: str, sql: str, written: Mapping[str, str]) -> str:
    """Return DataFusion's error about GROUP BY, whose list has the aggregates over a model as the user wrote them.

    `sql` is what DataFusion planned. `written` has the user's text of each such aggregate, by its name in `sql`.
    """
    listed = _LISTED.search(text)
    if listed is None or not written:
        return text
    items = list(_items(listed["list"]))
    collected = [place for place, item in enumerate(items) if item.startswith(tuple(f"{one}(" for one in _COLLECTING))]
    calls = list(_collected_for(sql, written))
    if len(calls) == len(collected):
        for place, call in zip(collected, calls, strict=True):
            items[place] = call or items[place]
    else:  # DataFusion lists equal aggregates once
        items = [item for place, item in enumerate(items) if place not in collected] + [one for one in calls if one]
    return f'{text[: listed.end("before")]}"{", ".join(dict.fromkeys(items))}"{text[listed.end() :]}'


def _items(text: str) -> Iterator[str]:
    """Yield the parts between the outer commas of a list."""
    depth = first = 0
    for part in _PARTS.finditer(text):
        depth += (part["open"] is not None) - (part["close"] is not None)
        if part["comma"] and not depth:
            yield text[first : part.start()]
            first = part.end()
    yield text[first:]


def _collected_for(sql: str, written: Mapping[str, str]) -> Iterator[str]:
    """Yield for each aggregate that collects texts the user's text of the call around it, or an empty text.

    Equal aggregates count once.
    """
    around: list[tuple[str, int | None]] = []
    seen = set[str]()
    for part in _PARTS.finditer(sql):
        if part["open"]:
            name = part["name"].lower()
            call = written.get(name, around[-1][0] if around else "")
            around.append((call, part.start() if name in _COLLECTING else None))
        elif part["close"] and around:
            call, start = around.pop()
            if start is not None and (own := sql[start : part.end()]) not in seen:
                seen.add(own)
                yield call


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
