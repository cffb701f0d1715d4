"""Muon (Jordan et al., 2024) in a chosen precision: PyTorch's own computes in bfloat16, which is slow on most CPUs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import torch

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_ITERATIONS = 5


class Muon(torch.optim.Optimizer):
    """Momentum with orthogonal updates: each update of a matrix has the same weight in all directions.

    Matrices of one shape are updated together, in the precision `precision`. Every parameter must have a gradient.
    """

    def __init__(
        self,
        matrices: Iterable[torch.Tensor],
        lr: float,
        precision: torch.dtype = torch.float32,
        momentum: float = 0.95,
        decay: float = 0.01,
    ) -> None:
        super().__init__(matrices, {"lr": lr, "momentum": momentum, "decay": decay})
        self.precision = precision

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:  # noqa: ARG002 -- the base class's signature
        """Take one step."""
        for group in self.param_groups:
            alike: dict[torch.Size, list[torch.Tensor]] = defaultdict(list)
            for matrix in group["params"]:
                alike[matrix.shape].append(matrix)
            for shape, matrices in alike.items():
                directions = torch.stack(self._directions(matrices, group["momentum"]))
                update = orthogonal(directions.to(self.precision)).to(directions.dtype)
                rate = group["lr"] * max(1.0, shape[0] / shape[1]) ** 0.5
                for matrix, direction in zip(matrices, update, strict=True):
                    matrix.mul_(1 - group["lr"] * group["decay"]).add_(direction, alpha=-rate)

    def _directions(self, matrices: Sequence[torch.Tensor], momentum: float) -> list[torch.Tensor]:
        """Return the gradients with Nesterov momentum."""
        directions = []
        for matrix in matrices:
            state = self.state[matrix]
            if not state:
                state["momentum"] = torch.zeros_like(matrix)
            gradient: Any = matrix.grad
            average = state["momentum"].lerp_(gradient, 1 - momentum)
            directions.append(gradient.lerp(average, momentum))
        return directions


def orthogonal(matrices: torch.Tensor) -> torch.Tensor:
    """Return approximately the nearest matrices (shape: count × rows × columns) with singular values of one.

    Newton–Schulz iteration of fifth order; its coefficients trade exactness for speed: values end between 0.7 and 1.2.
    """
    first, second, third = _COEFFICIENTS
    wide: torch.Tensor = matrices.mT if matrices.size(1) > matrices.size(2) else matrices
    wide = wide / (wide.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(_ITERATIONS):
        square = wide @ wide.mT
        wide = first * wide + (second * square + third * square @ square) @ wide
    return wide.mT if matrices.size(1) > matrices.size(2) else wide
