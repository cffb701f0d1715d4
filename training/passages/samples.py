"""Texts with the sentences of the sample tables, in rows that these tables do not have."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

import pyarrow.parquet as pq

from flightllm.common.package_data import sample_folder
from training.passages.base import Check, Classes, Fact, Passage, Rating
from training.passages.films import genre_key, unseen_genres
from training.passages.reviews import aspect_key, opinion_keys, sentiment_of
from training.passages.tickets import has_word, part_key
from training.phrases import Writer, load_language, load_phrases

_FILM_ASPECTS = {
    0: ("acting", "the acting"), 1: ("pacing", "the pace"), 2: ("story", "the story"), 3: ("music", "the music"),
    4: ("direction", "the directing"), 5: ("dialogue", "the dialogue"), 6: ("camera", "the look"),
    7: ("ending", "the ending"),
}  # fmt: skip
_PRODUCT_ASPECTS = {
    1: ("setup", "the setup"),
    2: ("quality", "the build quality"),
    3: ("support", "the support"),
    4: ("price", "the price"),
}
"""For each index of a sentence in `positive` and `negative`: the aspect's name in `opinions.toml`, and its name
here.
"""
_Aspects = Mapping[int, tuple[str, str]]
_TOPIC_LABELS = {
    "billing": ("billing", "payment", "invoices"),
    "shipping": ("shipping", "delivery", "parcels"),
    "defect": ("defect", "broken product", "repair"),
    "account": ("account", "login", "profile"),
    "question": ("question", "information", "advice"),
}


def write_sample(writer: Writer) -> Passage:
    """Return a text like those in a column of the sample tables, but not one of them."""
    form = writer.rng.choice([_film_review, _film_review, _product_review, _product_review, _ticket, _movie])
    passage = form(writer.over(load_phrases()))
    while passage.text in _told():
        passage = form(writer.over(load_phrases()))
    return passage


@cache
def _told() -> frozenset[str]:
    """Return the texts of the sample tables."""
    columns = {"movies": "movie_info", "reviews": "review_content", "product_reviews": "review_text", "tickets": "body"}
    tables = (pq.read_table(sample_folder() / f"{name}.parquet", columns=[columns[name]]) for name in columns)
    return frozenset(text for table in tables for text in table.column(0).to_pylist() if text)


def _film_review(writer: Writer) -> Passage:
    phrases = load_phrases()
    values = {
        "hero": _person(writer),
        "director": _person(writer),
        "place": writer.rng.choice(phrases["movie"]["place"]),
    }
    review = _review(writer.over(phrases["review"]), values, _FILM_ASPECTS, "review_content", 10)
    synopsis = _movie(writer)
    return replace(review, extras=((synopsis.column, synopsis.text),))


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


def _review(writer: Writer, values: Mapping[str, str], aspects: _Aspects, column: str, sentences: int) -> Passage:
    """Return a review of one to four sentences, one-sided or mixed. Each sentence has another index."""
    level = writer.rng.choice([1, 2, 3, 4, 5])
    one_sided = writer.rng.randint(1, 4)
    good = {
        1: [False] * one_sided,
        2: [False, True, False],
        3: [True, False],
        4: [True, False, True],
        5: [True] * one_sided,
    }[level]
    indexes = writer.rng.sample(range(sentences), len(good))
    patterns = {True: writer.words["positive"], False: writer.words["negative"]}
    said = [
        (index, praised, writer.sentence(patterns[praised][index], values))
        for index, praised in zip(indexes, good, strict=True)
    ]
    return _judged(writer, level, said, aspects, column)


def _judged(
    writer: Writer, level: int, said: Sequence[tuple[int, bool, str]], aspects: _Aspects, column: str
) -> Passage:
    """Return a review with these sentences and the facts about it.

    `said` has for each sentence its index, whether it praises, and its text.
    """
    praises = {index: praised for index, praised, _ in said}
    marks = [(sentence, "positive" if praised else "negative") for _, praised, sentence in said]
    marks += [(sentence, aspect_key(aspects[index][0])) for index, _, sentence in said if index in aspects]
    language = load_language("opinions")
    checks = []
    for index, (key, aspect) in aspects.items():
        for kind, praised in (("praise", True), ("criticism", False)):
            prompt = writer.sentence(writer.choose(language[f"{kind}_checks"]), {"aspect": aspect})
            checks.append(Check(prompt, praises.get(index) is praised, opinion_keys(key, praised=praised)))
    if level != 3:
        checks += [Check(writer.choose(language["positive_checks"]), level > 3, ("positive",))] * 2
        checks += [Check(writer.choose(language["negative_checks"]), level < 3, ("negative",))] * 2
    mood, contrary = ("positive", "negative") if level > 3 else ("negative", "positive")
    liked = [aspects[index][1] for index, praised in praises.items() if praised and index in aspects]
    disliked = [aspects[index][1] for index, praised in praises.items() if not praised and index in aspects]
    replies = []
    if level > 3 and liked:
        replies.append(("Recommend it?", f"Yes, for {liked[0]}."))
    if level < 3 and disliked:
        replies.append(("Recommend it?", f"No, because of {disliked[0]}."))
    return Passage(
        kind="review",
        column=column,
        text=" ".join(sentence for _, _, sentence in said),
        checks=tuple(checks),
        classes=() if level == 3 else (Classes(mood, (contrary,), about=(mood, contrary)),),
        ratings=(Rating(writer.choose(language["score_prompts"]), (level - 1) / 4),),
        replies=tuple(replies),
        sentiment=sentiment_of(level),
        marks=tuple(marks),
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
    greeting, complaint, tone, farewell = (lists.fill(part, values) for part in parts)
    text = f"{greeting} {complaint} {tone} {farewell}"
    subject_line = lists.fill(subject, values)
    language = load_language("tickets")
    elsewhere = [name for name in _TOPIC_LABELS if name != topic]
    other = writer.rng.choice([name for name in elsewhere if {name, topic} != {"shipping", "defect"}])
    label = 0 if writer.chance(0.7) else writer.rng.randrange(3)
    refund = subject == "Refund has not arrived"
    return Passage(
        kind="ticket",
        column="body",
        text=text,
        checks=(
            Check(writer.choose(language["angry_checks"]), angry, ("angry",)),
            Check(writer.choose(language["department"][topic]["checks"]), truth=True, about=(part_key(topic),)),
            Check(writer.choose(language["department"][other]["checks"]), truth=False, about=(part_key(other),)),
            Check(writer.rng.choice(["Is a refund asked for?", "Does the customer want money back?"]), refund),
        ),
        classes=(
            Classes(
                _TOPIC_LABELS[topic][label],
                tuple(_TOPIC_LABELS[name][label] for name in elsewhere),
                about=tuple(map(part_key, [topic, *elsewhere])),
            ),
        ),
        facts=(
            Fact(
                ("order", "order_number", "order_id"),
                "Which order is it about?",
                values["order"] if values["order"] in text else None,
                "order",
            ),
            Fact(
                ("customer", "first_name", "sender"),
                "Who wrote it?",
                first if has_word(text, first) else None,
                "customer",
            ),
        ),
        sentiment="negative" if angry else None,
        extras=(("subject", subject_line),),
        marks=(
            (complaint, part_key(topic)),
            (subject_line, part_key(topic)),
            (tone, "angry" if angry else "calm"),
        ),
    )


def _movie(writer: Writer) -> Passage:
    """Return a synopsis. The hero's job and trouble and the film's tone show its genre."""
    phrases = load_phrases()
    genre = writer.rng.choice(sorted(phrases["genre"]))
    lists = writer.over({**phrases["movie"], **phrases["genre"][genre]})
    values = {"hero": _person(writer), "friend": _person(writer), "director": _person(writer)}
    values |= {name: lists.pick(name) for name in ("place", "tone", "trigger", "job")}
    opening = lists.write("opening", {**values}, {"job": [values["job"]]})
    parts = [opening, *(lists.write(part, values) for part in ("middle", "stakes", "closing"))]
    text = " ".join(parts)
    seen = [name for name in sorted(phrases["genre"]) if _slug(name) not in unseen_genres()]
    others = [name for name in seen if name != genre]
    directed = values["director"] if values["director"] in text else None
    return Passage(
        kind="synopsis",
        column="movie_info",
        text=text,
        classes=(Classes(genre.lower(), tuple(map(str.lower, others)), about=tuple(map(_genre_key, [genre, *others]))),)
        if genre in seen
        else (),
        facts=(
            Fact(("hero", "main_character", "name"), "Who is the main character?", values["hero"], "hero"),
            Fact(("job", "occupation"), "What is the main character's job?", values["job"], "job"),
            Fact(("director", "directed_by"), "Who directed it?", directed, "director"),
        ),
        summary=lists.fill("A {$job} {$trigger}.", values) if values["trigger"] in text else None,
        marks=tuple((part, _genre_key(genre)) for part in parts if values["tone"] in part or part == opening),
    )


def _slug(genre: str) -> str:
    """Return the name that a sample film's genre has in `films.toml`."""
    return genre.lower().replace(" ", "_")


def _genre_key(genre: str) -> str:
    return genre_key(_slug(genre))


def _person(writer: Writer) -> str:
    people = load_phrases()["people"]
    return f"{writer.rng.choice(people['first'])} {writer.rng.choice(people['last'])}"
