"""ai_translate: a text in another language."""

import re

from flightllm.functions import AIFunction, Answer, Arguments, Kind, Parameter, Room, Usual, text_answer

_LANGUAGES = (
    "af Afrikaans, am Amharic, ar Arabic, bg Bulgarian, bn Bengali, ca Catalan, cs Czech, "
    "cy Welsh, da Danish, de German, el Greek, en English, es Spanish, et Estonian, eu Basque, "
    "fa Persian, fi Finnish, fr French, ga Irish, gl Galician, gu Gujarati, he Hebrew, hi Hindi, "
    "hr Croatian, hu Hungarian, hy Armenian, id Indonesian, is Icelandic, it Italian, "
    "ja Japanese, ka Georgian, kk Kazakh, km Khmer, kn Kannada, ko Korean, lt Lithuanian, "
    "lv Latvian, mk Macedonian, ml Malayalam, mr Marathi, ms Malay, nb Norwegian, ne Nepali, "
    "nl Dutch, nn Nynorsk, no Norwegian, pa Punjabi, pl Polish, pt Portuguese, ro Romanian, "
    "ru Russian, sk Slovak, sl Slovenian, sq Albanian, sr Serbian, sv Swedish, sw Swahili, "
    "ta Tamil, te Telugu, th Thai, tl Tagalog, tr Turkish, uk Ukrainian, ur Urdu, vi Vietnamese, "
    "zh Chinese"
)
_NAMES = {code: name for code, _, name in (one.partition(" ") for one in _LANGUAGES.split(", "))}
"""The languages of codes of ISO 639-1: a small model reads a bare `no` or `it` as a word."""
_CODE = re.compile(r"\s*([a-z]{2})(?:[-_]([A-Za-z]{4}|[A-Za-z]{2}|XX))?\s*", re.IGNORECASE)


def language(text: str) -> str:
    """Return the name of the language of a code: `no` is Norwegian, and `pt-BR` is Portuguese (BR).

    A name stays as it is, and so does a code without a name.
    """
    found = _CODE.fullmatch(text)
    name = _NAMES.get(found[1].lower()) if found else None
    if found is None or name is None:
        return text
    region = found[2]
    return name if region is None or region.upper() == "XX" else f"{name} ({region})"


def build(call: Arguments) -> Answer:
    """Ask for only the translation; the language can be a code such as 'fr'."""
    name = language(call.text("lang"))
    instruction = f"Translate what follows into this language: {name}. Answer with the translation alone."
    answer = text_answer(instruction, max_tokens=512, room=Room(64, per_byte=2.0), usual=Usual(2, per_byte=0.3))
    question = f"Translate the text into this language: {name}."
    return answer.in_parts(question, reply="Reply with the translation alone.")


FUNCTION = AIFunction(
    name="ai_translate",
    summary="Translate a text into a language, given by name or code.",
    returns="text",
    parameters=(Parameter("text", Kind.FIELD), Parameter("lang", Kind.TEXT)),
    build=build,
)
