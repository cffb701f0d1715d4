"""The choice among proxies: by prices, and by seconds where the model has no price."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from flightllm.operators.oracle import UNASKED
from flightllm.operators.proxy import NONE, Scores
from flightllm.operators.proxy_choice import ChosenProxy, Priced

UNITS = 2_000


@dataclass
class Clock:
    """A clock that goes on only when somebody works."""

    now: float = 0.0

    def __call__(self) -> float:
        """Return the seconds since the start."""
        return self.now


class Teacher:
    """An oracle that takes `seconds` for an answer."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self.truth = (np.arange(UNITS) % 3 == 0).astype(np.int64)
        self.labels = np.full(UNITS, UNASKED)
        self.values = [False, True]
        self.clock, self.seconds = clock, seconds

    def ask(self, units: Any) -> Any:
        """Answer units."""
        self.clock.now += self.seconds * len(units)
        self.labels[units] = self.truth[units]
        return self.labels[units]


@dataclass
class Perfect:
    """A proxy that is right and sure, waits once, and takes `seconds` for a score."""

    name: str
    clock: Clock
    truth: Any
    seconds: float
    wait: float = 0.0
    reason: str = ""
    learns: bool = False
    did: list[str] = field(default_factory=list)

    def open(self) -> None:
        """Wait."""
        self.did.append("open")
        self.clock.now += self.wait
        self.wait = 0.0

    def prepare(self, units: Any) -> None:
        """Take time."""
        self.clock.now += self.seconds * len(units)

    def tried(self, units: Any, labels: Any) -> Scores:
        """Return the scores of some units."""
        del labels
        return self.scores(units)

    def scores(self, units: Any) -> Scores:
        """Return right labels."""
        return Scores(self.truth[units], np.full(len(units), 0.99))

    def costs_nothing(self) -> bool:
        """Return False."""
        return False


def chosen(answer: float, *proxies: tuple[float | None, float, float]) -> tuple[ChosenProxy, list[Perfect]]:
    """Choose among proxies, given as price, seconds of a score and wait; an answer takes `answer` seconds."""
    clock = Clock()
    teacher: Any = Teacher(clock, answer)
    made = [Perfect(f"p{at}", clock, teacher.truth, one[1], one[2]) for at, one in enumerate(proxies)]
    candidates = [Priced(one, price) for one, (price, *_) in zip(made, proxies, strict=True)]
    choice = ChosenProxy(candidates, teacher, lambda _, __: 0.3, 0, clock=clock)
    choice.scores(np.arange(UNITS))
    return choice, made


@pytest.mark.parametrize(
    ("answer", "proxies", "wanted"),
    [
        pytest.param(1e-4, [(None, 1e-2, 0.0)], NONE, id="an answer at once"),
        pytest.param(1e-1, [(None, 1e-2, 0.0)], "p0", id="a slow answer"),
        pytest.param(1e-1, [(None, 5e-2, 0.0), (None, 1e-2, 0.0)], "p1", id="the quicker proxy"),
        pytest.param(1e-4, [(0.01, 1e-2, 0.0)], "p0", id="a price decides"),
        pytest.param(1e-4, [(0.01, 1e-2, 100.0)], "p0", id="a price decides over a wait"),
        pytest.param(1e-4, [(0.9, 0.0, 0.0)], NONE, id="a dear proxy"),
        pytest.param(1e-1, [(None, 1e-2, 100.0)], "p0", id="a wait that is worth it"),
    ],
)
def test_choice(answer: float, proxies: list[tuple[float | None, float, float]], wanted: str) -> None:
    """Prices decide where there are prices, else the seconds of the pilot; the time to load a model is no price."""
    assert chosen(answer, *proxies)[0].name == wanted


def test_a_wait_longer_than_all_answers() -> None:
    """A model that loads longer than all rows take is not even opened, and the reason speaks of time."""
    choice, (proxy,) = chosen(1e-4, (None, 0.0, 15.0))
    assert (choice.name, proxy.did) == (NONE, [])
    assert choice.reason == "By a pilot, p0 would save no time."
