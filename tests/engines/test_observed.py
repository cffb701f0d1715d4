"""An engine that is observed answers as ever, and what it did is learned."""

from flightllm.engines.fake.engine import FakeEngine, FakeOptions
from flightllm.engines.observed import Learned, ObservedEngine, asked_by
from flightllm.llm.cost import Costs, Work
from flightllm.llm.engine import Parameters, Request


def test_observed() -> None:
    """Completions are the engine's own; answers, and the time all took, are remembered."""
    engine = FakeEngine("demo", 8, FakeOptions(latency_ms=1))
    learned, costs = Learned(), Costs()
    observed = ObservedEngine(engine, learned, costs)
    requests = [Request(i, f"prompt {i}", Parameters(), "f", "i", (("a", str(i)),)) for i in range(40)]
    before = costs.seconds(Work(40, 400))
    answers = list(observed.generate(iter(requests), lambda: False))
    assert [c.text for c in answers] == [c.text for c in engine.generate(iter(requests), lambda: False)]
    known = learned.answers(asked_by(requests[0]))
    assert known is not None
    assert known[0]
    assert set(known[0]) <= {c.text for c in answers}
    assert costs.seconds(Work(40, 400)) != before
    assert (observed.name, observed.revision, observed.prefix_cache) == (engine.name, engine.revision, None)
    assert observed.count_tokens("abcd") == 1
    observed.close()
    assert list(engine.generate(iter(requests[:1]), lambda: False)), "the engine is still open"
