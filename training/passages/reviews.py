"""Reviews of films, products, hotels and more: opinions on aspects, some negated or hedged, and a verdict."""

from collections.abc import Mapping, Sequence
from functools import cache

from training.passages.base import Check, Classes, Mark, Passage, Rating
from training.phrases import Writer, load_language

_COLUMNS = ("review", "review_text", "review_content", "comment", "text", "feedback", "opinion")
_POLAR_LABELS = (
    ("positive", "negative"),
    ("good", "bad"),
    ("satisfied", "unsatisfied"),
    ("happy", "unhappy"),
    ("fresh", "rotten"),
    ("recommend", "do not recommend"),
)


def write_review(writer: Writer, level: int | None = None) -> Passage:
    """Return a review of `level` 1 (furious) to 5 (enthusiastic)."""
    language = load_language("opinions")
    level = level or writer.rng.randint(1, 5)
    domain_name = writer.rng.choice(sorted(language["domain"]))
    domain = language["domain"][domain_name]
    writer = writer.over(_words(domain_name))
    aspects: Mapping[str, Sequence[str]] = domain["aspects"]
    order = writer.rng.sample(sorted(aspects), len(aspects))
    opinions = dict(zip(order, _polarities(writer, level), strict=False))
    nouns = {aspect: writer.rng.choice(aspects[aspect]) for aspect in order}
    marks: list[Mark] = []
    sentences = _opinions(writer, opinions, nouns, marks)
    writer.rng.shuffle(sentences)
    if writer.chance(0.2 if writer.brief else 0.7):
        pattern = writer.choose(language[f"verdict_{level}"])
        verdict = writer.sentence(pattern, {"noun": writer.rng.choice(domain["nouns"])})
        marks += [(verdict, f"verdict {level}"), (verdict, sentiment_of(level))]
        if "{$noun}" in pattern:
            marks.append((verdict, _thing_key(domain_name)))
        sentences.insert(0 if writer.chance(0.4) else len(sentences), verdict)
    neutral = None
    if not writer.brief and writer.chance(0.3):
        neutral = order[len(opinions)]
        said = writer.sentence(writer.choose(language["neutral"]), {"aspect": nouns[neutral]})
        marks += [(said, aspect_key(neutral)), (said, "neutral")]
        sentences.insert(writer.rng.randint(0, len(sentences)), said)
    if not writer.brief and writer.chance(0.4):
        sentences.insert(0, writer.sentence(writer.choose(domain["background"]), {}))
        marks.append((sentences[0], _thing_key(domain_name)))
    text = " ".join(sentences)
    told = sorted(opinions, key=lambda name: text.lower().find(nouns[name].lower()))
    liked = [aspects[name][0] for name in told if opinions[name]]
    disliked = [aspects[name][0] for name in told if not opinions[name]]
    return Passage(
        kind="review",
        column=writer.rng.choice(_COLUMNS),
        text=text,
        checks=tuple(_checks(writer, level, order, opinions, neutral, aspects)),
        classes=_classes(writer, level, domain_name),
        ratings=(Rating(writer.choose(language["score_prompts"]), (level - 1) / 4),),
        replies=tuple(_replies(writer, level, liked, disliked)),
        summary=_summary(liked, disliked),
        sentiment=sentiment_of(level),
        marks=tuple(marks),
    )


def write_neutral(writer: Writer) -> Passage:
    """Return a text about a thing, without any judgement."""
    language = load_language("opinions")
    domain = language["domain"][writer.rng.choice(sorted(language["domain"]))]
    writer = writer.over(language["words"])
    order = writer.rng.sample(sorted(domain["aspects"]), writer.rng.randint(1, 3))
    sentences = [
        writer.sentence(writer.choose(language["neutral"]), {"aspect": writer.rng.choice(domain["aspects"][name])})
        for name in order
    ]
    sentences.insert(0, writer.sentence(writer.choose(domain["background"]), {}))
    return Passage(
        "neutral review", writer.rng.choice(_COLUMNS), " ".join(sentences), sentiment="neutral",
        summary="The writer judges nothing.",
    )  # fmt: skip


def sentiment_of(level: int) -> str:
    """Return the mood of a review of `level` 1 to 5."""
    return "mixed" if level == 3 else "positive" if level > 3 else "negative"


def aspect_key(aspect: str) -> str:
    """Return the key of an aspect's meaning."""
    return f"aspect {aspect}"


def opinion_keys(aspect: str, *, praised: bool) -> tuple[str, str]:
    """Return the keys of the meaning of an opinion on an aspect."""
    return aspect_key(aspect), "positive" if praised else "negative"


def _thing_key(domain: str) -> str:
    """Return the key of the kind of thing that is reviewed."""
    return f"thing {domain}"


@cache
def _words(domain: str) -> Mapping[str, Sequence[str]]:
    """Return the word lists; the domain's own words are added to the lists of praise and blame."""
    language = load_language("opinions")
    own = language["domain"][domain].get("words", {})
    return {name: [*words, *own.get(name, ())] for name, words in language["words"].items()}


