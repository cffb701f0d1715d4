"""The ten questions in SQL: as a user writes them, and in better forms where there are some.

The form `natural` asks what SemBench asks, with the same question about a review wherever one is asked. The film of Q5
to Q7 and Q9 has each review twice, so ten rows of a natural form can be three pairs. `once` takes each review once, and
names each pair once. `map` asks about each review by itself, and joins the answers. `auto` lets the server find such a
plan, and prove it on sampled pairs. `packed` asks about eight reviews in a request. That costs fewer input tokens, and
a real model can be less right about them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_FEW: Final = "taken_3"
_MANY: Final = "ant_man_and_the_wasp_quantumania"
_POSITIVE: Final = "ai_filter('Is the review clearly positive?', reviewText)"
_SCORE: Final = "ai_score('How much did the reviewer like the movie?', reviewText, low => 1, high => 5)"
_PACKED: Final = ", rows_per_request => 8)"
_SAME: Final = "Do the two reviews express the same sentiment?"
_OPPOSITE: Final = "Do the two reviews express opposite sentiments?"
_ENOUGH: Final = 16
"""So many reviews of a film have ten pairs, unless nearly all of them have one sentiment."""


def _pairs(question: str, end: str = "", options: str = "") -> str:
    return (
        "SELECT r1.id, r1.reviewId AS reviewId1, r2.reviewId AS reviewId2 FROM Reviews AS r1 JOIN Reviews AS r2"
        " ON r1.id = r2.id AND r1.reviewId <> r2.reviewId"
        f" AND ai_filter('{question}', r1.reviewText, r2.reviewText{options})"
        f" WHERE r1.id = '{_MANY}'{end}"
    )


def _pairs_once(question: str, end: str = "") -> str:
    return (
        "WITH film AS (SELECT DISTINCT id, reviewId, reviewText FROM Reviews"
        f" WHERE id = '{_MANY}') SELECT r1.id, r1.reviewId AS reviewId1, r2.reviewId AS reviewId2"
        " FROM film AS r1 JOIN film AS r2 ON r1.id = r2.id AND r1.reviewId < r2.reviewId"
        f" AND ai_filter('{question}', r1.reviewText, r2.reviewText){end}"
    )


def _mapped(sign: str, of: str, end: str = "") -> str:
    return (
        f"WITH film AS ({of}), felt AS (SELECT id, reviewId, {_POSITIVE} AS positive FROM film)"
        " SELECT r1.id, r1.reviewId AS reviewId1, r2.reviewId AS reviewId2 FROM felt AS r1 JOIN felt AS r2"
        f" ON r1.id = r2.id AND r1.reviewId < r2.reviewId AND r1.positive {sign} r2.positive{end}"
    )


_ALL: Final = f"SELECT DISTINCT id, reviewId, reviewText FROM Reviews WHERE id = '{_MANY}'"
_SOME: Final = f"{_ALL} ORDER BY reviewId LIMIT {_ENOUGH}"

_COUNT: Final = f"SELECT count(*) AS positive_review_cnt FROM Reviews WHERE id = '{_FEW}' AND {_POSITIVE}"
_RATIO: Final = (
    f"SELECT avg(CASE WHEN {_POSITIVE} THEN 1.0 ELSE 0.0 END) AS positivity_ratio FROM Reviews WHERE id = '{_FEW}'"
)
_BY_LABEL: Final = (
    f"SELECT CASE WHEN {_POSITIVE} THEN 'POSITIVE' ELSE 'NEGATIVE' END AS scoreSentiment, count(*) AS count"
    f" FROM Reviews WHERE id = '{_FEW}' GROUP BY 1"
)
_SCORES: Final = f"SELECT reviewId, {_SCORE} AS reviewScore FROM Reviews WHERE id = '{_MANY}'"
_MEANS: Final = f"SELECT id AS movieId, avg({_SCORE}) AS movieScore FROM Reviews GROUP BY id"


def _packed(sql: str) -> str:
    """Return a query whose one AI call asks about several rows in a request."""
    for call in (_POSITIVE, _SCORE):
        sql = sql.replace(call, call.removesuffix(")") + _PACKED)
    return sql


NATURAL: Final = "natural"
FORMS: Final[Mapping[str, Mapping[str, str]]] = {
    "Q1": {NATURAL: f"SELECT reviewId FROM Reviews WHERE {_POSITIVE} LIMIT 5"},
    "Q2": {NATURAL: f"SELECT reviewId FROM Reviews WHERE id = '{_FEW}' AND {_POSITIVE} LIMIT 5"},
    "Q3": {NATURAL: _COUNT, "packed": _packed(_COUNT)},
    "Q4": {NATURAL: _RATIO, "packed": _packed(_RATIO)},
    "Q5": {
        NATURAL: _pairs(_SAME, " LIMIT 10"),
        "once": _pairs_once(_SAME, " LIMIT 10"),
        "map": _mapped("=", _SOME, " LIMIT 10"),
    },
    "Q6": {
        NATURAL: _pairs(_OPPOSITE, " LIMIT 10"),
        "once": _pairs_once(_OPPOSITE, " LIMIT 10"),
        "map": _mapped("<>", _SOME, " LIMIT 10"),
    },
    "Q7": {
        NATURAL: _pairs(_OPPOSITE),
        "map": _mapped("<>", _ALL),
        "auto": _pairs(_OPPOSITE, options=", strategy => 'auto'"),
    },
    "Q8": {NATURAL: _BY_LABEL, "packed": _packed(_BY_LABEL)},
    "Q9": {NATURAL: _SCORES, "packed": _packed(_SCORES)},
    "Q10": {NATURAL: _MEANS, "packed": _packed(_MEANS)},
}
"""SQL by form, by question."""
BEST: Final[Mapping[str, str]] = {name: "map" if "map" in some else NATURAL for name, some in FORMS.items()}
"""The form of each question that needs few calls, and gives up nothing of the quality."""
REPEATED: Final = frozenset({("Q5", NATURAL), ("Q6", NATURAL)})
"""The forms whose ten rows repeat pairs, because the film has each review twice: right rows still have a low score."""
