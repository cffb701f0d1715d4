"""Short informational texts, each about one of forty topics."""

import re

from training.passages.base import Check, Classes, Mark, Passage
from training.phrases import Split, Writer, load_language

_ARTICLE = re.compile("^(the|an?) ")
_COLUMNS = ("article", "text", "body", "content", "abstract", "passage", "post", "news")
_UNSEEN_EACH = 5
_CHECKS = 3
"""The number of true checks, and of false checks."""


def unseen_topics() -> frozenset[str]:
    """Return the topics that training does not use as labels; only its yes/no questions name them."""
    return frozenset(sorted(load_language("topics")["topic"])[::_UNSEEN_EACH])


def write_topic(writer: Writer, topic: str | None = None) -> Passage:
    """Return a text about a topic, sometimes with one sentence about another topic."""
    language = load_language("topics")
    topics = language["topic"]
    names = sorted(topics)
    topic = topic or writer.rng.choice(names)
    other = writer.rng.choice([name for name in names if name != topic])
    writer = writer.over(language["words"])
    marks: list[Mark] = []
    sentences = [_sentence(writer, topic, marks) for _ in range(writer.count(2, 5))]
    if len(sentences) > 2 and writer.chance(0.15):
        sentences[writer.rng.randrange(1, len(sentences))] = _sentence(writer, other, marks)
    nouns = topics[topic]["nouns"]
    first, second = writer.rng.sample(nouns, 2)
    title = writer.sentence(writer.choose(language["titles"]), {"a": first, "b": second})
    wrong = writer.rng.sample([name for name in names if name not in {topic, other}], _CHECKS)
    checks = []
    for named, truth in [*((topic, True) for _ in range(_CHECKS)), *((name, False) for name in wrong)]:
        label = writer.rng.choice(topics[named]["labels"])
        prompt = writer.sentence(writer.choose(language["checks"]), {"topic": label})
        checks.append(Check(prompt, truth, (_key(named),), label))
    return Passage(
        kind="topic",
        column=writer.rng.choice(_COLUMNS),
        text=" ".join(sentences),
        checks=tuple(checks),
        classes=_classes(writer, topic, other),
        summary=None if topic in unseen_topics() else f"This is about {topics[topic]['labels'][0]}.",
        sentiment="neutral",
        extras=(("title", title),),
        marks=(*marks, (first, _key(topic)), (second, _key(topic))),
    )


def _key(topic: str) -> str:
    return f"topic {topic}"


def _sentence(writer: Writer, topic: str, marks: list[Mark]) -> str:
    language = load_language("topics")
    own = language["topic"][topic]
    if writer.chance(0.3):
        fact = writer.sentence(writer.choose(own["facts"]), {})
        marks.append((fact, _key(topic)))
        return fact
    first, second = writer.rng.sample(own["nouns"], 2)
    marks += [(first, _key(topic)), (second, _key(topic))]
    return writer.sentence(writer.choose(language["sentences"]), {"a": first, "b": second})


def _classes(writer: Writer, topic: str, beside: str) -> tuple[Classes, ...]:
    """Return labels with other topics of the same side, seen or unseen, but not the topic `beside` of the text.

    A topic has its first name or a synonym.

    In training, further labels are the parts of topics: these are so many words that only their meaning helps.
    """
    topics = load_language("topics")["topic"]
    unseen = unseen_topics()
    side = [name for name in sorted(topics) if (name in unseen) is (topic in unseen) and name not in {topic, beside}]
    name = 0 if writer.chance(0.6) else writer.rng.randrange(len(topics[topic]["labels"]))
    about = tuple(map(_key, [topic, *side]))
    others = tuple(topics[other]["labels"][0] for other in side)
    classes = [Classes(topics[topic]["labels"][name], others, topic in unseen, about)]
    if writer.split is Split.TRAINING:
        label, *rest = (_ARTICLE.sub("", writer.rng.choice(topics[one]["nouns"])) for one in [topic, *side])
        classes.append(Classes(label, tuple(rest), about=about))
    return tuple(classes)
