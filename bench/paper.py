"""The queries of the paper's benchmark, with instructions of its length, over one table for each topic.

Source: Liu et al., "Optimizing LLM Queries in Relational Workloads", arXiv 2403.05821: projection (q1), filter (q2),
several calls (q3), aggregation (q4), and an answer from retrieved contexts (q5). The paper's instructions have 112 to
172 tokens; so have these, counted with SmolLM2's tokenizer. The words are our own. All columns of a table are fields,
and answers are short. As in the paper's queries, the text of the subject precedes what somebody wrote about it. So the
original order of q1 to q4 is a good order. In q5 the question precedes the contexts that several questions share. Both
calls of q3 see every row, so that its prompts do not depend on a model's answers.

The tables are those of the folder `ordering` in `FLIGHTLLM_DATA`. Without that variable, `movies` and `products` are
joins of the packaged tables with the same columns, and the other topics are not there.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.common import data_table

TOKENS: Final = (112, 172)
"""The fewest and the most tokens of an instruction."""
CONTEXTS: Final = 3
"""Contexts for each question, the paper's K."""
EACH: Final = (3, 13)
"""The rows of a subject in a small table, and in a large one. The paper's table of films has about thirteen."""
_SUBJECTS: Final = 8
"""The fewest subjects of a table whose subjects have more rows than in a small one."""
_SHORT: Final = "max_tokens => 8, on_truncated => 'keep'"


@dataclass(frozen=True, slots=True)
class Topic:
    """A table, and the instructions of its queries by name.

    `subject` is the column whose values several rows share. A smaller table has some rows of fewer subjects.
    """

    name: str
    file: str
    subject: str
    columns: Sequence[str]
    instructions: Mapping[str, str]
    group: str = ""
    """The column by which q4 groups."""
    paper: tuple[float, float] = (1.5, 3.4)
    """The paper's range of speed-ups over a prefix cache with the original order."""
    packaged: Callable[[], pa.Table] | None = None
    """Returns the table made of the packaged ones, if they have its columns."""

    @property
    def is_there(self) -> bool:
        """Return whether the topic has a table here."""
        return self.packaged is not None or "FLIGHTLLM_DATA" in os.environ

    def tables(self, rows: int, *, stored: bool = False) -> Mapping[str, pa.Table]:
        """Return the table by name, reduced to at most `rows` rows of few subjects. A smaller table is in random order.

        With `stored` the rows of a subject are side by side.

        Raises:
            FileNotFoundError: the topic has no table here.
        """
        if self.packaged is None or "FLIGHTLLM_DATA" in os.environ:
            whole = pq.read_table(data_table(f"ordering/{self.file}"))
        else:
            whole = self.packaged()
        found = of_fewer_subjects(whole.select(self.columns), self.subject, rows)
        return {self.name: found.sort_by(self.subject) if stored else found}

    @property
    def queries(self) -> Mapping[str, str]:
        """Return the SQL of each query, with the subject's fields first."""
        return self.queries_over(self.columns)

    def queries_over(self, columns: Sequence[str]) -> Mapping[str, str]:
        """Return the SQL of each query, with the given order of the columns as fields."""
        fields = ", ".join(map(_named, columns))
        made: dict[str, str] = {}
        for name, words in self.instructions.items():
            if name == "q1":
                made[name] = f"SELECT ai_gen('{words}', {fields}, {_SHORT}) AS answer FROM {self.name} t"
            elif name == "q2":
                made[name] = f"SELECT {_named(self.subject)} FROM {self.name} t WHERE ai_filter('{words}', {fields})"
            elif name == "q3":
                kept = f"ai_filter('{self.instructions['q2']}', {fields})"
                made[name] = (
                    f"SELECT {kept} AS kept, ai_gen('{words}', {fields}, {_SHORT}) AS answer FROM {self.name} t"
                )
            elif name == "q4":
                score, group = f"avg(ai_score('{words}', {fields}))", _named(self.group)
                made[name] = f"SELECT {group}, {score} AS score FROM {self.name} t GROUP BY {group}"
            else:
                question, *contexts = map(_named, self.columns)
                given = f"question => {question}, contexts => make_array({', '.join(contexts)})"
                made[name] = f"SELECT ai_gen('{words}', {given}, {_SHORT}) AS answer FROM {self.name} t"
        return made


def _named(column: str) -> str:
    return f't."{column}"'


def topics() -> Mapping[str, Topic]:
    """Return the topics that have a table here, by name."""
    return {topic.name: topic for topic in _TOPICS if topic.is_there}


