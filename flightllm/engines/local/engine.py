"""The embedded engine: PyTorch and transformers in this process, on CPU or CUDA.

Prompts arrive in an order in which neighbours share a prefix. They are cut into batches. The prefix of a batch is
computed once, or reused from the batch before; then the suffixes run together. A choice takes one forward pass.
"""

from __future__ import annotations

import math
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from flightllm.engines.fair_lock import FairLock
from flightllm.engines.kv_hints import Hints
from flightllm.engines.loaded import LoadedEngine
from flightllm.engines.local.plan import best_order, branchings, plan_batches
from flightllm.engines.local.turns import Turn, plan_turn
from flightllm.engines.options import read_options
from flightllm.errors import EngineError, EngineUnavailableError, MissingExtraError, check_cancelled
from flightllm.kvcache.eviction import OFF, check_policy
from flightllm.kvcache.options import KvOptions, gather_kv_options, read_kv_options
from flightllm.llm.engine import Choice, Completion, Constraint, More, Parameters, PrefixCache, Request, pull
from flightllm.llm.files import check_model, model_digest, model_folder
from flightllm.llm.thinking import UNTHINKING, no_room_to_think, thought_room, unfinished_thought
from flightllm.llm.tokenizer import PromptEncoder, misfit

if TYPE_CHECKING:
    from flightllm.config import EngineConfig

# PyTorch reads this variable when it loads. Threads that spin while they wait for each other make the model ten times
# slower as soon as other work uses the same cores; threads that sleep do not.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

_INSTEAD = (
    " (the CPU build of PyTorch; for a GPU, leave out --torch-backend cpu). Other ways: `flightllm init` finds Ollama"
    " and API keys; `flightllm init --engine fake --yes` makes up answers without a model"
)

try:
    import torch

    from flightllm.engines.local.draws import Draws
    from flightllm.engines.local.grammar import GrammarRow, Grammars
    from flightllm.engines.local.kv import KeptStarts
    from flightllm.engines.local.model import PrefixModel, Rows
    from flightllm.engines.local.prefixes import PrefixStore
except ImportError as exc:
    raise MissingExtraError("the engine 'local'", "local", _INSTEAD) from exc

_PAUSE_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class LocalOptions:
    """The options of the engine `local`.

    `batch_rows` and `batch_tokens` bound one forward pass. `max_model_len` (0: the model's own) bounds a prompt with
    its answer. `seed` is for temperatures above 0. `revision` pins a hub model's branch, tag or commit.

    The prefix cache holds starts of prompts in `prefix_cache_bytes`, and evicts by the policy `kv_eviction`. With 0
    bytes, or `none`, only the start of the last batch is kept.

    `kv_store` is the address of a KV store, as `grpc://host:port`. The store keeps recurring starts of prompts for
    later runs of this engine, and for other engines of the same model. `kv_codec` encodes these starts; `kv_options`
    are further options of `KvOptions`.
    """

    device: str = "auto"
    dtype: str = "auto"
    batch_rows: int = 32
    batch_tokens: int = 32_768
    max_model_len: int = 0
    seed: int = 0
    revision: str = ""
    prefix_cache_bytes: int = 64 << 20
    kv_eviction: str = "planned"
    kv_store: str = ""
    kv_codec: str = ""
    kv_token: str | None = None
    kv_options: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _ = self.keeping
        if self.batch_rows < 1 or self.batch_tokens < 1:
            raise ValueError("batch_rows and batch_tokens: expected at least 1")
        if self.prefix_cache_bytes < 0:
            raise ValueError("prefix_cache_bytes: must not be negative")
        check_policy(self.kv_eviction)

    @property
    def keeping(self) -> KvOptions | None:
        """Return the options of the KV store, or None if there is no store."""
        given = gather_kv_options(self.kv_store, self.kv_codec, self.kv_token, self.kv_options)
        return read_kv_options(given) if given else None


