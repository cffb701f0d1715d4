"""The layers of a Llama for training, in as few operations as plain PyTorch allows.

On a CPU, a small model spends most of its time on elementwise operations between matrix products. Forward and backward
take about 0.7 of their time in transformers, which computes norms and angles in more steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from training.batches import Batch


@dataclass(frozen=True, slots=True)
class Rotation:
    """Cosines and sines of the tokens' rotary angles (rows × 1 × width × half a head)."""

    cosines: torch.Tensor
    sines: torch.Tensor

    def turn(self, vectors: torch.Tensor) -> torch.Tensor:
        """Return queries or keys (rows × heads × width × head) rotated by the angles of their positions."""
        first, second = vectors.chunk(2, -1)
        return torch.cat(
            (first * self.cosines - second * self.sines, second * self.cosines + first * self.sines), dim=-1
        )

    def at(self, rows: torch.Tensor, columns: torch.Tensor) -> Rotation:
        """Return the angles of some tokens, each in a row of its own."""
        return Rotation(*(angles[rows, 0, columns][:, None, None] for angles in (self.cosines, self.sines)))


def rotation(model: Any, batch: Batch) -> Rotation:
    """Return the rotary angles of a batch's tokens, computed in float32 whatever the model's precision.

    A bfloat16 model has frequencies in bfloat16. In this precision, neighbours after a thousand tokens have equal
    angles.
    """
    weight, config = model.model.embed_tokens.weight, model.config
    shares = torch.arange(0, config.head_dim, 2, dtype=torch.float32, device=weight.device) / config.head_dim
    frequencies = 1.0 / config.rope_parameters["rope_theta"] ** shares
    angles = batch.positions.to(weight.device)[:, None, :, None] * frequencies
    return Rotation(angles.cos().to(weight.dtype), angles.sin().to(weight.dtype))


def states(model: Any, batch: Batch, turned: Rotation) -> list[torch.Tensor]:
    """Return the states before each layer of a transformers Llama and, last, the normed states for the logits.

    Each has the shape rows × width × hidden.
    """
    weight = model.model.embed_tokens.weight
    mask = _additive_mask(batch, weight.dtype).to(weight.device)
    found = [functional.embedding(batch.ids.to(weight.device), weight)]
    for layer in model.model.layers:
        attended = found[-1] + _attend(layer.self_attn, norm(layer.input_layernorm, found[-1]), turned, mask)
        mlp, read = layer.mlp, norm(layer.post_attention_layernorm, attended)
        found.append(attended + mlp.down_proj(functional.silu(mlp.gate_proj(read)) * mlp.up_proj(read)))
    found[-1] = norm(model.model.norm, found[-1])
    return found


def norm(module: Any, vectors: torch.Tensor) -> torch.Tensor:
    """Return vectors divided by their root mean square and scaled, as `module` does in more steps."""
    return functional.rms_norm(vectors, module.weight.shape, module.weight, module.variance_epsilon)


def _attend(attention: Any, read: torch.Tensor, turned: Rotation, mask: torch.Tensor) -> torch.Tensor:
    rows, width, _ = read.shape
    queries, keys, values = (
        project(read).view(rows, width, -1, attention.head_dim).transpose(1, 2)
        for project in (attention.q_proj, attention.k_proj, attention.v_proj)
    )
    queries, keys = turned.turn(queries) * attention.scaling, turned.turn(keys)
    keys, values = (one.repeat_interleave(attention.num_key_value_groups, 1) for one in (keys, values))
    scores = queries @ keys.mT
    scores += mask
    attended: torch.Tensor = attention.o_proj((scores.softmax(-1) @ values).transpose(1, 2).flatten(2))
    return attended


def _additive_mask(batch: Batch, precision: torch.dtype) -> torch.Tensor:
    """Return the mask to add to the scores (rows or 1 × 1 × width × width).

    It is 0 if a token attends, and the least number of the precision elsewhere.
    """
    seen = batch.seen
    return torch.zeros(seen.shape, dtype=precision).masked_fill_(~seen, torch.finfo(precision).min)
