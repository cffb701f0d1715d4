"""Starts of several prompts that the local engine keeps: queries that take turns find what they computed before.

The model itself keeps what it computed last. Here are copies of that, in blocks; a policy says which of them go.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any, TypeAlias

import structlog
import torch

from flightllm.kvcache.eviction import create_policy
from flightllm.kvcache.eviction.guarded import Guarded
from flightllm.llm.local.model import PrefixModel, Rows
from flightllm.llm.local.turns import BLOCK_TOKENS, Turn, block_keys
from flightllm.model.engine import Request
from flightllm.model.tokenizer import shared_length

_log = structlog.get_logger(__name__)

Prefill: TypeAlias = Callable[[Sequence[Sequence[int]], int], tuple[Rows, int]]


class Prefixes:
    """Blocks of keys and values beside a model, in at most so many bytes. Callers hold the model's lock."""

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
        """Batches of which the policy is still to be told that they wait no longer."""
        if not count:
            _log.warning("prefix_cache_too_small", prefix_cache_bytes=most_bytes, bytes_of_a_block=block.nbytes)

    def queue(self, turns: Sequence[Turn]) -> None:
        """Take note of batches that wait."""
        for turn in turns:
            self._policy.queue(turn.use, time.monotonic())

    def cancel(self, turns: Sequence[Turn]) -> None:
        """Take note that batches wait no longer, from the next one that is read on; this needs no lock."""
        self._cancelled.extend(turns)

    def held(self, request: Request, prompt: Sequence[int]) -> Sequence[int]:
        """Return as much of a prompt's start as is kept, here or by the model."""
        held = self._leading(block_keys(prompt, request.tenant)) * BLOCK_TOKENS
        kept = self._model.kept_of(request.tenant)
        return prompt[:held] if held > shared_length(prompt, kept) else kept

    def prefill(self, compute: Prefill, turn: Turn) -> tuple[Rows, int]:
        """Read a batch's prompts by `compute`, which is as `PrefixModel.prefill`; what is kept is not computed."""
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
        """Have the model keep what is here of a batch's start; return how many of its tokens it keeps then."""
        have = shared_length(turn.start, self._model.kept_ids)
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
        """Copy what the model keeps of a batch's start as far as that is exact; other blocks go for it."""
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
        except (RuntimeError, MemoryError) as error:  # no memory for a copy: the query goes on
            _log.warning("prefix_save_failed", reason=str(error) or type(error).__name__)
        finally:
            for key in reversed(keys):
                if key in self._slots:
                    self._policy.free(key, now)

    def _copy(self, keys: Sequence[bytes], start: int, size: int) -> None:
        """Copy blocks of so many tokens each, which follow one another from a token on."""
        if not keys:
            return
        kept = self._model.kept(start, start + len(keys) * size)
        whole = torch.cat([part for pair in kept for part in pair])
        blocks = whole.view(len(kept), 2, -1, len(keys), size, whole.shape[-1])
        for place, key in enumerate(keys):
            self._pool[self._slot(key), :, :, :, :size].copy_(blocks[:, :, :, place])

    def _slot(self, key: bytes) -> int:
        """Return the place of a block, of another one's if need be, which goes."""
        if key not in self._slots:
            if not self._unused:
                self._unused.append(self._slots.pop(self._policy.evict(time.monotonic())))
            self._slots[key] = self._unused.pop()
        return self._slots[key]
