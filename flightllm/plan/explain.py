"""Text for people of a plan that is cut into stages: the stages as DataFusion runs them, and the AI operators."""

import re
from collections.abc import Iterator
from dataclasses import replace
from textwrap import indent

from datafusion import SessionContext
from datafusion.plan import LogicalPlan

from flightllm.access.store import DEFAULT_MODEL
from flightllm.datafusion.contexts import analyzed
from flightllm.functions.approximate import samples
from flightllm.functions.call import EMBEDDING, AICall, model_of
from flightllm.functions.promise import A_FEW_AT_A_TIME, Promise
from flightllm.plan.nodes import ALL_ROWS
from flightllm.plan.parts import PlanPart, operators
from flightllm.plan.stages import (
    STAGE_CATALOG,
    BoundStep,
    Condition,
    GroupLimited,
    Limit,
    Operator,
    PairJoin,
    Relational,
    RowIdStage,
    United,
    stage_frame,
)

_PROMISES = "scores all rows, and the call's model gets those that this needs"
_SEVERAL = (
    "other calls of the query make promises too: each promise is about the rows that reach its call, so the shares of"
    " rows that are lost in a filter, or in an input of a join, multiply"
)
_MOST_PROMPT = 1_000
"""The most characters of a prompt that are shown."""


def explain_stages(stage: Relational, context: SessionContext, *, folded: bool = True) -> list[PlanPart]:
    """Return each stage and operator; the first in the list runs last. `context` holds stage inputs.

    Stages that are not folded are shown as they are before DataFusion optimizes them, so that nothing is evaluated.
    """
    parts = list(_explain(stage, context, "result", folded=folded))
    promising = [part for part in parts if _PROMISES in part.text]
    if len(promising) < 2:
        return parts
    return [replace(part, text=f"{part.text}\n{_SEVERAL}") if part in promising else part for part in parts]


def _explain(
    stage: Relational, context: SessionContext, name: str, wanted: int | None = None, *, folded: bool
) -> Iterator[PlanPart]:
    """Yield the parts of a stage and of those below it; a LIMIT above takes the first `wanted` rows."""
    frame = stage_frame(context, stage.plan)
    logical = frame.optimized_logical_plan() if folded else analyzed(context, frame).logical_plan()
    how = "batch by batch as answers arrive" if stage.streams else "all at once"
    read = tuple(stage_input.name for stage_input in stage.inputs)
    yield PlanPart("stage", name, f"runs {how}\n{logical.display_indent()}", read, _operators(logical))
    for stage_input in stage.inputs:
        title = stage_input.name
        below = (f"below {title}",)
        above, rows = wanted if stage.streams else None, None
        match stage_input:
            case Operator():
                yield PlanPart("ai operator", title, _operator(stage_input, context, above), below)
            case RowIdStage():
                yield PlanPart("numbered rows", title, "kept, so that several stages can read them", below)
            case Limit():
                limit = "no limit" if stage_input.limit is None else f"stops after {stage_input.limit} rows"
                yield PlanPart("limit", title, f"skips {stage_input.offset} rows, {limit}", below)
                rows = None if stage_input.limit is None else stage_input.offset + stage_input.limit
            case GroupLimited():
                yield PlanPart("group limit", title, _group_limit(stage_input), (f"of {title}", *below))
                yield from _explain(stage_input.chain, context, f"of {title}", folded=folded)
            case PairJoin():
                sides = [f"{side} of {title}" for side in ("left", "right")]
                yield PlanPart("ai join", title, _pair_join(stage_input), tuple(sides))
                for one, input_ in zip(sides, stage_input.inputs, strict=True):
                    yield from _explain(input_, context, one, folded=folded)
                continue
            case United():
                names = [f"{number} below {title}" for number, _ in enumerate(stage_input.inputs, start=1)]
                yield PlanPart("union", title, "one input after the other, as long as rows are needed", tuple(names))
                for one, input_ in zip(names, stage_input.inputs, strict=True):
                    yield from _explain(input_, context, one, above, folded=folded)
                continue
        yield from _explain(stage_input.input, context, *below, rows, folded=folded)


def _operators(logical: LogicalPlan) -> tuple[str, ...]:
    """Return the relational operators of a stage, without the scans of its inputs."""
    return tuple(name for name in operators(logical) if not name.startswith(f"TableScan {STAGE_CATALOG}."))


def _group_limit(stage_input: GroupLimited) -> str:
    rows = {1: "one row", ALL_ROWS: "all rows"}.get(stage_input.count, f"{stage_input.count} rows")
    rows += "" if stage_input.decided is None else f" with c{stage_input.decided}"
    first = "the first groups in their order" if stage_input.directions else "all groups"
    whole = "" if stage_input.limit is None else f", and with {first} after {stage_input.limit} rows"
    rows += "" if stage_input.ties is None else " and the rows that rank like the last one"
    columns = f"its last {stage_input.keys} columns"
    columns += f" before {stage_input.peers} that order them" if stage_input.peers else ""
    group = f"each group of equal values in {columns}" if stage_input.keys else "all rows as one group"
    return f"asks about a few rows of a group at a time and is done with the group after {rows}: {group}{whole}"


