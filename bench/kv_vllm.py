"""How many tokens less does vLLM compute if a store holds the start of its prompts, and are the answers the same?

    python -m bench.kv_vllm [--json] [--quick]

A `flightllm kvstore serve` and the vLLM engines that use it each run in processes of their own. Several prompts begin
with the same text of about 1,900 tokens and ask for different facts of it. The answers of the demo model are
meaningful. The first engine answers two prompts of each text, saves their common start in every codec, and ends. Each
further engine answers these prompts and as many others: without a store (`plain`), with one codec, and with a store
that is killed at the first load. `--quick` runs the demo model with fewer texts and one codec.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from bench.common import markdown, parse_options, report
from bench.models import CPU, model
from flightllm.common.package_data import demo_model
from flightllm.common.text import shared_start
from flightllm.config import EngineConfig
from flightllm.engines import create_engine
from flightllm.kvcache.codec import DEFAULT_CODEC
from flightllm.kvcache.profile.place import profile_path
from flightllm.kvcache.store.client import FlightStore
from flightllm.llm.engine import Completion, Parameters, Request
from flightllm.llm.tokenizer import PromptEncoder
from tests.kv_servers import KvProcess
from training.evaluate import SEED
from training.examples import held_out_writer
from training.tasks.base import Example
from training.tasks.needles import ask_needles

_WORDS: Final = 1_000
_ASKED: Final = 4
"""The number of questions on each text; the first engine answers half of them."""
_PROFILED: Final = 8
"""The number of texts to learn the profile of the model with random weights from."""
_IN_FLIGHT: Final = 4
_LOOK_SECONDS: Final = 0.005
_PATIENT: Final = {"lookup_seconds": 30.0, "load_seconds": 60.0, "flush_seconds": 600.0, "save_tokens": 1_000_000}
"""Long timeouts, so that no transfer is cancelled on a busy machine."""

Text = Sequence[Example]
"""The questions on one text."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one engine: the tokens that it computed, its answers, and the bytes that the store holds for it."""

    computed: int | None
    """None if loads failed, because vLLM then counts their tokens as not computed."""
    stored: int
    right: float
    seconds: float
    answers: tuple[str | None, ...]


def texts(name: str, count: int) -> Iterator[Text]:
    """Yield texts with their questions. Each prompt begins with the whole text."""
    writer = held_out_writer(SEED, name)
    while count:
        asked = ask_needles(writer, _WORDS, _ASKED, early=True)
        prompts = [example.prompt() for example in asked]
        if len(asked) == _ASKED and _shared(prompts) > min(map(len, prompts)) // 2:
            yield asked
            count -= 1


def _shared(prompts: Sequence[str]) -> int:
    return min(shared_start(prompts[0], prompt) for prompt in prompts[1:])


def requests(asked: Sequence[Text], each: int) -> list[Request]:
    """Return the first `each` questions on each text."""
    found: list[Request] = []
    for examples in asked:
        prompts = [example.prompt() for example in examples]
        shared = _shared(prompts)
        for prompt in prompts[:each]:
            parameters = Parameters(max_tokens=24)
            found.append(Request(len(found), prompt, parameters, "ai_gen", "", (), recurs=shared))
    return found


