"""Write the sample tables: `python -m training.generate [FOLDER]`.

Every text is generated from `phrases.toml`; no text is copied from a published data set. There is one seed, so that
each run gives the same tables.
"""

import random
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from flightllm.common.package_data import sample_folder
from training.phrases import Writer, load_phrases

SEED = 20_240_607
_LAST_DAY = date(2025, 6, 30)

Row = dict[str, Any]


def generate_tables() -> dict[str, pa.Table]:
    """Return the sample tables by name; each call returns the same tables."""
    phrases = load_phrases()
    movies, casts = _movies(phrases)
    products, parts = _products(phrases)
    return {
        "movies": _table(movies),
        "reviews": _table(_reviews(phrases, movies, casts)),
        "products": _table(products),
        "product_reviews": _table(_product_reviews(phrases, products, parts)),
        "tickets": _table(_tickets(phrases, products, parts)),
    }


def write_tables(folder: Path) -> None:
    """Write each sample table to a Parquet file of its name in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in generate_tables().items():
        pq.write_table(table, folder / f"{name}.parquet", compression="zstd", compression_level=19)


def _movies(phrases: Mapping[str, Any]) -> tuple[list[Row], list[dict[str, str]]]:
    """Return 200 movies and, for each, the names that its reviews mention."""
    rng = random.Random(f"{SEED} movies")
    titles: set[str] = set()
    rows: list[Row] = []
    casts: list[dict[str, str]] = []
    for movie_id in range(1, 201):
        genre = rng.choice(sorted(phrases["genre"]))
        write = Writer(rng, {**phrases["movie"], **phrases["genre"][genre]})
        cast = {"hero": _person(rng, phrases), "friend": _person(rng, phrases), "director": _person(rng, phrases)}
        cast |= {"place": write.pick("place"), "tone": write.pick("tone")}
        cast["trigger"] = write.pick("trigger")
        cast["job"] = write.pick("job")
        title = _fresh(titles, lambda: write.write("title", {}))  # noqa: B023 -- used at once
        casts.append(cast)
        rows.append(
            {
                "movie_id": movie_id,
                "title": title,
                "genre": genre,
                "rating": rng.choices(["G", "PG", "PG-13", "R", "NR"], [1, 3, 5, 5, 2])[0],
                "director": cast["director"],
                "release_year": rng.randint(1985, 2024),
                "runtime_minutes": rng.randint(78, 164),
                "movie_info": _paragraph(write, ["opening", "middle", "stakes", "closing"], cast),
            }
        )
    return rows, casts


def _reviews(phrases: Mapping[str, Any], movies: Sequence[Row], casts: Sequence[dict[str, str]]) -> list[Row]:
    """Return 2,000 reviews; a few movies get most of them, and one in twenty has no text."""
    rng = random.Random(f"{SEED} reviews")
    write = Writer(rng, phrases["review"])
    quality = [rng.betavariate(2.2, 1.8) for _ in movies]
    popularity = [1 / (rank + 3) for rank in range(len(movies))]
    critics = [_person(rng, phrases) for _ in range(120)]
    rows: list[Row] = []
    for review_id in range(1, 2_001):
        index = rng.choices(range(len(movies)), popularity)[0]
        score = _score(rng, quality[index])
        positive = score >= 3
        critic = rng.choice(critics)
        rows.append(
            {
                "review_id": review_id,
                "movie_id": movies[index]["movie_id"],
                "critic": critic,
                "top_critic": critics.index(critic) < 30,
                "publisher": write.pick("publisher"),
                "review_type": "positive" if positive else "negative",
                "review_score": score,
                "review_content": None if rng.random() < 0.05 else _opinion(rng, write, score, casts[index]),
                "review_date": _day(rng),
            }
        )
    return rows


def _products(phrases: Mapping[str, Any]) -> tuple[list[Row], list[dict[str, str]]]:
    """Return 200 products and, for each, the words that its reviews and tickets mention."""
    rng = random.Random(f"{SEED} products")
    names: set[str] = set()
    rows: list[Row] = []
    parts: list[dict[str, str]] = []
    for product_id in range(1, 201):
        category = rng.choice(sorted(phrases["category"]))
        write = Writer(rng, {**phrases["product"], **phrases["category"][category]})
        features = rng.sample(phrases["category"][category]["feature"], 2)
        part = {"brand": write.pick("brand"), "noun": write.pick("noun"), "use": write.pick("use")}
        part |= {"feature": features[0], "feature2": features[1]}
        name = _fresh(names, lambda: f"{write.pick('model')} {rng.randint(2, 99) * 10}")  # noqa: B023 -- used at once
        part["name"] = name
        parts.append(part)
        rows.append(
            {
                "product_id": product_id,
                "title": f"{part['brand']} {name} {part['noun']}",
                "brand": part["brand"],
                "category": category,
                "price": rng.randint(9, 299) + 0.99,
                "description": _paragraph(write, ["opening", "detail", "care", "closing"], part),
            }
        )
    return rows, parts


def _product_reviews(phrases: Mapping[str, Any], products: Sequence[Row], parts: Sequence[dict[str, str]]) -> list[Row]:
    """Return 2,000 product reviews."""
    rng = random.Random(f"{SEED} product reviews")
    write = Writer(rng, phrases["product_review"])
    quality = [rng.betavariate(3, 1.5) for _ in products]
    popularity = [1 / (rank + 4) for rank in range(len(products))]
    rows: list[Row] = []
    for review_id in range(1, 2_001):
        index = rng.choices(range(len(products)), popularity)[0]
        stars = round(_score(rng, quality[index]))
        tone = "positive" if stars > 3 else "negative" if stars < 3 else "mixed"
        sentences = {"positive": ["positive"] * 3, "negative": ["negative"] * 3, "mixed": ["positive", "negative"]}[
            tone
        ]
        rows.append(
            {
                "review_id": review_id,
                "product_id": products[index]["product_id"],
                "reviewer": _person(rng, phrases),
                "overall": stars,
                "verified": rng.random() < 0.8,
                "summary": write.write(f"summary_{tone}", parts[index]),
                "review_text": _sentences(rng, write, sentences[: rng.randint(1, 3)], parts[index]),
                "review_date": _day(rng),
            }
        )
    return rows


def _tickets(phrases: Mapping[str, Any], products: Sequence[Row], parts: Sequence[dict[str, str]]) -> list[Row]:
    """Return 500 support tickets. `topic` is the subject of the customer's message, and `priority` follows its tone."""
    rng = random.Random(f"{SEED} tickets")
    write = Writer(rng, phrases["ticket"])
    rows: list[Row] = []
    for ticket_id in range(1, 501):
        index = rng.randrange(len(products))
        topic = rng.choice(sorted(phrases["topic"]))
        customer = _person(rng, phrases)
        values = {**parts[index], "order": f"F-{rng.randint(10_000, 99_999)}", "first": customer.split()[0]}
        subject, complaint = rng.choice(phrases["topic"][topic])
        tone = rng.choice(["calm", "upset"])
        body = [write.pick("greeting"), complaint, write.pick(tone), write.pick("farewell")]
        rows.append(
            {
                "ticket_id": ticket_id,
                "customer": customer,
                "product_id": products[index]["product_id"],
                "channel": write.pick("channel"),
                "topic": topic,
                "priority": "high" if tone == "upset" else rng.choice(["low", "normal"]),
                "status": rng.choice(["open", "waiting", "closed"]),
                "opened_at": datetime.combine(_day(rng), datetime.min.time(), UTC)
                + timedelta(minutes=rng.randrange(1440)),
                "subject": write.fill(subject, values),
                "body": write.fill(" ".join(body), values),
            }
        )
    return rows


