"""The configured object stores, registered with DataFusion."""

import os
from collections.abc import Sequence
from urllib.parse import unquote, urlsplit

from datafusion import SessionContext
from datafusion.object_store import AmazonS3

from flightllm.common.redaction import keep_secret
from flightllm.config.storage import ObjectStoreConfig, StorageConfig

_OF_AWS = (
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
    *("AWS_CONTAINER_AUTHORIZATION_TOKEN", "AWS_BEARER_TOKEN"),
)
"""AWS's own variables that hold secrets."""


class ObjectStores:
    """All configured object stores of one server."""

    def __init__(self, config: StorageConfig) -> None:
        """Read the access keys.

        Raises:
            ConfigError: the file or variable that a key refers to is missing.
        """
        self.urls = tuple(store.url for store in config.object_stores.values())
        """The addresses of the stores; empty if no store is configured."""
        self._stores: Sequence[tuple[str, AmazonS3]] = [
            (store.bucket, _opened(store)) for store in config.object_stores.values()
        ]

    def register(self, context: SessionContext) -> SessionContext:
        """Register the stores in a context, and return the context."""
        for bucket, store in self._stores:
            context.register_object_store("s3://", store, bucket)
        return context

    def has(self, address: str) -> bool:
        """Return whether an address is inside one of the stores."""
        parts = urlsplit(address)
        if not address.isprintable() or parts.query or parts.fragment or ".." in unquote(parts.path).split("/"):
            return False
        return any(f"{address}/".startswith(f"{url.rstrip('/')}/") for url in self.urls)


def is_address(location: str) -> bool:
    """Return whether a location is the address of an object, not a path."""
    return "://" in location and not location.startswith("file://")


def _opened(store: ObjectStoreConfig) -> AmazonS3:
    key, secret = store.keys()
    for name in _OF_AWS:  # the client reads these variables, and a service can quote them in an error
        keep_secret(os.environ.get(name, ""))
    return AmazonS3(
        bucket_name=store.bucket,
        region=store.region,
        access_key_id=key,
        secret_access_key=secret,
        endpoint=store.endpoint,
        allow_http=store.allow_http,
    )
