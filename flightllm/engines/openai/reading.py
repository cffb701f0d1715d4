"""Find the answer in an unconstrained text of a model: an option, JSON, or a text that matches a pattern.

An unclear answer is not guessed: a text that names several options, or has several JSON values, has no answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from flightllm.common.written_float import WrittenFloat
from flightllm.engines.openai.coerced import coerced
from flightllm.engines.openai.marks import LEAD, folded, normalised, uncited, unmarked
from flightllm.engines.openai.strict import KEY, without_nulls
from flightllm.engines.openai.truth import NEGATIONS, WORDS, is_question, truth
from flightllm.llm.engine import Choice, Constraint, JsonSchema, Regex

_FENCE = re.compile(r"```[\w-]*[ \t]*\n(.*?)```", re.DOTALL)
_STARS = (
    r"(?:-?stars?|sternen?|étoiles?|estrellas?|estrelas?|stell[ae]|sterren|gwiazd\w*|зв[её]зд\w*|つ?星|颗星|顆星|별)"
)
_POINTS = r"(?:points?|punkten?|puntos?|pontos?|punt[oi]|punten|балл\w*|点|點|分|점)"
_RATIO = re.compile(
    r"(?P<part>[0-9]+(?:[.,][0-9]+)?)\s*\(?(?:/|out of|of|von|sur|de|su|из|van|av)\s*"
    rf"(?P<whole>[0-9]+(?:[.,][0-9]+)?)\)?\s*(?:{_STARS}|{_POINTS})?",
    re.IGNORECASE,
)
_COUNTED = re.compile(
    rf"(?P<number>[0-9]+(?:[.,][0-9]+)?)\s*(?:(?P<stars>{_STARS})|{_POINTS}|(?P<percent>%))", re.IGNORECASE
)
"""A number with what it counts."""
_OF_STARS = 5
"""Stars without a number of all stars are clear only on this scale."""
_FEWEST_OF_SCALE = 5
"""Fewer numbers are labels rather than a scale."""
_BOXED = re.compile(r"\\boxed\{\s*(?:\\(?:text|textbf|mathrm)\{)?([^{}]*)\}")
_MARKER = re.compile(r"(?:[-*•–+]|[0-9]{1,2}[.)])\s+(?=\S)")
"""The mark of an item in a list."""
_GREETING = re.compile(r"(?:sure|of course|certainly|okay|ok|understood)\b[^.!:\n]*[.!:]\s+", re.IGNORECASE)
_NEGATION = re.compile(rf"\W*(?:{NEGATIONS}|no|nope|false|wrong|nein|нет|不|否|ない)(?!\w)", re.IGNORECASE)
_COMMA = re.compile(r"(?<![0-9.,])([0-9]+),([0-9]{1,2})(?![0-9.,])")
"""A number with a decimal comma; three digits after a comma can be thousands."""
_SPACELESS = r"\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
"""Characters of scripts that do not put spaces around each word: there, a word has no boundary."""
_BEFORE, _AFTER = rf"(?<![^\W{_SPACELESS}])", rf"(?![^\W{_SPACELESS}])"
_TRAILING = re.compile(r'("(?:[^"\\]|\\.)*+")|,(?=\s*[}\]])', re.DOTALL)
"""A text of JSON, or a comma after the last item."""
_JSON = re.compile(r'[{\[]\s*["{\[]')
_DECODER = json.JSONDecoder(parse_float=WrittenFloat, strict=False)
"""The decoder also takes raw line breaks in texts."""
_MOST_TRIES = 32
_MOST_CHARS = 100_000


def read_constrained(text: str, constraint: Constraint, *, wrapped: bool) -> str | None:
    """Return the answer in a text, in the format of the constraint; None if there is no answer, or an unclear one.

    With `wrapped`, the model was asked for a JSON object that contains the answer.
    """
    match constraint:
        case Choice(options):
            return _choice(text, options)
        case JsonSchema(schema):
            return _json(text, read_schema(schema), wrapped=wrapped)
        case Regex(pattern):
            found = (one for bare in _bare(text) for one in (bare, _COMMA.sub(r"\1.\2", bare)))
            return next((one for one in found if fits(pattern, one)), None)
        case None:
            return text


@lru_cache(maxsize=256)
def read_schema(schema: str) -> Any:
    """Return a parsed schema; cached, because all answers of a call share it. The caller must not change the result."""
    return json.loads(schema)


def whole_option(text: str, options: Sequence[str]) -> str | None:
    """Return the option that a whole text is, apart from its lead, its marks and JSON around it."""
    stripped = text.strip()
    if stripped in options:
        return stripped
    found = (_option(bare, options) for one in _without_citations(text, options) for bare in _bare(one))
    if (option := next((one for one in found if one is not None), None)) is not None:
        return option
    if any(_number(option) is not None for option in options):
        return None  # a mark of a list or a hyphen can be a part of a number
    bare = _MARKER.sub("", stripped, count=1) if _MARKER.match(stripped) and "\n" not in stripped else stripped
    return _option(bare, options) if bare != stripped else _spaceless(stripped, options)


def _spaceless(text: str, options: Sequence[str]) -> str | None:
    """Return the only option that is equal without spaces, hyphens and underscores: `not spam` for `not_spam`."""
    said = _joined(text)
    same = [option for option in options if _joined(option) == said]
    return same[0] if len(same) == 1 and not re.search(r"[0-9]", said) else None


def _joined(text: str) -> str:
    return re.sub(r"[\s_-]+", "", folded(text))


def _choice(text: str, options: Sequence[str]) -> str | None:
    if (found := whole_option(text, options)) is not None:
        return found
    bare = _without_citations(text, options)[-1]
    return _first_words(bare, options) or _last_words(bare, options) or _between(bare, options)


def _between(text: str, options: Sequence[str]) -> str | None:
    """Return the number that a text gives between two numbers of a scale, such as `8.5` from 0 to 10.

    The function that asked decides whether it takes the number: a rating does, and a label does not.
    """
    scale = sorted(number for option in options if (number := _number(option)) is not None)
    if len(scale) < max(_FEWEST_OF_SCALE, len(options)):
        return None
    step = (scale[-1] - scale[0]) / (len(scale) - 1)
    if any(abs(one - scale[0] - place * step) > step / 100 for place, one in enumerate(scale)):
        return None
    found = {number for bare in _bare(text) if (number := _score(bare, options)) is not None}
    return f"{found.pop():.10g}" if len(found) == 1 and scale[0] < min(found) < scale[-1] else None


def _without_citations(text: str, options: Sequence[str]) -> list[str]:
    """Return a text, and the text without citations unless an option has some."""
    cited = any(uncited(option) != option for option in options)
    return [text] if cited else list(dict.fromkeys([text, uncited(text)]))


def _bare(text: str) -> Iterator[str]:
    """Yield candidates for the answer in a text: the text, the value of its JSON, the text without lead and marks."""
    stripped = text.strip()
    yield stripped
    if boxed := set(map(str.strip, _BOXED.findall(stripped))):
        yield from boxed if len(boxed) == 1 else ()
        return
    values = [value for value in _values(text) if stripped.startswith("[") or not _is_citation(value)]
    if values:
        yield from _named(values[0]) if len(values) == 1 else ()
        return
    plain = unmarked(stripped)
    yield plain
    lines = [unmarked(line) for line in stripped.splitlines() if unmarked(line)]
    for line in dict.fromkeys([plain, *lines[-1:]]):
        cleaned = normalised(line.replace("**", "").replace("__", ""))
        lead = LEAD.match(cleaned)
        if lead is not None:
            yield unmarked(cleaned[lead.end() :])


def _is_citation(value: Any) -> bool:
    """Return whether a JSON value inside prose, such as [1], can be a reference to a source."""
    return isinstance(value, list) and all(type(one) is int for one in value)


def _named(value: Any) -> Iterator[str]:
    """Yield the text of a JSON value: of the value itself, of its key `answer`, or of its only key."""
    if isinstance(value, dict):
        value = value.get(KEY, next(iter(value.values())) if len(value) == 1 else None)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    match value:
        case bool():
            yield "true" if value else "false"
        case str():
            yield value.strip()
        case int():
            yield str(value)
        case float():
            yield f"{value:g}"


def _option(text: str, options: Sequence[str]) -> str | None:
    """Return the option equal to a text, except for case, forms of characters, surrounding marks and numbers' format.

    Words for yes and no in other languages, as well as True and False, also stand for Yes and No.
    """
    if text in options:
        return text
    said = folded(text)
    found = [option for option in options if folded(option) == said]
    if found:
        return found[0] if len(found) == 1 else None
    if (answer := truth(text, options)) is not None:
        return answer
    number = _score(text, options)
    same = [option for option in options if number is not None and _number(option) == number]
    return same[0] if len(same) == 1 else None


def _score(text: str, options: Sequence[str]) -> float | None:
    """Return the number in a text, or None: of 8, of 8,5, of 8 points, and of 8/10 on a scale from 0 or up to 10.

    A number of stars counts on a scale up to 5, and 80 % on a scale from 0.
    """
    plain = unmarked(normalised(text.replace("**", "")))
    numbers = [number for option in options if (number := _number(option)) is not None]
    if len(numbers) < len(options):
        return _number(plain)
    ratio, counted = _RATIO.fullmatch(plain), _COUNTED.fullmatch(plain)
    if ratio is None and counted is None:
        return _number(_COMMA.sub(r"\1.\2", plain))
    if ratio is not None:
        part, whole = (_decimal(one) for one in ratio.group("part", "whole"))
    elif counted is not None:
        part, whole = _decimal(counted["number"]), 100.0
        if not counted["percent"]:
            return None if counted["stars"] and max(numbers) != _OF_STARS else part
    if whole == max(numbers):
        return part
    return round(max(numbers) * part / whole, 9) if min(numbers) == 0 and 0 <= part <= whole > 0 else None


def _decimal(text: str) -> float:
    return float(text.replace(",", "."))


def _first_words(text: str, options: Sequence[str]) -> str | None:
    """Return the option that is a text's first sentence, if the rest names no other option."""
    if len(text) > _MOST_CHARS:
        return None
    said = unmarked(normalised(text), ends=False).casefold()
    named = _named_options(said, options)
    if len(named) != 1:
        return None
    word = re.escape(normalised(named[0]).casefold())
    decimal = r"(?![.,][0-9])" if named[0][-1:].isdigit() else ""  # `2.5` does not say 2
    begun = re.match(word + decimal + r"[*_\"'`)\]}»」』】》]*\s*(?:[.,:;!。、،؛।\n-]|$)", said)
    if begun is None:
        return None
    if folded(named[0]) in WORDS:  # `No, it is Danish` names no code of a language
        return named[0] if is_question(options) or begun.end() == len(said) else None
    return None if _NEGATION.match(said, begun.end()) else named[0]  # such as `spam - no`


