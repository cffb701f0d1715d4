"""Open the store and the codec that an engine is configured with."""

from flightllm.config.secrets import read_secret
from flightllm.errors import ConfigError
from flightllm.kvcache.codec.base import Codec
from flightllm.kvcache.store.base import ChunkStore


def open_codec(name: str) -> Codec:
    """Return the codec of a name.

    Raises:
        ConfigError: there is none of this name.
    """
    from flightllm.kvcache.codec.int8 import Int8Codec
    from flightllm.kvcache.codec.raw import RawCodec

    match name:
        case "raw":
            return RawCodec()
        case "int8":
            return Int8Codec()
    raise ConfigError(f"KV store, codec: no codec {name!r}; write 'raw' or 'int8'")


def open_store(address: str, token: str | None = None) -> ChunkStore:
    """Return a client of the store at an address, as `grpc://host:port`; `token` refers to the secret it asks for.

    Raises:
        ConfigError: it is no such address, or the token cannot be read.
    """
    if not address.startswith(("grpc://", "grpc+tcp://", "grpc+tls://")):
        raise ConfigError(f"KV store: no address {address!r}; write 'grpc://host:port' or 'grpc+tls://host:port'")
    secret = read_secret("KV store, token", token) if token else None
    try:
        from flightllm.kvcache.store.client import FlightStore  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError as error:
        raise ConfigError("KV store: this installation has no client of a KV store") from error
    store: ChunkStore = FlightStore(address, token=secret)
    return store
