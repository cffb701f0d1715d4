"""The labelled model: from the body of a request to the text of its answer, and its probabilities."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench.sembench.errors import Errors
from bench.sembench.form import enumerated, form_of, offered
from bench.sembench.labels import Review
from bench.sembench.question import Question
from bench.sembench.readers import DOCUMENT_READERS, READERS
from bench.sembench.texts import Texts, marks, without_marks

UNREAD: Final = "I cannot say."
"""The answer to a prompt that no reader can read, where it offers no options."""
_HEAD: Final = re.compile(r"^Row ([A-Z]{3,})$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Answer:
    """The text of an answer. `chances` are the probabilities of its options; empty for documents and free text."""

    text: str
    chances: Mapping[str, float]
    unread: bool = False


@dataclass(frozen=True, slots=True)
class LabelledModel:
    """A model that reads the reviews in a prompt, looks up their labels, and answers in the form that is asked for."""

    texts: Texts
    errors: Errors

    def answer(self, body: Mapping[str, Any]) -> Answer:
        """Answer a request of OpenAI's chat completions."""
        messages = [said(message) for message in body["messages"]]
        form = form_of(body, "\n\n".join(messages))
        prompt, found = self.texts.marked("\n\n".join(messages))
        if form.schema is None:
            chances = self._chances(prompt, prompt, found, form.options)
            if chances is None:  # the form is kept, as a real server does
                some = dict.fromkeys(form.options, 1 / max(1, len(form.options)))
                return Answer(form.options[0] if form.options else UNREAD, some, unread=True)
            return Answer(likeliest(chances), chances)
        whole = Question(without_marks(prompt).lower(), found, ())
        documents = (reader(whole, form.schema) for reader in DOCUMENT_READERS)
        if (document := next((one for one in documents if one is not None), None)) is not None:
            return Answer(json.dumps(document), {})
        unread: list[str] = []
        value = self._value(form.schema, prompt, _rows(prompt), found, unread)
        return Answer(json.dumps(value), {}, unread=bool(unread))

    def _chances(
        self, part: str, prompt: str, found: Sequence[Review], options: tuple[str, ...]
    ) -> Mapping[str, float] | None:
        """Return the probabilities of the answers to one question: a part of a prompt, with marks for the reviews."""
        reviews = self.errors.understood([found[number] for number in marks(part)], prompt)
        question = Question(without_marks(part).lower(), reviews, options)
        answers = (reader(question) for reader in READERS)
        return next((one for one in answers if one is not None), None)

    def _value(
        self, schema: Mapping[str, Any], part: str, rows: Mapping[str, str], found: Sequence[Review], unread: list[str]
    ) -> Any:
        """Return a value that fits a schema; a property with the code of a row is about this row."""
        if "properties" in schema:
            whole = schema.get("$defs", {})
            return {
                name: self._value(_resolved(one, whole), rows.get(name, part), rows, found, unread)
                for name, one in schema["properties"].items()
            }
        options = enumerated(schema)
        chances = self._chances(part, part, found, options or offered(part))
        if chances is None:
            unread.append(part)
            return options[0] if options else UNREAD
        text = likeliest(chances)
        return json.loads(text) if schema.get("type") in {"integer", "number", "boolean"} else text


def said(message: Mapping[str, Any]) -> str:
    """Return the text of a message."""
    content = message["content"]
    return content if isinstance(content, str) else "\n".join(part["text"] for part in content)


def likeliest(chances: Mapping[str, float]) -> str:
    """Return the most probable option; of equal ones the last, as a critic's half star counts up."""
    return max(reversed(list(chances)), key=chances.__getitem__)


def _rows(prompt: str) -> Mapping[str, str]:
    """Return the parts of a prompt with several rows, by code. Each has the words of the whole, and its own row."""
    heads = list(_HEAD.finditer(prompt))
    if not heads:
        return {}
    ends = [*(head.start() for head in heads[1:]), len(prompt)]
    *inner, last = [prompt[head.end() : end] for head, end in zip(heads, ends, strict=True)]
    row, _, tail = last.partition("\n\n")
    common = prompt[: heads[0].start()]
    return {head[1]: f"{common}{one}\n\n{tail}" for head, one in zip(heads, [*inner, row], strict=True)}


def _resolved(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = definitions[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    return found
