"""Synopses of films: genre, plot, and suitability for children."""

import re
from collections.abc import Iterator, Sequence

from training.passages.base import Check, Classes, Fact, Mark, Passage, Rating
from training.phrases import Split, Writer, load_language

_COLUMNS = ("movie_info", "synopsis", "plot", "description", "summary", "film_info")
_UNSEEN_EACH = 5
_GRIM = frozenset({"crime", "drama", "horror", "thriller", "western"})
"""Genres whose own sentences can be unsuitable for children."""
_AKIN = {"suitable": frozenset({"fantasy"}), "unsuitable": frozenset({"crime", "drama", "horror", "thriller"})}
"""Genres that fit scenes suitable or unsuitable for children. With these scenes they are not offered as wrong
labels.
"""
_GENRES_ASKED = 2
"""The number of right genres, of wrong genres, and of questions on each side of suitability."""
_SENTENCE_END = re.compile("(?<=[.!?]) ")
_FACTS = {
    "hero": (("hero", "main_character", "protagonist", "name"), "Who is the main character?"),
    "job": (("job", "occupation", "hero_job"), "What is the main character's job?"),
    "place": (("place", "setting", "town"), "Where does it take place?"),
}


def unseen_genres() -> frozenset[str]:
    """Return the genres that training does not use as labels; only its yes/no questions name them."""
    return frozenset(sorted(load_language("films")["genre"])[::_UNSEEN_EACH])


def write_synopsis(writer: Writer) -> Passage:
    """Return a plot of one genre, with or without scenes unsuitable for children."""
    language = load_language("films")
    genres = language["genre"]
    genre = writer.rng.choice(sorted(genres))
    writer = writer.over(language["words"])
    values = {
        "hero": f"{writer.pick('first')} {writer.pick('last')}",
        "job": writer.pick("job"),
        "place": writer.pick("town"),
        "trigger": writer.fill(writer.choose(language["triggers"]), {}),
    }
    cue = writer.rng.choice(["unsuitable", None] if genre in _GRIM else ["suitable", "suitable", "unsuitable", None])
    told = {writer.choose(genres[genre]["sentences"]): genre_key(genre) for _ in range(writer.count(1, 2))}
    if cue:
        told |= dict.fromkeys(writer.rng.sample(writer.split.of(language[cue]), writer.count(1, 2)), cue)
    plot = list(told)
    plot += [writer.choose(language["middles"])] if not writer.brief and writer.chance(0.5) else []
    writer.rng.shuffle(plot)
    parts = [
        writer.choose(language["openings"]),
        *plot,
        *([writer.choose(language["endings"])] if writer.chance(0.5) else []),
    ]
    said = [(part, writer.sentence(part, values)) for part in parts]
    stated = [mark for part, written in said for mark in _fact_marks(part, written)]
    names = {name for _, name in stated}
    wrong = [name for name in sorted(genres) if name != genre and name not in _AKIN.get(cue or "", ())]
    asked = [genre] * _GENRES_ASKED + writer.rng.sample(wrong, _GENRES_ASKED)
    checks = [_genre_check(writer, name, truth=name == genre) for name in asked]
    ratings: tuple[Rating, ...] = ()
    if cue:
        checks += [
            Check(writer.choose(language[f"{kind}_checks"]), cue == kind, (kind,))
            for kind in ("suitable", "unsuitable") * _GENRES_ASKED
        ]
        ratings = (Rating(writer.choose(language["suitability_prompts"]), 0.95 if cue == "suitable" else 0.05),)
    return Passage(
        kind="synopsis",
        column=writer.rng.choice(_COLUMNS),
        text=" ".join(written for _, written in said),
        checks=tuple(checks),
        classes=_classes(writer, genre, wrong),
        facts=tuple(
            Fact(fields, question, values[name] if name in names else None, name)
            for name, (fields, question) in _FACTS.items()
        ),
        ratings=ratings,
        summary=writer.sentence(writer.choose(language["summaries"]), values),
        extras=(("set_in", values["place"]),) if writer.chance(0.3) else (),
        marks=(*((written, told[part]) for part, written in said if part in told), *stated),
    )


def genre_key(genre: str) -> str:
    """Return the key of a genre's meaning."""
    return f"genre {genre}"


def _fact_marks(part: str, written: str) -> Iterator[Mark]:
    """Yield each written sentence with the fact of each slot in its pattern."""
    for pattern, sentence in zip(_SENTENCE_END.split(part), _SENTENCE_END.split(written), strict=True):
        yield from ((sentence, name) for name in _FACTS if f"{{${name}}}" in pattern)


def _classes(writer: Writer, genre: str, wrong: Sequence[str]) -> tuple[Classes, ...]:
    """Return labels with wrong genres of the same side, seen or unseen; in training also descriptions of seen genres.

    A description often names the genre, so unseen genres have no descriptions.
    """
    genres, unseen = load_language("films")["genre"], unseen_genres()
    side = [name for name in wrong if (name in unseen) is (genre in unseen)]
    if not side:
        return ()
    about = tuple(map(genre_key, [genre, *side]))
    others = tuple(genres[name]["labels"][0] for name in side)
    classes = [Classes(genres[genre]["labels"][0], others, genre in unseen, about)]
    if writer.split is Split.TRAINING and genre not in unseen:
        label, *rest = (writer.choose(genres[one]["tones"]) for one in [genre, *side])
        classes.append(Classes(label, tuple(rest), about=about))
    return tuple(classes)


def _genre_check(writer: Writer, genre: str, *, truth: bool) -> Check:
    language = load_language("films")
    tone = writer.choose(language["genre"][genre]["tones"])
    pattern = writer.choose(language["genre_checks"])
    return Check(writer.sentence(pattern, {"genre": f"a {tone}"}), truth, (genre_key(genre),), tone)
