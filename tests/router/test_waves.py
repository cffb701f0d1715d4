"""Waves: small at first, then larger up to a limit."""

from flightllm.router.waves import wave_size


def test_waves_double_up_to_a_limit() -> None:
    """Each replica soon has some prompts; then twice as many come together, until it is enough."""
    sizes = [0]
    for _ in range(6):
        sizes.append(wave_size(sizes[-1], 2, 4_096))
    assert sizes[1:] == [128, 256, 512, 1_024, 1_024, 1_024]


def test_waves_fit_the_horizon() -> None:
    """Where there are many replicas the first wave is half of what may be open, and later ones are no smaller."""
    first = wave_size(0, 100, 4_096)
    assert first == wave_size(first, 100, 4_096) == 2_048
