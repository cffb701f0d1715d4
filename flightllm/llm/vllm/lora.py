"""A LoRA adapter through which vLLM answers every prompt: find it, and read its rank."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flightllm.errors import ConfigError
from flightllm.model.files import model_digest

_CONFIG = "adapter_config.json"
_WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")
_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""Those that vLLM reserves room for."""


@dataclass(frozen=True, slots=True)
class Adapter:
    """An adapter's folder, and the largest rank of its matrices."""

    folder: Path
    rank: int

    @property
    def engine_args(self) -> dict[str, object]:
        """Return the arguments with which vLLM has room for it."""
        return {"enable_lora": True, "max_lora_rank": next(one for one in _RANKS if one >= self.rank)}

    @property
    def digest(self) -> str:
        """Return a short digest of its files."""
        return model_digest(self.folder)

    def request(self) -> Any:
        """Return what each request of vLLM carries."""
        from vllm.lora.request import LoRARequest

        return LoRARequest("flightllm", 1, str(self.folder))


def read_adapter(name: str) -> Adapter:
    """Return the adapter in a folder.

    Raises:
        ConfigError: there is no adapter of a kind and rank that vLLM knows.
    """
    folder = Path(name).expanduser()
    config = folder / _CONFIG
    if not config.is_file():
        raise ConfigError(f"[engine] lora: {name!r} is no folder with an {_CONFIG}, as PEFT saves an adapter")
    if not any((folder / one).is_file() for one in _WEIGHTS):
        raise ConfigError(f"[engine] lora: {name!r} has no {' or '.join(_WEIGHTS)}")
    try:
        ranks = _ranks(json.loads(config.read_text("utf-8")))
    except (OSError, ValueError) as error:
        raise ConfigError(f"[engine] lora: {config} cannot be read: {error}") from error
    if not ranks:
        raise ConfigError(f"[engine] lora: {config} is of no LoRA adapter: expected peft_type 'LORA' and a rank `r`")
    if not all(1 <= rank <= _RANKS[-1] for rank in ranks):
        raise ConfigError(f"[engine] lora: {config} has a rank outside 1 to {_RANKS[-1]}, the ones vLLM takes")
    return Adapter(folder, max(ranks))


def _ranks(config: Any) -> list[int]:
    """Return the rank of an adapter and those of single modules; none where it is no LoRA adapter."""
    if not isinstance(config, dict) or config.get("peft_type", "LORA") != "LORA":
        return []
    single = config.get("rank_pattern") or {}
    found = [config.get("r"), *(single.values() if isinstance(single, dict) else [None])]
    return found if all(type(rank) is int for rank in found) else []
