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
    plot = [writer.choose(genres[genre]["sentences"]) for _ in range(writer.count(1, 2))]
    plot += writer.rng.sample(writer.split.of(language[cue]), writer.count(1, 2)) if cue else []
    plot += [writer.choose(language["middles"])] if not writer.brief and writer.chance(0.5) else []
    writer.rng.shuffle(plot)
    parts = [
        writer.choose(language["openings"]),
        *plot,
        *([writer.choose(language["endings"])] if writer.chance(0.5) else []),
    ]
    text = " ".join(writer.sentence(part, values) for part in parts)
    wrong = writer.rng.sample([name for name in sorted(genres) if name != genre], _GENRES_ASKED)
    checks = [_genre_check(writer, genres[genre]["tones"], truth=True) for _ in range(_GENRES_ASKED)]
    checks += [_genre_check(writer, genres[name]["tones"], truth=False) for name in wrong]
    if cue:
        checks.append(Check(writer.choose(language["suitable_checks"]), cue == "suitable"))
        checks.append(Check(writer.choose(language["unsuitable_checks"]), cue == "unsuitable"))
    return Passage(
        kind="synopsis",
        column=writer.rng.choice(_COLUMNS),
        text=text,
        checks=tuple(checks),
        classes=_classes(writer, genre),
        facts=tuple(
            Fact(fields, question, values[name] if values[name] in text else None)
            for name, (fields, question) in _FACTS.items()
        ),
        ratings=(Rating(writer.rng.choice(_SUITABILITY), 0.95 if cue == "suitable" else 0.05),) if cue else (),
        summary=writer.sentence(writer.choose(language["summaries"]), values),
        extras=(("genre_note", writer.rng.choice(genres[genre]["tones"])),) if writer.chance(0.3) else (),
    )


def _classes(writer: Writer, genre: str) -> tuple[Classes, ...]:
    """Offer other genres of the same side, seen or unseen; besides, in training, what seen ones are like.

    That often names the genre, so unseen ones are not offered so.
    """
    genres = load_language("films")["genre"]
    unseen = frozenset(sorted(genres)[::_UNSEEN_EACH])
    side = [name for name in sorted(genres) if (name in unseen) is (genre in unseen) and name != genre]
    classes = [Classes(genres[genre]["labels"][0], tuple(genres[name]["labels"][0] for name in side), genre in unseen)]
    if writer.split is Split.TRAINING and genre not in unseen:
        label, *others = (writer.rng.choice(genres[one]["tones"]) for one in [genre, *side])
        classes.append(Classes(label, tuple(others)))
    return tuple(classes)


def _genre_check(writer: Writer, tones: list[str], *, truth: bool) -> Check:
    pattern = writer.rng.choice(_GENRE_CHECKS)
    return Check(writer.sentence(pattern, {"genre": f"a {writer.rng.choice(tones)}"}), truth)
