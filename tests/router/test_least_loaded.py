"""`least_loaded`: the replica with the fewest prompts."""

from flightllm.router.base import create_router
from tests.routing import fleet, prompt


def test_fewest_prompts() -> None:
    """Prompts even out, follow what is answered, and pass over replicas that are down."""
    made = fleet(3)
    router = create_router("least_loaded", made)
    assert router.route([prompt(key, [key]) for key in range(3)], 0.0) == [0, 1, 2]
    made.finished(1)
    assert router.route([prompt(3, [3])], 0.0) == [1]
    made.finished(2)
    made.lose(2)
    assert router.route([prompt(4, [4])], 0.0) == [0]
