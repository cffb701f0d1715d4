"""Take sent requests apart into instruction, fields and end, and put the parts together in other layouts."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import permutations
from typing import Any, Final

from bench.bill.prompt import Block, Prompt, Tokenizes, build
from bench.bill.provider import Provider

INSTRUCTION, FIELDS = "instruction", "fields"
LAYOUTS: Final = (INSTRUCTION, FIELDS)
_MOST_FIELDS: Final = 3
"""Up to so many fields, all their orders are tried."""


@dataclass(frozen=True, slots=True)
class Sides:
    """The schema and the system message before the fields, and the end of the user message after them."""

    schema: str
    system: str
    tail: str


@dataclass(frozen=True, slots=True)
class Pieces:
    """One request in pieces: its fields by name, and the texts around them in each layout."""

    fields: tuple[tuple[str, str], ...]
    sides: Mapping[str, Sides]

    def blocks(self, layout: str, names: Sequence[str], marked: frozenset[tuple[str, ...]]) -> list[Block]:
        """Return the request's blocks; those whose texts from the start are in `marked` have a mark."""
        sides, found = self.sides[layout], self._texts(layout, names)
        begun = [sides.schema] if sides.schema else []
        blocks = [Block(sides.schema)] if sides.schema else []
        waiting = ""
        for text, ends in found:
            begun.append(text)
            waiting += text
            if ends or tuple(begun) in marked:  # texts without a mark between them are one block, as when they are sent
                blocks.append(Block(waiting, marked=tuple(begun) in marked, ends_message=ends))
                waiting = ""
        return blocks

    def _texts(self, layout: str, names: Sequence[str]) -> list[tuple[str, bool]]:
        """Return the texts that can be blocks, and whether each ends its message."""
        sides, lines = self.sides[layout], dict(self.fields)
        user = [lines[name] for name in names if name in lines]
        user = [*user[:-1], user[-1].removesuffix("\n") if not sides.tail else user[-1]] if user else []
        if sides.tail:
            user.append(f"\n{sides.tail}" if user else sides.tail)
        found = [(sides.system, True)] if sides.system else []
        found += [(text, number == len(user)) for number, text in enumerate(user, 1)]
        return found

    def starts(self, layout: str, names: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the texts from the start up to the end of each block that can have a mark."""
        first = [self.sides[layout].schema] if self.sides[layout].schema else []
        texts = [*first, *(text for text, _ in self._texts(layout, names))]
        return [tuple(texts[:end]) for end in range(len(first) + 1, len(texts) + 1)]


def take_apart(
    bodies: Mapping[str, Sequence[Mapping[str, Any]]], provider: Provider, names: Iterable[str]
) -> list[Pieces]:
    """Return the pieces of the requests of one query, which were sent in both layouts.

    `bodies` has the requests by layout. Requests of one call have equal schemas and ends in each layout.
    """
    begin = re.compile(rf"^({'|'.join(map(re.escape, names))}): ", re.MULTILINE)
    cut = {layout: [_cut(body, provider, begin) for body in bodies[layout]] for layout in LAYOUTS}
    of_call = {words: sides for _, sides, words in cut[FIELDS]}
    return [
        Pieces(fields, {INSTRUCTION: sides, FIELDS: of_call[max(of_call, key=partial(_alike, words))]})
        for fields, sides, words in cut[INSTRUCTION]
        if of_call
    ]


def _alike(some: frozenset[str], others: frozenset[str]) -> float:
    """Return how alike the words of a call are in two layouts, which repeat some of them."""
    return len(some & others) / len(some | others)


def _cut(
    body: Mapping[str, Any], provider: Provider, begin: re.Pattern[str]
) -> tuple[tuple[tuple[str, str], ...], Sides, frozenset[str]]:
    """Return the fields of a request, the texts around them, and the words of the call."""
    said = {message["role"]: _text(message["content"]) for message in body["messages"]}
    schema = body.get("response_format", {}).get("json_schema")
    shown = json.dumps(schema, separators=(",", ":")) if schema and provider.schema_counts else ""
    lines, _, tail = said["user"].partition("\n\n")
    places = [found.start() for found in begin.finditer(lines)]
    fields = []
    for start, end in zip(places, [*places[1:], len(lines)], strict=True):
        found = begin.match(lines, start)
        fields.append((found[1] if found else "", lines[start:end].rstrip("\n") + "\n"))
    sides = Sides(shown, said.get("system", ""), tail)
    return tuple(fields), sides, frozenset(f"{shown} {said.get('system', '')} {tail}".split())


def _text(content: str | Sequence[Mapping[str, Any]]) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def orders(requests: Sequence[Pieces]) -> list[tuple[str, ...]]:
    """Return the orders of fields to try: all of up to 3 fields; else as given, reversed, and the most equal first."""
    names = tuple(dict.fromkeys(name for one in requests for name, _ in one.fields))
    if len(names) <= _MOST_FIELDS:
        return list(permutations(names))
    distinct = {name: len({dict(one.fields).get(name) for one in requests}) for name in names}
    return list(dict.fromkeys((names, names[::-1], tuple(sorted(names, key=lambda name: distinct[name])))))


def shared_starts(requests: Sequence[Pieces], layout: str, names: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the starts that several requests have, up to the ends of blocks."""
    counts = Counter(start for one in requests for start in one.starts(layout, names))
    return [start for start, count in counts.items() if count > 1]


def together(
    one: Pieces,
    layout: str,
    names: Sequence[str],
    marked: frozenset[tuple[str, ...]],
    provider: Provider,
    tokenize: Tokenizes,
) -> Prompt:
    """Return a request's prompt in a layout. At a cache with marks, the request has no further breakpoint."""
    blocks = one.blocks(layout, names, marked)
    return build(blocks, provider.template, tokenize, "bench", explicit=True)
