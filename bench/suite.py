"""The queries of the paper's benchmark over movies and products with their reviews.

Source: Liu et al., "Optimizing LLM Queries in Relational Workloads", arXiv 2403.05821, benchmark queries: projection,
filter, several calls, aggregation. Fields are named in the order in which the paper lists them; answers are short.
DataFusion itself applies their plain predicates before any AI call, with SQL rules or without. The queries `either`,
`two` and `latest` show the effect of the rules; they are not in the paper.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from bench.common import data_table
from bench.samples import Pair, sample


@dataclass(frozen=True, slots=True)
class Suite:
    """The queries of one topic by name, and the paper's range of speed-ups over a system with only a prefix cache."""

    pair: Pair
    queries: Mapping[str, str]
    paper: tuple[float, float]

    def tables(self, rows: int, *, stored: bool = False) -> Mapping[str, pa.Table]:
        """Return both tables by name, reduced so that their join has at most `rows` rows; see `sample`."""
        return sample(self.pair, rows, stored=stored)


def suites() -> Mapping[str, Suite]:
    """Return the suites by topic."""
    return {"movies": _movies(), "products": _products()}


_MOVIES: Final = Pair("movies", "movie_reviews", "movie_info", "review_content")
_PRODUCTS: Final = Pair("products", "product_reviews", "description", "review_text")


def _movies() -> Suite:
    words = pq.read_table(data_table("movie_reviews"), columns=["review_type"])["review_type"].unique().to_pylist()
    good, bad = ("fresh", "rotten") if "fresh" in words else ("positive", "negative")
    fields = "m.movie_info, r.review_type, r.review_content"
    source = "movie_reviews r JOIN movies m ON m.movie_id = r.movie_id"
    queries = {
        "q1": f"SELECT r.review_id, ai_gen('Sum up what the critic liked or disliked.', {fields},"
        f" max_tokens => 8, on_truncated => 'keep') "
        f"AS reason FROM {source}",
        "q2": f"SELECT r.review_id, m.genre FROM {source} "
        f"WHERE ai_filter('Is this film suitable for children?', {fields}) AND r.review_type = '{good}'",
        "q3": f"SELECT r.review_id, ai_gen('What does the critic complain about?', {fields},"
        f" max_tokens => 8, on_truncated => 'keep') "
        f"AS complaint FROM {source} "
        f"WHERE ai_filter('Does the critic speak of the acting?', {fields}) AND r.review_type = '{bad}'",
        "q4": f"SELECT m.genre, avg(ai_score('How satisfied is the critic?', {fields})) AS satisfaction "
        f"FROM {source} WHERE NOT r.top_critic GROUP BY m.genre",
        "either": f"SELECT r.review_id FROM {source} WHERE r.top_critic OR ai_filter('Is the critic fair?', {fields})",
        "two": f"SELECT r.review_id FROM {source} WHERE ai_filter('Is the critic fair?', {fields}) "
        "AND ai_filter('Is the film a comedy?', m.movie_info)",
        "latest": f"SELECT r.review_id, ai_gen('What does the critic like?', {fields},"
        f" max_tokens => 8, on_truncated => 'keep') AS liked "
        f"FROM {source} WHERE ai_filter('Is the critic fair?', {fields}) ORDER BY r.review_id DESC LIMIT 20",
    }
    return Suite(_MOVIES, queries, (1.7, 2.7))


def _products() -> Suite:
    fields = "p.description, p.category, r.review_text"
    key = _PRODUCTS.key
    source = f"product_reviews r JOIN products p ON p.{key} = r.{key}"
    queries = {
        "q1": f"SELECT r.summary, ai_gen('Sum up what the buyer says of this product.', {fields},"
        f" max_tokens => 8, on_truncated => 'keep') "
        f"AS opinion FROM {source}",
        "q2": f"SELECT r.summary, p.brand FROM {source} "
        f"WHERE ai_filter('Is the product what its description promises?', {fields}) AND r.verified",
        "q3": f"SELECT r.summary, ai_gen('What should the seller change?', {fields},"
        f" max_tokens => 8, on_truncated => 'keep') "
        f"AS advice FROM {source} WHERE ai_filter('Does the buyer miss anything?', {fields}) AND r.overall < 5",
        "q4": f"SELECT p.brand, avg(ai_score('How satisfied is the buyer?', {fields})) AS satisfaction "
        f"FROM {source} WHERE r.verified GROUP BY p.brand",
        "either": f"SELECT r.summary FROM {source} WHERE r.verified OR ai_filter('Is the buyer fair?', {fields})",
        "two": f"SELECT r.summary FROM {source} WHERE ai_filter('Is the buyer fair?', {fields}) "
        "AND ai_filter('Is the product meant for women?', p.description)",
        "latest": f"SELECT r.summary, ai_gen('What does the buyer like?', {fields},"
        f" max_tokens => 8, on_truncated => 'keep') AS liked "
        f"FROM {source} WHERE ai_filter('Is the buyer fair?', {fields}) ORDER BY r.summary DESC LIMIT 20",
    }
    return Suite(_PRODUCTS, queries, (1.6, 3.2))