class LocalEngine(LoadedEngine):
    """An engine of one model behind one lock: concurrent `generate` calls take turns batch by batch."""

    def __init__(self, model: str, window: int, options: LocalOptions, reasoning: str | None = None) -> None:
        folder = model_folder(model, revision=options.revision)
        self._name = f"local ({model})"
        self._window = window
        self._options = options
        self._encoder = PromptEncoder(folder, reasoning=reasoning)
        self._model = PrefixModel(folder, options.device, options.dtype)
        self._grammars = Grammars(self._encoder, self._model.vocabulary)
        self._limit = min(options.max_model_len or self._model.context, self._model.context)
        self._random = torch.Generator(self._model.device).manual_seed(options.seed)
        self._revision = f"local-1 {model_digest(folder)} {self._model.dtype}"
        keeping = options.keeping
        self._kept: KeptStarts | None = None
        if keeping is not None:
            self._kept = KeptStarts(keeping, self._revision, folder, self._model, self._encoder)
            self._revision += "".join(f" {codec}" for codec in keeping.lossy)
        self._revision += self._encoder.revision
        self._prefixes: PrefixStore | None = None
        if options.prefix_cache_bytes and options.kv_eviction != OFF:
            self._prefixes = PrefixStore(self._model, options.prefix_cache_bytes, options.kv_eviction)
        self._lock = FairLock()
        self._closed = False

    @property
    def revision(self) -> str:
        """Return a digest of the model's files, its data type, any lossy KV codecs, and its thinking mode."""
        return self._revision

    @property
    def prefix_cache(self) -> PrefixCache | None:
        """Return the cache that is certain to persist between batches: the tokens of one prompt."""
        return PrefixCache(1, self._limit)

    @property
    def separates_tenants(self) -> bool:
        """Return whether the engine keeps tenants' prefixes apart."""
        return True

    def generate(self, requests: Iterator[Request | None], cancelled: Callable[[], bool]) -> Iterator[Completion]:
        """Pull a window of requests and answer it batch by batch, again and again; see `Engine.generate`."""
        more = More.READY
        while more is not More.ENDED:
            window, more = pull(requests, self._window, cancelled)
            if not window and more is More.PAUSED:
                time.sleep(_PAUSE_SECONDS)
            alike: dict[tuple[Parameters, str], list[Request]] = defaultdict(list)
            for request in window:
                alike[request.parameters, request.tenant].append(request)
            for (parameters, _), group in alike.items():
                yield from self._answer_group(group, parameters, cancelled)

    def close(self) -> None:
        """Release the model after the running batch."""
        with self._lock:
            self._closed = True
            kept, self._kept = self._kept, None
            self._prefixes = None
            self.__dict__.pop("_model", None)
        if kept is not None:
            kept.close()

    def _answer_group(
        self, group: Sequence[Request], parameters: Parameters, cancelled: Callable[[], bool]
    ) -> Iterator[Completion]:
        mode = self._encoder.mode(parameters.reasoning)
        answer = self._answer_tokens(parameters)
        fitting: list[tuple[Request, list[int]]] = []
        for request, ids in self._encode(group):
            if isinstance(ids, str):
                yield Completion(request.id, None, ids)
                continue
            error = misfit(len(ids), answer, self._limit)
            if error:
                yield Completion(request.id, None, error, prompt_tokens=len(ids), too_long=bool(ids))
            else:
                fitting.append((request, ids))
        if mode != UNTHINKING:
            yield from self._think(fitting, parameters, mode, cancelled)
            return
        for request, tokens, found in self._run(fitting, parameters, cancelled):
            yield self._completion(request, len(tokens), found)

    def _think(
        self,
        fitting: Sequence[tuple[Request, list[int]]],
        parameters: Parameters,
        mode: str,
        cancelled: Callable[[], bool],
    ) -> Iterator[Completion]:
        """Let the model think without a constraint until the closing mark, then answer under the constraint."""
        roomy = []
        for request, ids in fitting:
            room = self._limit - len(ids)
            if thought_room(mode, parameters.max_tokens, room) > 0:
                roomy.append((request, ids))
            else:
                yield Completion(request.id, None, no_room_to_think(room), len(ids), too_long=True)
        thoughts: dict[int, tuple[list[int], _Answer]] = {}
        behind: list[tuple[Request, list[int]]] = []
        for request, ids, found in self._run(roomy, replace(parameters, constraint=None), cancelled, mode):
            thought = self._encoder.ended_thought(found.ids)
            error = None if self._ended(found.ids) else unfinished_thought(found.tokens)
            error = error or misfit(len(ids) + len(thought), self._answer_tokens(parameters), self._limit)
            if error is None:
                thoughts[request.id] = thought, found
                behind.append((request, ids + thought))
            else:
                counts = len(ids), found.cached, found.tokens
                yield Completion(request.id, None, error, *counts, reasoning_tokens=found.tokens)
        for request, ids, found in self._run(behind, parameters, cancelled):
            thought, begun = thoughts.pop(request.id)
            ended = self._completion(request, len(ids) - len(thought), found, thought)
            tokens = begun.tokens + found.tokens
            yield replace(ended, cached_tokens=begun.cached, completion_tokens=tokens, reasoning_tokens=begun.tokens)

    def _ended(self, ids: Sequence[int]) -> bool:
        """Return whether a thought's tokens end with the closing mark or with an end-of-text token."""
        return ids[-1] in self._model.end_tokens or self._encoder.ends_thought(ids)

    def _completion(
        self, request: Request, prompt_tokens: int, found: _Answer, thought: Sequence[int] = ()
    ) -> Completion:
        """Return the completion of a request; the thought of a thinking model is split from its text."""
        completion = Completion(
            request.id,
            found.text,
            None,
            prompt_tokens,
            found.cached,
            found.tokens,
            found.probabilities,
            found.finish_reason,
        )
        return self._without_thought(request, completion, found.ids, thought)

    def _run(
        self,
        fitting: Sequence[tuple[Request, list[int]]],
        parameters: Parameters,
        cancelled: Callable[[], bool],
        thinking: str = UNTHINKING,
    ) -> Iterator[tuple[Request, list[int], _Answer]]:
        """Yield requests, their tokens and answers, batch by batch; with a `thinking` mode, stop after the thought."""
        turns = self._turns(fitting)
        done = 0
        try:
            for turn in turns:
                check_cancelled(cancelled)
                with self._lock:
                    if self._prefixes is not None and not done:
                        self._prefixes.queue(turns)
                    answers = self._answer_batch(turn, parameters, cancelled, thinking)
                done += 1
                yield from zip(turn.requests, turn.prompts, answers, strict=True)
        finally:  # without the lock: a cancelled call must not wait for another call's batch
            prefixes = self._prefixes
            if prefixes is not None:
                prefixes.cancel(turns[done:])

    def _turns(self, fitting: Sequence[tuple[Request, list[int]]]) -> list[Turn]:
        """Cut prompts into batches, in the order in which they share the most."""
        if not fitting:
            return []
        order = best_order([prompt for _, prompt in fitting])
        requests, prompts = zip(*(fitting[place] for place in order), strict=True)
        batches = plan_batches(
            prompts, self._options.batch_rows, self._options.batch_tokens, self._held(requests[0], prompts[0])
        )
        hints = Hints(self._encoder)
        found = [(slice(batch.start, batch.stop), batch.prefix) for batch in batches]
        return [plan_turn(requests[part], prompts[part], prefix, hints) for part, prefix in found]

    def _held(self, request: Request, prompt: Sequence[int]) -> Sequence[int]:
        """Return cached tokens that a prompt can share; only a hint, because another call can replace them."""
        with self._lock:
            if self._closed:
                return []
            if self._prefixes is None:
                return self._model.kept_of(request.tenant)
            return self._prefixes.held(request, prompt)

    def _answer_tokens(self, parameters: Parameters) -> int:
        """Return the least number of tokens that an answer needs."""
        if isinstance(parameters.constraint, Choice):
            return max(len(self._encoder.continuation(option)) for option in parameters.constraint.options)
        return 1

    def _answer_batch(
        self, turn: Turn, parameters: Parameters, cancelled: Callable[[], bool], thinking: str
    ) -> list[_Answer]:
        if self._closed:
            raise EngineUnavailableError(f"the engine {self._name} is closed")
        self._model.turn_to(turn.tenant)
        try:
            prefill = self._model.prefill if self._kept is None else partial(self._kept.prefill, turn.requests)
            constraint = parameters.constraint
            tokens = self._tokens_of_options(constraint)
            branches = branchings(tokens)
            with self._model.only(_tokens(branches[()])) if () in branches else nullcontext():
                if self._prefixes is None:
                    rows, reused = prefill(turn.prompts, turn.prefix)
                else:
                    rows, reused = self._prefixes.prefill(prefill, turn)
            draws = Draws(parameters, [request.prompt for request in turn.requests], self._random)
            if isinstance(constraint, Choice):
                answers = self._choose(rows, constraint.options, [len(one) - 1 for one in tokens], branches, draws)
            else:
                room = self._limit - max(map(len, turn.prompts))
                limits = [
                    min(request.limit, self._limit - len(prompt))
                    for request, prompt in zip(turn.requests, turn.prompts, strict=True)
                ]
                if thinking != UNTHINKING:
                    limits = [thought_room(thinking, parameters.max_tokens, room)] * len(turn.requests)
                answers = self._write(rows, parameters, limits, draws, cancelled, thinking)
        except torch.OutOfMemoryError as exc:
            raise EngineError(f"the engine {self._name} ran out of device memory: lower [engine] batch_tokens") from exc
        answers[0].cached = reused
        for answer in answers[1:]:
            answer.cached = turn.prefix
        return answers

    def _tokens_of_options(self, constraint: Constraint) -> list[tuple[int, ...]]:
        """Return the tokens of each option with the end token; an empty list for another constraint than a choice."""
        options = constraint.options if isinstance(constraint, Choice) else ()
        end = self._encoder.tokenizer.eos_token_id
        return [(*self._encoder.continuation(option), end) for option in options]

    def _choose(
        self,
        rows: Rows,
        options: Sequence[str],
        lengths: Sequence[int],
        branches: Mapping[tuple[int, ...], Mapping[int, int]],
        draws: Draws,
    ) -> list[_Answer]:
        """Choose by the probability of each option; only tokens that continue an option count.

        `lengths` has the number of tokens of each option, and `branches` the places where options differ.
        A score is the log-probability of an option, summed over the places where options differ. At each place, only
        the options' tokens share the probability p. An example:

        | option | score |
        |---|---|
        | `Yes` | log p(`Yes`) + log p(end after `Yes`) |
        | `Yes please` | log p(`Yes`) + log p(` please` after `Yes`) |
        | `No` | log p(`No`) |
        """
        scores = torch.zeros(len(rows.logits), len(options), device=self._model.device)
        for prefix, following in branches.items():
            tokens = _tokens(following)
            with self._model.only(tokens):
                logits = self._model.look_ahead(rows, prefix) if prefix else rows.logits
            steps = logits.log_softmax(-1)
            for option, token in following.items():
                scores[:, option] += steps[:, tokens.index(token)]
        probabilities = scores.softmax(-1).tolist()
        chosen = draws.pick(scores, range(len(scores))).tolist()
        return [_Answer(options[index], lengths[index], tuple(probabilities[row])) for row, index in enumerate(chosen)]

    def _write(
        self,
        rows: Rows,
        parameters: Parameters,
        limits: Sequence[int],
        draws: Draws,
        cancelled: Callable[[], bool],
        thinking: str,
    ) -> list[_Answer]:
        """Generate token by token until every row has ended; remove ended rows from the batch.

        A row that reaches its limit is cut off, and has ended too.
        """
        constraint = parameters.constraint
        count = len(rows.logits)
        grammars: list[GrammarRow] | None = None
        if constraint is not None and not isinstance(constraint, Choice):
            grammars = [self._grammars.row(constraint, limit) for limit in limits]
        written: list[list[int]] = [[] for _ in range(count)]
        cut = [True] * count
        active = list(range(count))
        while True:
            check_cancelled(cancelled)
            logits = rows.logits.float()
            if grammars is not None:
                allowed = torch.stack([grammars[row].allowed() for row in active]).to(logits.device)
                logits = logits.masked_fill(~allowed, -math.inf)
            tokens = draws.pick(logits, active)
            kept = []
            for place, (row, token) in enumerate(zip(active, tokens.tolist(), strict=True)):
                written[row].append(token)
                ended = token in self._model.end_tokens
                if thinking != UNTHINKING:
                    ended = ended or self._encoder.ends_thought(written[row])
                if grammars is not None:
                    ended = grammars[row].accept(token) or ended
                cut[row] = not ended
                if not ended and len(written[row]) < limits[row]:
                    kept.append(place)
            if not kept:
                break
            if len(kept) < len(active):
                self._model.select(rows, kept)
                tokens = tokens[kept]
                active = [active[place] for place in kept]
            self._model.advance(rows, tokens)
        return [
            _Answer(self._encoder.decode(ids), len(ids), ids=ids, finish_reason="length" if is_cut else "stop")
            for ids, is_cut in zip(written, cut, strict=True)
        ]


def _tokens(following: Mapping[int, int]) -> list[int]:
    """Return the distinct tokens with which options go on at one place."""
    return sorted(set(following.values()))


class _Answer:
    """The answer of one row of a batch; `cached` counts prompt tokens that were not computed for this row.

    `ids` are the tokens of a generated text; a chosen option has no `ids`.
    """

    __slots__ = ("cached", "finish_reason", "ids", "probabilities", "text", "tokens")

    def __init__(
        self,
        text: str,
        tokens: int,
        probabilities: tuple[float, ...] | None = None,
        ids: Sequence[int] = (),
        finish_reason: str = "stop",
    ) -> None:
        self.ids = ids
        self.text = text
        self.tokens = tokens
        self.probabilities = probabilities
        self.finish_reason = finish_reason
        self.cached = 0


def create(config: EngineConfig) -> LocalEngine:
    """Load the model that the configuration names."""
    return LocalEngine(config.model, config.max_in_flight, check(config), config.reasoning)


def check(config: EngineConfig) -> LocalOptions:
    """Return the options of the configuration, and check that the model exists unless it is a hub model."""
    options = read_options(LocalOptions, "local", config.options)
    check_model(config.model, options.revision)
    return options