def _polarities(writer: Writer, level: int) -> list[bool]:
    """Return for each aspect whether the review praises it.

    It praises all aspects at level 5, no aspect at level 1, and half of them at level 3.
    """
    good, bad = {
        5: (writer.count(1, 3), 0),
        4: (writer.count(2, 3), writer.count(0, 1)),
        3: (1, 1) if writer.brief or writer.chance(0.7) else (2, 2),
        2: (writer.count(0, 1), writer.count(2, 3)),
        1: (0, writer.count(1, 3)),
    }[level]
    drawn = [True] * good + [False] * bad
    writer.rng.shuffle(drawn)
    return drawn


def _opinions(writer: Writer, opinions: Mapping[str, bool], nouns: Mapping[str, str], marks: list[Mark]) -> list[str]:
    """Return a sentence for each opinion, or for two opposite opinions together; add their meanings to `marks`."""
    language = load_language("opinions")
    good = [name for name, praised in opinions.items() if praised]
    bad = [name for name, praised in opinions.items() if not praised]
    sentences = []
    if good and bad and writer.chance(0.4):
        clauses = {}
        for side, names in (("good", good), ("bad", bad)):
            name = names.pop()
            clause = writer.fill(writer.choose(language[f"{side}_clauses"]), {"aspect": nouns[name]})
            clauses[f"{side}_clause"] = clause
            marks += [(clause, key) for key in opinion_keys(name, praised=side == "good")]
        sentences.append(writer.sentence(writer.choose(language["both"]), clauses))
    for name, side in [*((name, "positive") for name in good), *((name, "negative") for name in bad)]:
        form = writer.rng.choices(["", "_negated", "_hedged"], [6, 3, 1])[0]
        sentence = writer.sentence(writer.choose(language[side + form]), {"aspect": nouns[name]})
        marks += [(sentence, key) for key in opinion_keys(name, praised=opinions[name])]
        sentences.append(sentence)
    return sentences


def _checks(
    writer: Writer,
    level: int,
    order: Sequence[str],
    opinions: Mapping[str, bool],
    neutral: str | None,
    aspects: Mapping[str, Sequence[str]],
) -> list[Check]:
    language = load_language("opinions")
    mentioned = [*opinions, neutral] if neutral else [*opinions]
    asked = [*mentioned, writer.rng.choice(order[len(mentioned) :])]
    checks = []
    for name in asked:
        values = {"aspect": aspects[name][0]}
        for kind, truth, about in (
            ("praise", opinions.get(name) is True, opinion_keys(name, praised=True)),
            ("criticism", opinions.get(name) is False, opinion_keys(name, praised=False)),
            ("mention", name in mentioned, (aspect_key(name),)),
        ):
            checks.append(Check(writer.sentence(writer.choose(language[f"{kind}_checks"]), values), truth, about))
    if level != 3:
        checks.append(Check(writer.choose(language["positive_checks"]), level > 3, ("positive",)))
        checks.append(Check(writer.choose(language["negative_checks"]), level < 3, ("negative",)))
    return checks


def _classes(writer: Writer, level: int, domain: str) -> tuple[Classes, ...]:
    """Return labels: pairs of labels if the verdict is clear, `mixed` if it is not, and the kind of thing reviewed."""
    things = (domain, *(name for name in sorted(load_language("opinions")["domain"]) if name != domain))
    label, *others = (f"{thing} review" for thing in things)
    classes = [Classes(label, tuple(others), about=tuple(map(_thing_key, things)))]
    if level != 3:
        good, bad = writer.rng.choice(_POLAR_LABELS)
        moods = ("positive", "negative")
        classes += [Classes(good, (bad,), about=moods) if level > 3 else Classes(bad, (good,), about=moods[::-1])] * 2
    else:
        classes.append(Classes("mixed", ("positive", "negative")))
    return tuple(classes)


def _replies(writer: Writer, level: int, liked: Sequence[str], disliked: Sequence[str]) -> list[tuple[str, str]]:
    language = load_language("opinions")
    replies = []
    if level > 3:
        replies.append((writer.choose(language["advice_prompts"]), f"Yes, for {_listed(liked)}."))
    if level < 3:
        replies.append((writer.choose(language["advice_prompts"]), f"No, because of {_listed(disliked)}."))
    if liked:
        replies.append((writer.choose(language["liked_prompts"]), _listed(liked)))
    if disliked:
        replies.append((writer.choose(language["disliked_prompts"]), _listed(disliked)))
    return replies


def _summary(liked: Sequence[str], disliked: Sequence[str]) -> str:
    if not disliked:
        return f"The writer praises {_listed(liked)}."
    if not liked:
        return f"The writer criticizes {_listed(disliked)}."
    return f"The writer praises {_listed(liked)} but criticizes {_listed(disliked)}."


def _listed(items: Sequence[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
