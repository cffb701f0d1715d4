"""The routing rules of other projects, for `bench.router_sim`. They follow the projects' documentation and sources.

Each rule sees what the project's gateway sees: the engines' reports, the first token and the end of each answer. All
use the fleet's own estimate of the caches. Network delays are left out, and so is the age of reports: 50 ms and more.
"""

from collections.abc import Callable, Mapping
from typing import Final

from bench.peers.routing.dynamo import Dynamo
from bench.peers.routing.llmd import LlmD
from bench.peers.routing.llmd_latency import LlmDLatency
from bench.peers.routing.preble import Preble
from bench.peers.routing.sglang import SGLang
from bench.simulation import ObservingRouter
from flightllm.router.fleet import Fleet

PEERS: Final[Mapping[str, Callable[[Fleet], ObservingRouter]]] = {
    "llm-d": LlmD,
    "llm-d latency": LlmDLatency,
    "sglang": SGLang,
    "dynamo": Dynamo,
    "preble": Preble,
}
"""The rules by the names of the figures."""
