"""The options of a filter that joins two tables: the way to find the matching pairs, and the promise about them."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from flightllm.errors import AICallError
from flightllm.functions.base import CONFIDENCE, JOINING, PROXY, TARGETS, Literal
from flightllm.functions.join_wish import PAIRS, JoinWish
from flightllm.quality.targets import USUAL_CONFIDENCE, Targets

USUAL_RATE: Final = 0.9
"""The recall and the precision that a way other than `pairs` promises where the call names no target."""
_NAMES = tuple(option.name for option in JOINING)


def read_join(values: Mapping[str, Literal], given: AbstractSet[str], fields: int) -> JoinWish | None:
    """Return the wishes of a call about its join; None if the call names none.

    `values` has the call's options, `given` the names of those that the call writes, and `fields` their number.

    Raises:
        AICallError: the options contradict one another, or a target is not between 0 and 1.
    """
    strategy, symmetric = values.get("strategy"), values.get("symmetric") is True
    if not isinstance(strategy, str) and not symmetric:
        return None
    name = strategy if isinstance(strategy, str) else PAIRS
    written = ", ".join(f"{one} =>" for one in _NAMES if one in given)
    if fields < 2:
        raise AICallError(
            f"{written} is about a join, so the call needs a field of each table: write ai_filter('…', a.x, b.y)"
        )
    for one, reason in (_unfit(values) | _packing(values, proves=name != PAIRS)).items():
        raise AICallError(f"{one} does not go with {written}: {reason}")
    if name == PAIRS:
        promised = (*TARGETS, CONFIDENCE.name)
        if named := [one for one in promised if values.get(one) not in {None, False}]:
            raise AICallError(
                f"strategy => 'pairs' asks about every pair, so {named[0]} => saves nothing: leave it out, or write"
                " strategy => 'auto'"
            )
        return JoinWish(PAIRS, symmetric)
    return JoinWish(name, symmetric, _targets(values))


def _unfit(values: Mapping[str, Literal]) -> dict[str, str]:
    """Return the options that do not suit a join, each with the reason."""
    found = {}
    if values.get("accuracy") is not None:
        found["accuracy"] = "most pairs do not match, so write recall => and precision =>"
    if values.get(PROXY) is not None:
        found[PROXY] = "the strategy decides which pairs the model is not asked about"
    if values.get("label_budget") is not None:
        found["label_budget"] = "set flightllm.max_calls instead"
    if values.get(CONFIDENCE.name) is True:
        found["confidence => true"] = "a join returns pairs, and no probability of each"
    if values.get("labels") is not None:
        found["labels"] = "a learned filter decides each row without its model"
    if values.get("fresh"):
        found["fresh => true"] = "equal pairs share one answer"
    if values.get("calibrate") == "batch":
        found["calibrate => 'batch'"] = "the strategy decides which pairs are asked"
    if values.get("on_error") in {"struct", "result"}:
        found[f"on_error => '{values['on_error']}'"] = "a join needs true or false, so write 'null' or 'fail'"
    if values.get("temperature"):
        found["temperature"] = "answers at a temperature above 0 are random"
    return found


def _packing(values: Mapping[str, Literal], *, proves: bool) -> dict[str, str]:
    """Return the options about shared requests that do not suit a join, each with the reason."""
    found = {}
    rows, questions = values.get("rows_per_request"), values.get("questions_per_request")
    if proves and _is_number(rows) and rows != 1:
        found[f"rows_per_request => {rows}"] = (
            "the proof asks about each sampled pair by itself, so leave it out; strategy => 'block' puts several values"
            " into one prompt"
        )
    if _is_number(questions) and questions != 1:
        found[f"questions_per_request => {questions}"] = "a join asks one question about each pair, so leave it out"
    return found


def _targets(values: Mapping[str, Literal]) -> Targets:
    rates = {name: values.get(name) for name in ("recall", "precision")}
    for name, value in rates.items():
        if value is not None and not (_is_number(value) and 0 < float(value) < 1):  # type: ignore[arg-type]
            raise AICallError(f"{name} must be above 0 and below 1, not {value}: such as 0.9")
    if rates["recall"] is None and rates["precision"] is not None:
        raise AICallError("a join that promises a precision also needs a recall: also write recall => 0.9")
    level = values.get(CONFIDENCE.name)
    confidence = float(level) if _is_number(level) else USUAL_CONFIDENCE  # type: ignore[arg-type]
    if not 0 < confidence < 1:
        raise AICallError(f"confidence must be above 0 and below 1, not {confidence:g}: such as 0.95")
    recall, precision = (None if value is None else float(value) for value in rates.values())  # type: ignore[arg-type]
    if recall is None:
        recall = precision = USUAL_RATE
    return Targets(recall, precision, None, confidence)


def _is_number(value: Literal) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
