"""Simulated models, whose answers come from labels: an oracle, proxies with stated scores, and an embedding model.

`simulated` puts them in the place of the fake models of this process. `SimulatedServer` is a server process on them,
and `endpoint_behaviour` an OpenAI-compatible endpoint. A value always gets the same answer, in each process and order.
"""

import json
import math
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cache
from hashlib import blake2b
from pathlib import Path
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
import pytest

from flightllm.config import EmbeddingConfig, EngineConfig
from flightllm.engines.embed import fake as fake_embedder
from flightllm.engines.embed.base import Role, Vectors
from flightllm.engines.embed.fake import FakeEmbedder, FakeEmbeddingOptions
from flightllm.engines.fake import engine as fake_engine
from flightllm.engines.fake.engine import FakeEngine, FakeOptions
from flightllm.llm.engine import Choice, Completion, Request
from tests.endpoints import Behave, Body, Reply, chat, refuse
from tests.servers import KilledProcess

Label = bool | int | float | str
Labels = Mapping[str, Label]
"""The label of each value of the call's field. Several fields are one text, in the order of their names, with ` | `."""
Scores = Literal["sure", "calibrated", "overconfident", "inverted", "random", "constant", "hundred", "sly", "none"]
_NORMAL = NormalDist()
_SURE = 0.98
_SLY = 0.999
_SHARPER = 3.0


@dataclass(frozen=True)
class Model:
    """How a simulated model answers.

    `questions` has the labels for each text that the call's instruction contains; an empty text fits each instruction.
    With `scores` `sure`, a share `error` of the values gets a wrong answer. Such a model is an oracle.

    The other `scores` make a proxy. `calibrated` scores are the true probabilities, given as much noise as makes the
    share `error` of its answers wrong where all options are equally frequent. `overconfident` ones have three times
    these log odds, `inverted` ones the opposite order, and `hundred` at most a hundred values. `random` and `constant`
    ones tell nothing. `sly` ones are near 1 for each answer, wrong or right. `none` are no probabilities at all.
    """

    questions: Mapping[str, Labels]
    error: float = 0.0
    scores: Scores = "sure"
    fails: Sequence[str] = ()
    """The values whose answers are errors."""
    latency_ms: float = 0.0
    seed: int = 0
    log: str = ""
    """A file that gets one JSON line for each prompt, with the value and the instruction."""

    @classmethod
    def of(cls, labels: Labels, **more: Any) -> "Model":
        """Return a model that gives each question the same answers."""
        return cls({"": labels}, **more)


@dataclass(frozen=True)
class VectorModel:
    """How a simulated embedding model embeds: a direction for each label, and `noise` of this length."""

    labels: Labels
    noise: float = 1.0
    dimensions: int = 32
    seed: int = 0


@dataclass(frozen=True)
class Said:
    """A text, or the error in its place, and the probabilities of all options."""

    text: str | None
    probabilities: tuple[float, ...] | None = None
    error: str | None = None


