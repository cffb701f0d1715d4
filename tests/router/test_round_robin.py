"""`round_robin`: each replica in turn, without those that are down."""

from flightllm.router.base import create_router
from tests.routing import fleet, prompt


def test_in_turn() -> None:
    """Prompts go round whatever they are, and round the others when one is lost."""
    made = fleet(3)
    router = create_router("round_robin", made)
    assert router.route([prompt(key, [1]) for key in range(5)], 0.0) == [0, 1, 2, 0, 1]
    made.lose(1)
    assert set(router.route([prompt(key, [1]) for key in range(10, 14)], 0.0)) == {0, 2}
    assert sorted(made.requests.tolist()) == [0, 3, 4]
    assert router.steal(0, {}, 0.0) == []
