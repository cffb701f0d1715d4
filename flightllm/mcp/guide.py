"""Texts for agents about the SQL of this server: the instructions, and a prompt with examples."""

from typing import Final

from flightllm.functions.base import AIFunction
from flightllm.functions.registry import FunctionRegistry
from flightllm.mcp.limits import Limits

PROMPT_NAME: Final = "ai_functions"
_RULES = """\
SQL here has AI functions, which ask a language model once for each distinct input. Use them for what plain SQL cannot
decide, such as topics, feelings and facts in texts. Restrict rows by plain conditions first: each row can cost a call.
Steps: list_tables, describe, then query. Call estimate_cost before AI functions over more than a few hundred rows.
Answers are cached: the same question about the same text costs nothing the second time.
"""
_EXAMPLES = """\
Examples:
SELECT ticket_id FROM tickets WHERE created > DATE '2026-01-01' AND ai_filter('Is {body} about money?', body)
SELECT ai_classify(body, ['bug', 'question', 'praise']) AS kind, count(*) FROM tickets GROUP BY kind
SELECT ai_extract(body, ['product', 'city']) AS facts FROM tickets LIMIT 20
SELECT ai_gen('Answer this customer in one sentence: {body}', body) AS reply FROM tickets LIMIT 5
"""


def instructions(functions: FunctionRegistry, limits: Limits) -> str:
    """Return what an agent must know before its first call."""
    ending = "Statements can change tables." if limits.changes else "Statements can only read."
    return f"{_RULES}{ending}\n\nAI functions:\n{_list(functions)}"


def prompt(functions: FunctionRegistry, question: str) -> str:
    """Return the prompt that explains the AI functions; a `question` is the task to solve with them."""
    task = f"\nTask: {question}\n" if question else ""
    return f"{_RULES}\nAI functions:\n{_list(functions)}\n\n{_EXAMPLES}{task}"


def _list(functions: FunctionRegistry) -> str:
    return "\n".join(f"- {one.usage()} → {one.returns}. {one.summary}" for one in _ai_functions(functions))


def _ai_functions(functions: FunctionRegistry) -> list[AIFunction]:
    return sorted(functions.ai_functions(), key=lambda one: one.name)
