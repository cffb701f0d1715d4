"""What calls of one kind are answered by and remembered with."""

from dataclasses import dataclass

from flightllm.llm.base import Engine
from flightllm.operators.budget import Budget
from flightllm.operators.flights import Flights
from flightllm.operators.overlay import Answers


@dataclass(frozen=True, slots=True)
class Backing:
    """What one run of a query asks and remembers with: the real engine and answers, or stand-ins that cost nothing."""

    engine: Engine
    cache: Answers
    flights: Flights
    window: int
    """Prompts the engine keeps in flight."""
    budget: Budget | None = None
