"""What all queries of a server share."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from flightllm.catalog import Catalog
from flightllm.config import Config
from flightllm.functions import FunctionRegistry
from flightllm.llm.base import Engine
from flightllm.llm.learned import Learned
from flightllm.operators.cache import AnswerCache
from flightllm.operators.flights import Flights
from flightllm.operators.relational import Loop
from flightllm.operators.workers import Workers
from flightllm.plan.cost import Costs
from flightllm.vector.store import VectorIndexes


@dataclass(frozen=True, slots=True)
class Services:
    """What all queries of a server share."""

    config: Config
    catalog: Catalog
    functions: FunctionRegistry
    engine: Engine
    cache: AnswerCache
    flights: Flights
    loop: Loop
    workers: Workers
    costs: Costs
    indexes: VectorIndexes
    others: Mapping[str, Callable[[], tuple[Engine, int]]] = field(default_factory=lambda: MappingProxyType({}))
    """By backend what answers calls that are not the model's, and how many of them at once; made at first use."""
    learned: Learned = field(default_factory=Learned)
