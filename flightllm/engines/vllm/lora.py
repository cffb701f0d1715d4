"""Find a LoRA adapter, which vLLM applies to every prompt, and read its rank."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flightllm.errors import ConfigError
from flightllm.llm.files import model_digest

_CONFIG = "adapter_config.json"
_WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")
_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""The ranks for which vLLM can reserve memory."""


@dataclass(frozen=True, slots=True)
class Adapter:
    """An adapter: its folder, and the largest rank of its matrices."""

    folder: Path
    rank: int

    @property
    def engine_args(self) -> dict[str, object]:
        """Return the engine arguments that reserve memory for the adapter."""
        return {"enable_lora": True, "max_lora_rank": next(one for one in _RANKS if one >= self.rank)}

    @property
    def digest(self) -> str:
        """Return a short digest of the adapter's files."""
        return model_digest(self.folder)

    def request(self) -> Any:
        """Return the `LoRARequest` for each of vLLM's requests."""
        from vllm.lora.request import LoRARequest

        return LoRARequest("flightllm", 1, str(self.folder))


def read_adapter(name: str) -> Adapter:
    """Return the adapter in a folder.

    Raises:
        ConfigError: the folder has no LoRA adapter, or one with a rank that vLLM does not support.
    """
    folder = Path(name).expanduser()
    config = folder / _CONFIG
    if not config.is_file():
        raise ConfigError(f"[engine] lora: {name!r} is not a folder with an {_CONFIG}, as PEFT saves an adapter")
    if not any((folder / one).is_file() for one in _WEIGHTS):
        raise ConfigError(f"[engine] lora: {name!r} has no {' or '.join(_WEIGHTS)}")
    try:
        ranks = _ranks(json.loads(config.read_text("utf-8")))
    except (OSError, ValueError) as error:
        raise ConfigError(f"[engine] lora: {config} cannot be read: {error}") from error
    if not ranks:
        raise ConfigError(
            f"[engine] lora: {config} is not for a LoRA adapter: expected peft_type 'LORA' and a rank `r`"
        )
    if not all(1 <= rank <= _RANKS[-1] for rank in ranks):
        raise ConfigError(f"[engine] lora: {config} has a rank outside 1 to {_RANKS[-1]}, which vLLM does not support")
    return Adapter(folder, max(ranks))


def _ranks(config: Any) -> list[int]:
    """Return the rank of an adapter and the ranks of single modules; empty if it is not a LoRA adapter."""
    if not isinstance(config, dict) or config.get("peft_type", "LORA") != "LORA":
        return []
    single = config.get("rank_pattern") or {}
    found = [config.get("r"), *(single.values() if isinstance(single, dict) else [None])]
    return found if all(type(rank) is int for rank in found) else []
