"""Models and engines whose KV cache cannot be kept are refused at start, by what they are."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flightllm.common.package_data import demo_model
from flightllm.errors import ConfigError, FlightLLMError, UnsupportedError
from flightllm.kvcache.opening import open_codecs, open_store
from flightllm.kvcache.options import KvOptions, read_kv_options
from tests.packages import NEEDS_VLLM

pytestmark = [NEEDS_VLLM, pytest.mark.vllm]


def spec(kind: str = "FullAttentionSpec", **options: Any) -> Any:
    """Return what vLLM says of layers with such attention."""
    import torch
    from vllm.v1 import kv_cache_interface

    sizes = {"block_size": 32, "num_kv_heads": 2, "head_size": 64, "dtype": torch.float32}
    return getattr(kv_cache_interface, kind)(**{**sizes, **options})


def sliding() -> Any:
    """Return the attention of layers with a sliding window."""
    return spec("SlidingWindowSpec", sliding_window=128)


def attention(*specs: Any, policy: str = "recompute", gpus: int = 1, drafts: object = None) -> Any:
    """Return what the connector makes of a model with such groups of layers, in such an engine."""
    from flightllm.kvcache.connector.vllm import _attention

    config = SimpleNamespace(
        kv_transfer_config=SimpleNamespace(kv_load_failure_policy=policy),
        parallel_config=SimpleNamespace(world_size=gpus),
        speculative_config=drafts,
    )
    groups = [SimpleNamespace(kv_cache_spec=spec) for spec in specs]
    return _attention(config, SimpleNamespace(kv_cache_groups=groups))


def test_taken() -> None:
    """Full attention, windows beside full attention, and windows in every layer are taken."""
    for one in (spec(), spec(sliding_window=128), spec(attention_chunk_size=128), sliding()):
        assert attention(one) is one


def test_refused() -> None:
    """Other attention, several kinds of it, several GPUs, drafts, and failures that would fail requests are not."""
    refused: list[tuple[Any, type[FlightLLMError], str]] = [
        (
            lambda: attention(spec("ChunkedLocalAttentionSpec", attention_chunk_size=128)),
            UnsupportedError,
            "ChunkedLocalAttentionSpec",
        ),
        (
            lambda: attention(spec("MLAAttentionSpec", num_kv_heads=1, head_size=576)),
            UnsupportedError,
            "MLAAttentionSpec",
        ),
        (lambda: attention(spec(non_causal=True)), UnsupportedError, "earlier tokens"),
        (lambda: attention(spec(head_size_v=32)), UnsupportedError, "the same length"),
        (lambda: attention(spec(), sliding()), UnsupportedError, "2 kinds"),
        (lambda: attention(spec(), gpus=2), UnsupportedError, "one engine for each"),
        (lambda: attention(spec(), drafts=object()), UnsupportedError, "speculative"),
        (lambda: attention(spec(), policy="fail"), ConfigError, "'recompute'"),
    ]
    for made, kind, told in refused:
        with pytest.raises(kind, match=told):
            made()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "no address"),
        ({"store": "grpc://h:1", "chunk": 5}, "chunk: unknown option.*chunk_tokens"),
        ({"store": "grpc://h:1", "chunk_tokens": 0}, "at least 1"),
        ({"store": "grpc://h:1", "chunk_tokens": "5"}, "wrong type; write a whole number"),
        ({"store": "grpc://h:1", "codecs": "int8"}, "wrong type; write a list"),
        ({"store": "grpc://h:1", "save": "some"}, "hinted, all, none"),
        ({"store": "grpc://h:1", "load_seconds": -1}, "at least 0 seconds"),
        ({"store": "grpc://h:1", "token": "hunter2"}, "never the secret itself"),
    ],
)
def test_wrong_options(options: dict[str, Any], told: str) -> None:
    """Wrong options are refused by name."""
    with pytest.raises(ConfigError, match=told):
        read_kv_options(options)


def test_no_such_store_or_codec() -> None:
    """An address of no store, and a codec of no name, say what to write."""
    for address in ("http://here:1", "grpc://here", "here:1"):
        with pytest.raises(ConfigError, match="grpc://host:port"):
            open_store(KvOptions(address))
    with pytest.raises(ConfigError, match=r"here\.pem"):
        open_store(KvOptions("grpc+tls://here:1", tls_ca="/no/here.pem"))
    with pytest.raises(ConfigError, match=r"zip.*raw"):
        read_kv_options({"store": "grpc://here:1", "codec": "zip"})
    options = read_kv_options({"store": "grpc://here:1", "codecs": ["int8", "raw"]})
    with pytest.raises(ConfigError, match="profile"):
        open_codecs(options, Path("/no/model"))
    assert [codec.name for codec in open_codecs(options, demo_model())] == ["raw", "int8", "cachegen-2"]
