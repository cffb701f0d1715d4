"""Models for measurements: shapes with random weights, and folders of trained models.

The shapes are large enough that the prefill costs more than all other work. Their answers are meaningless. Time, tokens
and cache hits equal those of a trained model of the same shape.
"""

import json
import os
import shutil
import tempfile
from argparse import ArgumentTypeError
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, TypeAlias

from platformdirs import user_cache_path

from flightllm.common.package_data import demo_model
from flightllm.errors import MissingExtraError


@dataclass(frozen=True, slots=True)
class Shape:
    """The size of a Llama model.

    `weights` tells whether its weights are kept in files. Without files, the engine draws random weights when it
    starts.
    """

    name: str
    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    weights: bool = True
    decay: float = 0.0
    """How fast the singular values of each head's keys and values fall: the n-th is n to the power of `-decay`.

    With random weights the singular values are nearly equal. With trained weights they fall, so coded keys and values
    take less room.
    """

    def kv_bytes(self, tokens: int) -> int:
        """Return the bytes of the keys and values of `tokens` tokens in 16-bit numbers."""
        return tokens * 2 * self.layers * self.kv_heads * (self.hidden // self.heads) * 2


CPU: Final = Shape("bench-8x512", layers=8, hidden=512, intermediate=1_536, heads=8, kv_heads=4)
"""28 million parameters: some thousand prompt tokens a second on two CPU cores."""
DECAYING: Final = Shape(
    "bench-8x512-decaying", layers=8, hidden=512, intermediate=1_536, heads=8, kv_heads=4, decay=0.7
)
"""The shape of `CPU`, with keys and values as compressible as those of the trained demo model."""
DEMO: Final = Shape("bench-5x256", layers=5, hidden=256, intermediate=768, heads=4, kv_heads=2)
"""About the demo model's size."""
GPU: Final = Shape("bench-7b", layers=32, hidden=4_096, intermediate=11_008, heads=32, kv_heads=8, weights=False)
"""The shape of a model of seven billion parameters."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A trained model in a folder, as transformers writes it."""

    path: Path
    token_bytes: int
    """The bytes of the keys and values of one token, in 16-bit numbers."""
    context: int
    """The most tokens of a prompt with its answer."""

    def kv_bytes(self, tokens: int) -> int:
        """Return the bytes of the keys and values of `tokens` tokens in 16-bit numbers."""
        return tokens * self.token_bytes


Model: TypeAlias = Shape | Folder

SHAPES: Final = {"demo": DEMO, "bench": CPU, "bench-decaying": DECAYING, "7b": GPU}

CONTEXT_TOKENS: Final = 8192
"""Enough for the longest rows of real tables."""


def named_model(name: str) -> Model:
    """Return the model that a command line names: one of `SHAPES`, a folder, or a folder in `FLIGHTLLM_TEST_MODELS`.

    Raises:
        ArgumentTypeError: there is no such model.
    """
    if name in SHAPES:
        return SHAPES[name]
    places = [Path(name), *(Path(place) / name for place in [os.environ.get("FLIGHTLLM_TEST_MODELS")] if place)]
    folder = next((place for place in map(Path.expanduser, places) if (place / "config.json").is_file()), None)
    if folder is None:
        shown = ", ".join(map(str, places))
        raise ArgumentTypeError(
            f"expected one of {', '.join(SHAPES)}, or a folder with a config.json; tried {shown}. For smollm2, set"
            " FLIGHTLLM_TEST_MODELS to a folder and run `python -m tests.real_models --folder`"
        )
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    heads = config["num_attention_heads"]
    width = config.get("head_dim") or config["hidden_size"] // heads
    layer = 2 * (config.get("num_key_value_heads") or heads) * width
    return Folder(folder, 2 * config["num_hidden_layers"] * layer, config["max_position_embeddings"])


def cache_folder() -> Path:
    """Return the folder of built models: `FLIGHTLLM_HOME/models`, or else a folder in the user's cache folder."""
    home = os.environ.get("FLIGHTLLM_HOME")
    base = Path(home).expanduser().absolute() if home else user_cache_path("flightllm", appauthor=False)
    return base / "models"


def model(shape: Shape, folder: Path | None = None) -> Path:
    """Return the folder of a model of this shape with the demo model's tokenizer. The first call builds the model.

    Raises:
        MissingExtraError: the extra `local` is not installed.
    """
    demo = demo_model()
    digest = sha256((demo / "tokenizer.json").read_bytes()).hexdigest()
    target = (folder or cache_folder()) / f"{shape.name}-{digest[:12]}"
    if (target / "config.json").is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=".building-", dir=target.parent))
    try:
        _build(shape, demo, work)
        if not target.exists():  # another process can have built it meanwhile
            work.rename(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return target


def _build(shape: Shape, demo: Path, folder: Path) -> None:
    try:
        import torch
        import transformers
    except ImportError as error:
        raise MissingExtraError("a model for benchmarks", "local") from error
    library: Any = transformers
    library.utils.logging.disable_progress_bar()
    tokenizer = library.AutoTokenizer.from_pretrained(demo)
    tokenizer.save_pretrained(folder)
    config = library.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.hidden // shape.heads,
        max_position_embeddings=CONTEXT_TOKENS,
        tie_word_embeddings=True,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        dtype="bfloat16",
        initializer_range=0.06,  # wide enough that the answers depend on the prompt
        architectures=["LlamaForCausalLM"],
    )
    if not shape.weights:
        config.save_pretrained(folder)
        return
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made = library.LlamaForCausalLM(config)
        if shape.decay:
            for layer in made.model.layers:
                for projection in (layer.self_attn.k_proj, layer.self_attn.v_proj):
                    projection.weight.data = _decaying(projection.weight.data, shape)
        made.to(torch.bfloat16).save_pretrained(folder, safe_serialization=True)


def _decaying(weights: Any, shape: Shape) -> Any:
    """Return the weights of a projection with falling singular values in each head.

    The sum of their squares stays the same.
    """
    import torch

    heads = weights.unflatten(0, (shape.kv_heads, -1))
    left, values, right = torch.linalg.svd(heads, full_matrices=False)
    falling = torch.arange(1, values.shape[1] + 1, dtype=values.dtype) ** -shape.decay
    falling = falling * (values.square().sum(1, keepdim=True) / falling.square().sum()).sqrt()
    return (left * falling[:, None] @ right).flatten(0, 1)
