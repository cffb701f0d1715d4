"""Rows around a passage: further columns that are irrelevant for the question, in any order."""

from training.passages.base import Passage
from training.passages.films import write_synopsis
from training.passages.records import write_record
from training.passages.reviews import write_review
from training.phrases import Writer, load_language

_COLUMNS = {
    "id": ("####", "##", "######"),
    "asin": ("B00####", "A#B##C#"),
    "date": ("202#-03-1#", "201#-11-2#", "{month} 1#, 202#"),
    "created_at": ("202#-04-1# 0#:1#", "202#-10-2# 1#:4#"),
    "critic": ("{first} {last}",),
    "author": ("{first} {last}",),
    "publisher": ("{publisher}",),
    "brand": ("{brand}",),
    "language": ("English",),
    "channel": ("email", "chat", "phone", "web form"),
    "status": ("open", "closed", "waiting"),
    "verified": ("true", "false"),
    "price": ("##.99", "1##"),
    "city": ("{town}",),
    "runtime": ("1## minutes", "9# minutes"),
    "rating": ("PG", "R", "PG-13", "G", "NR"),
}
_COMPANIONS = {
    "review": (
        write_synopsis,
        lambda writer: write_record(writer, "product"),
        lambda writer: write_record(writer, "film"),
    ),
    "synopsis": (write_review,),
    "ticket": (lambda writer: write_record(writer, "product"),),
}
"""For each kind of passage: the kinds of passages that are irrelevant for its questions."""

Fields = tuple[tuple[str, str], ...]


def row_of(writer: Writer, passage: Passage, *, plain: bool = False) -> Fields:
    """Return the row of a passage: its column, sometimes with others.

    With `plain`, no other column can hold an answer.
    """
    fields = {passage.column: passage.text}
    if writer.brief:
        return tuple(fields.items())
    if writer.chance(0.35):
        for name, value in passage.extras:
            fields.setdefault(name, value)
    if not plain and writer.chance(0.4):
        words = writer.over(load_language("records/person")["words"])
        for name in writer.rng.sample(sorted(_COLUMNS), writer.rng.randint(1, 3)):
            fields.setdefault(name, words.fill(writer.rng.choice(_COLUMNS[name]), {}))
    if not plain and passage.kind in _COMPANIONS and writer.chance(0.15):
        companion = writer.rng.choice(_COMPANIONS[passage.kind])(writer)
        fields.setdefault(companion.column, companion.text)
    columns = list(fields.items())
    writer.rng.shuffle(columns)
    return tuple(columns)


def refer(writer: Writer, prompt: str, column: str) -> str:
    """Return the prompt, which in some cases names its column."""
    if not writer.chance(0.3):
        return prompt
    pattern = writer.rng.choice(
        [
            "{prompt} {{{column}}}",
            "{{{column}}}: {prompt}",
            "About {{{column}}}: {prompt}",
            "Read {{{column}}}. {prompt}",
        ]
    )
    return pattern.format(prompt=prompt, column=column)
