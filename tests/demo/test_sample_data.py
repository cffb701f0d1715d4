"""The sample tables: made by the code beside them, and good enough to try AI queries on."""

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from flightllm.common.package_data import sample_folder
from training.generate import generate_tables

ROWS = {"movies": 200, "reviews": 2_000, "products": 200, "product_reviews": 2_000, "tickets": 500}


@pytest.fixture(scope="module")
def tables() -> dict[str, pa.Table]:
    """Return the tables as generated now."""
    return generate_tables()


@pytest.mark.parametrize("name", sorted(ROWS))
def test_shipped_file_is_what_the_generator_writes(tables: dict[str, pa.Table], name: str) -> None:
    """The committed file can be made again from the code, value by value."""
    shipped = pq.read_table(sample_folder() / f"{name}.parquet")
    assert shipped.equals(tables[name])
    assert shipped.num_rows == ROWS[name]


def test_files_stay_small() -> None:
    """The wheel carries all of them, so together they stay under 1.5 MiB."""
    assert sum(path.stat().st_size for path in sample_folder().glob("*.parquet")) < 1.5 * 2**20


@pytest.mark.parametrize(
    ("table", "column", "low", "high"), [("movies", "movie_info", 60, 120), ("products", "description", 40, 80)]
)
def test_long_fields_have_a_realistic_length(
    tables: dict[str, pa.Table], table: str, column: str, low: int, high: int
) -> None:
    """Synopses and descriptions are long enough that repeating them in a join costs tokens."""
    words = [len(text.split()) for text in tables[table][column].to_pylist()]
    assert low <= min(words)
    assert max(words) <= high


@pytest.mark.parametrize(("child", "parent", "key"), [
    ("reviews", "movies", "movie_id"),
    ("product_reviews", "products", "product_id"),
    ("tickets", "products", "product_id"),
])  # fmt: skip
def test_foreign_keys_resolve(tables: dict[str, pa.Table], child: str, parent: str, key: str) -> None:
    """Every review and ticket joins to its movie or product."""
    assert pc.all(pc.is_in(tables[child][key], tables[parent][key].combine_chunks())).as_py()


def test_no_slot_is_left_open(tables: dict[str, pa.Table]) -> None:
    """No text shows a brace of the patterns it was made from, or a wrong article."""
    for table in tables.values():
        for column in table.columns:
            if pa.types.is_string(column.type):
                assert not pc.any(pc.match_substring_regex(column, r"[{}]|\b[Aa] (?:[aeiAEIO]|hono|honest)")).as_py()


def test_reviews_agree_with_their_score(tables: dict[str, pa.Table]) -> None:
    """Five-star and one-star product reviews share no sentence pattern of the other side."""
    reviews = tables["product_reviews"]
    best = reviews.filter(pc.equal(reviews["overall"], 5))["review_text"]
    worst = reviews.filter(pc.equal(reviews["overall"], 1))["review_text"]
    assert not pc.any(pc.match_substring_regex(best, "sent it back|nothing like|Far too expensive")).as_py()
    assert not pc.any(pc.match_substring_regex(worst, "Worth every cent|second one|exactly what")).as_py()
