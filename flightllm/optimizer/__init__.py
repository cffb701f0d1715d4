"""The optimizer: pure rules from plan to plan, applied in order until the plan no longer changes.

Imports: errors, functions, llm, plan, quality.
"""

from flightllm.optimizer.rules import LAST_RULES, RULES, applies, counted, rewrite

__all__ = ["LAST_RULES", "RULES", "applies", "counted", "rewrite"]