class Answerer:
    """Answers values as a `Model` says."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._fails = frozenset(model.fails)
        self._shares: dict[tuple[int, tuple[str, ...]], np.ndarray] = {}
        """By the labels' identity and the options: the logarithm of each option's share."""

    def labels(self, instruction: str) -> Labels | None:
        """Return the labels for an instruction; None if it is no question of the model."""
        return next((labels for text, labels in self.model.questions.items() if text in instruction), None)

    def answer(self, instruction: str, value: str, options: Sequence[str]) -> Said:
        """Return the answer to a question about a value; without options the label is the answer."""
        labels = self.labels(instruction)
        if labels is None or value not in labels:
            return Said(None, None, f"no label is simulated for {value!r}")
        if value in self._fails:
            return Said(None, None, f"the simulated model fails for {value!r}")
        if not options:
            return Said(_text(labels[value]))
        at = _place(labels[value], options)
        if at is None:
            return Said(None, None, f"the label {labels[value]!r} is none of {', '.join(options)}")
        probabilities = self.probabilities(instruction, value, at, options)
        text = options[int(np.argmax(probabilities))]
        return Said(text, None if self.model.scores == "none" else tuple(map(float, probabilities)))

    def probabilities(self, instruction: str, value: str, at: int, options: Sequence[str]) -> np.ndarray:
        """Return the probability of each option for a value whose label is the option `at`."""
        scores, count = self.model.scores, len(options)
        if scores in ("sure", "sly"):
            chosen = self._chosen(value, at, count)
            surest = _SLY if scores == "sly" else _SURE
            return np.array([surest if place == chosen else (1 - surest) / max(count - 1, 1) for place in range(count)])
        if scores == "constant":
            return np.full(count, 1 / count)
        noise = np.array([self._normal(value, f"noise {place}") for place in range(count)])
        if scores == "random":
            return _softmax(2 * noise)
        logits = self._logits(instruction, at, options, noise)
        if scores == "overconfident":
            logits = _SHARPER * logits
        if scores == "inverted":
            logits = -logits
        found = _softmax(logits)
        if scores == "hundred":
            found = np.round(found, 2) + 1e-6
            found /= found.sum()
        return np.asarray(found)

    def _logits(self, instruction: str, at: int, options: Sequence[str], noise: np.ndarray) -> np.ndarray:
        """Return log odds that are right about a label seen through noise, given how frequent each label is."""
        numbers = _numbers(options)
        if numbers is not None:
            step = (max(numbers) - min(numbers)) / (len(numbers) - 1)
            width = step / 2 / _NORMAL.inv_cdf(1 - max(self.model.error, 1e-9) / 2)
            seen = numbers[at] + width * noise[0]
            return np.asarray(-((np.array(numbers) - seen) ** 2) / (2 * width**2))
        distance = _distance(self.model.error, len(options))
        seen = noise + np.where(np.arange(len(options)) == at, distance, 0.0)
        return np.asarray(distance * seen + self._log_shares(instruction, tuple(options)))

    def _log_shares(self, instruction: str, options: tuple[str, ...]) -> np.ndarray:
        labels = self.labels(instruction) or {}
        if (id(labels), options) not in self._shares:
            places = [place for label in labels.values() if (place := _place(label, options)) is not None]
            counts = np.bincount(places, minlength=len(options)) + 1e-3
            self._shares[id(labels), options] = np.log(counts / counts.sum())
        return self._shares[id(labels), options]

    def _chosen(self, value: str, at: int, count: int) -> int:
        if count < 2 or self._uniform(value, "wrong") >= self.model.error:
            return at
        return (at + 1 + int(self._uniform(value, "which") * (count - 1))) % count

    def _uniform(self, value: str, what: str) -> float:
        return _uniform(f"{self.model.seed}\0{what}\0{value}")

    def _normal(self, value: str, what: str) -> float:
        return _NORMAL.inv_cdf(self._uniform(value, what))


class SimulatedEngine(FakeEngine):
    """An engine whose answers come from labels; `asked` has the requests in the order in which they came."""

    def __init__(self, name: str, model: Model, window: int = 128) -> None:
        super().__init__(name, window, FakeOptions(latency_ms=model.latency_ms))
        self.asked: list[Request] = []
        self._answers = Answerer(model)
        self._log_lock = threading.Lock()

    @property
    def revision(self) -> str:
        """Return the name and the seed."""
        return f"simulated {self._model} {self._answers.model.seed}"

    @property
    def values(self) -> list[str]:
        """Return the values that were asked about."""
        return [_value(request) for request in self.asked]

    def _answer(self, request: Request) -> Completion:
        value, constraint, log = _value(request), request.parameters.constraint, self._answers.model.log
        with self._log_lock:
            self.asked.append(request)
            if log:
                with Path(log).open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"value": value, "instruction": request.instruction}) + "\n")
        options = constraint.options if isinstance(constraint, Choice) else ()
        said = self._answers.answer(request.instruction, value, options)
        tokens, probabilities = len(request.prompt) // 4, said.probabilities if request.parameters.probability else None
        return Completion(request.id, said.text, said.error, tokens, 0, int(said.text is not None), probabilities)


class SimulatedEmbedder(FakeEmbedder):
    """An embedder whose vectors carry the labels; `asked` counts the texts."""

    def __init__(self, model: VectorModel) -> None:
        super().__init__("simulated", FakeEmbeddingOptions(model.dimensions))
        self._vectors = model
        self.asked = 0

    @property
    def revision(self) -> str:
        """Return the seed, the noise and the length of the vectors."""
        return f"simulated {self._vectors.seed} {self._vectors.noise} {self._vectors.dimensions}"

    def embed(self, texts: Sequence[str], role: Role = "document") -> Vectors:
        """Return a vector per text; a text without a label gets noise alone."""
        del role
        self.asked += len(texts)
        model = self._vectors
        if not texts:
            return np.empty((0, model.dimensions), np.float32)
        found = []
        for text in texts:
            vector = model.noise * _direction(model.seed, f"text {text}", model.dimensions)
            if text in model.labels:
                vector = vector + _direction(model.seed, f"label {_text(model.labels[text])}", model.dimensions)
            found.append(vector / max(float(np.linalg.norm(vector)), 1e-9))
        return np.asarray(np.stack(found), np.float32)


@dataclass
class Simulation:
    """The simulated models of this process, once they are open."""

    engines: dict[str, SimulatedEngine] = field(default_factory=dict)
    """By the option `model` of the configuration or of CREATE MODEL. A model that was opened twice has its newest."""
    embedder: SimulatedEmbedder | None = None


@contextmanager
def simulated(models: Mapping[str, Model], vectors: VectorModel | None = None) -> Iterator[Simulation]:
    """Let engines of the kind `fake` be simulated models, by the names of their models.

    Open the database inside the block. Its own model is `demo`, and
    `CREATE MODEL small OPTIONS (engine 'fake', model 'small')` makes another one. With `vectors`, the embedding model
    of the kind `fake` is simulated too.
    """
    found, usual = Simulation(), fake_engine.create

    def create(config: EngineConfig) -> FakeEngine:
        if config.model not in models:
            return usual(config)
        found.engines[config.model] = SimulatedEngine(config.model, models[config.model], config.max_in_flight)
        return found.engines[config.model]

    def create_embedder(config: EmbeddingConfig) -> FakeEmbedder:
        del config
        found.embedder = SimulatedEmbedder(vectors or VectorModel({}))
        return found.embedder

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fake_engine, "create", create)
        if vectors is not None:
            patch.setattr(fake_embedder, "create", create_embedder)
        yield found


_SCRIPT = """
import json, sys
from pathlib import Path
from flightllm.common.pandas_import import put_off_pandas
put_off_pandas()
from flightllm.config import Config, EmbeddingConfig, EngineConfig, LimitsConfig, LogConfig, ServerConfig
from flightllm.log import configure_logging
from flightllm.server.serve import serve
from tests.simulated import Model, VectorModel, simulated
given = json.loads(Path(sys.argv[1], "simulated.json").read_text())
models = {name: Model(**model) for name, model in given["models"].items()}
vectors = VectorModel(**given["vectors"]) if given["vectors"] else None
configure_logging(LogConfig(level="error"))  # on standard error: a log line could tear the line `listening` apart
with simulated(models, vectors):
    serve(Config(
        server=ServerConfig("127.0.0.1:0"),
        engine=EngineConfig("fake", "demo", **given["engine"]),
        embedding=EmbeddingConfig("fake", "simulated"),
        limits=LimitsConfig(**given["limits"]),
        data_folder=Path(sys.argv[1], "data"),
    ))