def _pair_join(join: PairJoin) -> str:
    """Tell how a join by a yes/no call finds its pairs."""
    wish, ai = join.ai.join, join.ai
    asked = "asks about each distinct pair of values once"
    if wish is not None and wish.targets is not None:
        asked = f"asks fewer questions by strategy '{wish.strategy}', and promises {wish.targets}, of the pairs"
    if wish is not None and wish.symmetric:
        asked += "; a pair and its reverse share an answer"
    limit = "all pairs" if join.candidates is None else "the pairs that the other conditions let through"
    model = "" if ai.model is None else f", model {ai.model}"
    lines = [f"keeps the pairs of rows for which {ai.text} is true, of {limit}", f"    {ai.function}: {asked}{model}"]
    if ai.joined:
        lines.insert(1, f"    prompt: {_in_one_line(ai.instruction)}")
    return "\n".join(lines)


def _operator(operator: Operator, context: SessionContext, wanted: int | None) -> str:
    lines = []
    for i, call in enumerate(operator.calls):
        arguments = ", ".join(f"{n} = c{a}" for n, a in zip(call.ai.fields, call.arguments, strict=False))
        when = "" if call.when is None else f", only where c{call.when}"
        if call.guard is not None:
            when = f", only where {_condition(call.guard, operator, context)}"
        lines.append(f"{_answer(operator, i)} = {call.ai.text}")
        model = "" if call.ai.model is None else f", model {call.ai.model}"
        if call.ai.joined:
            lines.append(indent(f"prompt: {_in_one_line(call.ai.instruction)}", "    "))
        lines.append(indent(f"{call.ai.function}: fields ({arguments}){when}, returns {call.ai.type}{model}", "    "))
        if (told := samples(call.ai)) is not None:
            lines.append(indent(told, "    "))
        if call.ai.promise is not None:
            text = _promise(call.ai.promise) if wanted is None else _under_limit(operator, call.ai, wanted)
            lines.append(indent(text, "    "))
    lines += [f"step {n}: {_step(step, operator, context)}" for n, step in enumerate(operator.steps, start=1)]
    if sum(step.condition is not None for step in operator.steps) > 1:
        lines.append("runs the steps that drop rows in the order that is cheapest on the rows so far")
    if operator.ordered:
        lines.append("keeps the order of its input")
    return "\n".join(lines)


def _promise(promise: Promise) -> str:
    """Tell which models decide about the rows of a call with a promise."""
    if promise.exact:
        budget = "" if promise.label_budget is None else f" with at most {promise.label_budget:,} prompts"
        return f"promises {promise}, and asks its model about every row{budget}: {promise.exact}"
    proxies = " or ".join(
        EMBEDDING if p == EMBEDDING else f"model {model_of(p) or DEFAULT_MODEL}" for p in promise.proxies
    )
    budget = "" if promise.label_budget is None else f", and at most {promise.label_budget:,} of its prompts"
    return f"promises {promise}: {proxies} {_PROMISES}{budget}"


def _under_limit(operator: Operator, call: AICall, wanted: int) -> str:
    """Tell how a call with a promise finds the first `wanted` rows; the calls of one operator are alike."""
    promise = call.promise
    if promise is None:
        return ""
    if promise.exact:
        return _promise(promise)
    budget = "" if promise.label_budget is None else f", with at most {promise.label_budget:,} prompts"
    until = f"asks its model in waves until a LIMIT has {wanted:,} rows{budget}"
    if operator.takes_waves:
        return f"promises {promise}, and {until}: {A_FEW_AT_A_TIME}"
    if not call.finds_first:
        return f"promises {promise}, and {until}: only for a filter a language model can tell the likeliest rows"
    names = [model_of(one) or DEFAULT_MODEL for one in promise.proxies if one != EMBEDDING]
    return (
        f"promises {promise}, of which a LIMIT keeps the precision: {until}, and lets model {names[0]} score rows while"
        " that makes a row cheaper; the calls are at most those without a proxy, and a wave"
    )


def _in_one_line(text: str) -> str:
    """Return a text without line breaks, cut to `_MOST_PROMPT` characters."""
    line = " ".join(text.split())
    return line if len(line) <= _MOST_PROMPT else f"{line[:_MOST_PROMPT]}…"


def _step(step: BoundStep, operator: Operator, context: SessionContext) -> str:
    """Describe a step: which calls are asked together, which calls wait for them, and which rows stay."""
    asked = ", then ".join(" and ".join(_answer(operator, c) for c in calls) for calls in step.rounds)
    parts = [f"asks {asked}" if asked else "asks nothing"]
    if step.condition is not None:
        parts.append(f"keeps the rows where {_condition(step.condition, operator, context)}")
    if step.after:
        parts.append(f"comes after step {', '.join(str(n + 1) for n in sorted(step.after))}")
    return "; ".join(parts)


def _answer(operator: Operator, call: int) -> str:
    return str(operator.schema.names[operator.width + call])


def _condition(condition: Condition, operator: Operator, context: SessionContext) -> str:
    """Return a condition over the operator's columns as DataFusion writes it."""
    names = [str(operator.schema.names[i]) for i in condition.reads]
    if condition.plan is None:
        return names[0]
    text = stage_frame(context, condition.plan).logical_plan().display_indent().splitlines()[0]
    for own, name in zip(condition.schema.names, names, strict=False):
        text = re.sub(rf"(?<![\w.])(?:\w++\.)*+{own}\b", name, text)
    return text.strip().removeprefix("Projection: ")
