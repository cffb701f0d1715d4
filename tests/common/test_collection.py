"""Python's garbage collection while much is imported."""

import gc

from flightllm.common.collection import no_collection


def test_garbage_is_collected_again_afterwards() -> None:
    """Within, nothing is collected, also after an inner use; afterwards, new cycles are found."""
    with no_collection():
        with no_collection():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0
    cycle: list[object] = []
    cycle.append(cycle)
    del cycle
    assert gc.collect() > 0
