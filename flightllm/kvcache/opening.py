"""Open the store and the codecs that an engine is configured with."""

from collections.abc import Iterable
from pathlib import Path

from flightllm.config.secrets import read_secret
from flightllm.errors import ConfigError
from flightllm.kvcache.codec import open_codec
from flightllm.kvcache.codec.base import Codec
from flightllm.kvcache.codec.levels import needs_profile
from flightllm.kvcache.options import KvOptions, check_address
from flightllm.kvcache.profile.place import profile_path
from flightllm.kvcache.store.client import FlightStore


def open_codecs(options: KvOptions, model: Path) -> list[Codec]:
    """Return the codecs in which chunks can be kept, best quality first; `model` is the folder of the model.

    Raises:
        ConfigError: a codec needs a profile, and the model has no profile.
        MissingExtraError: the optional packages (extra) that encode KV caches are not installed.
    """
    beside = profile_path(model)
    path = Path(options.profile).expanduser() if options.profile else beside if beside.is_file() else None
    names = options.kept
    needy = [name for name in names if needs_profile(name)]
    if path is None and needy:
        raise ConfigError(
            f"KV store: the codec {needy[0]!r} needs the model's profile. Make the profile "
            f"with `python -m flightllm.kvcache.profile {model}`, or set the codec to 'int8' or 'raw' (raw is exact)"
        )
    return [open_codec(name, path) for name in names]


def profile_digest(codecs: Iterable[Codec]) -> str:
    """Return the digest of the profile that `codecs` use; empty if none of the codecs needs a profile.

    A codec cannot decode a bitstream that was written with another profile. So the chunks' keys must contain the
    digest. Without the digest, old bitstreams would block the keys of new bitstreams for ever.
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
