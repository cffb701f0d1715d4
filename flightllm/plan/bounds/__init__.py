"""Bounds on what a plan's expressions make and how long one call of a function takes, found without evaluating any."""

from flightllm.plan.bounds.unbounded import unbounded
from flightllm.plan.bounds.value import Unbounded

__all__ = ["Unbounded", "unbounded"]
