"""The optimizer: pure rules from plan to plan, applied in order until nothing changes."""

from flightllm.rewrite.rules import LAST_RULES, RULES, rewrite

__all__ = ["LAST_RULES", "RULES", "rewrite"]
