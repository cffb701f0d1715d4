"""Find models that are ready to use: providers with a key in the environment, and Ollama on this machine."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit

from flightllm.engines.providers import OLLAMA, PROVIDERS, Provider
from flightllm.engines.secrets import shown_address

_KNOCK_SECONDS = 1.0
_LIST_BYTES = 4 << 20
_EMBEDS = "bert"
"""A part of the family names of models that can only embed."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A provider that is ready to use.

    `why` is the reason in words. `base_url` is empty if the address is the provider's default. `models` is empty if the
    list of models needs a key.
    """

    provider: str
    why: str
    base_url: str = ""
    models: tuple[str, ...] = ()


def offers(environment: Mapping[str, str] = os.environ) -> list[Offer]:
    """Return the offers, Ollama first. No key is used; only Ollama gets a request, for its list of models."""
    found = [
        _keyed(one, own_address(one.name, environment))
        for one in PROVIDERS
        if one.key_env and environment.get(one.key_env)
    ]
    ollama = find_ollama(environment)
    return found if ollama is None else [ollama, *found]


def _keyed(provider: Provider, own: str) -> Offer:
    address = own or provider.base_url
    where = f"; the key goes to {shown_address(address)}" if address else ""
    return Offer(provider.name, f"{provider.key_env} is set{where}", own)


def own_address(provider: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return the address that the provider's own programs read from the environment; empty if it is not set."""
    variable = {"openai": "OPENAI_BASE_URL", "azure": "AZURE_OPENAI_ENDPOINT"}.get(provider, "")
    return environment.get(variable, "")


def find_ollama(environment: Mapping[str, str] = os.environ) -> Offer | None:
    """Return the Ollama at OLLAMA_HOST, or on this machine, with its models; None if there is no Ollama."""
    address = ollama_address(environment.get("OLLAMA_HOST", ""))
    parts = urlsplit(address)
    secure = parts.scheme == "https"
    connect = HTTPSConnection if secure else HTTPConnection
    try:
        connection = connect(parts.hostname or "", parts.port or (443 if secure else 80), timeout=_KNOCK_SECONDS)
        try:
            connection.request("GET", f"{parts.path}/api/tags")
            with connection.getresponse() as answer:
                listed = json.loads(answer.read(_LIST_BYTES))["models"] if answer.status == 200 else None
            names = None if listed is None else tuple(str(one["name"]) for one in listed if not _embeds(one))
        finally:
            connection.close()
    except (
        OSError,
        HTTPException,
        ValueError,
        TypeError,
        AttributeError,
        LookupError,
        RecursionError,
    ):  # no server at the address, or not an Ollama server
        return None
    if names is None:
        return None
    usual = f"{address}/v1" == OLLAMA.base_url
    where = "on this machine" if parts.hostname in {"127.0.0.1", "localhost", "::1"} else f"at {address}"
    return Offer(OLLAMA.name, f"Ollama runs {where}", "" if usual else f"{address}/v1", names)


def ollama_address(host: str) -> str:
    """Return the URL for a value of Ollama's variable OLLAMA_HOST: a host, a port, both, or a URL."""
    host = host.strip().rstrip("/")
    schemed, own = "://" in host, OLLAMA.ports[0]
    try:
        parts = urlsplit(host if schemed else f"http://{host}")
        name, port = parts.hostname or "127.0.0.1", parts.port
    except ValueError:
        return f"http://127.0.0.1:{own}"
    name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(name, name)  # noqa: S104 - a client cannot connect to a wildcard
    name = f"[{name}]" if ":" in name else name
    usual = {"https": 443, "http": 80}.get(parts.scheme, own) if schemed else own
    return f"{parts.scheme}://{name}:{port or usual}{parts.path}"


def _embeds(model: Mapping[str, object]) -> bool:
    details = model.get("details")
    return isinstance(details, Mapping) and _EMBEDS in str(details.get("family", ""))
