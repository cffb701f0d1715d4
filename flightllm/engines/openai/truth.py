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
_FIRST = re.compile(r"(?P<word>[^\s.,:;!。、，；！।]+)[.,:;!。、，；！।]\s*(?P<rest>.*)", re.DOTALL)
_SPACELESS = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]{2,}")


def truth(text: str, options: Sequence[str]) -> str | None:
    """Return the option that a text says in another word; None unless one option says yes, and one says no.

    The text is such a word, or begins with one whose sentence ends there, and has no word of the other meaning.
    """
    known = {folded(option): option for option in options}
    yes, no = (
        [known[key] for key in known if WORDS.get(key) is says and key not in {"0", "1"}] for says in (True, False)
    )
    if len(known) < len(options) or len(yes) != 1 or len(no) != 1 or {"0", "1"} & known.keys():
        return None
    answers = {True: yes[0], False: no[0]}
    if (found := WORDS.get(folded(text))) is not None:
        return answers[found]
    begun = _FIRST.match(unmarked(text, ends=False))
    said = WORDS.get(folded(begun["word"])) if begun is not None and _is_word(folded(begun["word"])) else None
    if begun is None or said is None or _says(begun["rest"], not said):
        return None
    others = {key for key in known if key not in WORDS and key in begun["rest"].casefold()}
    return None if others else answers[said]


def _says(text: str, meaning: bool) -> bool:  # noqa: FBT001 - the only meaning of this argument
    """Return whether a text has a word of a meaning, also inside a word of a script without spaces."""
    words = {folded(word) for word in re.split(r"[\s,.;:!?()，。、；！]+", text)}
    against = {word for word, says in WORDS.items() if says is meaning and _is_word(word)}
    return bool(words & against) or any(_SPACELESS.fullmatch(word) and word in text for word in against)


def _is_word(text: str) -> bool:
    """Return whether a text is more than a digit or a letter."""
    return len(text) > 1 or not text.isascii()
