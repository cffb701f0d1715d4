"""Show a cut plan to a person: its stages as DataFusion will run them, and the AI operators between."""

from collections.abc import Iterator
from textwrap import indent

from datafusion import SessionContext

from flightllm.plan.stages import Limit, Numbered, Operator, Relational, stage_frame


def explain_stages(stage: Relational, context: SessionContext) -> list[tuple[str, str]]:
    """Return (title, text) of each stage and operator, the last to run first; `context` holds the joints."""
    return list(_explain(stage, context, "result"))


def _explain(stage: Relational, context: SessionContext, name: str) -> Iterator[tuple[str, str]]:
    plan = stage_frame(context, stage.plan).optimized_logical_plan().display_indent()
    how = "batch by batch as answers arrive" if stage.streams else "all at once"
    yield f"stage {name}", f"runs {how}\n{plan}"
    for joint in stage.inputs:
        title = joint.table.rsplit(".", 1)[-1]
        match joint:
            case Operator():
                yield f"ai operator {title}", _operator(joint)
            case Numbered():
                yield f"numbered rows {title}", "kept, so that several stages can read them"
            case Limit():
                limit = "no limit" if joint.limit is None else f"stops after {joint.limit} rows"
                yield f"limit {title}", f"skips {joint.offset} rows, {limit}"
        yield from _explain(joint.input, context, f"below {title}")


def _operator(operator: Operator) -> str:
    lines = []
    for i, call in enumerate(operator.calls):
        arguments = ", ".join(f"{n} = c{a}" for n, a in zip(call.ai.fields, call.arguments, strict=False))
        when = "" if call.when is None else f", only where c{call.when}"
        lines.append(f"{operator.schema.names[operator.width + i]} = {call.ai.text}")
        lines.append(indent(f"{call.ai.function}: fields ({arguments}){when}, returns {call.ai.type}", "    "))
    if operator.ordered:
        lines.append("keeps the order of its input")
    return "\n".join(lines)
