"""Waves: small at first, then as large as may be."""

from flightllm.router.waves import wave_size


def test_small_then_large() -> None:
    """Each replica soon has some prompts; then half of what may be open comes together."""
    first = wave_size(0, 2, 4_096)
    assert first == 128
    assert wave_size(first, 2, 4_096) == 2_048


def test_waves_fit_the_horizon() -> None:
    """Where there are many replicas the first wave is half of what may be open too."""
    first = wave_size(0, 100, 4_096)
    assert first == wave_size(first, 100, 4_096) == 2_048
