"""Give an untrained Llama an induction head: attention that finds the token after the last occurrence of a token.

Copying a label, a name or a JSON value depends on it (Olsson et al. 2022, "In-context learning and induction heads"). A
small model learns it by itself only after many more tokens than this training has.

It consists of two heads. The head in layer 0 attends to the position before and copies that token into its state. It
uses only the phases of the fast rotary pairs. The head in layer 1 compares the current token with these copies and
takes the token at the matching position. It compares in the slow rotary pairs, which hardly turn within the context. At
first the dimensions of an embedding have these parts:

    0: the same for all tokens    1–63: the token    64–127: the token before    128–190: the token to copy
    192–255: the token's meaning
"""

from __future__ import annotations

import math
from typing import Any

import torch

_SCALE = 0.5  # of embeddings: well above the values that untrained layers add to them
_CONSTANT = 4.0
_TOKEN = slice(1, 64)
_BEFORE = slice(64, 127)
_COPIED = slice(128, 191)
MEANING = slice(192, 256)
_FAST_PAIRS = 8
_POINTED = 7.0  # how sharply layer 0 attends to the position before
_MATCHED = 1.8  # how sharply layer 1 distinguishes tokens
_SLOW = 1e-3  # rotary pairs that turn by less than this per position
_LOGIT = 0.15


@torch.no_grad()
def add_induction(model: Any, meaning: torch.Tensor) -> None:
    """Write the two heads into the first heads of layers 0 and 1 of a model 256 wide with heads 64 wide, in place.

    `meaning` (shape: vocabulary × 64, mean square of one) becomes part of the embeddings. A token without a meaning
    gets a random one, so that all embeddings have about the same length.
    """
    embedding, head = model.model.embed_tokens.weight, model.lm_head.weight
    vocabulary = embedding.size(0)
    size = model.config.head_dim
    width = _TOKEN.stop - _TOKEN.start
    pairs = size // 2
    turns = model.model.rotary_emb.inv_freq.cpu()
    embedding.normal_(std=0.05 * _SCALE)
    embedding[:, 0] = _CONSTANT * _SCALE
    embedding[:, _TOKEN] = torch.randn(vocabulary, width) * _SCALE
    known = meaning.any(-1, keepdim=True)
    embedding[:, MEANING] = torch.where(known, meaning, torch.randn_like(meaning)) * _SCALE
    unit = _unit(embedding)

    first = model.model.layers[0].self_attn
    for weight in (first.q_proj.weight, first.k_proj.weight):
        weight[:size] = 0
    strength = _POINTED / (_CONSTANT * _SCALE * unit)
    for pair in range(_FAST_PAIRS):
        first.q_proj.weight[pair, 0] = strength
        first.k_proj.weight[pair, 0] = strength * math.cos(turns[pair])
        first.k_proj.weight[pair + pairs, 0] = strength * math.sin(turns[pair])
    first.v_proj.weight[:size] = 0
    first.v_proj.weight[:width, _TOKEN] = torch.eye(width)
    first.o_proj.weight[:, :size] = 0
    first.o_proj.weight[_BEFORE, :width] = torch.eye(width) / unit

    second = model.model.layers[1].self_attn
    slow = [pair for pair in range(pairs) if turns[pair] < _SLOW]
    places = [*slow, *(pair + pairs for pair in slow)]
    compared = torch.linalg.qr(torch.randn(width, len(places)))[0].T * _MATCHED
    for weight in (second.q_proj.weight, second.k_proj.weight):
        weight[:size] = 0
    second.q_proj.weight[places, _TOKEN] = compared
    second.k_proj.weight[places, _BEFORE] = compared
    _copy_attended(second, size, unit)
    head[:, _COPIED] = embedding[:, _TOKEN] / _SCALE * _LOGIT


@torch.no_grad()
def add_pointing(model: Any, layer: int) -> None:
    """Let the first head of a layer copy the token that it attends to, at any position. Changes the model in place."""
    embedding = model.model.embed_tokens.weight
    _copy_attended(model.model.layers[layer].self_attn, model.config.head_dim, _unit(embedding))


def _unit(embedding: torch.Tensor) -> float:
    """Return the value that the norm gives to an embedding value of one."""
    return 1 / float(embedding.square().mean(-1).sqrt().mean())


def _copy_attended(attention: Any, size: int, unit: float) -> None:
    width = _TOKEN.stop - _TOKEN.start
    attention.v_proj.weight[:size] = 0
    attention.v_proj.weight[:width, _TOKEN] = torch.eye(width)
    attention.o_proj.weight[:, :size] = 0
    attention.o_proj.weight[_COPIED, :width] = torch.eye(width) / unit
