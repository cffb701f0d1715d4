"""The options of a call that make a promise: targets, a probability, and the proxy."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final, Protocol

from flightllm.errors import AICallError
from flightllm.functions.base import CONFIDENCE, PROXY, TARGETS, Answer, Literal
from flightllm.functions.promise import Promise
from flightllm.llm.engine import Choice
from flightllm.quality.targets import USUAL_CONFIDENCE

LABEL_BUDGET: Final = "label_budget"
EXACT: Final = "none"
"""The value of `proxy` with which the model itself decides each row."""


class Proxies(Protocol):
    """Finds the proxies of a model."""

    def proxies(self, name: str | None, model: str | None) -> tuple[str, ...]:
        """Return the bindings of the proxy `name`, or of all proxies of `model` if the name is 'auto' or None.

        Raises:
            AICallError: there is no such proxy, or the model has no proxy.
            PermissionDeniedError: the user must not use the proxy.
        """


def read_promise(
    asked: Answer,
    values: Mapping[str, Literal],
    fields: int,
    model: str | None,
    names: Proxies,
    given: AbstractSet[str],
) -> Promise | None:
    """Return the promise of a call's options, or nothing if they name no target or the proxy 'none'.

    `values` has the call's options, `fields` the number of its fields, and `model` the name of its model in SQL.
    `given` has the names of the options that the call writes. With a target of NULL, the model decides each row.

    Raises:
        AICallError: a target is not between 0 and 1, or no proxy can answer such a call.
        PermissionDeniedError: the user must not use a proxy.
    """
    targets = {name: _share(name, values.get(name)) for name in TARGETS}
    confidence = values.get(CONFIDENCE.name)
    is_level = isinstance(confidence, int | float) and not isinstance(confidence, bool)
    proxy = values.get(PROXY)
    if isinstance(proxy, str):
        _check_proxy(proxy)
        if proxy.strip().lower() == EXACT:
            return None
    named = [name for name in (*TARGETS, PROXY, LABEL_BUDGET) if values.get(name) is not None]
    if all(value is None for value in targets.values()):
        if (is_level or named) and given.isdisjoint(TARGETS):  # preparing a statement binds NULL to each parameter
            first = "confidence as a number" if is_level else named[0]
            raise AICallError(f"{first} belongs to a promise: also write recall =>, precision => or accuracy =>")
        return None
    if confidence is True:
        raise AICallError(
            "confidence => true gives the certainty of each answer, and a promise needs a number, such as"
            " confidence => 0.95: leave out confidence => true, or the targets"
        )
    if reason := _unfit(asked, values, fields):
        raise AICallError(f"{_listed(targets)} cannot be promised because {reason}")
    budget = values.get(LABEL_BUDGET)
    return Promise(
        targets["recall"],
        targets["precision"],
        targets["accuracy"],
        _share(CONFIDENCE.name, confidence if is_level else None) or USUAL_CONFIDENCE,
        budget if isinstance(budget, int) else None,
        names.proxies(proxy if isinstance(proxy, str) else None, model),
        named=isinstance(proxy, str) and proxy.strip().lower() != "auto",
    )


def _check_proxy(text: str) -> None:
    names = [name.strip().lower() for name in text.split(",")]
    if not all(names):
        raise AICallError(f"proxy must name a model, 'embedding', 'auto' or 'none', not {text!r}")
    alone = [name for name in names if name in {"auto", EXACT}]
    if alone and len(names) > 1:
        meaning = "all proxies of the model" if alone[0] == "auto" else "no proxy"
        raise AICallError(f"{alone[0]!r} means {meaning}, so write no other name with it, not {text!r}")


def _share(name: str, value: Literal) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    if not 0 < value < 1:
        instead = f"leave {name} out to ask about every row" if value == 1 else "such as 0.95"
        raise AICallError(f"{name} must be above 0 and below 1, not {value:g}: {instead}")
    return float(value)


def _unfit(asked: Answer, values: Mapping[str, Literal], fields: int) -> str:
    if not isinstance(asked.constraint, Choice):
        return "the answer is not one of a few options"
    if not fields:
        return "the call has no fields"
    if values.get("temperature"):
        return "at a temperature above 0 the answers are random"
    return "fresh => true gives equal rows different answers" if values.get("fresh") else ""


def _listed(targets: Mapping[str, float | None]) -> str:
    return " and ".join(name for name, value in targets.items() if value is not None)
