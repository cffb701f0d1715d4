"""The lists that training text is made of: complete, and split into what is trained on and what is tested with."""

import random
import re
from collections.abc import Iterator
from typing import Any

import pytest

from training.passages.films import write_synopsis
from training.passages.records import KINDS, write_record
from training.passages.reviews import write_neutral, write_review
from training.passages.samples import write_sample
from training.passages.tickets import write_ticket
from training.passages.topics import unseen_topics, write_topic
from training.phrases import Split, Writer, load_language

FILES = ("films", "opinions", "tickets", "topics", *(f"records/{kind}" for kind in KINDS))
PASSAGES = (write_synopsis, write_review, write_neutral, write_sample, write_ticket, write_topic)


def writer(seed: int, split: Split = Split.TRAINING) -> Writer:
    """Return a writer over the shared words."""
    return Writer(random.Random(seed), load_language("records/person")["words"], split)


def patterns(value: Any) -> Iterator[list[str]]:
    """Yield every list of a file but its word lists."""
    if isinstance(value, list):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key != "words":
                yield from patterns(inner)


@pytest.mark.parametrize("name", FILES)
def test_no_entry_is_repeated(name: str) -> None:
    """A list that is split says a thing once, so that no held-out entry is one of the training's."""
    for entries in patterns(load_language(name)):
        assert len(set(entries)) == len(entries) or len(entries) < 8


def test_no_held_out_entry_has_the_words_of_one_in_training() -> None:
    """In whichever order, and in whichever list."""
    said: dict[Split, set[tuple[str, ...]]] = {}
    for split in (Split.TRAINING, Split.HELD_OUT):
        lists = (found for name in FILES for found in patterns(load_language(name)) if len(found) >= 8)
        said[split] = {tuple(sorted(re.findall(r"[\w$]+", text.lower()))) for one in lists for text in split.of(one)}
    shared = said[Split.TRAINING] & said[Split.HELD_OUT]
    assert not shared


def test_there_are_thousands_of_patterns() -> None:
    """All files together, words left out."""
    assert sum(len(entries) for name in FILES for entries in patterns(load_language(name))) > 4000


@pytest.mark.parametrize("name", [f"records/{kind}" for kind in KINDS])
def test_every_statement_names_its_value(name: str) -> None:
    """A fact can be found in the sentence that states it."""
    for attribute in load_language(name)["attribute"].values():
        for statement in attribute["statements"]:
            assert statement.count("{$value}") == statement.count("{$name}") == 1
        assert all("{$value}" in check for check in attribute["checks"])


def test_split() -> None:
    """Every eighth entry is held out; the two parts share none and leave none; short lists stay whole."""
    entries = [str(number) for number in range(20)]
    training, held_out = Split.TRAINING.of(entries), Split.HELD_OUT.of(entries)
    assert held_out == ["7", "15"]
    assert sorted([*training, *held_out]) == sorted(entries)
    assert Split.HELD_OUT.of(entries[:7]) == entries[:7]


@pytest.mark.parametrize("write", PASSAGES)
def test_no_slot_is_left_open(write: Any) -> None:
    """Neither texts nor questions show a brace, a wrong article, or a sentence that begins small."""
    for seed in range(150):
        passage = write(writer(seed))
        told = [passage.text, *(check.prompt for check in passage.checks), passage.summary or ""]
        for text in told:
            assert not re.search(r"[{}#]|\b[Aa] (?:[aeiAEI]|hono|honest)\w|^\"?[a-z]|\w-An\b", text), text


@pytest.mark.parametrize("kind", KINDS)
def test_stated_facts_stand_in_the_text(kind: str) -> None:
    """Every value can be copied from its text, and what is not stated is no fact."""
    for seed in range(50):
        passage = write_record(writer(seed), kind)
        values = [fact.value for fact in passage.facts]
        assert all(value in passage.text for value in values if value is not None)
        assert any(check.truth for check in passage.checks)


def test_unseen_topics_are_no_labels_in_training() -> None:
    """Their names are offered as labels only beside each other."""
    labels = {name: set(load_language("topics")["topic"][name]["labels"]) for name in unseen_topics()}
    for seed in range(200):
        for classes in write_topic(writer(seed)).classes:
            offered = {classes.label, *classes.others}
            found = [name for name, own in labels.items() if own & offered]
            assert bool(found) is classes.unseen
