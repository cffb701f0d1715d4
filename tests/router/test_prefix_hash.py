"""`prefix_hash`: the same beginning, the same replica; only what a lost replica had moves."""

import pytest

from flightllm.router.prefix_hash import PREFIX_TOKENS, PrefixHash, create
from tests.routing import fleet, prompt


def test_same_beginning_same_replica() -> None:
    """What follows the hashed tokens does not matter; what is among them does, and so does the salt."""
    router = create(fleet(16))
    start = list(range(PREFIX_TOKENS))
    assert len(set(router.route([prompt(key, [*start, key]) for key in range(20)], 0.0))) == 1
    assert len(set(router.route([prompt(100 + key, [key, *start]) for key in range(20)], 0.0))) > 5
    salted = [prompt(200 + key, start, salt=bytes([key])) for key in range(20)]
    assert len(set(router.route(salted, 0.0))) > 5


def test_only_the_lost_move() -> None:
    """When a replica is lost, the prefixes of the others stay where they were, and its own come back with it."""
    made = fleet(4)
    router = PrefixHash(made, 1)
    before = router.route([prompt(key, [key]) for key in range(200)], 0.0)
    assert all(30 < before.count(replica) < 70 for replica in range(4))
    made.lose(2)
    after = router.route([prompt(1_000 + key, [key]) for key in range(200)], 0.0)
    assert [one for one in before if one != 2] == [now for now, one in zip(after, before, strict=True) if one != 2]
    assert 2 not in after
    made.bring_back(2)
    assert router.route([prompt(2_000 + key, [key]) for key in range(200)], 0.0) == before


def test_a_prefix_has_a_token() -> None:
    """Nothing to hash is refused."""
    with pytest.raises(ValueError, match="prefix_tokens"):
        PrefixHash(fleet(1), 0)
