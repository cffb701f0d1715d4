"""The optimizer: pure rules from plan to plan, applied in order until nothing changes."""

from flightllm.rewrite.rules import RULES, rewrite

__all__ = ["RULES", "rewrite"]
