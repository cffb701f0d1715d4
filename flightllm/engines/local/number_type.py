"""Choose the number type of a model's weights for the processor that runs it."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import torch

from flightllm.errors import ConfigError

AUTO: Final = "auto"
_BF16: Final = ("avx512_bf16", "amx_bf16")
"""Instructions of x86 processors that multiply bfloat16. Without both, PyTorch takes several times as long with it."""
_FLOAT32_BYTES: Final = 4
_MOST_SHARE: Final = 0.5
"""The most of the free memory that weights in float32 can take."""


def number_type(folder: Path, device: torch.device, dtype: str) -> str:
    """Return `dtype`, or for `auto` the type that suits the model in `folder` and the device.

    The result `auto` means the model's own type. A bfloat16 model gets float32 on an x86 processor that cannot
    multiply bfloat16, if the memory allows it.

    Raises:
        ConfigError: the folder has no weights.
    """
    if dtype != AUTO or device.type != "cpu" or _multiplies_bf16():
        return dtype
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(folder).get_text_config(decoder=True)
    if config.dtype != torch.bfloat16:
        return dtype
    files = [*folder.glob("*.safetensors")] or [*folder.glob("*.bin")]
    if not files:
        raise ConfigError(f"[engine] model: {folder} has no weights")
    count = sum(file.stat().st_size for file in files) / torch.bfloat16.itemsize
    return "float32" if count * _FLOAT32_BYTES <= _MOST_SHARE * _free_bytes() else dtype


def _multiplies_bf16() -> bool:
    """Return whether the processor has instructions for bfloat16; true where nothing is known about it."""
    found: Mapping[str, object] = torch.cpu.get_capabilities()
    return found.get("architecture") != "x86_64" or any(found.get(name, True) for name in _BF16)


def _free_bytes() -> int:
    """Return the memory that new data can take; on Linux this includes the page cache."""
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
        [available] = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
        return int(available) * 1024
    except (OSError, ValueError):
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
