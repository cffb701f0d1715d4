"""Attention for training on short texts: plain products of matrices, for which PyTorch's fused kernel is too elaborate.

Up to a few hundred tokens they take a quarter to two thirds of its time, forward and backward, on a CPU.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional
from transformers import AttentionInterface

from flightllm.demo.batches import Batch

_NAME = "flightllm_brief"
LONGEST = 600
"""Tokens; above, PyTorch's kernel is as fast."""


def brief_attention(model: Any) -> Any:
    """Let a model attend so, and return it; it needs the mask that `additive_mask` gives."""
    AttentionInterface.register(_NAME, _attend)
    model.set_attn_implementation(_NAME)
    return model


def additive_mask(batch: Batch, precision: torch.dtype) -> torch.Tensor:
    """Return what is added to the scores of a batch (rows or 1 × 1 × width × width): 0 to what is seen."""
    width = batch.ids.size(1)
    seen = batch.mask
    if seen is None:
        seen = torch.ones(1, 1, width, width, dtype=torch.bool).tril()
    return torch.zeros(seen.shape, dtype=precision).masked_fill_(~seen, torch.finfo(precision).min)


def _attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor,
    scaling: float,
    **_: object,
) -> tuple[torch.Tensor, None]:
    """Attend as the models of transformers expect it: heads come second in what is given, third in what is returned."""
    groups = module.num_key_value_groups
    key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    if query.size(2) > LONGEST:
        found = functional.scaled_dot_product_attention(query, key, value, attention_mask, scale=scaling)
    else:
        scores = (query * scaling) @ key.mT + attention_mask
        found = scores.softmax(-1) @ value
    return found.transpose(1, 2), None
