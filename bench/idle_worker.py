"""A worker for vLLM without a model: each step costs almost nothing, and answers consist of allowed tokens.

vLLM loads it by name, as `worker_cls`. Scheduler, grammars, prefix cache and frontend stay vLLM's own. So the CPU time
of the process that calls vLLM is the cost of the frontend.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheSpec
from vllm.v1.outputs import LogprobsLists, ModelRunnerOutput
from vllm.v1.worker.worker_base import CompilationTimes, WorkerBase

NAME: Final = "bench.idle_worker.IdleWorker"
"""The value of vLLM's argument `worker_cls`."""


@dataclass(slots=True)
class _State:
    """A request in flight. Its answer without a constraint repeats its prompt, so that decoding has real text."""

    prompt: list[int]
    allowed: list[int]
    listed: list[int]
    """The tokens whose log probabilities were asked for."""
    computed: int
    written: int = 0

    def token(self, mask: np.ndarray | None) -> int:
        """Return the next token: the `mask` has the bits of a grammar's allowed tokens."""
        allowed = (
            self.allowed if mask is None else np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))
        )
        if len(allowed):
            return int(allowed[len(self.prompt) % len(allowed)])
        return self.prompt[self.written % len(self.prompt)]


class IdleWorker(WorkerBase):
    """A worker whose steps compute nothing."""

    def init_device(self) -> None:
        """Use the CPU, whatever the machine has."""
        self.device = torch.device("cpu")
        self._states: dict[str, _State] = {}
        self._step: list[str] = []

    def load_model(self, *, load_dummy_weights: bool = False) -> None:
        """Load nothing."""

    def get_supported_kv_cache_layouts(self) -> list[str]:
        """Return any layout: there are no keys and values."""
        return ["NHD"]

    def get_supported_tasks(self) -> tuple[str, ...]:
        """Return that the model writes text."""
        return ("generate",)

    def get_kv_cache_spec(self) -> dict[str, KVCacheSpec]:
        """Return the smallest layer of keys and values; its blocks are counted but not allocated."""
        size = self.cache_config.block_size
        return {"layer": FullAttentionSpec(block_size=size, num_kv_heads=1, head_size=8, dtype=torch.bfloat16)}

    def determine_available_memory(self) -> int:
        """Return the bytes of a cache that holds all prompts."""
        return 64 << 20

    def initialize_from_config(self, kv_cache_config: KVCacheConfig) -> None:
        """Note the number of blocks."""
        self.cache_config.num_gpu_blocks = kv_cache_config.num_blocks

    def compile_or_warm_up_model(self) -> CompilationTimes:
        """Return that nothing was compiled."""
        return CompilationTimes(0.0, 0.0)

    def execute_model(self, scheduler_output: Any) -> None:
        """Note which requests have all of their prompt; `sample_tokens` answers them."""
        for gone in scheduler_output.finished_req_ids:
            self._states.pop(gone, None)
        for new in scheduler_output.scheduled_new_reqs:
            given = new.sampling_params
            self._states[new.req_id] = _State(
                new.prompt_token_ids,
                given.allowed_token_ids or [],
                given.logprob_token_ids or list(range(given.logprobs or 0)),
                new.num_computed_tokens,
            )
        for name, tokens in scheduler_output.num_scheduled_tokens.items():
            self._states[name].computed += tokens
        self._step = list(scheduler_output.num_scheduled_tokens)

    def sample_tokens(self, grammar_output: Any) -> ModelRunnerOutput:
        """Return a token of each request that has all of its prompt."""
        named = [] if grammar_output is None else grammar_output.structured_output_request_ids
        masks = dict(zip(named, () if grammar_output is None else grammar_output.grammar_bitmask, strict=False))
        tokens = [self._token(self._states[name], masks.get(name)) for name in self._step]
        places = {name: place for place, name in enumerate(self._step)}
        listed = [self._states[name].listed for name in self._step]
        return ModelRunnerOutput(self._step, places, tokens, _logprobs(tokens, listed) if any(listed) else None)

    def _token(self, state: _State, mask: np.ndarray | None) -> list[int]:
        if state.computed < len(state.prompt):
            return []
        token = state.token(mask)
        state.written += 1
        return [token]

    def execute_dummy_batch(self) -> None:
        """Compute nothing."""

    def take_draft_token_ids(self) -> None:
        """Return that there are no drafts."""

    def shutdown(self) -> None:
        """Release nothing."""


def _logprobs(tokens: Sequence[list[int]], listed: Sequence[list[int]]) -> LogprobsLists:
    """Return equal log probabilities of the sampled and the listed tokens; rows are filled up with the token 0."""
    width = 1 + max(map(len, listed))
    ids = np.zeros((len(tokens), width), dtype=np.int32)
    for row, (sampled, others) in enumerate(zip(tokens, listed, strict=True)):
        ids[row, : 1 + len(others)] = [(sampled or [0])[0], *others]
    return LogprobsLists(ids, np.full(ids.shape, -3.0, np.float32), np.ones(len(ids), np.int32), None)
