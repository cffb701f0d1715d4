"""What engines tell beyond the protocol, and its way through wrappers."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any, cast

import pytest

from flightllm.config import RecoveryConfig
from flightllm.engines.extras import EngineExtras, ForwardedExtras, extras_of
from flightllm.engines.fake.engine import FakeEngine, FakeOptions
from flightllm.engines.observed import Learned, ObservedEngine
from flightllm.engines.openai.decisions import DecisionsEngine
from flightllm.engines.openai.engine import OpenAIEngine
from flightllm.engines.predict import PredictingEngine
from flightllm.engines.supervised import SupervisedEngine
from flightllm.llm.cost import Costs
from flightllm.llm.engine import Completion, Engine, PrefixCache, Request
from flightllm.router.engine import RoutedEngine

OWN = {"alive", "in_flight", "replicas", "callers", "probe", "check"}
"""What a cluster tells about all of its replicas."""
OF_USERS = {"answer_share"}
"""What a wrapper tells about the answers to one user."""
HERE = {"alive", "reason", "in_flight", "callers", "replicas", "batches", "gives_probabilities"}
"""What a supervised engine tells although its engine is down."""


def members(kind: type) -> dict[str, Any]:
    """Return the public members of a class and of its bases, by name."""
    names = [name for name in dir(kind) if not name.startswith("_")]
    return {name: inspect.getattr_static(kind, name) for name in names}


class _Telling(EngineExtras):
    """An engine that answers each optional question with a text of its own."""

    name, revision, prefix_cache = "telling", "1", PrefixCache(16, None)

    def generate(self, requests: Iterator[Request | None], cancelled: Callable[[], bool]) -> Iterator[Completion]:
        """Answer nothing."""
        del cancelled
        yield from (Completion(request.id, "") for request in requests if request is not None)

    def count_tokens(self, text: str) -> int:
        """Count characters."""
        return len(text)

    def close(self) -> None:
        """Do nothing."""


def _answer(value: object) -> Callable[..., object]:
    return lambda *_: value


_OTHER = {"alive": True, "reconnects": True, "kv_events": None, "separates_tenants": False, "shared_revision": None}
"""Values that the cluster itself uses, and that it must understand."""
for _name, _member in members(EngineExtras).items():
    _told = _answer(_OTHER.get(_name, f"its {_name}"))
    setattr(_Telling, _name, property(_told) if isinstance(_member, property) else _told)


def told(engine: Engine, name: str) -> object:
    """Ask an engine for one of its optional members; methods get as many arguments as they take."""
    value = getattr(engine, name)
    if isinstance(inspect.getattr_static(EngineExtras, name), property):
        return value
    wanted = len(inspect.signature(getattr(EngineExtras, name)).parameters) - 1
    return value(*[""] * wanted)


def observed(engine: Engine) -> Engine:
    """Return the engine as queries see it."""
    return ObservedEngine(engine, Learned(), Costs())


def supervised(engine: Engine) -> Engine:
    """Return the engine as the registry keeps it."""
    return SupervisedEngine("telling", lambda: engine, RecoveryConfig())


def routed(engine: Engine) -> Engine:
    """Return a cluster with the engine."""
    return RoutedEngine("telling", [("one", lambda: engine)], "round_robin", 8)


@pytest.mark.parametrize("name", sorted(members(EngineExtras).keys() - OF_USERS))
def test_wrappers_forward_every_member(name: str) -> None:
    """Whatever an engine tells, it tells through the wrappers: one that forgets a new member loses it."""
    engine = cast("Engine", _Telling())
    expected = told(engine, name)
    assert told(observed(engine), name) == expected
    assert told(supervised(engine), name) == expected
    with closing(routed(engine)) as cluster:
        if name not in OWN:
            assert told(cluster, name) == expected
            assert told(observed(supervised(cluster)), name) == expected


def test_every_member_is_forwarded() -> None:
    """The base of wrappers has a forward for each member, and no wrapper answers more by itself than it must."""
    default = members(EngineExtras)
    forwarded = members(ForwardedExtras)
    assert [name for name in default if forwarded[name] is default[name]] == []
    for kind, own in ((ObservedEngine, OF_USERS), (RoutedEngine, OWN | {"reconnects"}), (SupervisedEngine, HERE)):
        found = members(kind)
        assert {name for name in default if found[name] is not forwarded[name]} == own


def test_the_defaults_fit_a_plain_engine() -> None:
    """An engine that tells nothing more is asked as one that sends prompts as they are."""
    plain = cast("Engine", object())
    request = Request(0, "a prompt", cast("Any", None), "", "", (), ends=(2,), shared=2)
    extras = extras_of(plain)
    assert extras.sent_text(request) == "a prompt"
    assert extras.parts_of(request).ends == (2,)
    assert not extras.has_tokenizer
    with pytest.raises(NotImplementedError):
        extras.token_ids([])
    assert (extras.callers, extras.joins_questions, extras.refusal(request.parameters)) == (0, False, None)
    assert extras.check() == ("", "")
    assert extras.batches is None


@pytest.mark.parametrize("kind", [FakeEngine, OpenAIEngine, DecisionsEngine, PredictingEngine])
def test_engines_have_no_member_of_another_kind(kind: type) -> None:
    """A method of the protocol stays a method in each engine, and a property a value."""
    for name, member in members(EngineExtras).items():
        assert callable(inspect.getattr_static(kind, name)) == callable(member), name


def test_a_cluster_counts_the_callers_of_its_busiest_replica() -> None:
    """A call beside a running one in a cluster has a half of a replica's cache."""
    cluster = RoutedEngine(
        "fake", [(f"one {n}", lambda: FakeEngine("demo", 8, FakeOptions(latency_ms=20))) for n in range(2)], "e2", 8
    )
    with closing(cluster):
        assert extras_of(cluster).callers == 0
        stream = cluster.generate(iter(_requests(range(40))), lambda: False)
        next(stream)
        assert extras_of(observed(cluster)).callers == 1
        list(stream)
        assert extras_of(cluster).callers == 0


def _requests(numbers: Sequence[int]) -> list[Request]:
    from flightllm.llm.engine import Parameters

    return [Request(n, f"question {n}", Parameters(), "ai_gen", "?", (("n", str(n)),)) for n in numbers]
