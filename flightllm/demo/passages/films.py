"""Synopses of films: genre, plot, and whether children may watch."""

from flightllm.demo.passages.base import Check, Classes, Fact, Passage, Rating
from flightllm.demo.phrases import Split, Writer, load_language

_COLUMNS = ("movie_info", "synopsis", "plot", "description", "summary", "film_info")
_UNSEEN_EACH = 5
_GRIM = frozenset({"horror", "crime", "thriller"})
"""Genres whose own sentences are not for children."""
_GENRES_ASKED = 2
"""As many right as wrong ones."""
_SUITABILITY = (
    "How suitable is it for children?",
    "Rate how well it suits the whole family.",
    "How safe is it for kids?",
    "How child-friendly is the plot?",
)
_GENRE_CHECKS = (
    "Is this {$genre}?",
    "Is it {$genre}?",
    "Does the plot sound like {$genre}?",
    "The film is {$genre}.",
    "Would you shelve it under {$genre}?",
)
_FACTS = {
    "hero": (("hero", "main_character", "protagonist", "name"), "Who is the main character?"),
    "job": (("job", "occupation", "hero_job"), "What is the main character's job?"),
    "place": (("place", "setting", "town"), "Where does it take place?"),
}


def write_synopsis(writer: Writer) -> Passage:
    """Write a plot of one genre, with or without scenes unfit for children."""
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
    cue = writer.rng.choice(["unsuitable" if genre in _GRIM else "suitable", "unsuitable", None])
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
    said = [(writer.sentence(part, values), told.get(part)) for part in parts]
    text = " ".join(sentence for sentence, _ in said)
    wrong = writer.rng.sample([name for name in sorted(genres) if name != genre], _GENRES_ASKED)
    checks = [_genre_check(writer, name, truth=name == genre) for name in [genre] * _GENRES_ASKED + wrong]
    if cue:
        checks.append(Check(writer.choose(language["suitable_checks"]), cue == "suitable", ("suitable",)))
        checks.append(Check(writer.choose(language["unsuitable_checks"]), cue == "unsuitable", ("unsuitable",)))
    return Passage(
        kind="synopsis",
        column=writer.rng.choice(_COLUMNS),
        text=text,
        checks=tuple(checks),
        classes=_classes(writer, genre),
        facts=tuple(
            Fact(fields, question, values[name] if values[name] in text else None, name)
            for name, (fields, question) in _FACTS.items()
        ),
        ratings=(Rating(writer.rng.choice(_SUITABILITY), 0.95 if cue == "suitable" else 0.05),) if cue else (),
        summary=writer.sentence(writer.choose(language["summaries"]), values),
        extras=(("genre_note", writer.rng.choice(genres[genre]["tones"])),) if writer.chance(0.3) else (),
        marks=tuple((sentence, about) for sentence, about in said if about),
    )


def genre_key(genre: str) -> str:
    """Return what speaks of a genre."""
    return f"genre {genre}"


def _classes(writer: Writer, genre: str) -> tuple[Classes, ...]:
    """Offer other genres of the same side, seen or unseen; besides, in training, what seen ones are like.

    That often names the genre, so unseen ones are not offered so.
    """
    genres = load_language("films")["genre"]
    unseen = frozenset(sorted(genres)[::_UNSEEN_EACH])
    side = [name for name in sorted(genres) if (name in unseen) is (genre in unseen) and name != genre]
    about = tuple(map(genre_key, [genre, *side]))
    others = tuple(genres[name]["labels"][0] for name in side)
    classes = [Classes(genres[genre]["labels"][0], others, genre in unseen, about)]
    if writer.split is Split.TRAINING and genre not in unseen:
        label, *rest = (writer.rng.choice(genres[one]["tones"]) for one in [genre, *side])
        classes.append(Classes(label, tuple(rest), about=about))
    return tuple(classes)


def _genre_check(writer: Writer, genre: str, *, truth: bool) -> Check:
    tone = writer.rng.choice(load_language("films")["genre"][genre]["tones"])
    return Check(writer.sentence(writer.rng.choice(_GENRE_CHECKS), {"genre": f"a {tone}"}), truth, (genre_key(genre),))