def _last_words(text: str, options: Sequence[str]) -> str | None:
    """Return the option after a greeting, or after a lead in the last sentence, if the text names no other option."""
    if len(text) > _MOST_CHARS or len(_named_options(normalised(text).casefold(), options)) > 1:
        return None
    plain = _GREETING.sub("", text.strip(), count=1) if _GREETING.match(text.strip()) else text.strip()
    last = re.split(r"(?<=[.!?。！？])\s*(?=\S)", plain.rstrip(".!。！ "))[-1]
    cleaned = normalised(last.replace("**", ""))
    lead = LEAD.match(cleaned)
    return whole_option(cleaned[lead.end() :] if lead else plain if plain != text.strip() else "", options)


def _named_options(text: str, options: Sequence[str]) -> list[str]:
    """Return the options that occur as words; of an option inside a longer option, only the longer one.

    `text` is normalised and case-folded.
    """
    words: dict[str, list[str]] = {}
    for option in options:
        words.setdefault(normalised(option).casefold(), []).append(option)
    left, found = text, []
    for word in sorted(filter(None, words), key=len, reverse=True):
        before, after = _BEFORE if re.match(r"\w", word) else "", _AFTER if re.search(r"\w$", word) else ""
        pattern = re.compile(before + re.escape(word) + after)
        if pattern.search(left):
            found += words[word]
            left = pattern.sub("\0", left)
    return found