class Bench:
    """A model, the texts to ask it about, and the folder of its stores."""

    def __init__(self, weights: Path, profile: Path, asked: Sequence[Text], folder: Path) -> None:
        self._weights, self._profile, self._asked, self._folder = weights, profile, asked, folder

    def fill(self, codecs: Sequence[str]) -> None:
        """Let an engine compute and save the common start of the prompts of each text."""
        with self._store() as store:
            self._ask(_ASKED // 2, self._options(store.uri, codecs[0], codecs[1:]))

    def plain(self) -> Outcome:
        """Return the result of an engine without a store."""
        return self._ask(_ASKED, {})

    def loaded(self, codec: str) -> Outcome:
        """Return the result of an engine that loads one codec."""
        with self._store() as store:
            with FlightStore(store.uri) as client:
                stored = client.status().codecs[codec].bytes
            return self._ask(_ASKED, self._options(store.uri, codec, save="none"), stored)

    def killed(self, codec: str) -> Outcome:
        """Return the result of an engine whose store is killed at the first load."""
        with self._store() as store:
            ended = threading.Event()
            killing = threading.Thread(target=kill_at_first_load, args=(store, ended))
            killing.start()
            try:
                outcome = self._ask(_ASKED, self._options(store.uri, codec, save="none"))
            finally:
                ended.set()
                killing.join()
            return replace(outcome, computed=None)

    def _store(self) -> KvProcess:
        return KvProcess(self._folder, "--folder", str(self._folder / "chunks"), "--max-bytes", str(8 << 30))

    def _options(self, store: str, codec: str, codecs: Sequence[str] = (), save: str = "hinted") -> dict[str, Any]:
        kept = {**_PATIENT, "codecs": list(codecs), "profile": str(self._profile), "save": save}
        return {"kv_store": store, "kv_codec": codec, "kv_options": kept}

    def _ask(self, each: int, options: Mapping[str, object], stored: int = 0) -> Outcome:
        asked = requests(self._asked, each)
        with _engine(self._weights, options) as ask:
            started = time.perf_counter()
            done = sorted(ask(asked), key=lambda one: one.id)
            seconds = time.perf_counter() - started
        examples = [example for text in self._asked for example in text[:each]]
        right = sum(_right(*pair) for pair in zip(examples, done, strict=True)) / len(done)
        computed = sum(one.prompt_tokens - one.cached_tokens for one in done)
        return Outcome(computed, stored, right, seconds, tuple(one.text for one in done))


@contextmanager
def _engine(weights: Path, options: Mapping[str, object]) -> Iterator[Callable[[Sequence[Request]], list[Completion]]]:
    """Run an engine until the block ends; yield a function that sends it requests."""
    engine = create_engine(EngineConfig("vllm", str(weights), _IN_FLIGHT, {"max_model_len": 2_048, **options}))
    try:
        yield lambda asked: list(engine.generate(iter(asked), lambda: False))
    finally:
        engine.close()


def kill_at_first_load(store: KvProcess, ended: threading.Event) -> None:
    """Kill a store after the first load from it, unless the engine has ended before."""
    with FlightStore(store.uri) as client:
        while not client.status().hits:
            if ended.wait(_LOOK_SECONDS):
                return
    store.process.kill()


def _right(example: Example, done: Completion) -> bool:
    call = example.call()
    try:
        return done.text is not None and call.parse(done.text) == call.parse(example.answer)
    except ValueError:  # no answer at all
        return False


def measure(bench: Bench, *, quick: bool) -> dict[str, Any]:
    """Return the figures of each engine, keyed by the codec that it loaded."""
    codecs = (DEFAULT_CODEC,) if quick else ("raw", "int8", DEFAULT_CODEC)
    bench.fill(codecs)
    outcomes = {"plain": bench.plain()}
    outcomes |= {codec: bench.loaded(codec) for codec in codecs}
    outcomes[f"{codecs[0]}, store killed"] = bench.killed(codecs[0])
    plain = outcomes["plain"]
    found: dict[str, Any] = {}
    for name, outcome in outcomes.items():
        equal = sum(one == other for one, other in zip(outcome.answers, plain.answers, strict=True))
        figures = {key: value for key, value in asdict(outcome).items() if key != "answers"}
        loaded = plain.computed - outcome.computed if plain.computed and outcome.computed else None
        found[name] = {**figures, "loaded": loaded, "equal": equal / len(plain.answers)}
    return found


def main() -> None:
    """Measure, and print a table for each model."""
    options = parse_options(__doc__ or "")
    count = 2 if options.quick else 8
    asked = list(texts("loaded", count))
    heads: dict[str, Callable[[Any], str]] = {
        "tokens computed": lambda one: _count(one["computed"]),
        "loaded": lambda one: _count(one["loaded"]),
        "stored, KiB": lambda one: f"{one['stored'] / 1024:,.0f}" if one["stored"] else "",
        "equal answers %": lambda one: f"{100 * one['equal']:.0f}",
        "right %": lambda one: f"{100 * one['right']:.0f}",
        "seconds": lambda one: f"{one['seconds']:.1f}",
    }
    figures: dict[str, Any] = {}
    for name in ("demo model",) if options.quick else ("demo model", "28M, random weights"):
        with tempfile.TemporaryDirectory() as kept:
            folder = Path(kept)
            bench = _demo(asked, folder) if name == "demo model" else _random(asked, folder)
            figures[name] = measure(bench, quick=options.quick)
        print(markdown(f"{name}, {count} texts", heads, figures[name]), flush=True)
    if options.json:
        report("kv_vllm", options, figures)


def _count(tokens: int | None) -> str:
    return "" if tokens is None else f"{tokens:,}"


def _demo(asked: Sequence[Text], folder: Path) -> Bench:
    return Bench(demo_model(), profile_path(demo_model()), asked, folder)


def _random(asked: Sequence[Text], folder: Path) -> Bench:
    """Return the benchmark of the model with random weights, whose profile is learned from other texts."""
    from flightllm.engines.local.model import PrefixModel
    from flightllm.kvcache.profile.learn import (
        learn,
    )  # imported here: vLLM's processes import this module, and numba breaks them

    weights, profile = model(CPU), folder / "profile.npz"
    encoder, computing = PromptEncoder(weights), PrefixModel(weights, "cpu", "auto")
    prompts = encoder.encode([text[0].prompt() for text in texts("profiled", _PROFILED)])
    caches = [computing.kv_cache(prompt) for prompt in prompts]
    learn(lambda: caches).save(profile)
    return Bench(weights, profile, asked, folder)


if __name__ == "__main__":
    main()
