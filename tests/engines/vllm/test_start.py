"""What the log tells while vLLM starts."""

from structlog.testing import capture_logs

from flightllm.engines.vllm.start import telling_of_start
from tests.servers import await_true


def test_told_while_it_lasts() -> None:
    """The log says again and again that the engine still starts, and no more once it does not."""
    with capture_logs() as logs:
        with telling_of_start("m", every=0.001, dtype="auto"):
            await_true(lambda: len(logs) > 3)
        told = len(logs)
    assert [one["event"] for one in logs] == ["vllm_starting"] + ["vllm_still_starting"] * (told - 1)
    assert logs[0] == {"event": "vllm_starting", "model": "m", "dtype": "auto", "log_level": "info"}
    assert all(one["model"] == "m" and one["seconds"] >= 0 for one in logs[1:])
