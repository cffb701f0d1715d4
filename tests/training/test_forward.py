"""The layers for training compute what the model computes elsewhere."""

import copy
import random
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra 'local' is not installed")

from tests.training.test_training import TINY  # noqa: E402
from training.batches import Encoded, batches  # noqa: E402
from training.forward import rotation, states  # noqa: E402
from training.train import Trainer  # noqa: E402


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
    return Encoded(tuple(ids), tuple(positions), tuple(branches), (0.0,) * length, (), (), text=True)


def test_angles_are_exact_in_any_precision(model: Any) -> None:
    """The copy that learns in bfloat16 turns every token as the model does: far on, neighbours differ too."""
    [batch] = batches([row(2000, 2000)], 4000, random.Random(1))
    fast = copy.deepcopy(model).to(torch.bfloat16)
    states_ = torch.zeros(1, batch.ids.size(1), model.config.hidden_size)
    cosines, sines = model.model.rotary_emb(states_, batch.positions)
    turned = rotation(fast, batch)
    half = model.config.head_dim // 2
    assert torch.allclose(turned.cosines[:, 0].float(), cosines[..., :half], atol=0.01)
    assert torch.allclose(turned.sines[:, 0].float(), sines[..., :half], atol=0.01)


@pytest.mark.parametrize("length", [60, 700])
@pytest.mark.parametrize("branched", [False, True])
def test_as_transformers(model: Any, length: int, *, branched: bool) -> None:
    """States are those of the model as engines run it, with branches or without, before every layer and at the end."""
    lengths = [length, length // 2]
    [batch] = batches([row(one, 20 if branched else one) for one in lengths], 3 * length, random.Random(1))
    with torch.no_grad():
        wanted = model.model(
            batch.ids, attention_mask=batch.mask, position_ids=batch.positions, output_hidden_states=True
        ).hidden_states
        found = states(model, batch, rotation(model, batch))
    assert len(found) == len(wanted)
    for mine, theirs in zip(found, wanted, strict=True):
        for place, one in enumerate(lengths):
            assert torch.allclose(mine[place, :one], theirs[place, :one], atol=1e-4)
