"""Choose the number type of a model's weights for the processor that runs it."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

AUTO: Final = "auto"
_BF16: Final = ("avx512_bf16", "amx_bf16")
"""Instructions of x86 processors that multiply bfloat16. Without both, PyTorch takes several times as long with it."""
_TEXT_PARTS: Final = ("text_config", "llm_config", "language_config")
"""The parts of a file about a model of texts and pictures that are about its language model."""
_BF16_BYTES: Final = 2
_FLOAT32_BYTES: Final = 4
_MOST_SHARE: Final = 0.5
"""The most of the free memory that weights in float32 can take."""


def number_type(folder: Path, dtype: str, *, on_cpu: bool) -> str:
    """Return `dtype`, or for `auto` the type that suits the model in `folder` and the device.

    The result `auto` means the model's own type. A bfloat16 model gets float32 on an x86 processor that cannot
    multiply bfloat16, if the memory allows it. Quantized weights keep their type.
    """
    if dtype != AUTO or not on_cpu or _multiplies_bf16():
        return dtype
    files = [*folder.glob("*.safetensors")] or [*folder.glob("*.bin")]
    if not files or not _is_bf16(folder / "config.json"):
        return dtype
    count = sum(file.stat().st_size for file in files) / _BF16_BYTES
    return "float32" if count * _FLOAT32_BYTES <= _MOST_SHARE * _free_bytes() else dtype


def _is_bf16(path: Path) -> bool:
    """Return whether a model's file says that its weights are bfloat16.

    The engine reads the file too, and reports its faults.
    """
    try:
        config = json.loads(path.read_text("utf-8"))
        parts = [config, *(config[name] for name in _TEXT_PARTS if name in config)]
        kinds = {str(part[key]) for part in parts for key in ("dtype", "torch_dtype") if key in part}
    except (OSError, ValueError, TypeError):
        return False
    return "bfloat16" in kinds and "quantization_config" not in config


def _multiplies_bf16() -> bool:
    """Return whether the processor has instructions for bfloat16; true where nothing is known about it."""
    import torch

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
