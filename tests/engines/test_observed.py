"""An engine that is observed answers as ever, and what it did is learned."""

import json
import threading
from typing import Any, cast

import numpy as np

from flightllm.engines.fake.engine import FakeEngine, FakeOptions
from flightllm.engines.observed import Learned, ObservedEngine, asked_by, asked_in_pack
from flightllm.llm.cost import Costs, Work
from flightllm.llm.engine import Choice, Completion, PackItem, Parameters, Request
from flightllm.quality.forecast import Seen
from flightllm.quality.targets import Targets


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


def test_sites_are_learned_apart() -> None:
    """Answers count for the call site of their request, also where requests of several sites take turns."""
    learned = Learned()
    observed = ObservedEngine(FakeEngine("demo", 8, FakeOptions()), learned, Costs())
    fields = [(("a", "1"),), (("a", "1"), ("b", "2")), (("b", "2"), ("a", "1"))]
    requests = [Request(i, "p", Parameters(), "f", "ij"[i % 2], fields[i % 3]) for i in range(120)]
    found = {c.id: c.text for c in observed.generate(iter(requests), lambda: False)}
    for site in {asked_by(request) for request in requests}:
        own = [request for request in requests if asked_by(request) == site]
        known = learned.answers(site)
        assert known is not None
        assert sorted(known[0]) == sorted(str(found[request.id]) for request in own)[: len(known[0])]


def test_answers_do_not_wait_for_a_prediction() -> None:
    """An answer is recorded while another thread computes the predicted share of a promise."""
    learned = Learned()
    request = Request(0, "p", Parameters(), "f", "i", (("a", "1"),))

    class Slow:
        """A run whose prediction waits until an answer was recorded."""

        limited = False

        def share(self, _units: int, _targets: Targets) -> float:
            """Record an answer in another thread."""
            done = threading.Event()

            def answer() -> None:
                learned.observe(asked_by(request), Completion(0, "yes"))
                done.set()

            threading.Thread(target=answer, daemon=True).start()
            assert done.wait(5)
            return 0.5

    learned.note_run("call", cast("Seen", Slow()))
    assert learned.share_of_run("call", 10, cast("Any", None)) == 0.5


def test_runs_under_a_limit_are_kept_apart() -> None:
    """A run under a LIMIT does not replace one over all rows, and each predicts its own kind; a lone run predicts both.

    The runs have one score each, whose answers are all yes or all no.
    """
    learned = Learned()
    targets = Targets(0.9, 0.9, None, 0.9)
    yes, no = (np.full(200, hit, np.int8) for hit in (1, 0))
    scores = np.full(200, 0.5)
    limited = Seen(scores, no, np.empty(0), 0, limited=True)
    learned.note_run("call", limited)
    alone = learned.share_of_run("call", 1_000, targets)
    assert alone == limited.share(1_000, targets)
    everything = Seen(scores, yes, np.empty(0), 0)
    learned.note_run("call", everything)
    learned.note_run("call", limited)
    assert learned.share_of_run("call", 1_000, targets) == everything.share(1_000, targets) != alone
    assert learned.first_of_run("call", 1_000, 5, 0.1) == limited.first(1_000, 5, 0.1)
    assert limited.first(1_000, 5, 0.1) != everything.first(1_000, 5, 0.1)


def test_few_free_texts_of_packs_are_kept() -> None:
    """Free texts can be long, so packs keep no more of them than single prompts do; answers with options are short."""
    learned = Learned()
    texts = PackItem("KQB", "ai_gen", "Say", Parameters(max_tokens=16), ())
    options = PackItem("XYZ", "ai_filter", "Good?", Parameters(constraint=Choice(("Yes", "No"))), ())
    for number in range(300):
        answer = json.dumps({"KQB": f"text {number}", "XYZ": "Yes"})
        learned.observe_pack((texts, options), Completion(number, answer, completion_tokens=9))
    for item, most in ((texts, 16), (options, 256)):
        found = learned.answers(asked_in_pack(item))
        assert found is not None
        assert len(found[0]) == most
