"""The functions that count or average a model's answers over a group, and ask about some of its rows only."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, Protocol

import pyarrow as pa

from flightllm.errors import AICallError
from flightllm.functions.base import (
    AIFunction,
    Answer,
    Arguments,
    Kind,
    Literal,
    Option,
    Parameter,
    SetAnswer,
    SetQuestion,
)
from flightllm.functions.call import EMBEDDING, AICall, model_of
from flightllm.functions.over_set import OverSet
from flightllm.functions.scoring import options_of, scoring

METHOD: Final = "approximate"
ASK, PROXY = "ask", "proxy"
"""The names of the questions: to the call's own model, and to its proxy."""
ROW_END, NULL_MARK = "\x1e", "\x1f"
"""A row's value in the text of a group ends with the first; the second stands for NULL."""
STREAM: Final = "stream"
OPTIONS: Final = (
    Option("confidence", float, 0.95),
    Option("proxy", str, "none"),
    Option("label_budget", int, low=1),
    Option("bounds", bool, default=False),
    Option(STREAM, bool, default=False),
)


def values_of_group(sql: str, condition: str = "") -> str:
    """Return the SQL of one text with the values of all rows of a group, for an argument of such a function.

    `condition` is the text of `FILTER (…)`. Control characters that have a meaning in the text become spaces.
    """
    value = f"translate(CAST({sql} AS VARCHAR), '{ROW_END}{NULL_MARK}', '  ')"
    each = f"concat(coalesce({value}, '{NULL_MARK}'), '{ROW_END}')"
    return f"coalesce(string_agg({each}, ''){f' {condition}' if condition else ''}, '')"


def approximate(call: Arguments, asked: Answer, kind: str, output: pa.DataType, scale: tuple[float, float]) -> Answer:
    """Return the answer of an approximate aggregate of the answers `asked`; `scale` has their lowest and highest value.

    Raises:
        AICallError: the wanted width or the confidence is not possible.
    """
    low, high = scale
    within = call.values.get("within")
    half = 0.02 * (high - low) if within is None else call.number("within")
    if not 0 < half < high - low:
        raise AICallError(
            f"within must be above 0 and below {high - low:g}, not {half:g}: it is half the width of the interval,"
            f" such as within => {0.02 * (high - low):g}"
        )
    confidence = call.number("confidence")
    if not 0 < confidence < 1:
        raise AICallError(f"confidence must be above 0 and below 1, not {confidence:g}: such as 0.95")
    streams = call.flag(STREAM)
    full = call.flag("bounds") or streams
    options = (
        ("kind", kind),
        ("low", low),
        ("high", high),
        ("within", half / (high - low)),
        ("confidence", confidence),
        ("label_budget", call.values.get("label_budget")),
        ("bounds", full),
        (STREAM, streams),
    )
    over = SetAnswer(
        METHOD, {ASK: SetQuestion(asked, (), "ai_filter" if kind == "count" else "ai_score")}, options, whole=False
    )
    type_ = interval_type(output, streams=streams) if full else output
    return replace(asked, output=type_, constraint=None, probability=False, over=over)


def interval_type(output: pa.DataType, *, streams: bool) -> pa.DataType:
    """Return the type of a value with its interval; with `streams`, it also says whether it is the last one."""
    names = [("value", output), ("low", output), ("high", output)]
    counts = [(name, pa.int64()) for name in ("rows", "asked", "failed")]
    return pa.struct([*names, *counts, *([("final", pa.bool_())] if streams else [])])


class Proxies(Protocol):
    """Finds the proxies of a model; see `NameResolver.proxies`."""

    def proxies(self, name: str | None, model: str | None) -> tuple[str, ...]:
        """Return the bindings of a proxy, or of all proxies of a model."""


def with_proxy(
    over: OverSet[AICall], values: Mapping[str, Literal], names: Proxies, model: str | None
) -> OverSet[AICall]:
    """Return the method of an approximate aggregate with the question to its proxy, if the call names one.

    Raises:
        AICallError: there is no such proxy, or the call names several.
        PermissionDeniedError: the user must not use the proxy.
    """
    name = values.get("proxy")
    if over.method != METHOD or not isinstance(name, str) or name.strip().lower() == "none":
        return over
    found = names.proxies(name, model)
    if len(found) != 1:
        listed = ", ".join("embedding" if one == EMBEDDING else repr(model_of(one)) for one in found)
        raise AICallError(f"proxy must name one model or 'embedding', not {name!r}, which means {listed}")
    if found[0] == EMBEDDING:
        return replace(over, embeds=True)
    return replace(over, questions={**over.questions, PROXY: _scored(over.questions[ASK], model_of(found[0]))})


def samples(call: AICall) -> str | None:
    """Tell how an approximate aggregate answers, for EXPLAIN; None for other calls."""
    over = call.over
    if over is None or over.method != METHOD:
        return None
    half = over.option("within") * (over.option("high") - over.option("low"))
    unit = " of the rows" if over.option("kind") == "count" else ""
    budget = over.option("label_budget")
    most = "" if budget is None else f", with at most {budget:,} prompts"
    proxy: str | None = EMBEDDING if over.embeds else None
    if PROXY in over.questions:
        proxy = f"model {over.questions[PROXY].model or 'default'}"
    helped = f"; {proxy} predicts all rows" if proxy else ""
    sure = f"at confidence {over.option('confidence'):g}"
    return f"asks about some rows, until the interval is ±{half:.4g}{unit} {sure}{most}{helped}"


def _scored(asked: AICall, model: str | None) -> AICall:
    """Return the same question to a proxy: its value is the probability of each answer, or a number."""
    if pa.types.is_boolean(asked.output) and options_of(asked):
        return scoring(asked, model)
    return replace(asked, model=model, on_error="struct")


def function(name: str, summary: str, returns: str, own: tuple[Option, ...], build: Any) -> AIFunction:
    """Return the declaration of an approximate aggregate."""
    return AIFunction(
        name=name,
        summary=summary,
        returns=f"{returns}; struct<value, low, high, rows, asked, failed> with bounds => true",
        parameters=(Parameter("prompt", Kind.PROMPT),),
        fields=True,
        options=(*own, Option("within", float), *OPTIONS),
        build=build,
        aggregate=True,
    )
