"""Models that are ready to use: those behind keys in the environment, and those of Ollama on this machine."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit

from flightllm.llm.providers import OLLAMA, PROVIDERS, Provider
from flightllm.llm.secrets import shown_address

_KNOCK_SECONDS = 1.0
_LIST_BYTES = 4 << 20
_EMBEDS = "bert"
"""In the families of models that only embed."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A provider that is ready to use.

    `why` is the reason in words. `base_url` is empty at the provider's usual address. `models` is empty if the list of
    models needs a key.
    """

    provider: str
    why: str
    base_url: str = ""
    models: tuple[str, ...] = ()


def offers(environment: Mapping[str, str] = os.environ) -> list[Offer]:
    """Return the offers, hosted providers first; no key is used, and only Ollama gets a request, for its models."""
    found = [
        _keyed(one, own_address(one.name, environment))
        for one in PROVIDERS
        if one.key_env and environment.get(one.key_env)
    ]
    ollama = find_ollama(environment)
    return found if ollama is None else [*found, ollama]


def _keyed(provider: Provider, own: str) -> Offer:
    address = own or provider.base_url
    where = f"; the key goes to {shown_address(address)}" if address else ""
    return Offer(provider.name, f"{provider.key_env} is set{where}", own)


def own_address(provider: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return the address that the provider's own programs take from the environment; empty without one."""
    variable = {"openai": "OPENAI_BASE_URL", "azure": "AZURE_OPENAI_ENDPOINT"}.get(provider, "")
    return environment.get(variable, "")


def find_ollama(environment: Mapping[str, str] = os.environ) -> Offer | None:
    """Return the Ollama of this machine, or the one that OLLAMA_HOST names, with its models; None where it is not."""
    address = ollama_address(environment.get("OLLAMA_HOST", ""))
    parts = urlsplit(address)
    secure = parts.scheme == "https"
    connect = HTTPSConnection if secure else HTTPConnection
    try:
        connection = connect(parts.hostname or "", parts.port or (443 if secure else 80), timeout=_KNOCK_SECONDS)
        try:
            connection.request("GET", f"{parts.path}/api/tags")
            answer = connection.getresponse()
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
    ):  # nothing there, or nothing of Ollama's
        return None
    if names is None:
        return None
    usual = f"{address}/v1" == OLLAMA.base_url
    where = "on this machine" if parts.hostname in {"127.0.0.1", "localhost", "::1"} else f"at {address}"
    return Offer(OLLAMA.name, f"Ollama runs {where}", "" if usual else f"{address}/v1", names)


def ollama_address(host: str) -> str:
    """Return an address for what Ollama's own variable OLLAMA_HOST can hold: a host, a port, both, or an address."""
    host = host.strip().rstrip("/")
    schemed, own = "://" in host, OLLAMA.ports[0]
    try:
        parts = urlsplit(host if schemed else f"http://{host}")
        name, port = parts.hostname or "127.0.0.1", parts.port
    except ValueError:
        return f"http://127.0.0.1:{own}"
    name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(name, name)  # noqa: S104 - where it listens is no place to ask
    name = f"[{name}]" if ":" in name else name
    usual = {"https": 443, "http": 80}.get(parts.scheme, own) if schemed else own
    return f"{parts.scheme}://{name}:{port or usual}{parts.path}"


def _embeds(model: Mapping[str, object]) -> bool:
    details = model.get("details")
    return isinstance(details, Mapping) and _EMBEDS in str(details.get("family", ""))
