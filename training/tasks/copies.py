"""Copying: a text is repeated, or columns are picked by name. Answers with facts and labels depend on this skill."""

import json

from training.passages.base import Passage
from training.passages.records import KINDS
from training.phrases import Writer, load_language
from training.tasks.base import Example

_REPEAT = ("Repeat the text.", "Repeat this word for word.", "Copy the text.", "Say it again.")
_LISTS = (
    "first",
    "last",
    "town",
    "country",
    "color",
    "month",
    "job",
    "food",
    "hobby",
    "material",
    "publisher",
    "brand",
)
_PATTERNS = ("####", "##", "A#-##", "#.#", "F-#####", "20##")


def ask_copy(writer: Writer, passage: Passage) -> Example:
    """Return a request for a few words in any order, or for some columns of a row. The passage's text is not used."""
    if writer.chance(0.5):
        words = " ".join(_word(writer) for _ in range(writer.rng.randint(3, 14)))
        return Example("copy", "ai_gen", writer.rng.choice(_REPEAT), ((passage.column, words),), words)
    names = _field_names()
    row = {name: _word(writer) for name in writer.rng.sample(names, writer.rng.randint(2, 7))}
    wanted = writer.rng.sample(sorted(row), writer.rng.randint(1, len(row)))
    answer = json.dumps({name: row[name] for name in wanted}, separators=(",", ":"))
    return Example("copy", "ai_extract", tuple(wanted), tuple(row.items()), answer)


def _word(writer: Writer) -> str:
    if writer.chance(0.25):
        return writer.fill(writer.rng.choice(_PATTERNS), {})
    return writer.pick(writer.rng.choice(_LISTS))


def _field_names() -> list[str]:
    attributes = (load_language(f"records/{kind}")["attribute"].values() for kind in KINDS)
    return sorted({field for group in attributes for attribute in group for field in attribute["fields"]})
