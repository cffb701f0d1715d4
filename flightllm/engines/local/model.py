"""A transformers model that computes the keys and values of a shared prefix once, and runs the suffixes as a batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from flightllm.common.text import shared_start
from flightllm.engines.number_type import number_type
from flightllm.errors import BitstreamError, ConfigError

if TYPE_CHECKING:
    from transformers import DynamicCache  # imported lazily elsewhere: the import takes seconds

Layers = list[tuple[torch.Tensor, torch.Tensor]]


class Rows:
    """The state of a running batch: `logits` (rows × vocabulary) of the next token, and the KV cache."""

    def __init__(self, logits: torch.Tensor, cache: DynamicCache, mask: torch.Tensor, positions: torch.Tensor) -> None:
        self.logits = logits
        self.cache = cache
        self.mask = mask
        self.positions = positions


class PrefixModel:
    """A model with the keys and values of the last prefix that it computed. Not thread-safe: callers hold a lock."""

    def __init__(self, folder: Path, device: str, dtype: str) -> None:
        from transformers import AutoModelForCausalLM

        self.device = torch.device(_device(device))
        model: Any = AutoModelForCausalLM
        self._model = model.from_pretrained(folder, dtype=number_type(folder, dtype, on_cpu=self.device.type == "cpu"))
        self._model.eval().to(self.device)
        self._only: torch.Tensor | None = None
        """The tokens whose logits are computed, in float32; None: all of them, in the model's own type."""
        self._model.get_output_embeddings().register_forward_hook(self._exact_logits)
        config = self._model.config.get_text_config(decoder=True)
        kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
        if kinds != {"full_attention"}:
            raise ConfigError(f"[engine] model: {folder} has {', '.join(sorted(kinds))} layers; use the engine 'vllm'")
        self.context: int = config.max_position_embeddings
        self.vocabulary: int = config.vocab_size
        ends = self._model.generation_config.eos_token_id
        self.end_tokens = frozenset(ends if isinstance(ends, list) else [] if ends is None else [ends])
        self.kept_ids: list[int] = []  # can be longer than the last requested prefix
        self._kept: Layers = []
        self.exact = 0
        """The number of leading kept tokens with exact keys and values.

        Keys and values are approximate if a lossy codec decoded them, or if they were computed from approximate ones.
        """
        self._tenant = ""
        """The tenant of the kept tokens' prompts."""

    @property
    def rope(self) -> str:
        """Return the type of rotary embeddings, such as `default`, `llama3` or `longrope`; empty without RoPE."""
        rope = getattr(self._model.config.get_text_config(decoder=True), "rope_parameters", None) or {}
        return str(rope.get("rope_type", ""))

    @property
    def size(self) -> tuple[int, int, int]:
        """Return the number of layers, of attention channels per layer, and of all parameters."""
        config = self._model.config.get_text_config(decoder=True)
        width = config.num_attention_heads * _head_dim(config)
        return config.num_hidden_layers, width, sum(weights.numel() for weights in self._model.parameters())

    @property
    def kv_shape(self) -> tuple[int, int, int]:
        """Return the number of layers, of KV heads per layer, and of dimensions per head."""
        config = self._model.config.get_text_config(decoder=True)
        return config.num_hidden_layers, config.num_key_value_heads, _head_dim(config)

    @property
    def kv_dtype(self) -> torch.dtype:
        """Return the data type of keys and values."""
        found: torch.dtype = self._model.dtype
        return found

    @property
    def dtype(self) -> str:
        """Return the data type of the weights, such as `float32`."""
        return str(self._model.dtype).removeprefix("torch.")

    def turn_to(self, tenant: str) -> None:
        """Switch to a tenant's prompts, and drop another tenant's kept tokens: tenants must not share prefixes."""
        if tenant != self._tenant:
            self._tenant, self.kept_ids, self._kept, self.exact = tenant, [], [], 0

    def kept_of(self, tenant: str) -> Sequence[int]:
        """Return the kept tokens if they belong to this tenant, otherwise an empty list."""
        return self.kept_ids if tenant == self._tenant else []

    def kept(self, start: int, stop: int) -> Layers:
        """Return views of the keys and values (heads × tokens × head_dim) of some kept tokens, by layer."""
        return [(keys[0, :, start:stop], values[0, :, start:stop]) for keys, values in self._kept]

    @torch.inference_mode()
    def kv_cache(self, ids: Sequence[int], start: int = 0) -> torch.Tensor:
        """Return keys and values of the tokens from `start` on (layers × 2 × tokens × heads × head_dim).

        The model keeps the tokens as its prefix. Tokens that the kept prefix covers are not computed again.
        """
        self._ensure_prefix(list(ids))
        return torch.stack([torch.stack(pair) for pair in self.kept(start, len(ids))]).transpose(2, 3)

    @torch.inference_mode()
    def extend(self, ids: Sequence[int]) -> int:
        """Compute the tokens that the model does not keep, and keep them; return the number of reused tokens."""
        return self._ensure_prefix(list(ids))

    def check(self, layers: Sequence[torch.Tensor], tokens: int) -> None:
        """Check that keys and values have the shape and data type of this model.

        Raises:
            BitstreamError: the shape or the data type differs.
        """
        count, heads, width = self.kv_shape
        shape = (2, tokens, heads, width)
        fitting = all(layer.shape == shape and layer.dtype == self._model.dtype for layer in layers)
        if len(layers) != count or not fitting:
            raise BitstreamError(f"the shape or data type of a KV chunk differs from this model's {shape}")

    @torch.inference_mode()
    def adopt(self, ids: Sequence[int], start: int, layers: Sequence[torch.Tensor], exact: int) -> None:
        """Adopt keys and values (per layer 2 × tokens × heads × head_dim) for the tokens from `start` on.

        The model must already keep the tokens before `start`. The adopted values are approximate from `exact` on.
        """
        parts = [layer.to(self.device, self._model.dtype).transpose(1, 2)[:, None] for layer in layers]
        if start:
            parts = [
                torch.cat([torch.stack([keys[:, :, :start], values[:, :, :start]]), part], dim=3)
                for (keys, values), part in zip(self._kept, parts, strict=True)
            ]
        self.kept_ids = list(ids)
        self.exact = exact if self.exact >= start else self.exact
        self._kept = [(part[0], part[1]) for part in parts]

    @torch.inference_mode()
    def prefill(self, prompts: Sequence[Sequence[int]], prefix: int) -> tuple[Rows, int]:
        """Prefill `prompts`, which share their first `prefix` tokens; each prompt must have more tokens.

        Return the batch's state, and how many prefix tokens were reused from an earlier batch.
        """
        reused = self._ensure_prefix(list(prompts[0][:prefix]))
        count, width = len(prompts), max(map(len, prompts)) - prefix
        ids = torch.zeros(count, width, dtype=torch.long)
        mask = torch.ones(count, prefix + width, dtype=torch.long)
        # The padding is between prefix and suffix, so that the next token of every row is in the next column.
        for row, prompt in enumerate(prompts):
            padding = width - (len(prompt) - prefix)
            ids[row, padding:] = torch.tensor(prompt[prefix:])
            mask[row, prefix : prefix + padding] = 0
        mask = mask.to(self.device)
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        cache = _cache([(k[:, :, :prefix].expand(count, -1, -1, -1), v[:, :, :prefix].expand(count, -1, -1, -1))
                        for k, v in self._kept] if prefix else [])  # fmt: skip
        logits = self._forward(ids.to(self.device), cache, mask, positions[:, prefix:])
        if count == 1:  # no padding, so that the whole prompt can be the prefix of the next prompt
            self.kept_ids, self._kept = list(prompts[0]), _layers(cache)
            self._extended(prefix)
        return Rows(logits[:, -1], cache, mask, positions[:, -1:]), reused

    @contextmanager
    def only(self, tokens: Sequence[int]) -> Iterator[None]:
        """Compute logits of only these tokens until the block ends: rows × len(tokens), in float32.

        Logits in bfloat16 have about three digits, so options that differ in probability would tie.
        """
        self._only = torch.tensor(tokens, device=self.device)
        try:
            yield
        finally:
            self._only = None

    def _exact_logits(
        self, head: torch.nn.Module, given: tuple[torch.Tensor, ...], logits: torch.Tensor
    ) -> torch.Tensor:
        """Replace what the last layer returns; the model itself still scales or caps it."""
        if self._only is None:
            return logits
        if not isinstance(head, torch.nn.Linear):
            return logits[..., self._only].float()
        has_bias = "bias" in dict(head.named_parameters())
        bias = head.bias[self._only].float() if has_bias else None
        return torch.nn.functional.linear(given[0].float(), head.weight[self._only].float(), bias)

    @torch.inference_mode()
    def advance(self, rows: Rows, tokens: torch.Tensor) -> None:
        """Append one token (shape: rows) to each row and compute the next logits, in place."""
        rows.mask = torch.cat([rows.mask, rows.mask.new_ones(len(tokens), 1)], dim=1)
        rows.positions = rows.positions + 1
        rows.logits = self._forward(tokens[:, None], rows.cache, rows.mask, rows.positions)[:, -1]

    @torch.inference_mode()
    def look_ahead(self, rows: Rows, tokens: Sequence[int]) -> torch.Tensor:
        """Return the logits (rows × vocabulary) after appending `tokens` to each row; do not change `rows`."""
        count, width = len(rows.logits), len(tokens)
        ids = torch.tensor(tokens, device=self.device).expand(count, -1)
        mask = torch.cat([rows.mask, rows.mask.new_ones(count, width)], dim=1)
        positions = rows.positions + torch.arange(1, width + 1, device=self.device)
        return self._forward(ids, _cache(_layers(rows.cache)), mask, positions)[:, -1]

    @torch.inference_mode()
    def select(self, rows: Rows, kept: Sequence[int]) -> None:
        """Keep only the rows `kept`, in place."""
        index = torch.tensor(kept, device=self.device)
        rows.cache.batch_select_indices(index)
        rows.mask, rows.positions = rows.mask[index], rows.positions[index]

    def _ensure_prefix(self, prefix: list[int]) -> int:
        """Compute the missing keys and values of `prefix`, and keep them; return how many tokens were reused."""
        reused = shared_start(prefix, self.kept_ids)
        if reused < len(prefix):
            cache = _cache([(k[:, :, :reused], v[:, :, :reused]) for k, v in self._kept] if reused else [])
            ids = torch.tensor([prefix[reused:]], device=self.device)
            mask = torch.ones(1, len(prefix), dtype=torch.long, device=self.device)
            self._forward(ids, cache, mask, torch.arange(reused, len(prefix), device=self.device)[None])
            self.kept_ids = prefix
            self._kept = _layers(cache)
            self._extended(reused)
        return reused

    def _extended(self, reused: int) -> None:
        """Update `exact` after the tokens from `reused` on were computed."""
        if reused <= self.exact:
            self.exact = len(self.kept_ids)

    def _forward(
        self, ids: torch.Tensor, cache: DynamicCache, mask: torch.Tensor, positions: torch.Tensor
    ) -> torch.Tensor:
        output: torch.Tensor = self._model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        ).logits
        return output


def _cache(layers: Layers) -> DynamicCache:
    """Return a cache over existing tensors without a copy; the cache grows by concatenation and never changes them."""
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicLayer

    new_layer: Any = DynamicLayer
    cache = DynamicCache()
    for keys, values in layers:
        layer = new_layer()
        layer.lazy_initialization(keys, values)
        layer.keys, layer.values = keys, values
        cache.layers.append(layer)
    return cache


def _layers(cache: Any) -> Layers:
    """Return the tensors of a cache."""
    return [(layer.keys, layer.values) for layer in cache.layers]


def _head_dim(config: Any) -> int:
    """Return the dimensions per head; some configurations lack them."""
    return int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)


def _device(device: str) -> str:
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise ConfigError(f"[engine] device: got {device!r}, but PyTorch finds no CUDA device; write 'cpu' or 'auto'")
    return device
