"""The targets of a session's queries: how near their rows come to those of the models themselves, without proxies."""

import re
from collections.abc import Collection
from types import MappingProxyType
from typing import Final

from flightllm.quality.targets import USUAL_CONFIDENCE, Targets

_PART = re.compile(r"\s*(\w+)\s*(?:=|:)?\s*([\d.]+)\s*")
_NAMES: Final = ("recall", "precision", "confidence")
_OF_CALLS: Final = MappingProxyType(
    {"accuracy": "accuracy => 0.95", "label_budget": "label_budget => 100", "proxy": "proxy => 'small'"}
)
"""Options of a promise of one call that the promise of a query does not have, as a call has them."""
_EXAMPLE: Final = "'recall 0.95, precision 0.9, confidence 0.95'"


def read_quality(text: str) -> Targets | None:
    """Return the targets that a text such as `recall 0.95, precision 0.9` names; None for `none`.

    They are a promise about the rows of a query's result, relative to the answers of the models that its calls name. A
    row of the result is right if the models give it too, without proxies. The recall is the share of the models' rows
    that the result has, and the precision the share of right rows in the result. The text of the targets can be read
    again.

    Raises:
        ValueError: the text is not of this form; the error has a text that is.
    """
    if text.lower() == "none":
        return None
    found: dict[str, float] = {}
    for part in text.split(","):
        match = _PART.fullmatch(part)
        name = match[1].lower() if match else ""
        if match is None or name not in _NAMES or name in found:
            raise ValueError(f"'none' or targets such as {_EXAMPLE}{_refused(part.strip(), found)}")
        found[name] = _number(name, match[2])
    if found.keys() <= {"confidence"}:
        raise ValueError(f"a recall, a precision, or both, such as {_EXAMPLE}")
    return Targets(found.get("recall"), found.get("precision"), confidence=found.get("confidence", USUAL_CONFIDENCE))


def _refused(part: str, found: Collection[str]) -> str:
    """Return what is wrong with a part of the text, and what to write in its place."""
    word = next(iter(re.findall(r"\w+", part)), "").lower()
    if word in found:
        return f"; {word} is there twice: write it once"
    if word in _NAMES:
        return f"; {part!r} lacks its number: write {word} and a number, such as {word} 0.95"
    if word in _OF_CALLS:
        return f"; {word} is an option of one call: write {_OF_CALLS[word]} in the call"
    return f"; {part!r} is unknown: a query has recall, precision and confidence" if part else ""


def _number(name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < 1:
        raise ValueError(f"{name} as a number above 0 and below 1, such as in {_EXAMPLE}")
    return number
