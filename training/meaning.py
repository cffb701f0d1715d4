"""Initial vectors of meaning for the tokens of an untrained model: tokens of the same texts have similar vectors.

They are singular vectors of the positive pointwise mutual information. Skip-gram embeddings factorize the same matrix
(Levy and Goldberg 2014, "Neural word embedding as implicit matrix factorization").
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

_LEAST_TEXTS = 5
_AT_ONCE = 2000
_ITERATIONS = 8


def meanings(texts: Sequence[Sequence[int]], vocabulary: int, width: int) -> torch.Tensor:
    """Return a vector for each token (shape: vocabulary × width) with a mean square of one; zeros for rare tokens.

    `texts` are the tokens of each text.
    """
    together = torch.zeros(vocabulary, vocabulary)
    for start in range(0, len(texts), _AT_ONCE):
        found = torch.zeros(_AT_ONCE, vocabulary)
        for row, ids in enumerate(texts[start : start + _AT_ONCE]):
            found[row, list(ids)] = 1
        together += found.T @ found
    alone = together.diagonal().clone()
    rare = alone < _LEAST_TEXTS
    information = (together * len(texts) / (alone[:, None] * alone[None, :]).clamp(min=1)).clamp(min=1).log()
    information[rare] = 0
    information[:, rare] = 0
    information.fill_diagonal_(0)
    directions, strengths, _ = torch.svd_lowrank(information, q=min(vocabulary, 2 * width), niter=_ITERATIONS)
    vectors = directions[:, :width] * strengths[:width].sqrt()
    scaled: torch.Tensor = vectors / vectors.square().mean(-1, keepdim=True).sqrt().clamp(min=1e-6)
    return scaled
