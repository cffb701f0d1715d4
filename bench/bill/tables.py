"""The tables that the queries of the bill read: two of each, with no row in both, from the real tables.

Rows come in an order that is by chance, but always the same. A dossier is one text of many reviews of a film; an
article is one text of all its contexts. Several rows share each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from flightllm.session.session import Session

SOURCES: Final = (
    *("movies", "movie_reviews", "products", "product_reviews"),
    *("squad_contexts", "squad_questions", "beer"),
)
PARTS: Final = (1, 2)
"""The first part warms the engine up; the second part shows what it has learned."""
CONTEXTS: Final = 10
_OF_A_SUBJECT: Final = 5
_DOSSIER_REVIEWS: Final = 60


def make_tables(session: Session, folder: Path, rows: int) -> Mapping[str, Path]:
    """Write the tables, each with at most `rows` rows; return their files."""
    files = {}
    subjects = -(-rows // _OF_A_SUBJECT)
    for part in PARTS:
        for name, sql in _TABLES.items():
            names = {"rows": rows, "subjects": subjects, "before": part - 1, "part": part, "each": _OF_A_SUBJECT}
            result = session.execute(sql.format(**names, reviews=_DOSSIER_REVIEWS, contexts=CONTEXTS))
            batches = list(result.batches)
            path = folder / f"{name}{part}.parquet"
            pq.write_table(pa.Table.from_batches(batches, batches[0].schema), path)
            files[f"{name}{part}"] = path
    return files


_PART: Final = "n > {before} * {rows} AND n <= {part} * {rows}"
_SUBJECTS: Final = "place > {before} * {subjects} AND place <= {part} * {subjects}"
_DOSSIERS: Final = f"""
WITH film AS (
    SELECT movie_id, row_number() OVER (ORDER BY md5(movie_id::text)) AS place FROM (
        SELECT movie_id FROM movie_reviews GROUP BY movie_id HAVING count(review_content) > 2 * {{reviews}}
    )
), said AS (
    SELECT movie_id, review_id, review_content,
        row_number() OVER (PARTITION BY movie_id ORDER BY md5(review_id::text)) AS n
    FROM movie_reviews WHERE length(review_content) > 40
), dossier AS (
    SELECT s.movie_id, string_agg(review_content, chr(10) ORDER BY s.n) AS dossier
    FROM said AS s JOIN film AS f ON f.movie_id = s.movie_id
    WHERE s.n <= {{reviews}} AND {_SUBJECTS} GROUP BY s.movie_id
)"""
_TABLES: Final[Mapping[str, str]] = {
    "reviews": f"""
SELECT review_content AS review, critic, publisher FROM (
    SELECT review_content, critic, publisher, row_number() OVER (ORDER BY md5(review_id::text)) AS n
    FROM movie_reviews WHERE length(review_content) > 40
) WHERE {_PART} ORDER BY n""",
    "beers": f"""
SELECT beer_name, beer_style, review_overall, review_taste, review_palate, review_appearance FROM (
    SELECT *, row_number() OVER (ORDER BY md5(review_time::text || beer_name)) AS n FROM beer
) WHERE {_PART} ORDER BY n""",
    "goods": f"""
SELECT p.brand, p.category, p.description, r.review_text AS review FROM (
    SELECT asin, review_text, row_number() OVER (ORDER BY md5(reviewer_id || asin)) AS n
    FROM product_reviews WHERE length(review_text) > 40
) AS r JOIN products AS p USING (asin) WHERE {_PART} AND p.description IS NOT NULL ORDER BY n""",
    "dossiers": f"""
{_DOSSIERS}
SELECT dossier, review_content AS review, 'Critic ' || review_id AS critic
FROM dossier JOIN said USING (movie_id) WHERE n > {{reviews}} AND n <= {{reviews}} + {{each}}
ORDER BY md5(review_content)""",
    "films": f"{_DOSSIERS} SELECT dossier FROM dossier ORDER BY md5(dossier)",
    "articles": f"""
WITH article AS (
    SELECT title, string_agg(context, chr(10) || chr(10) ORDER BY context_id) AS article, place FROM (
        SELECT *, dense_rank() OVER (ORDER BY md5(title)) AS place FROM squad_contexts
    ) GROUP BY title, place
), asked AS (
    SELECT article, question, place, row_number() OVER (PARTITION BY a.title ORDER BY md5(question_id)) AS n
    FROM article AS a JOIN squad_contexts AS c ON c.title = a.title
    JOIN squad_questions AS s ON s.context_id = c.context_id
)
SELECT article, question FROM asked WHERE n <= {{each}} AND {_SUBJECTS} ORDER BY md5(question)""",
    "found": f"""
WITH titled AS (
    SELECT *, floor((dense_rank() OVER (ORDER BY md5(title)) - 1) / 2) AS pair FROM squad_contexts
), near AS (
    SELECT s.question_id, s.question, c.context, g.pair,
        row_number() OVER (PARTITION BY s.question_id ORDER BY md5(c.context_id::text)) AS n
    FROM squad_questions AS s JOIN titled AS g ON g.context_id = s.context_id JOIN titled AS c ON c.pair = g.pair
), ranked AS (
    SELECT pair, question_id, question, array_agg(context ORDER BY n) AS found
    FROM near WHERE n <= {{contexts}} GROUP BY pair, question_id, question
), chosen AS (
    SELECT *, dense_rank() OVER (ORDER BY pair) AS place,
        row_number() OVER (PARTITION BY pair ORDER BY md5(question_id)) AS n
    FROM ranked
)
SELECT question, {", ".join(f"found[{n}] AS c{n}" for n in range(1, CONTEXTS + 1))}
FROM chosen WHERE n <= {{each}} AND {_SUBJECTS} ORDER BY md5(question)""",
}
"""The SQL of each table. Its parameters are numbers: of rows, of subjects, and of the part."""
