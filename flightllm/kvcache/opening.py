"""Open the store and the codecs that an engine is configured with."""

from collections.abc import Iterable
from pathlib import Path

from flightllm.config.secrets import read_secret
from flightllm.errors import ConfigError
from flightllm.kvcache.codec import CODECS, open_codec
from flightllm.kvcache.codec.base import Codec
from flightllm.kvcache.codec.levels import needs_profile
from flightllm.kvcache.options import KvOptions, check_address
from flightllm.kvcache.profile.place import profile_path
from flightllm.kvcache.store.client import FlightStore


def open_codecs(options: KvOptions, model: Path) -> list[Codec]:
    """Return the codecs in which chunks are kept, best quality first; `model` is the folder of the model.

    Raises:
        ConfigError: a codec needs a profile, and the model has no profile.
        MissingExtraError: the extra that codes KV caches is not installed.
    """
    beside = profile_path(model)
    path = Path(options.profile).expanduser() if options.profile else beside if beside.is_file() else None
    names = [name for name in CODECS if name in {options.codec, *options.codecs}]
    needy = [name for name in names if needs_profile(name)]
    if path is None and needy:
        raise ConfigError(
            f"KV store: the codec {needy[0]!r} needs the model's profile. Make one with "
            f"`python -m flightllm.kvcache.profile {model}`, or set the codec to 'int8', or to 'raw', which is exact"
        )
    return [open_codec(name, path) for name in names]


def profile_digest(codecs: Iterable[Codec]) -> str:
    """Return the digest of the profile that some codecs use; empty if no codec needs a profile.

    Bitstreams of another profile cannot be decoded. So the digest must be part of the chunks' keys; else outdated
    bitstreams would keep the place of new ones for ever.
    """
    return next((codec.profile_digest.hex() for codec in codecs if codec.profile_digest), "")


def open_store(options: KvOptions) -> FlightStore:
    """Return a client of the store that the options name.

    Raises:
        ConfigError: the address is invalid, or the token or `tls_ca` cannot be read.
    """
    check_address(options.store)
    token = read_secret("KV store, token", options.token) if options.token else None
    return FlightStore(options.store, token=token, tls_ca=Path(options.tls_ca).expanduser() if options.tls_ca else None)
