"""Use a KV store with the local engine: load starts of prompts where that is faster, and save new starts."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import structlog
import torch

from flightllm.common.text import shared_start
from flightllm.engines.kv_hints import Hints
from flightllm.engines.local.model import PrefixModel, Rows
from flightllm.errors import FlightLLMError, UnsupportedError
from flightllm.kvcache.chunks import Chunk
from flightllm.kvcache.options import KvOptions
from flightllm.kvcache.prefix_saver import PrefixSaver, PromptStart
from flightllm.kvcache.stream.items import Loaded
from flightllm.kvcache.stream.prefill import Prefill
from flightllm.llm.cost import Rates
from flightllm.llm.engine import Request, cache_salt
from flightllm.llm.tokenizer import PromptEncoder

_log = structlog.get_logger(__name__)

_BY_LENGTH: Final = ("dynamic", "longrope")
"""Types of RoPE whose rotation depends on the length of the prompt."""


class KeptStarts:
    """The prefill of batches with a KV store. Not thread-safe: callers hold the model's lock.

    `revision` names the model where `options` do not.

    Raises:
        UnsupportedError: the keys and values of a prompt's start depend on the rest of the prompt.
    """

    def __init__(
        self, options: KvOptions, revision: str, folder: Path, model: PrefixModel, encoder: PromptEncoder
    ) -> None:
        if model.rope in _BY_LENGTH:
            raise UnsupportedError(
                f"the KV store does not support models with {model.rope} RoPE on the local engine: the keys and values "
                "of a prompt's start depend on the prompt's length; remove kv_store"
            )
        self._model = model
        self._hints = Hints(encoder)
        rate = options.prefill_tokens_per_second
        prefill = Prefill.of(Rates(computed=1 / rate) if rate else Rates(), *model.size)
        named = f"local {options.revision} {model.dtype}" if options.revision else revision
        self.keeper = PrefixSaver(options, named, folder, prefill, str(model.device))

    def prefill(self, requests: Sequence[Request], prompts: Sequence[Sequence[int]], prefix: int) -> tuple[Rows, int]:
        """Prefill the prompts of a batch, all of one tenant; see `PrefixModel.prefill`.

        Tokens that were loaded from the store count as reused; tokens that were computed between them do not.
        """
        recurring = self._hints.recurring(requests[0], prompts[0])
        salt = cache_salt(requests[0].tenant)
        if len(prompts) == 1:
            start = self.keeper.start(prompts[0][:-1], recurring, salt)
        else:
            start = self.keeper.start(prompts[0][:prefix], min(prefix, recurring or prefix), salt)
        computed_before = self._load(start)
        if len(prompts) == 1:
            kept = shared_start(start.tokens, self._model.kept_ids)
            prefix = max(prefix, kept, start.worth_tokens)
        started = time.monotonic()
        rows, reused = self._model.prefill(prompts, prefix)
        self._settle()
        computed = prefix - reused + len(prompts) * (max(map(len, prompts)) - prefix)
        self.keeper.computed(reused, reused + computed, time.monotonic() - started)
        self._save(start)
        return rows, reused - computed_before

    def close(self) -> None:
        """Wait a moment for running saves, and close the store's client."""
        self.keeper.close()

    def _load(self, start: PromptStart) -> int:
        """Load chunks from the store, and compute tokens between them; return the number of computed tokens."""
        pending = _Pending(start.tokens, shared_start(start.tokens, self._model.kept_ids))
        computed = 0
        try:
            for item in self.keeper.load(start, pending.reached):
                if isinstance(item, Loaded):
                    layers = list(item.layers)
                    self._model.check(layers, item.chunk.tokens)
                    pending.add(item.chunk, layers, lossy=self.keeper.is_lossy(item.codec))
                else:
                    pending.adopted_by(self._model)
                    computed += self._compute(start.tokens, item.stop)
                    pending = _Pending(start.tokens, item.stop)
        except (FlightLLMError, RuntimeError, MemoryError) as error:  # the model computes the missing tokens
            _log.warning("kv_load_failed", reason=str(error) or type(error).__name__)
        pending.adopted_by(self._model)
        return computed

    def _compute(self, tokens: Sequence[int], stop: int) -> int:
        """Compute the tokens up to `stop` that the model does not keep; return their number, and learn the time."""
        started = time.monotonic()
        reused = self._model.extend(tokens[:stop])
        self._settle()
        self.keeper.computed(reused, stop, time.monotonic() - started)
        return stop - reused

    def _settle(self) -> None:
        """Wait until the device has done its work, so that its time is measured."""
        if self._model.device.type == "cuda":
            torch.cuda.synchronize(self._model.device)

    def _save(self, start: PromptStart) -> None:
        try:
            self.keeper.save(start, self._model.exact, self._copied(start.tokens))
        except (RuntimeError, MemoryError) as error:  # no memory for a copy: the query continues without a save
            _log.warning("kv_save_failed", reason=str(error) or type(error).__name__)

    def _copied(self, tokens: Sequence[int]) -> Callable[[Chunk], torch.Tensor]:
        return lambda chunk: self._model.kv_cache(tokens[: chunk.stop], chunk.start)


class _Pending:
    """Loaded chunks after `start`, which the model adopts all at once: each adoption copies the whole kept cache."""

    def __init__(self, tokens: Sequence[int], start: int) -> None:
        self._tokens, self._start = tokens, start
        self.reached = start
        self._exact: int | None = None
        """The position of the first token from a lossy codec."""
        self._caches: list[list[torch.Tensor]] = []

    def add(self, chunk: Chunk, layers: Sequence[torch.Tensor], *, lossy: bool) -> None:
        """Add the next chunk."""
        self._caches.append([layer[:, self.reached - chunk.start :] for layer in layers])
        if lossy and self._exact is None:
            self._exact = self.reached
        self.reached = chunk.stop

    def adopted_by(self, model: PrefixModel) -> None:
        """Let the model adopt the chunks, once."""
        caches, self._caches = self._caches, []
        if caches:
            whole = [torch.cat(parts, dim=1) for parts in zip(*caches, strict=True)]
            exact = self.reached if self._exact is None else self._exact
            model.adopt(self._tokens[: self.reached], self._start, whole, exact)
