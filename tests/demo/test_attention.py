"""Attention on short texts gives what PyTorch's kernel gives."""

import copy
import random
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra 'local' is not installed")

from flightllm.demo.attention import LONGEST, additive_mask, brief_attention  # noqa: E402
from flightllm.demo.batches import Encoded, batches  # noqa: E402
from flightllm.demo.train import Trainer  # noqa: E402
from tests.demo.test_training import TINY  # noqa: E402


@pytest.fixture(scope="module")
def model() -> Any:
    """Return a tiny model, not yet trained."""
    return Trainer(TINY).model


def row(length: int, trunk: int) -> Encoded:
    """Return random tokens; of more than a trunk, the rest is two branches."""
    half = (length - trunk) // 2
    positions = [*range(trunk), *range(trunk, trunk + half), *range(trunk, length - half)]
    branches = [0] * trunk + [1] * half + [2] * (length - trunk - half)
    ids = [random.Random(place).randrange(10, 4000) for place in range(length)]
    return Encoded(tuple(ids), tuple(positions), tuple(branches), (0.0,) * length, text=True)


@pytest.mark.parametrize("length", [60, 2 * LONGEST])
@pytest.mark.parametrize("branched", [False, True])
def test_as_the_fused_kernel(model: Any, length: int, *, branched: bool) -> None:
    """Short or long, with branches or without."""
    brief = brief_attention(copy.deepcopy(model))
    lengths = [length, length // 2]
    [batch] = batches([row(one, 20 if branched else one) for one in lengths], 3 * length, random.Random(1))
    with torch.no_grad():
        wanted = model.model(batch.ids, attention_mask=batch.mask, position_ids=batch.positions).last_hidden_state
        mask = additive_mask(batch, torch.float32)
        found = brief.model(batch.ids, attention_mask=mask, position_ids=batch.positions).last_hidden_state
    for place, one in enumerate(lengths):
        assert torch.allclose(found[place, :one], wanted[place, :one], atol=1e-4)
