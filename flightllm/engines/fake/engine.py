"""A deterministic engine without a model: for tests, for benchmarks of the other parts, and for trying SQL.

An answer depends on the function, the instruction, the parameters and the set of named field values. It does not depend
on the order of the fields, so every rewrite of a query must return the same rows. Four characters count as one
token.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections import OrderedDict
from contextlib import closing
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from flightllm.common.newest import Newest
from flightllm.engines.extras import EngineExtras
from flightllm.engines.options import read_options
from flightllm.engines.random_answers import answerer, likelihoods
from flightllm.engines.shares import Shares
from flightllm.engines.window import LoopThread, Window
from flightllm.errors import EngineUnavailableError, check_cancelled
from flightllm.llm.engine import Completion, PrefixCache, Request
from flightllm.llm.packs import pack_answer
from flightllm.llm.tokenizer import misfit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from flightllm.config import EngineConfig
    from flightllm.llm.engine import Parameters

_CHARS_PER_TOKEN = 4
_BLOCK_TOKENS = 16
_PAUSE_SECONDS = 0.005
_MOST_SITES = 256
"""The most call sites whose hashes are kept."""


@dataclass(frozen=True, slots=True)
class FakeOptions:
    """The behaviour of the fake engine.

    `fail_every=n` fails about one request in n; the content decides, so the same rows fail in every order.
    `fail_containing` fails requests whose prompt contains this text. The engine dies after `die_after` completions. It
    writes one JSON line per prompt to `log_path`. `cache_blocks` > 0 simulates an LRU prefix cache of 16-token blocks.
    `context_tokens` > 0 bounds a prompt and its answer together; a larger prompt fails.
    """

    latency_ms: float = 0.0
    fail_every: int = 0
    fail_containing: str = ""
    die_after: int = 0
    log_path: str = ""
    cache_blocks: int = 0
    context_tokens: int = 0


class FakeEngine(EngineExtras):
    """The fake engine; `sent` counts the requests that it was given."""

    has_tokenizer = True

    def __init__(self, model: str, window: int, options: FakeOptions) -> None:
        self._model = model
        self._window = window
        self._options = options
        self._lock = threading.Lock()
        self._shares = Shares(window)
        self._thread: LoopThread | None = None
        self._sent = 0
        self._done = 0
        self._closed = False
        self._answerers: Newest[tuple[Parameters, str, str], tuple[blake2b, Callable[[int], str]]]
        self._answerers = Newest(_MOST_SITES)
        """By parameters, function and instruction: the hash of the three so far, and the function that answers."""
        self._last: tuple[Parameters | None, str, str, blake2b, Callable[[int], str]]
        self._last = (None, "", "", blake2b(), str)
        """The key and value of `_answerers` that the last request used."""
        self._blocks: OrderedDict[int, None] = OrderedDict()

    @property
    def name(self) -> str:
        """Return the engine kind and model."""
        return f"fake ({self._model})"

    @property
    def revision(self) -> str:
        """Return a constant: the answers depend only on the request."""
        return "fake-1"

    @property
    def sent(self) -> int:
        """Return how many requests the engine was given so far."""
        return self._sent

    @property
    def prefix_cache(self) -> PrefixCache | None:
        """Return the simulated prefix cache, or None."""
        return PrefixCache(_BLOCK_TOKENS, self._options.cache_blocks) if self._options.cache_blocks else None

    def generate(self, requests: Iterator[Request | None], cancelled: Callable[[], bool]) -> Iterator[Completion]:
        """Answer each request; if a latency is set, a whole window of requests can wait at the same time."""
        if self._options.latency_ms > 0:
            window = Window(self._loop(), self._answer_late, self._window, shares=self._shares)
            with closing(window.stream(requests, cancelled)) as completions:
                for completion in completions:
                    yield self._deliver(completion)
            return
        for request in requests:
            check_cancelled(cancelled)
            if request is None:
                time.sleep(_PAUSE_SECONDS)
            else:
                yield self._deliver(self._answer(request))

    @property
    def in_flight(self) -> int:
        """Return how many prompts wait for their answers."""
        return self._shares.in_flight

    @property
    def callers(self) -> int:
        """Return how many calls of `generate` share the engine at present."""
        return self._shares.callers

    def _loop(self) -> LoopThread:
        """Return the thread on which answers wait; only an engine with a latency has this thread."""
        with self._lock:
            if self._thread is None:
                self._thread = LoopThread("fake")
            return self._thread

    async def _answer_late(self, chunk: Sequence[Request]) -> list[Completion]:
        completions = [self._answer(request) for request in chunk]
        await asyncio.sleep(self._options.latency_ms / 1000)
        return completions

    def count_tokens(self, text: str) -> int:
        """Count four characters as one token."""
        return -(-len(text) // _CHARS_PER_TOKEN)

    @property
    def context_tokens(self) -> int:
        """Return the configured context, or a limit above the length of any prompt."""
        return self._options.context_tokens or sys.maxsize

    def token_ids(self, prompts: Sequence[str]) -> list[list[int]]:
        """Return a number for each four characters."""
        starts = [range(0, len(prompt), _CHARS_PER_TOKEN) for prompt in prompts]
        return [[hash(p[i : i + _CHARS_PER_TOKEN]) for i in s] for p, s in zip(prompts, starts, strict=True)]

    def close(self) -> None:
        """Fail all further requests. Idempotent."""
        self._closed = True
        if self._thread is not None:
            self._thread.close()

    def _answer(self, request: Request) -> Completion:
        with self._lock:
            self._sent += 1
        prompt_tokens = -(-len(request.prompt) // _CHARS_PER_TOKEN)
        cached = self._cached_tokens(request.prompt) if self._options.cache_blocks else 0
        if self._options.log_path:
            self._log(request)
        seed, text = self._text(request)
        error = self._error(request, seed)
        if error:
            long = bool(self._options.context_tokens) and 0 < self._options.context_tokens <= prompt_tokens
            return Completion(request.id, None, error, prompt_tokens, cached, too_long=long)
        parameters = request.parameters
        probabilities = likelihoods(parameters.constraint, text, seed) if parameters.probability else None
        tokens = -(-len(text) // _CHARS_PER_TOKEN)
        return Completion(request.id, text, None, prompt_tokens, cached, tokens, probabilities)

    def _text(self, request: Request) -> tuple[int, str]:
        """Return a request's hash and its answer; a pack has the answers of its single questions."""
        site, answer = self._answerer(request)
        digest = site.copy()
        digest.update(repr(sorted(request.fields)).encode("utf-8", "surrogatepass"))
        seed = int.from_bytes(digest.digest(), "little")
        if not request.pack:
            return seed, answer(seed)
        answers = []
        for item in request.pack:
            _, text = self._text(Request(0, "", item.parameters, item.function, item.instruction, item.fields))
            answers.append((item.code, text, item.parameters.constraint))
        return seed, pack_answer(answers)

    def _answerer(self, request: Request) -> tuple[blake2b, Callable[[int], str]]:
        """Return the hash of a request's call site so far, and the function that answers it."""
        parameters, function, instruction = request.parameters, request.function, request.instruction
        last = self._last  # one read, because other threads replace the tuple
        if last[0] is parameters and last[1] is function and last[2] is instruction:
            return last[3], last[4]
        key = parameters, function, instruction
        with self._lock:
            known = self._answerers.get(key)
            if known is None:
                text = f"{function}\0{instruction}\0{parameters}\0"
                site = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8)
                known = self._answerers[key] = (site, answerer(parameters.constraint))
        self._last = (*key, *known)
        return known

    def _error(self, request: Request, seed: int) -> str | None:
        options = self._options
        if options.context_tokens:
            tokens = -(-len(request.prompt) // _CHARS_PER_TOKEN)
            if (error := misfit(tokens, 1, options.context_tokens)) is not None:
                return error
        if options.fail_containing and options.fail_containing in request.prompt:
            return f"the fake engine fails prompts containing {options.fail_containing!r}"
        if options.fail_every and seed % options.fail_every == 0:
            return f"the fake engine fails one prompt in {options.fail_every}"
        return None

    def _deliver(self, completion: Completion) -> Completion:
        """Return a completion, or raise `EngineUnavailableError` if the engine is closed or must die now."""
        limit = self._options.die_after
        if self._closed:
            msg = f"the engine {self.name} is closed"
            raise EngineUnavailableError(msg)
        if limit:
            with self._lock:
                if self._done >= limit:
                    msg = f"the engine {self.name} died after {limit} completions"
                    raise EngineUnavailableError(msg)
                self._done += 1
        return completion

    def _cached_tokens(self, prompt: str) -> int:
        """Return how many tokens of a prompt are in the simulated cache, and add the prompt's full blocks to it."""
        size = _BLOCK_TOKENS * _CHARS_PER_TOKEN
        parent, hits, hitting = 0, 0, True
        with self._lock:
            for start in range(0, len(prompt) - size + 1, size):
                parent = hash((parent, prompt[start : start + size]))
                hitting = hitting and parent in self._blocks
                hits += hitting
                self._blocks[parent] = None
                self._blocks.move_to_end(parent)
            while len(self._blocks) > self._options.cache_blocks:
                self._blocks.popitem(last=False)
        return hits * _BLOCK_TOKENS

    def _log(self, request: Request) -> None:
        line = {
            "function": request.function,
            "prompt": request.prompt,
            "fields": request.fields,
            "tenant": request.tenant,
        }
        with self._lock, Path(self._options.log_path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def create(config: EngineConfig) -> FakeEngine:
    """Create the fake engine from the configuration."""
    return FakeEngine(config.model, config.max_in_flight, check(config))


def check(config: EngineConfig) -> FakeOptions:
    """Return the options of the configuration."""
    return read_options(FakeOptions, "fake", config.options)
