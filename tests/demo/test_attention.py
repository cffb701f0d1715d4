"""Attention on short texts gives what PyTorch's kernel gives."""

import copy
import random

import pytest

torch = pytest.importorskip("torch", reason="the extra 'local' is not installed")

from flightllm.demo.attention import additive_mask, brief_attention  # noqa: E402
from flightllm.demo.batches import Encoded, batches  # noqa: E402
from flightllm.demo.train import Trainer  # noqa: E402
from tests.demo.test_training import TINY  # noqa: E402


def row(length: int, trunk: int) -> Encoded:
    """Return random tokens; of more than a trunk, the rest is two branches."""
    half = (length - trunk) // 2
    positions = [*range(trunk), *range(trunk, trunk + half), *range(trunk, length - half)]
    branches = [0] * trunk + [1] * half + [2] * (length - trunk - half)
    ids = [random.Random(place).randrange(10, 4000) for place in range(length)]
    return Encoded(tuple(ids), tuple(positions), tuple(branches), (0.0,) * length, text=True)


@pytest.mark.parametrize("length", [60, 500])
@pytest.mark.parametrize("trunk", [60, 20])
def test_as_the_fused_kernel(length: int, trunk: int) -> None:
    """Short or long, with branches or without."""
    model = Trainer(TINY).model
    brief = brief_attention(copy.deepcopy(model))
    rows = [row(length, trunk if trunk < 60 else length), row(length // 2, trunk if trunk < 60 else length // 2)]
    [batch] = batches(rows, 2 * length + 200, random.Random(1))
    with torch.no_grad():
        wanted = model.model(batch.ids, attention_mask=batch.mask, position_ids=batch.positions).last_hidden_state
        mask = additive_mask(batch, torch.float32)
        found = brief.model(batch.ids, attention_mask=mask, position_ids=batch.positions).last_hidden_state
    for place, length_here in enumerate(sorted((length, length // 2), reverse=True)):
        assert torch.allclose(found[place, :length_here], wanted[place, :length_here], atol=1e-4)
