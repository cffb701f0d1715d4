"""Waves: small at first, then as large as may be."""

from flightllm.router.waves import wave_size


def test_small_then_large() -> None:
    """Each replica soon has some prompts; then half of what may be open comes together."""
    assert wave_size(2, 4_096, first=True) == 128
    assert wave_size(2, 4_096, first=False) == 2_048


def test_waves_fit_the_horizon() -> None:
    """Where there are many replicas the first wave is half of what may be open too."""
    assert wave_size(100, 4_096, first=True) == wave_size(100, 4_096, first=False) == 2_048
