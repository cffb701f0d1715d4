"""Twenty queries over the real tables, from short prompts to texts that several rows or several calls share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import pyarrow.parquet as pq

from bench.bill.tables import CONTEXTS
from bench.common import data_table

_GUIDE_ROWS, _LONG_GUIDE_ROWS = 25, 80
_SHORT_WORDS, _LONG_WORDS = 160, 700
"""The words of short and long examples."""
_LABELS: Final = ("calm", "angry", "amused", "sad")
_KEEP: Final = "on_truncated => 'keep', max_tokens => 16"


@dataclass(frozen=True, slots=True)
class Query:
    """A query with `{p}` in place of the part's number. `kind` is the group in the report."""

    name: str
    kind: str
    sql: str


def queries() -> tuple[Query, ...]:
    """Return the queries. Long instructions and examples have text of the tables.

    Raises:
        TableNotFoundError: there is no table `movies`.
    """
    guide, long_guide = _guide(_GUIDE_ROWS), _guide(_LONG_GUIDE_ROWS)
    labels = f"[{', '.join(map(_quoted, _LABELS))}]"
    contexts = ", ".join(f"c{n}" for n in range(1, CONTEXTS + 1))
    contexts_of_a_question = f"question, {contexts}"
    beer = "beer_name, beer_style, review_taste, review_palate"
    agrees, answers = "Does the review agree with the others?", "Answer from the contexts."

    def text(instruction: str, fields: str) -> str:
        return f"ai_gen({_quoted(instruction)}, {fields}, {_KEEP})"

    def labelled(words: int) -> str:
        return f"SELECT ai_classify(review, {labels}, examples => [{_examples(words)}]) AS a FROM reviews{{p}}"

    def named(kind: str, **sql: str) -> list[Query]:
        return [Query(name.replace("_", " "), kind, one) for name, one in sql.items()]

    return (
        *named(
            "short",
            sentiment_of_a_review="SELECT ai_sentiment(review) AS a FROM reviews{p}",
            filter_of_a_review="SELECT review FROM reviews{p} WHERE ai_filter('Is it fair?', review)",
            score_of_a_beer=f"SELECT ai_score('How good is this beer?', {beer}) AS a FROM beers{{p}}",
            many_distinct_rows=f"SELECT {text('Who would like this?', 'review, description')} AS a FROM goods{{p}}",
            few_distinct_values=f"SELECT ai_classify(category, {labels}) AS a FROM goods{{p}}",
        ),
        *named(
            "long field",
            join_with_a_long_side=f"SELECT {text(agrees, 'dossier, review')} AS a FROM dossiers{{p}}",
            join_with_the_long_side_last=f"SELECT {text(agrees, 'review, dossier')} AS a FROM dossiers{{p}}",
            filter_of_an_article="SELECT question FROM articles{p}"
            " WHERE ai_filter('Does the article answer the question?', article, question)",
            question_before_article=f"SELECT {text('Answer the question.', 'question, article')} AS a"
            " FROM articles{p}",
        ),
        *named(
            "several calls",
            three_calls_over_a_dossier=f"SELECT {text('Who plays the lead?', 'dossier')} AS a,"
            f" ai_classify(dossier, {labels}) AS b, ai_score('How praised is the film?', dossier) AS c FROM films{{p}}",
            two_filters_of_a_dossier="SELECT 1 AS one FROM films{p} WHERE ai_filter('Is the film praised?', dossier)"
            " OR ai_filter('Is it a comedy?', dossier)",
            filter_and_then_text=f"SELECT {text('What is praised most?', 'dossier')} AS a FROM films{{p}}"
            " WHERE ai_filter('Is the film praised?', dossier)",
            two_calls_over_a_long_row=f"SELECT {text('Answer the question.', 'article, question')} AS a,"
            " ai_filter('Is the question clear?', article, question) AS b FROM articles{p}",
        ),
        *named(
            "retrieved contexts",
            ten_contexts=f"SELECT {text(answers, contexts_of_a_question)} AS a FROM found{{p}}",
            three_contexts=f"SELECT {text(answers, 'c1, c2, c3, question')} AS a FROM found{{p}}",
        ),
        *named("examples", four_short_examples=labelled(_SHORT_WORDS), four_long_examples=labelled(_LONG_WORDS)),
        *named(
            "long instruction",
            long_instruction=f"SELECT {text(guide, 'review')} AS a FROM reviews{{p}}",
            very_long_instruction=f"SELECT {text(long_guide, 'review')} AS a FROM reviews{{p}}",
            long_instruction_with_LIMIT=f"SELECT review FROM reviews{{p}} WHERE ai_filter({_quoted(guide)}, review)"
            " LIMIT 8",
        ),
    )


def _examples(words: int) -> str:
    """Return four examples in SQL, each of about so many words."""
    joined = " ".join(_infos()).split()
    texts = [" ".join(joined[at * words : (at + 1) * words]) for at in range(len(_LABELS))]
    return ", ".join(f"({_quoted(text)}, {_quoted(label)})" for text, label in zip(texts, _LABELS, strict=True))


def _guide(rows: int) -> str:
    """Return a long instruction: a task, and many descriptions that show the style."""
    shown = [info for info in _infos() if len(info) > 200][:rows]
    return "Describe the review in the style of these descriptions.\n" + "\n".join(f"- {info[:500]}" for info in shown)


def _infos() -> list[str]:
    """Return the descriptions of films, which no query reads."""
    infos: list[Any] = pq.read_table(data_table("movies"), columns=["movie_info"])["movie_info"].to_pylist()
    return [info for info in infos if info]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
