"""A LoRA adapter for the demonstration model, as PEFT saves one."""

import json
from pathlib import Path

PREFIX = "base_model.model.model.layers"
LAYERS, WIDTH, RANK = 6, 256, 9


def make_adapter(folder: Path, **config: object) -> Path:
    """Write an adapter of random numbers to a folder; `config` are further keys of its configuration."""
    import torch
    from safetensors.torch import save_file

    random = torch.Generator().manual_seed(0)
    weights = {
        f"base_model.model.model.layers.{layer}.self_attn.q_proj.lora_{part}.weight": torch.randn(
            shape, generator=random
        )
        for layer in range(LAYERS)
        for part, shape in (("A", (RANK, WIDTH)), ("B", (WIDTH, RANK)))
    }
    folder.mkdir(exist_ok=True)
    save_file(weights, folder / "adapter_model.safetensors")
    told = {"peft_type": "LORA", "r": RANK, "lora_alpha": RANK, "target_modules": ["q_proj"], "bias": "none", **config}
    (folder / "adapter_config.json").write_text(json.dumps(told))
    return folder