def of_fewer_subjects(table: pa.Table, subject: str, rows: int, seed: int = 0) -> pa.Table:
    """Return at most `rows` rows of subjects that are drawn at random, in random order.

    Each subject has at most 3 rows in a small table, and 13 in a large one. If that gives too few rows, the number is
    doubled. A small table of whole subjects would have so few subjects that any cache holds them all.
    """
    if rows >= table.num_rows:
        return table
    random = np.random.default_rng(seed)
    codes = table[subject].combine_chunks().dictionary_encode().indices.to_numpy()
    counts = np.bincount(codes)
    each = min(max(EACH[0], rows // _SUBJECTS), EACH[1])
    while np.minimum(counts, each).sum() < rows:
        each *= 2
    order = random.permutation(len(counts))
    enough = int(np.searchsorted(np.cumsum(np.minimum(counts, each)[order]), rows)) + 1
    places = np.concatenate([np.flatnonzero(codes == code)[:each] for code in order[:enough]])[:rows]
    return table.take(pa.array(random.permutation(places))).combine_chunks()


def _joined(reviews: str, subjects: str, key: str, names: Mapping[str, str]) -> pa.Table:
    """Return reviews in random order with their subjects, as texts. `names` maps columns to the packaged ones."""
    left, right = pq.read_table(data_table(reviews)), pq.read_table(data_table(subjects))
    left = left.take(pa.array(np.random.default_rng(0).permutation(left.num_rows)))
    matched = right.take(pc.index_in(left[key], right[key].combine_chunks()))
    found = {
        name: (left if source in left.schema.names else matched)[source].cast(pa.string()).fill_null("")
        for name, source in names.items()
    }
    return pa.table(found)


def _packaged_movies() -> pa.Table:
    names = {
        "reviewcontent": "review_content", "reviewtype": "review_type", "topcritic": "top_critic",
        "publisher": "publisher", "movieinfo": "movie_info", "genres": "genre", "director": "director",
        "movieid": "movie_id",
    }  # fmt: skip
    return _joined("movie_reviews", "movies", "movie_id", names)


def _packaged_products() -> pa.Table:
    names = {
        "text": "review_text", "review_title": "summary", "rating": "overall", "verified_purchase": "verified",
        "asin": "product_id", "brand": "brand", "category": "category", "description": "description",
    }  # fmt: skip
    return _joined("product_reviews", "products", "product_id", names)


_RECORD: Final = (
    "Read the whole record before you answer: some of its fields describe the thing itself, and others hold what one"
    " person wrote about it. Use only what the record says, and leave out what you know from elsewhere. If fields"
    " contradict each other, trust the longer text. Do not repeat the names of fields, and do not explain your answer."
)
QUESTION: Final = (
    "You answer questions of pupils from passages of an encyclopedia, which a search has found for the question."
    " Answer with the name, the number, the date or the few words of a passage that the question asks for. The"
    " passages come in any order, and most of them do not answer the question, so read all of them before you decide."
    " Use only what the passages say, and leave out what you know from elsewhere. If passages contradict each other,"
    " trust the passage that is about the subject of the question. Do not repeat the question, do not quote a whole"
    " sentence, and do not explain your answer."
)
"""The instruction of q5."""
_TOPICS: Final = (
    Topic(
        "movies",
        "movies_15k",
        "movieid",
        (
            *("movieinfo", "genres", "director", "movieid"),
            *("reviewtype", "topcritic", "publisher", "reviewcontent"),
        ),
        {
            "q1": "You help the editor of a film magazine, who must choose quotes for a short column. Say"
            " in a few words which quality or weakness of the film this critic cares about most, such as the acting,"
            f" the plot, the pictures, the music or the pace. {_RECORD}",
            "q2": "You advise parents who plan an evening with their children of six to ten years. Would"
            " this film suit such a family: does its story avoid cruelty, fear and themes for adults, as far as the"
            f" synopsis, the genres and the review tell? {_RECORD}",
            "q3": "You write to the distributor of a film, who wants to know what could be changed in a"
            " new cut. Name in a few words the one thing that this critic would change, or say that the critic would"
            f" change nothing. {_RECORD}",
            "q4": "You rate for a statistic how content each critic was with a film. Think of the words"
            " of praise and of blame in the review, and how strong they are, and rate the critic as a whole, not the"
            f" film. Is the critic content with this film? {_RECORD}",
        },
        "genres",
        packaged=_packaged_movies,
    ),
    Topic(
        "products",
        "products",
        "asin",
        ("description", "category", "brand", "asin", "rating", "verified_purchase", "review_title", "text"),
        {
            "q1": "You help a shop that shows one line about each review on the page of a magazine. Say"
            " in a few words what this buyer would tell a friend about the subscription, such as its price, its"
            f" articles, its pictures or its delivery. {_RECORD}",
            "q2": "You check descriptions of magazines for a shop that wants no complaints. Did this"
            " buyer get what the description promises, as far as the review tells: the subject, the number of issues,"
            f" and the quality of what was delivered? {_RECORD}",
            "q3": "You write to the publisher of a magazine, who reads one line for each buyer. Name in a"
            " few words the one thing that the publisher should change to keep this buyer, or say that the buyer"
            f" wants no change. {_RECORD}",
            "q4": "You rate for a statistic how content each buyer was with a magazine. Think of the"
            " words of praise and of blame in the review, and how strong they are, and leave out complaints about the"
            f" post. Is the buyer content with this magazine? {_RECORD}",
        },
        "brand",
        packaged=_packaged_products,
    ),
    Topic(
        "questions",
        "squad_rag5",
        "context1",
        ("question", *(f"context{number + 1}" for number in range(CONTEXTS))),
        {"q5": QUESTION},
        paper=(1.4, 1.4),
    ),
    Topic(
        "beer",
        "beer",
        "beer/beerId",
        (
            *("beer/name", "beer/style", "beer/beerId", "review/overall", "review/taste", "review/palate"),
            *("review/appearance", "review/profileName", "review/time"),
        ),
        {
            "q1": "You help a pub that writes a line about each beer on its board. Say in a few words"
            " what the scores of this drinker praise most in the beer, such as its taste, its look or how it feels in"
            f" the mouth, and name its style. {_RECORD}",
            "q2": "You choose beers for visitors who drink beer seldom and like it mild. Would such a"
            " visitor enjoy this beer, as far as its name, its style and the scores of one drinker tell, and would"
            f" the pub be right to offer it? {_RECORD}",
            "q3": "You write to a brewer, who reads one line for each drinker. Name in a few words the"
            " one thing that the brewer should change for this drinker, by the lowest of the scores, or say that"
            f" nothing should change. {_RECORD}",
            "q4": "You rate for a statistic how content each drinker was with a beer. Think of all scores"
            " in the record, the overall one first, and of how far they are below the most that a score can be. Is"
            f" the drinker content with this beer? {_RECORD}",
        },
        "beer/style",
    ),
)
