"""Read yes and no in the languages of the world, for a question with the options Yes and No."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from flightllm.engines.openai.marks import folded, unmarked

_YES = (
    "yes y true 1 yeah yep ja jawohl oui si sí sì sim da да так tak ano áno kyllä igen evet ya iya có đúng ναι"
    " wahr vrai verdadero vero verdadeiro はい 是 是的 对 對 对的 對的 真 예 네 हाँ हां نعم بله כן ใช่ হ্যাঁ ஆம்"
)
_NO = (
    "no n false 0 nope nein non não nao nee nej nei нет ні nie ne ei nem hayır hayir tidak bukan không sai όχι nu"
    " falsch faux falso いいえ 否 不 不是 不对 不對 假 아니요 아니오 नहीं لا خیر לא ไม่ ไม่ใช่ না இல்லை"
)
WORDS: Mapping[str, bool] = MappingProxyType(
    {folded(word): True for word in _YES.split()} | {folded(word): False for word in _NO.split()}
)
"""Whether a folded word says yes."""
_UNCLEAR_FIRST = (
    "nu ei sai da ano áno tak ja si sì sí ya iya y n 1 0 ne nie sim na true false wahr falsch vrai faux"
    " vero falso verdadero verdadeiro 真 假 对 對 对的 對的 不 不是 예 네 はい ไม่ না"
)
_AMBIGUOUS = frozenset(map(folded, _UNCLEAR_FIRST.split()))
"""Words that mean something else before other text: in another language, as a filler or as a concession."""
NEGATIONS = r"not|never|nicht|kein\w*|nie|pas|jamais|nunca|não|non|niet|geen|ikke|inte|не|tidak|bukan|değil|không|نہیں"
"""A pattern of the words that negate, in scripts with spaces around each word."""
_NEGATION = re.compile(
    rf"\b(?:{NEGATIONS})\b"
    r"|n't\b|[不没沒未非无無别]|ない|ません|않|없|아니|아닙|नहीं|ليس|لا |לא "
)
_DOUBT = re.compile(
    r"\b(?:but|however|although|unsure|unclear|know|aber|jedoch|weiss|weiß|unklar|mais|cependant|sais|pero|sé|mas|ma"
    r"|men|maar|но|однако|знаю|ale|tapi|ama|fakat)\b|但|不过|不過|可是|然而|不确定|不確定|不知道|しかし|ただし|けど|でも|わから|지만|그러나|모르"
)
_FIRST = re.compile(r"(?P<word>[^\s.,:;!。、，；！।]+)[.,:;!。、，；！।]\s*(?P<rest>.*)", re.DOTALL)
_SPACELESS = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]{2,}")
_PAIRS = ({"yes", "no"}, {"true", "false"})
_NEITHER = frozenset({"n/a", "na", "unknown", "unsure", "unclear"})


def truth(text: str, options: Sequence[str]) -> str | None:
    """Return the option that a text says in another word; None unless the options are Yes and No, or True and False.

    A third option can say that neither holds. The text is such a word, or begins with a clear one whose sentence ends
    there. After it, no word can say the other meaning, a negation or a doubt.
    """
    known = {folded(option): option for option in options}
    if len(known) < len(options) or known.keys() - _NEITHER not in _PAIRS or len(known) > 3:
        return None
    answers = {WORDS[key]: option for key, option in known.items() if key in WORDS}
    if (found := WORDS.get(folded(text))) is not None:
        return answers[found]
    begun = _FIRST.match(unmarked(text, ends=False))
    word = folded(begun["word"]) if begun is not None else ""
    said = WORDS.get(word) if word not in _AMBIGUOUS else None
    if begun is None or said is None or _says(begun["rest"], meaning=not said):
        return None
    rest = begun["rest"].casefold()
    others = {key for key in known if key not in WORDS and key in rest}
    return None if others or _DOUBT.search(rest) or (said and _NEGATION.search(rest)) else answers[said]


def is_question(options: Sequence[str]) -> bool:
    """Return whether the options are words for yes and no, not labels or codes such as `da` and `no` that look so."""
    said = {folded(option) for option in options} - _NEITHER
    pair = [WORDS.get(word) for word in said]
    clear = said in _PAIRS or any(len(word) > 2 or not word.isascii() for word in said)
    return len(options) <= 3 and len(pair) == 2 and set(pair) == {True, False} and clear


def _says(text: str, *, meaning: bool) -> bool:
    """Return whether a text has a word of a meaning, also inside a word of a script without spaces."""
    words = {folded(word) for word in re.split(r"[\s,.;:!?()，。、；！]+", text)}
    against = {word for word, says in WORDS.items() if says is meaning and _is_word(word)}
    return bool(words & against) or any(_SPACELESS.fullmatch(word) and word in text for word in against)


def _is_word(text: str) -> bool:
    """Return whether a text is more than a digit or a letter."""
    return len(text) > 1 or not text.isascii()
