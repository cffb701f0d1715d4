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

from training.batches import Batch
from training.forward import Rotation, norm


def mark_loss(model: Any, hidden: torch.Tensor, batch: Batch) -> torch.Tensor:
    """Return how badly the states at the marks (`hidden`, shape: rows × width × size) tell what is meant there."""
    rows, columns, meant = batch.marks.to(hidden.device).T
    marked = hidden[rows, columns]
    loss: torch.Tensor = functional.cross_entropy(
        model.meanings(functional.rms_norm(marked, marked.shape[-1:])).float(), meant
    )
    return loss


def pointer_loss(layer: Any, hidden: torch.Tensor, turned: Rotation, batch: Batch) -> torch.Tensor:
    """Return how little the first head of a layer, which reads `hidden`, attends to where the pointers point.

    Raises:
        ValueError: a pointer leads to nothing that is seen from where it stands.
    """
    attention, size = layer.self_attn, layer.self_attn.head_dim
    rows, columns = batch.pointers.T
    seen = batch.seen.expand(len(hidden), -1, -1, -1)[rows, 0, columns]
    pointed = batch.pointed & seen
    if not bool(pointed.any(-1).all()):
        raise ValueError("a pointer of the batch leads to nothing that is seen from where it stands")
    rows, columns, seen, pointed = (one.to(hidden.device) for one in (rows, columns, seen, pointed))
    read = norm(layer.input_layernorm, hidden)
    keys = turned.turn(functional.linear(read, attention.k_proj.weight[:size])[:, None])
    asking = functional.linear(read[rows, columns], attention.q_proj.weight[:size])[:, None, None]
    queries = turned.at(rows, columns).turn(asking)[:, 0, 0] * attention.scaling
    everywhere = (queries @ keys.flatten(0, 2).T).view(len(rows), *hidden.shape[:2])
    scores = everywhere[torch.arange(len(rows), device=rows.device), rows].float()
    loss: torch.Tensor = (
        scores.masked_fill(~seen, -torch.inf).logsumexp(-1) - scores.masked_fill(~pointed, -torch.inf).logsumexp(-1)
    ).mean()
    return loss