"""


class SimulatedServer(KilledProcess):
    """A server process on simulated models; `models` names its own model `demo`.

    `prices` are `price_input` and `price_output` of `demo`. For each further model the server has the model of SQL of
    the same name, with the options in `options`. Models log their prompts.
    """

    def __init__(
        self,
        folder: Path,
        models: Mapping[str, Model],
        vectors: VectorModel | None = None,
        *,
        prices: Mapping[str, float] | None = None,
        options: Mapping[str, Mapping[str, object]] | None = None,
        limits: Mapping[str, object] | None = None,
    ) -> None:
        self._logs = {name: folder / f"{name}.jsonl" for name in models}
        given = {
            "models": {name: {**asdict(model), "log": str(self._logs[name])} for name, model in models.items()},
            "vectors": None if vectors is None else asdict(vectors),
            "engine": dict(prices or {}),
            "limits": dict(limits or {}),
        }
        (folder / "simulated.json").write_text(json.dumps(given), encoding="utf-8")
        root = str(Path(__file__).parents[1])
        self.process = subprocess.Popen(
            [sys.executable, "-c", _SCRIPT, str(folder)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])},
        )
        lines = iter(self.process.stdout or ())
        line = next((line for line in lines if line.startswith("listening ")), "")
        self.uri = line.removeprefix("listening ").strip()
        for name in models:
            if name != "demo":
                more = "".join(f", {key} {_literal(value)}" for key, value in ((options or {}).get(name) or {}).items())
                self.query(f"CREATE MODEL {name} OPTIONS (engine 'fake', model '{name}'{more})")

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement over ADBC on a connection of its own, and return its rows."""
        import adbc_driver_flightsql.dbapi as flight_sql

        with flight_sql.connect(self.uri, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def asked(self, name: str = "demo") -> list[str]:
        """Return the values that a model was asked about so far."""
        path = self._logs[name]
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        return [json.loads(line)["value"] for line in lines if line.endswith("\n")]


def endpoint_behaviour(models: Mapping[str, Model], vectors: VectorModel | None = None) -> Behave:
    """Return the behaviour of an OpenAI-compatible endpoint (`tests.endpoints.endpoint_of`) on simulated models.

    It answers chats with log probabilities, and embeddings. Write `provider 'vllm'`, so that requests have the options
    as vLLM wants them. A value must be one line, and the only field of its call.
    """
    answerers = {name: Answerer(model) for name, model in models.items()}
    embedder = SimulatedEmbedder(vectors or VectorModel({}))

    def behave(path: str, body: Body, number: int) -> Reply:
        del number
        if path.endswith("/embeddings"):
            found = embedder.embed(body["input"] if isinstance(body["input"], list) else [body["input"]])
            data = [{"index": place, "embedding": row.tolist()} for place, row in enumerate(found)]
            return 200, {"data": data, "usage": {"prompt_tokens": len(data), "total_tokens": len(data)}}, {}
        answerer = answerers.get(body["model"])
        if answerer is None:
            return refuse(404, f"there is no model {body['model']!r}")
        prompt = "\n".join(message["content"] for message in body["messages"])
        labels = answerer.labels(prompt) or {}
        lines = [part for line in prompt.splitlines() for part in (line, line.partition(": ")[2])]
        value = next((line for line in reversed(lines) if line in labels), "")
        options = tuple(body.get("structured_outputs", {}).get("choice", ()))
        said = answerer.answer(prompt, value, options)
        if said.text is None:
            return refuse(400, said.error or "")
        status, reply, headers = chat(said.text)
        if body.get("logprobs") and said.probabilities is not None:
            listed = sorted(zip(options, said.probabilities, strict=True), key=lambda pair: -pair[1])
            top = [{"token": name, "logprob": math.log(max(share, 1e-30))} for name, share in listed]
            token = {"token": said.text, "logprob": top[0]["logprob"], "top_logprobs": top[: body["top_logprobs"]]}
            reply["choices"][0]["logprobs"] = {"content": [token]}
        return status, reply, headers

    return behave


def _value(request: Request) -> str:
    return " | ".join(value for _, value in sorted(request.fields))


def _text(label: Label) -> str:
    if isinstance(label, bool):
        return "Yes" if label else "No"
    return f"{label:g}" if isinstance(label, int | float) else label


def _place(label: Label, options: Sequence[str]) -> int | None:
    """Return the place of the option that a label means; of a number, the nearest option's."""
    numbers = _numbers(options)
    if numbers is not None and not isinstance(label, str):
        return int(np.argmin(np.abs(np.array(numbers) - float(label))))
    wanted = _text(label).casefold()
    return next((place for place, option in enumerate(options) if option.strip().casefold() == wanted), None)


def _numbers(options: Sequence[str]) -> list[float] | None:
    try:
        found = [float(option) for option in options]
    except ValueError:
        return None
    return found if len(found) > 1 else None


def _softmax(logits: np.ndarray) -> np.ndarray:
    raised = np.exp(logits - logits.max())
    return np.asarray(raised / raised.sum())


def _uniform(text: str) -> float:
    """Return a number between 0 and 1, both excluded, that the text decides."""
    return (int.from_bytes(blake2b(text.encode(), digest_size=7).digest(), "little") + 0.5) / 2**56


def _direction(seed: int, text: str, dimensions: int) -> np.ndarray:
    """Return a random vector of about length 1 that the text decides."""
    number = int.from_bytes(blake2b(f"{seed}\0{text}".encode(), digest_size=8).digest(), "little")
    return np.random.default_rng(number).standard_normal(dimensions) / math.sqrt(dimensions)


def _literal(value: object) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value).lower()


@cache
def _distance(error: float, count: int) -> float:
    """Return how far a right option must stand out of unit noise, so that it is not the highest in a share `error`."""
    grid = np.linspace(-8, 14, 2_201)
    below = np.array([_NORMAL.cdf(one) for one in grid]) ** (count - 1)

    def wrong(distance: float) -> float:
        density = np.exp(-((grid - distance) ** 2) / 2) / math.sqrt(2 * math.pi)
        return 1 - float((density * below).sum() * (grid[1] - grid[0]))

    low, high = 0.0, 9.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if wrong(middle) > error else (low, middle)
    return high
