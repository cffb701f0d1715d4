"""KV caches to test with: of models, and made up."""

from functools import cache
from typing import Any

import torch

from flightllm.common.package_data import demo_model
from flightllm.kvcache.codec.profile import Profile
from flightllm.kvcache.profile.learn import learn
from flightllm.llm.tokenizer import PromptEncoder


def smooth_cache(
    layers: int, tokens: int, heads: int, head_dim: int, dtype: torch.dtype = torch.float32, seed: int = 0
) -> torch.Tensor:
    """Return a made-up chunk with what real ones have: neighbours alike, channels of their own mean and spread."""
    random = torch.Generator().manual_seed(seed)
    shape = (layers, 2, tokens, heads, head_dim)
    noise = torch.randn(shape, generator=random)
    walk = noise.cumsum(2) / torch.arange(1, tokens + 1).sqrt()[:, None, None]
    channels = torch.randn(layers, 2, 1, heads, head_dim, generator=torch.Generator().manual_seed(1))
    return ((walk + 0.3 * noise) * channels.exp() + 3 * channels).to(dtype)


def model_cache(model: Any, ids: torch.Tensor) -> torch.Tensor:
    """Return the chunk that a transformers model computes for a prompt (1 × tokens)."""
    with torch.inference_mode():
        found = model(ids, use_cache=True).past_key_values
    layers = [torch.stack([layer.keys[0], layer.values[0]]).transpose(1, 2) for layer in found.layers]
    return torch.stack(layers)


def random_model(kind: str, heads: int, kv_heads: int, dtype: torch.dtype = torch.float32) -> Any:
    """Return a small model of random weights: `Llama` or `Qwen2`, which has biases."""
    import transformers

    library: Any = transformers
    config = getattr(library, f"{kind}Config")(
        vocab_size=512,
        hidden_size=heads * 16,
        intermediate_size=128,
        num_hidden_layers=4,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=16,
        max_position_embeddings=8192,
        initializer_range=0.1,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return getattr(library, f"{kind}ForCausalLM")(config).eval().to(dtype)


@cache
def profile_of(layers: int, heads: int, head_dim: int) -> Profile:
    """Return a profile for made-up chunks of a shape."""
    chunks = [smooth_cache(layers, 500, heads, head_dim, seed=seed) for seed in range(3)]
    return learn(lambda: chunks)


@cache
def demo_chunks(count: int = 3, tokens: int = 1_600) -> list[torch.Tensor]:
    """Return chunks of the demo model, of prompts it was not trained on."""
    from transformers import AutoModelForCausalLM

    from training.evaluate import needles

    loader: Any = AutoModelForCausalLM
    model, encoder = loader.from_pretrained(demo_model()).eval(), PromptEncoder(demo_model())
    prompts = encoder.encode([example.prompt() for example in needles(count)])
    return [model_cache(model, torch.tensor([prompt[:tokens]])) for prompt in prompts]
