"""The prefix cache of the local engine: it keeps starts of several prompts, so that concurrent queries can reuse them.

The model itself keeps only the tokens that it computed last. This cache holds copies of them in blocks; a policy
chooses the blocks to evict.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any, TypeAlias

import structlog
import torch

from flightllm.common.text import shared_start
from flightllm.engines.local.model import PrefixModel, Rows
from flightllm.engines.local.turns import BLOCK_TOKENS, Turn, block_keys
from flightllm.kvcache.eviction import create_policy
from flightllm.kvcache.eviction.guarded import Guarded
from flightllm.llm.engine import Request

_log = structlog.get_logger(__name__)

Prefill: TypeAlias = Callable[[Sequence[Sequence[int]], int], tuple[Rows, int]]


class PrefixStore:
    """A cache of blocks of keys and values, in at most `most_bytes` bytes. Callers hold the model's lock."""

    def __init__(self, model: PrefixModel, most_bytes: int, policy: str) -> None:
        layers, heads, width = model.kv_shape
        block = torch.empty(1, layers, 2, heads, BLOCK_TOKENS, width, dtype=model.kv_dtype, device=model.device)
        count = most_bytes // block.nbytes
        self._pool = block.new_empty(count, *block.shape[1:])
        self._unused = list(range(count))
        self._slots: dict[bytes, int] = {}
        self._policy: Guarded[Any] = Guarded(create_policy(policy, count))
        self._model = model
        self._cancelled: deque[Turn] = deque()
        """Batches that no longer wait; the next prefill reports them to the policy."""
        if not count:
            _log.warning("prefix_cache_too_small", prefix_cache_bytes=most_bytes, bytes_of_a_block=block.nbytes)

    def queue(self, turns: Sequence[Turn]) -> None:
        """Tell the policy about waiting batches."""
        for turn in turns:
            self._policy.queue(turn.use, time.monotonic())

    def cancel(self, turns: Sequence[Turn]) -> None:
        """Note that batches no longer wait; the policy learns it at the next prefill. Needs no lock."""
        self._cancelled.extend(turns)

    def held(self, request: Request, prompt: Sequence[int]) -> Sequence[int]:
        """Return the longer cached start of a prompt: from the blocks here, or the model's own kept tokens."""
        held = self._leading(block_keys(prompt, request.tenant)) * BLOCK_TOKENS
        kept = self._model.kept_of(request.tenant)
        return prompt[:held] if held > shared_start(prompt, kept) else kept

    def prefill(self, compute: Prefill, turn: Turn) -> tuple[Rows, int]:
        """Prefill a batch's prompts with `compute`, a `PrefixModel.prefill`; cached tokens are not computed."""
        self._cancelled.append(turn)
        while self._cancelled:
            self._policy.cancel(self._cancelled.popleft().use, time.monotonic())
        have = self._load(turn)
        rows, reused = compute(turn.prompts, max(turn.prefix, have) if len(turn.prompts) == 1 else turn.prefix)
        self._save(turn)
        return rows, reused

    def _leading(self, keys: Sequence[bytes]) -> int:
        return sum(1 for _ in takewhile(self._slots.__contains__, keys))

    @torch.inference_mode()
    def _load(self, turn: Turn) -> int:
        """Load the cached blocks of a batch's start into the model; return how many tokens of it the model keeps then.

        A block is layers × 2 × heads × tokens × head_dim; the model adopts layers × 2 × tokens × heads × head_dim. With
        blocks of 32 tokens, 40 kept tokens (`have`) and 96 cached tokens (`stop`):

        | block | tokens | use |
        |---|---|---|
        | 0 | 0 to 31 | not loaded: `first` is 1 |
        | 1 | 32 to 63 | the tokens 40 to 63 |
        | 2 | 64 to 95 | all |
        """
        have = shared_start(turn.start, self._model.kept_ids)
        blocks = self._leading(turn.use.keys)
        stop = min(blocks * BLOCK_TOKENS, len(turn.start))
        if stop <= have:
            return have
        first = have // BLOCK_TOKENS
        found = self._pool[[self._slots[key] for key in turn.use.keys[first:blocks]]].movedim(0, 3).flatten(3, 4)
        layers = found[..., have - first * BLOCK_TOKENS : stop - first * BLOCK_TOKENS, :].transpose(2, 3)
        self._model.adopt(turn.start[:stop], have, list(layers), stop)
        return stop

    @torch.inference_mode()
    def _save(self, turn: Turn) -> None:
        """Copy the exact part of a batch's start from the model into blocks, and evict other blocks for them."""
        now, keys = time.monotonic(), turn.use.keys
        self._policy.use(turn.use, now)
        for key in keys:
            self._policy.hold(key)
        worth = min(turn.worth, self._model.exact, len(self._pool) * BLOCK_TOKENS)
        whole, tail = divmod(worth, BLOCK_TOKENS)
        first = next((place for place, key in enumerate(keys[:whole]) if key not in self._slots), whole)
        try:
            self._copy(keys[first:whole], first * BLOCK_TOKENS, BLOCK_TOKENS)
            if tail and worth == len(turn.start):
                self._copy(keys[whole:], whole * BLOCK_TOKENS, tail)
        except (RuntimeError, MemoryError) as error:  # no memory for a copy: the query continues without it
            _log.warning("prefix_save_failed", reason=str(error) or type(error).__name__)
        finally:
            for key in reversed(keys):
                if key in self._slots:
                    self._policy.free(key, now)

    def _copy(self, keys: Sequence[bytes], start: int, size: int) -> None:
        """Copy consecutive blocks of `size` tokens each, from the token `start` on."""
        if not keys:
            return
        kept = self._model.kept(start, start + len(keys) * size)
        whole = torch.cat([part for pair in kept for part in pair])
        blocks = whole.view(len(kept), 2, -1, len(keys), size, whole.shape[-1])
        for place, key in enumerate(keys):
            self._pool[self._slot(key), :, :, :, :size].copy_(blocks[:, :, :, place])

    def _slot(self, key: bytes) -> int:
        """Return the place of a block in the pool; evict another block if no place is free."""
        if key not in self._slots:
            if not self._unused:
                self._unused.append(self._slots.pop(self._policy.evict(time.monotonic())))
            self._slots[key] = self._unused.pop()
        return self._slots[key]
