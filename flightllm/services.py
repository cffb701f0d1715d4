"""What all queries of a server share."""

from dataclasses import dataclass, field

from flightllm.backends import Backends
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
from flightllm.recovery.watch import Watch
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
    backends: Backends
    """What answers calls that are not the model's."""
    learned: Learned = field(default_factory=Learned)
    watch: Watch = field(default_factory=Watch)
    """Notes the statements in flight, for the process that comes after a crash."""
