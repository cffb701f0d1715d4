"""What a replica counts, and what is learned from it."""

from functools import partial

import pytest

from flightllm.config import EngineConfig
from flightllm.engines import create_engine
from flightllm.llm.cost import Costs, Work
from flightllm.llm.engine import Completion
from flightllm.router.replica import Replica
from flightllm.router.replica_queue import ReplicaQueue


def test_counts_and_costs() -> None:
    """What is answered is counted, and teaches how long such work takes; what is given up teaches nothing."""
    replica = Replica(0, "one", partial(create_engine, EngineConfig("fake")), ReplicaQueue(lambda _: 0.0))
    costs = Costs()
    before = costs.seconds(Work(100, 100_000, 0, 1_000))
    replica.sent()
    replica.ended(None, costs)
    assert costs.seconds(Work(100, 100_000, 0, 1_000)) == before
    for _ in range(3):
        for _ in range(50):
            replica.sent()
        for number in range(50):
            replica.ended(Completion(number, "yes", None, 1_000, 600, 10), costs)
    assert (replica.in_flight, replica.answered, replica.prompt_tokens, replica.cached_tokens) == (
        0,
        150,
        150_000,
        90_000,
    )
    assert costs.seconds(Work(100, 100_000, 0, 1_000)) < before  # they came at once
    replica.engine.close()


def test_states() -> None:
    """A replica is down until it is taken into use, and leaving from then on that this is said."""
    replica = Replica(0, "one", partial(create_engine, EngineConfig("fake")), ReplicaQueue(lambda _: 0.0))
    assert replica.state == "down"
    replica.up = True
    assert replica.state == "up"
    replica.leaving = True
    assert replica.state == "leaving"
    replica.engine.close()


def test_does_not_open() -> None:
    """What is wrong with an engine is told when its replica is made."""
    with pytest.raises(Exception, match="unknown option"):
        Replica(
            0, "one", partial(create_engine, EngineConfig("fake", options={"speed": 1})), ReplicaQueue(lambda _: 0.0)
        )