def _json(text: str, schema: Any, *, wrapped: bool) -> str | None:
    values = list(_values(text))
    if len(values) != 1:
        return None
    value = values[0]
    if wrapped and isinstance(value, dict) and set(value) == {KEY}:
        value = value[KEY]
    cleaned = coerced(without_nulls(value, schema), schema)
    if not wrapped and text.strip()[:1] in {"{", "["} and _is_json(text, cleaned):
        return text
    return json.dumps(cleaned, ensure_ascii=False)


def _values(text: str) -> list[Any]:
    """Return the JSON values in a text: the whole text, else those in code fences, else its objects and lists."""
    stripped = text.strip()
    if found := _loaded(stripped):
        return found
    fenced = [value for block in _FENCE.findall(stripped[:_MOST_CHARS]) for value in _loaded(block.strip())]
    return fenced or list(_within(stripped))


def _within(text: str) -> Iterator[Any]:
    place = 0
    for _ in range(_MOST_TRIES):
        begun = re.compile(r"[{\[]").search(text, place)
        if begun is None:
            return
        try:
            value, place = _DECODER.raw_decode(text, begun.start())
        except (ValueError, RecursionError):
            repaired = _without_commas(text[begun.start() :])
            if len(repaired) < len(text) - begun.start():
                text, place = repaired, 0
            elif _JSON.match(text, begun.start()):
                return  # broken JSON: a part of it is not the answer
            else:
                place = begun.end()
        else:
            yield value


def _loaded(text: str) -> list[Any]:
    for one in dict.fromkeys((text, _without_commas(text))):
        try:
            return [_DECODER.decode(one)]
        except (ValueError, RecursionError):
            continue
    return []


def _without_commas(text: str) -> str:
    """Return a text of JSON without the commas after last items."""
    return _TRAILING.sub(lambda found: found[1] or "", text[:_MOST_CHARS])


def _is_json(text: str, value: Any) -> bool:
    """Return whether a text is strict JSON of exactly this value."""
    try:
        return bool(json.loads(text) == value)
    except (ValueError, RecursionError):
        return False


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def fits(pattern: str, text: str) -> bool:
    """Return whether a text matches a pattern, by RE2, whose time is linear in the text's length."""
    try:
        return bool(pc.match_substring_regex(pa.scalar(text, pa.string()), pattern=f"^(?:{pattern})$").as_py())
    except pa.ArrowInvalid:
        return True  # only the engine supports this pattern
