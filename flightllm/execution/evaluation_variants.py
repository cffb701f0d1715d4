"""The variants of a call that an evaluation compares, and the options of `ai_evaluate` that make them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Final

from flightllm.config.session_settings import Settings
from flightllm.errors import AICallError, LimitExceededError
from flightllm.evaluation.columns import PARTS
from flightllm.functions.base import Literal
from flightllm.sql.evaluations import Evaluation, with_options
from flightllm.sql.literals import text_literal

_LAYOUTS: Final = ("instruction", "fields")
_MOST_VARIANTS: Final = 64
_MOST_EXAMPLES: Final = 64
_ANSWERS: Final = ("answer", "output", "label")
"""The names that the answer of an example can have; a field of the call can have the others."""


def _texts(*words: str) -> Callable[[Literal], bool]:
    return lambda value: isinstance(value, str) and (value in words or (not words and bool(value.strip())))


def _is_number_of_examples(value: Literal) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_EXAMPLES


@dataclass(frozen=True, slots=True)
class Varied:
    """An option of `ai_evaluate` whose values make variants."""

    name: str
    column: str
    """The column of the result with its value."""
    fits: Callable[[Literal], bool]
    expected: str
    """The valid values, for errors."""
    options: Callable[[Any], Mapping[str, str | None]] = lambda _: {}
    """Returns options of the call, as SQL; None takes an option away."""


VARIED: Final = (
    Varied(
        "models",
        "model",
        _texts(),
        "names of models, or 'default'",
        lambda name: {"model": None if name == "default" else text_literal(name)},
    ),
    Varied("layouts", "layout", _texts(*_LAYOUTS), " and ".join(map(repr, _LAYOUTS))),
    Varied("examples", "examples", _is_number_of_examples, f"whole numbers from 0 to {_MOST_EXAMPLES}"),
    Varied(
        "calibrate",
        "calibrate",
        _texts("examples", "batch", "off"),
        "'examples', 'batch' and 'off'",
        lambda how: {"calibrate": text_literal(how)},
    ),
    Varied(
        "proxies",
        "proxy",
        _texts(),
        "names of proxies, or 'none'",
        lambda name: {"proxy": None if name == "none" else text_literal(name)},
    ),
)
"""The options that make variants. A further one is a line here, if it only sets options of the call."""
_PROMISES: Final = ("recall", "precision", "accuracy", "confidence", "label_budget")
"""Options that pass to the call of each variant with a proxy."""
_OTHERS: Final = (*_PROMISES, "metric", "part")


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to make a call: the values of `VARIED` that it has, by column."""

    values: Mapping[str, Any]
    call: str

    @property
    def examples(self) -> int | None:
        """Return the number of examples to draw, or None if the call keeps its own."""
        return self.values.get("examples")

    def settings(self, settings: Settings) -> Settings:
        """Return the settings under which the call runs."""
        layout = self.values.get("layout")
        return settings if layout is None else replace(settings, layout=layout)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The checked options of an evaluation."""

    lists: Mapping[str, Sequence[Any]]
    """The values of each option of `VARIED` that is given, by column."""
    promises: Mapping[str, str]
    metric: str | None
    part: str
    where: str = field(compare=False)

    @classmethod
    def of(cls, found: Evaluation) -> "Wanted":
        """Check the options of an evaluation.

        Raises:
            AICallError: an option is unknown, has a value that is not valid, or needs `proxies`.
        """
        known = {one.name: one for one in VARIED}
        lists, rest = dict[str, Sequence[Any]](), dict[str, Literal]()
        for name, value in found.options.items():
            if name in known:
                lists[known[name].column] = _listed(known[name], value, found.where)
            elif name in _OTHERS:
                rest[name] = value
            else:
                names = ", ".join([*known, *_OTHERS])
                raise AICallError(f"{found.where}: there is no option {name!r}; it takes {names}")
        part, metric = rest.get("part", PARTS[0]), rest.get("metric")
        if part not in PARTS:
            raise AICallError(f"{found.where}: part is one of {', '.join(map(repr, PARTS))}, not {part!r}")
        if metric is not None and not isinstance(metric, str):
            raise AICallError(f"{found.where}: metric is a name, such as 'f1', not {metric!r}")
        promises = dict[str, str]()
        for name in _PROMISES:
            if name in rest:
                promises[name] = str(rest[name])
        if promises and "proxy" not in lists:
            raise AICallError(
                f"{found.where}: {next(iter(promises))} is for variants with a proxy: also write proxies => ['none', …]"
            )
        ordered = {one.column: lists[one.column] for one in VARIED if one.column in lists}
        return cls(ordered, promises, metric, str(part), found.where)

    def variants(self, call: str) -> list[Variant]:
        """Return the variants of a call: those of the first model first. Two that ask the same count once.

        Of several proxies, a model gets those that are not the model itself.

        Raises:
            AICallError: each model would be its own proxy.
            LimitExceededError: there are too many.
        """
        found = dict[tuple[str, Any, Any], Variant]()
        for values in product(*self.lists.values()):
            given = dict(zip(self.lists, values, strict=True))
            if len(self.lists.get("proxy", ())) > 1 and _is_own_proxy(given):
                continue
            options: dict[str, str | None] = {}
            for one in VARIED:
                if one.column in given:
                    options |= one.options(given[one.column])
            if options.get("proxy") is not None:
                options |= self.promises
            if given.get("examples") == 0:
                options["examples"] = None
                if options.get("calibrate") == "'examples'":  # nothing to calibrate by
                    options["calibrate"] = "'off'"
            variant = Variant(given, with_options(call, options))
            found.setdefault((variant.call, given.get("layout"), given.get("examples")), variant)
        if not found:
            raise AICallError(f"{self.where}: each model would be its own proxy: name a cheaper model in proxies")
        if len(found) > _MOST_VARIANTS:
            raise LimitExceededError(
                f"{self.where}: the lists make {len(found)} variants, and {_MOST_VARIANTS} are the most: shorten a list"
            )
        return list(found.values())


def _is_own_proxy(given: Mapping[str, Any]) -> bool:
    """Return whether a variant would have its own model as a proxy."""
    proxies = [name.strip().lower() for name in given["proxy"].split(",")]
    return given["proxy"] != "none" and str(given.get("model", "")).lower() in proxies


def examples_option(
    fields: Sequence[str], rows: Sequence[Sequence[str | None]], wanted: Sequence[Any], places: Sequence[int]
) -> str:
    """Return SQL for a list of examples: some rows with their labels."""
    answer = next(name for name in _ANSWERS if name not in {one.lower() for one in fields})
    listed = []
    for place in places:
        values = zip(fields, rows[place], strict=True)
        given = [f"{text_literal(name)}: {text_literal(value)}" for name, value in values if value is not None]
        listed.append(f"{{{', '.join([*given, f'{text_literal(answer)}: {_literal(wanted[place])}'])}}}")
    return f"[{', '.join(listed)}]"


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, frozenset):
        return f"[{', '.join(map(text_literal, sorted(value)))}]"
    return text_literal(value) if isinstance(value, str) else repr(value)


def _listed(option: Varied, value: Literal, where: str) -> Sequence[Any]:
    given = value if isinstance(value, tuple) else (value,)
    if not given or not all(map(option.fits, given)):
        raise AICallError(f"{where}: {option.name} is a list of {option.expected}, not {value!r}")
    return list(dict.fromkeys(given))
