"""Hints in training beside the answers, at a middle layer: the meanings of words, and the positions to attend to.

A yes/no answer teaches one bit and does not show its reason. The generator of the examples knows the reason. Marks tell
the meaning of a sentence, a question, a label or a field's name. Pointers tell where in the prompt the answer is. The
loss of the marks makes words of the same meaning, in text and question, have states that express it. The loss of the
pointers makes one attention head attend to the answer. Only training uses these losses: the finished model is a plain
Llama.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from training.batches import Batch
from training.forward import Rotation, norm


def mark_loss(model: Any, hidden: torch.Tensor, batch: Batch) -> torch.Tensor:
    """Return the cross-entropy of the meanings at the marks, as predicted from the states there.

    `hidden` (shape: rows × width × size) are the states.
    """
    rows, columns, meant = batch.marks.to(hidden.device).T
    marked = hidden[rows, columns]
    loss: torch.Tensor = functional.cross_entropy(
        model.meanings(functional.rms_norm(marked, marked.shape[-1:])).float(), meant
    )
    return loss


def pointer_loss(layer: Any, hidden: torch.Tensor, turned: Rotation, batch: Batch) -> torch.Tensor:
    """Return a loss that is high if the first head of a layer attends little to the targets of the pointers.

    The layer reads `hidden`.

    Raises:
        ValueError: a pointer leads only to positions that its own position does not attend to.
    """
    attention, size = layer.self_attn, layer.self_attn.head_dim
    rows, columns = batch.pointers.T
    seen = batch.seen.expand(len(hidden), -1, -1, -1)[rows, 0, columns]
    pointed = batch.pointed & seen
    if not bool(pointed.any(-1).all()):
        raise ValueError("a pointer of the batch leads only to positions that its own position does not attend to")
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
