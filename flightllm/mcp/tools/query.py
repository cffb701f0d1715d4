"""`query`: run one SQL statement."""

from typing import Any

from flightllm.common.amounts import money
from flightllm.errors import BudgetExceededError, FlightLLMError, PermissionDeniedError
from flightllm.mcp.answers import Answer
from flightllm.mcp.limits import Limits
from flightllm.mcp.results import MOST_CELL, RESULT_SCHEMA, run_statement
from flightllm.mcp.tools.base import Arguments, Tool, number, text
from flightllm.mcp.work import Work

_USUAL_ROWS = 100
_USUAL_CELL = 1_000


def _run(work: Work, arguments: Arguments) -> Answer:
    rows = arguments.get("max_rows", min(_USUAL_ROWS, work.limits.rows))
    cell = arguments.get("max_characters", _USUAL_CELL)
    cost, calls = arguments.get("max_cost"), arguments.get("max_calls")
    try:
        # The server refuses a limit of the cost where no model has a price.
        client = work.client(cost, calls, priced=cost is not None or work.has_prices())
        return run_statement(work, client, arguments["sql"], rows, cell)
    except FlightLLMError as error:
        error.args = (_advised(error, work.limits),)
        raise


def _advised(error: FlightLLMError, limits: Limits) -> str:
    """Return an error's message with what an agent can do."""
    said = str(error)
    if isinstance(error, BudgetExceededError) or "flightllm.max_c" in said:
        return (
            f"{said}\nThis server allows {_allowed(limits)} for one statement, and only its user can raise that, by"
            " --max-cost and --max-calls of `flightllm mcp`. Restrict the rows first, by WHERE on plain columns or by"
            " LIMIT in a subquery; estimate_cost predicts the cost."
        )
    if isinstance(error, PermissionDeniedError) and said.startswith("flightllm.read_only"):
        return f"{said}\nThis server only reads. Its user can allow changes by --allow-changes of `flightllm mcp`."
    return said


def _allowed(limits: Limits) -> str:
    cost = "any price" if limits.cost is None else money(limits.cost)
    calls = "any number of model calls" if limits.calls is None else f"{limits.calls:,} model calls"
    return f"{cost} and {calls}"


def _description(limits: Limits) -> str:
    changes = (
        "It can change tables: INSERT, UPDATE, DELETE, CREATE, DROP."
        if limits.changes
        else "It only reads: statements that change something are refused."
    )
    return (
        f"Run one SQL statement, which can call AI functions such as ai_filter. {changes} A statement whose predicted"
        f" cost is above the limits, here {_allowed(limits)}, is refused before its first call. The answer says what"
        " the statement cost, and how to get rows that are cut."
    )


def _properties(limits: Limits) -> dict[str, Any]:
    usual = min(_USUAL_ROWS, limits.rows)
    return {
        "sql": text("One SQL statement. The dialect is near to PostgreSQL's and DuckDB's."),
        "max_rows": number("The most rows of the answer.", 1, limits.rows, usual),
        "max_characters": number("The most characters of a cell.", 1, MOST_CELL, _USUAL_CELL),
        "max_cost": {"type": "number", "minimum": 0, "description": "A lower limit of the cost, in dollars."},
        "max_calls": {"type": "integer", "minimum": 0, "description": "A lower limit of the model calls."},
    }


QUERY = Tool(
    "query", "Run SQL", _description, _properties, ("sql",), RESULT_SCHEMA, _run, asks_model=True, changes=True
)