def _score(rng: random.Random, quality: float) -> float:
    """Return a random score from 0.5 to 5 in halves, around a quality from 0 to 1."""
    return min(5.0, max(0.5, round(2 * rng.gauss(0.5 + 4.5 * quality, 0.8)) / 2))


def _opinion(rng: random.Random, write: Writer, score: float, cast: Mapping[str, str]) -> str:
    """Return a review whose sentences agree with its score: mixed in the middle, one-sided at the ends."""
    good, bad = ("positive", "negative") if score >= 3 else ("negative", "positive")
    if rng.random() < 0.08:
        return write.pick(f"short_{good}")
    count = rng.randint(2, 4)
    return _sentences(rng, write, [good] * count if abs(score - 3) > 1 else [good, bad, good][:count], cast)


def _sentences(rng: random.Random, write: Writer, patterns: Sequence[str], values: Mapping[str, str]) -> str:
    """Return a text with one sentence of each named list.

    Entries with the same index in different lists are about the same thing, so no index is used twice.
    """
    indexes = rng.sample(range(min(len(write.words[name]) for name in patterns)), len(patterns))
    return " ".join(write.fill(write.words[name][i], values) for name, i in zip(patterns, indexes, strict=True))


def _paragraph(write: Writer, patterns: Sequence[str], values: Mapping[str, str]) -> str:
    return " ".join(write.write(name, values) for name in patterns)


def _person(rng: random.Random, phrases: Mapping[str, Any]) -> str:
    return f"{rng.choice(phrases['people']['first'])} {rng.choice(phrases['people']['last'])}"


def _fresh(taken: set[str], make: Callable[[], str]) -> str:
    """Return a name that is not in `taken`, and add it there."""
    name = make()
    while name in taken:
        name = make()
    taken.add(name)
    return name


def _day(rng: random.Random) -> date:
    return _LAST_DAY - timedelta(days=rng.randrange(3 * 365))


def _table(rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows)


if __name__ == "__main__":
    write_tables(Path(sys.argv[1]) if len(sys.argv) > 1 else sample_folder())
