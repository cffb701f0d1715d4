"""Texts of the same sentences as the sample tables, in other rows than these."""

from collections.abc import Mapping

from flightllm.demo.passages.base import Check, Classes, Fact, Passage, Rating
from flightllm.demo.passages.reviews import sentiment_of
from flightllm.demo.phrases import Split, Writer, load_language, load_phrases

_FILM_ASPECTS = {
    0: "the acting", 1: "the pace", 2: "the story", 3: "the music", 4: "the directing", 5: "the dialogue",
    6: "the look", 7: "the ending",
}  # fmt: skip
_PRODUCT_ASPECTS = {1: "the setup", 2: "the build quality", 3: "the support", 4: "the price"}
"""What the sentence of each index speaks of, in the lists `positive` and `negative`."""
_TOPIC_LABELS = {
    "billing": ("billing", "payment", "invoices"),
    "shipping": ("shipping", "delivery", "parcels"),
    "defect": ("defect", "broken product", "repair"),
    "account": ("account", "login", "profile"),
    "question": ("question", "information", "advice"),
}


def write_sample(writer: Writer) -> Passage:
    """Write a text of one of the sample tables' columns."""
    form = writer.rng.choice([_film_review, _film_review, _product_review, _product_review, _ticket, _movie])
    return form(Writer(writer.rng, load_phrases(), Split.ALL))


def _film_review(writer: Writer) -> Passage:
    phrases = load_phrases()
    values = {
        "hero": _person(writer),
        "director": _person(writer),
        "place": writer.rng.choice(phrases["movie"]["place"]),
    }
    return _review(writer.over(phrases["review"]), values, _FILM_ASPECTS, "review_content", 10)


def _product_review(writer: Writer) -> Passage:
    reviews = writer.over(load_phrases()["product_review"])
    return _review(reviews, _product_of(writer), _PRODUCT_ASPECTS, "review_text", 7)


def _product_of(writer: Writer) -> dict[str, str]:
    """Return the values of one product."""
    phrases = load_phrases()
    category = phrases["category"][writer.rng.choice(sorted(phrases["category"]))]
    return {
        "brand": writer.rng.choice(phrases["product"]["brand"]),
        "noun": writer.rng.choice(category["noun"]),
        "use": writer.rng.choice(category["use"]),
        "name": f"{writer.rng.choice(phrases['product']['model'])} {writer.rng.randint(2, 99) * 10}",
    }


def _review(
    writer: Writer, values: Mapping[str, str], aspects: Mapping[int, str], column: str, sentences: int
) -> Passage:
    """Write one to four sentences, one-sided or mixed, each of another index."""
    level = writer.rng.choice([1, 2, 3, 4, 5])
    count = writer.rng.randint(2, 3) if level in {2, 3, 4} else writer.rng.randint(1, 4)
    good = {5: [True] * count, 1: [False] * count, 4: [True, False, True], 2: [False, True, False], 3: [True, False]}[
        level
    ]
    indexes = writer.rng.sample(range(sentences), len(good))
    said = dict(zip(indexes, good, strict=True))
    text = " ".join(
        writer.sentence(writer.words["positive" if praised else "negative"][index], values)
        for index, praised in said.items()
    )
    return _judged(writer, level, said, text, aspects, column)


def _judged(
    writer: Writer, level: int, said: Mapping[int, bool], text: str, aspects: Mapping[int, str], column: str
) -> Passage:
    language = load_language("opinions")
    checks = []
    for index, aspect in aspects.items():
        for kind, truth in (("praise", said.get(index) is True), ("criticism", said.get(index) is False)):
            pattern = writer.rng.choice(language[f"{kind}_checks"])
            checks.append(Check(writer.sentence(pattern, {"aspect": aspect}), truth))
    if level != 3:
        checks += [Check(writer.rng.choice(language["positive_checks"]), level > 3)] * 2
        checks += [Check(writer.rng.choice(language["negative_checks"]), level < 3)] * 2
    liked = [aspects[index] for index, praised in said.items() if praised and index in aspects]
    disliked = [aspects[index] for index, praised in said.items() if not praised and index in aspects]
    replies = []
    if level > 3 and liked:
        replies.append(("Recommend it?", f"Yes, for {liked[0]}."))
    if level < 3 and disliked:
        replies.append(("Recommend it?", f"No, because of {disliked[0]}."))
    return Passage(
        kind="review",
        column=column,
        text=text,
        checks=tuple(checks),
        classes=()
        if level == 3
        else (Classes(*(("positive", ("negative",)) if level > 3 else ("negative", ("positive",)))),),
        ratings=(Rating(writer.rng.choice(language["score_prompts"]), (level - 1) / 4),),
        replies=tuple(replies),
        sentiment=sentiment_of(level),
    )


