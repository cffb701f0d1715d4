"""Read texts of models alike in every script: quotes, brackets, stops, leads such as `Answer:`, and citations."""

from __future__ import annotations

import re
from functools import lru_cache
from types import MappingProxyType
from unicodedata import category, normalize

LEAD = re.compile(
    r"(?:(?:the|my|final|best|correct|so|here is|here's) )*(?:answer|label|category|class|classification|choice|option"
    r"|result|score|rating|sentiment|value|number|verdict)(?: is)?\s*[:=]?\s*"
    r"|(?:(?:die|meine|finale|endgültige|la|le|ma|mi|il|a|o|het|het definitieve|мой|最终|最終的な|最終) ?)*"
    r"(?:antwort|ergebnis|kategorie|bewertung|réponse(?: finale)?|résultat|catégorie|note|respuesta(?: final)?"
    r"|resultado|categoría|puntuación|resposta(?: final)?|categoria|risposta(?: finale)?|risultato|punteggio|antwoord"
    r"|svar|odpowiedź|cevap|jawaban|ответ|результат|категория|оценка|відповідь|答案|回答|答え|答|结果|結果|标签|類別|类别|分类|分類"
    r"|情感|评分|得分|分数|スコア|評価|ラベル|カテゴリ|カテゴリー|정답|답변|답|결과|점수|الجواب|الإجابة|उत्तर)"
    r"(?: ist| est| es| é| è|是|は)?\s*(?:[:=]|(?<=是)|(?<=は)|(?<= ist)|(?<= est)|(?<= es)|(?<= é)|(?<= è))\s*",
    re.IGNORECASE,
)
"""Leads before an answer, in normalised text."""
_CITATION = re.compile(r"(?<=\S)[ \t]*(?:\[[0-9]{1,3}(?:\s*[,-]\s*[0-9]{1,3})*\]|【[^】]{1,40}】)")
_STOPS = frozenset(".!,;:\"'`*_。、،؛۔।॥")
_ENCLOSING = frozenset({"Pi", "Pf", "Ps", "Pe"})
_ALIKE = MappingProxyType(
    {ord(one): "'" for one in "‘’‚‛ʼ′´"}
    | {ord(one): '"' for one in "“”„‟″"}
    | {ord(one): "-" for one in "\u2010\u2011\u2012\u2013\u2014\u2212"}
)
"""Quotes and dashes that people write for each other."""


def normalised(text: str) -> str:
    """Return a text with one form of each character: NFKC, straight quotes, and one hyphen for all dashes."""
    return normalize("NFKC", text.translate(_ALIKE))


def folded(text: str) -> str:
    """Return a text without differences in case, forms of characters, surrounding marks and white space."""
    return " ".join(normalize("NFKC", unmarked(normalised(text)).casefold()).split())


def unmarked(text: str, *, ends: bool = True) -> str:
    """Return a text without white space, quotes, brackets and full stops around it; with `ends` false, before it."""
    first, last = 0, len(text)
    while first < last and _is_mark(text[first]):
        first += 1
    while ends and last > first and _is_mark(text[last - 1]):
        last -= 1
    return text[first:last]


def uncited(text: str) -> str:
    """Return a text without references to sources, such as `[1]` after a word."""
    return _CITATION.sub("", text)


@lru_cache(maxsize=4_096)
def _is_mark(character: str) -> bool:
    plain = normalised(character)
    return character.isspace() or plain in _STOPS or category(character) in _ENCLOSING
