"""Open the store and the codec that an engine is configured with."""

from pathlib import Path

from flightllm.config.secrets import read_secret
from flightllm.errors import ConfigError
from flightllm.kvcache.codec import open_codec
from flightllm.kvcache.codec.base import Codec
from flightllm.kvcache.profile.place import profile_path
from flightllm.kvcache.store.base import ChunkStore
from flightllm.kvcache.store.client import FlightStore


def open_model_codec(name: str, profile: str, model: str) -> Codec:
    """Return the codec of a name; `profile` is the model's file, by default the one beside the model.

    Raises:
        ConfigError: there is none of this name, or no profile where the codec needs one.
        MissingExtraError: the extra that codes KV caches is not installed.
    """
    beside = profile_path(Path(model))
    path = Path(profile).expanduser() if profile else beside if beside.is_file() else None
    return open_codec(name, path)


def open_store(address: str, token: str | None = None) -> ChunkStore:
    """Return a client of the store at an address, as `grpc://host:port`; `token` refers to the secret it asks for.

    Raises:
        ConfigError: it is no such address, or the token cannot be read.
    """
    if not address.startswith(("grpc://", "grpc+tcp://", "grpc+tls://")):
        raise ConfigError(f"KV store: no address {address!r}; write 'grpc://host:port' or 'grpc+tls://host:port'")
    return FlightStore(address, token=read_secret("KV store, token", token) if token else None)