def _ticket(writer: Writer) -> Passage:
    phrases = load_phrases()
    topic = writer.rng.choice(sorted(phrases["topic"]))
    subject, complaint = writer.rng.choice(phrases["topic"][topic])
    angry = writer.chance(0.5)
    first = writer.rng.choice(phrases["people"]["first"])
    values = {**_product_of(writer), "order": writer.fill("F-#####", {}), "first": first}
    lists = writer.over(phrases["ticket"])
    parts = [lists.pick("greeting"), complaint, lists.pick("upset" if angry else "calm"), lists.pick("farewell")]
    text = lists.fill(" ".join(parts), values)
    language = load_language("tickets")
    other = writer.rng.choice([name for name in _TOPIC_LABELS if name != topic])
    label = 0 if writer.chance(0.7) else writer.rng.randrange(3)
    refund = subject == "Refund has not arrived"
    return Passage(
        kind="ticket",
        column="body",
        text=text,
        checks=(
            Check(writer.rng.choice(language["angry_checks"]), angry),
            Check(writer.rng.choice(language["department"][topic]["checks"]), truth=True),
            Check(writer.rng.choice(language["department"][other]["checks"]), truth=False),
            Check(writer.rng.choice(["Is a refund asked for?", "Does the customer want money back?"]), refund),
        ),
        classes=(
            Classes(
                _TOPIC_LABELS[topic][label],
                tuple(names[label] for name, names in _TOPIC_LABELS.items() if name != topic),
            ),
        ),
        facts=(
            Fact(
                ("order", "order_number", "order_id"),
                "Which order is it about?",
                values["order"] if values["order"] in text else None,
            ),
            Fact(("customer", "first_name", "sender"), "Who wrote it?", first if first in text else None),
        ),
        sentiment="negative" if angry else None,
        extras=(("subject", lists.fill(subject, values)),),
    )


def _movie(writer: Writer) -> Passage:
    """Write a synopsis; its genre shows in the hero's job and trouble and in the film's tone."""
    phrases = load_phrases()
    genre = writer.rng.choice(sorted(phrases["genre"]))
    lists = writer.over({**phrases["movie"], **phrases["genre"][genre]})
    values = {"hero": _person(writer), "friend": _person(writer), "director": _person(writer)}
    values |= {name: lists.pick(name) for name in ("place", "tone", "trigger", "job")}
    opening = lists.write("opening", {**values}, {"job": [values["job"]]})
    text = " ".join([opening, *(lists.write(part, values) for part in ("middle", "stakes", "closing"))])
    others = tuple(name.lower() for name in sorted(phrases["genre"]) if name != genre)
    directed = values["director"] if values["director"] in text else None
    return Passage(
        kind="synopsis",
        column="movie_info",
        text=text,
        classes=(Classes(genre.lower(), others),),
        facts=(
            Fact(("hero", "main_character", "name"), "Who is the main character?", values["hero"]),
            Fact(("job", "occupation"), "What is the main character's job?", values["job"]),
            Fact(("director", "directed_by"), "Who directed it?", directed),
        ),
        summary=lists.fill("A {$job} {$trigger}.", values) if values["trigger"] in text else None,
    )


def _person(writer: Writer) -> str:
    people = load_phrases()["people"]
    return f"{writer.rng.choice(people['first'])} {writer.rng.choice(people['last'])}"
