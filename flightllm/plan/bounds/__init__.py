"""Bounds on the sizes of a plan's values and the time of each function call, found without evaluating anything."""

from flightllm.plan.bounds.unbounded import unbounded
from flightllm.plan.bounds.value import Unbounded

__all__ = ["Unbounded", "unbounded"]
