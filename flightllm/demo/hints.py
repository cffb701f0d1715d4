"""What training tells the model beside the answers, halfway up: what words mean, and where to look.

A yes/no answer teaches one bit and leaves open what it hangs on. The generator knows: which sentence says something,
what a question, a label or a field's name asks for (the marks), and where in the prompt the answer is found (the
pointers). Words that mean the same, in text and question, are to have states that say so, and one attention head
is to look where the answer is. Both losses fall away after training; the model is a plain Llama.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from flightllm.demo.batches import Batch


def mark_loss(model: Any, hidden: torch.Tensor, batch: Batch) -> torch.Tensor:
    """Return how badly the states at the marks (`hidden`, shape: rows × width × size) tell what is meant there."""
    rows, columns, meant = batch.marks.to(hidden.device).T
    marked = hidden[rows, columns]
    loss: torch.Tensor = functional.cross_entropy(
        model.meanings(functional.rms_norm(marked, marked.shape[-1:])).float(), meant
    )
    return loss


def pointer_loss(model: Any, layer: int, hidden: torch.Tensor, batch: Batch) -> torch.Tensor:
    """Return how little the first head of a layer, which reads `hidden`, attends to where the pointers point."""
    attention, size = model.model.layers[layer].self_attn, model.config.head_dim
    states = model.model.layers[layer].input_layernorm(hidden)
    queries = functional.linear(states, attention.q_proj.weight[:size])[:, None]
    keys = functional.linear(states, attention.k_proj.weight[:size])[:, None]
    queries, keys = apply_rotary_pos_emb(
        queries, keys, *model.model.rotary_emb(states, batch.positions.to(states.device))
    )
    rows, columns = batch.pointers.to(states.device).T
    scores = (keys[rows, 0] @ queries[rows, 0, columns][:, :, None])[:, :, 0].float() * attention.scaling
    places = torch.arange(scores.size(1), device=scores.device)
    seen = places <= columns[:, None] if batch.mask is None else batch.mask.to(scores.device)[rows, 0, columns]
    scores = scores.masked_fill(~seen, -torch.inf)
    pointed = scores.masked_fill(~(batch.pointed.to(scores.device) & seen), -torch.inf)
    loss: torch.Tensor = (scores.logsumexp(-1) - pointed.logsumexp(-1)).mean()
    return loss
