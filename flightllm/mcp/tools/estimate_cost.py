"""`estimate_cost`: predict what a statement would cost, without running it."""

import json
from typing import Any

from flightllm.client import BOOKKEEPING
from flightllm.common.amounts import counted, money
from flightllm.connection.cost import Cost, read_prediction
from flightllm.mcp.answers import Answer, answer, markdown_table, sentence
from flightllm.mcp.limits import Limits
from flightllm.mcp.tools.base import Arguments, Tool, text
from flightllm.mcp.work import Work


def _run(work: Work, arguments: Arguments) -> Answer:
    [row] = work.rows(f"{BOOKKEEPING}EXPLAIN (FORMAT JSON, SAVINGS off) {arguments['sql']}")
    plan = json.loads(str(row["plan"]))
    cost = read_prediction(str(row["plan"])) or Cost()
    functions = [_call(call) for operator in plan["operators"] for call in operator["calls"]]
    refusal = _refusal(work.limits, cost)
    structured = {
        "predicted": {"calls": cost.calls, "tokens": cost.tokens, "price": cost.price, "seconds": cost.seconds},
        "functions": functions,
        "allowed": refusal is None,
    }
    body = f"{sentence(cost)}, {cost.seconds:,.1f} s"
    if functions:
        rows = [[one["text"], one["rows"], one["known"], one["calls"]] for one in functions]
        body += "\n\n" + markdown_table(["call", "rows", "known answers", "model calls"], rows)
    return answer(body, structured, notes=[*([] if refusal is None else [refusal]), *plan["notes"]])


def _call(call: Any) -> dict[str, Any]:
    predicted = call["predicted"] or {}
    return {
        "function": call["function"],
        "text": call["text"],
        "rows": int(predicted.get("rows") or 0),
        "known": int(predicted.get("cache_hits") or 0),
        "calls": int(predicted.get("calls") or 0),
    }


def _refusal(limits: Limits, cost: Cost) -> str | None:
    """Return why `query` would refuse the statement; None if it would run."""
    if limits.calls is not None and cost.calls > limits.calls:
        return f"query would refuse this statement: its limit is {counted(limits.calls, 'model call')}"
    if limits.cost is not None and cost.price is not None and cost.price > limits.cost:
        return f"query would refuse this statement: its limit is {money(limits.cost)}"
    return None


ESTIMATE_COST = Tool(
    "estimate_cost",
    "Estimate the cost",
    lambda _: (
        "Predict the model calls, tokens, price and seconds of one SQL statement. It asks no model and changes nothing."
        " Call it before a query with AI functions over many rows."
    ),
    lambda _: {"sql": text("One SQL statement, without EXPLAIN.")},
    ("sql",),
    {
        "predicted": {
            "type": "object",
            "properties": {
                "calls": {"type": "integer"},
                "tokens": {"type": "integer"},
                "price": {"type": ["number", "null"]},
                "seconds": {"type": "number"},
            },
            "required": ["calls", "tokens", "price", "seconds"],
        },
        "functions": {"type": "array", "items": {"type": "object"}},
        "allowed": {"type": "boolean", "description": "Whether the limits of the tool query allow the statement."},
    },
    _run,
)
