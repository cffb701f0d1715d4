"""A transformers model that computes a shared prefix's keys and values once and runs the suffixes as one batch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from flightllm.errors import BitstreamError, ConfigError
from flightllm.model.tokenizer import shared_length

if TYPE_CHECKING:
    from transformers import DynamicCache  # imported where it is used: it takes seconds

Layers = list[tuple[torch.Tensor, torch.Tensor]]


class Rows:
    """The state of one batch while it is answered: `logits` (rows × vocabulary) of the next token, and its cache."""

    def __init__(self, logits: torch.Tensor, cache: DynamicCache, mask: torch.Tensor, positions: torch.Tensor) -> None:
        self.logits = logits
        self.cache = cache
        self.mask = mask
        self.positions = positions


class PrefixModel:
    """The model and the keys and values of the last prefix it computed. Not thread-safe: callers hold a lock."""

    def __init__(self, folder: Path, device: str, dtype: str) -> None:
        from transformers import AutoModelForCausalLM

        self.device = torch.device(_device(device))
        model: Any = AutoModelForCausalLM
        self._model = model.from_pretrained(folder, dtype=dtype)
        self._model.eval().to(self.device)
        config = self._model.config.get_text_config(decoder=True)
        kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
        if kinds != {"full_attention"}:
            raise ConfigError(f"[engine] model: {folder} has {', '.join(sorted(kinds))} layers; use the engine 'vllm'")
        self.context: int = config.max_position_embeddings
        self.vocabulary: int = config.vocab_size
        ends = self._model.generation_config.eos_token_id
        self.end_tokens = frozenset(ends if isinstance(ends, list) else [] if ends is None else [ends])
        self.kept_ids: list[int] = []  # may be longer than the prefix last asked for
        self._kept: Layers = []
        self.exact = 0
        """So many of the kept tokens' keys and values are as computed, and follow from such alone."""
        self._tenant = ""
        """Whose prompts the kept tokens are of."""

    @property
    def rope(self) -> str:
        """Return the kind of the model's rotary embeddings, as `default`, `llama3` or `longrope`; empty without any."""
        told = getattr(self._model.config.get_text_config(decoder=True), "rope_parameters", None) or {}
        return str(told.get("rope_type", ""))

    @property
    def size(self) -> tuple[int, int, int]:
        """Return how many layers there are, the channels of attention in each, and the parameters of all."""
        config = self._model.config.get_text_config(decoder=True)
        width = config.num_attention_heads * _head_dim(config)
        return config.num_hidden_layers, width, sum(weights.numel() for weights in self._model.parameters())

    @property
    def kv_shape(self) -> tuple[int, int, int]:
        """Return how many layers there are, the heads of keys and values in each, and the numbers of a head."""
        config = self._model.config.get_text_config(decoder=True)
        return config.num_hidden_layers, config.num_key_value_heads, _head_dim(config)

    @property
    def kv_dtype(self) -> torch.dtype:
        """Return the number type of keys and values."""
        found: torch.dtype = self._model.dtype
        return found

    @property
    def dtype(self) -> str:
        """Return the weights' number type, e.g. `float32`."""
        return str(self._model.dtype).removeprefix("torch.")

    def turn_to(self, tenant: str) -> None:
        """Go on with a tenant's prompts: what is kept of another's goes, as nobody else is to find it."""
        if tenant != self._tenant:
            self._tenant, self.kept_ids, self._kept, self.exact = tenant, [], [], 0

    def kept_of(self, tenant: str) -> Sequence[int]:
        """Return the kept tokens, where they are of a tenant's prompts."""
        return self.kept_ids if tenant == self._tenant else []

    def kept(self, start: int, stop: int) -> Layers:
        """Return keys and values (heads × tokens × head_dim) of some of the kept tokens, by layer, as they lie."""
        return [(keys[0, :, start:stop], values[0, :, start:stop]) for keys, values in self._kept]

    @torch.inference_mode()
    def kv_cache(self, ids: Sequence[int], start: int = 0) -> torch.Tensor:
        """Return keys and values of the tokens from `start` on (layers × 2 × tokens × heads × head_dim).

        They are kept like those of any prefix; what an earlier prompt has in common with this one is not computed.
        """
        self._ensure_prefix(list(ids))
        return torch.stack([torch.stack(pair) for pair in self.kept(start, len(ids))]).transpose(2, 3)

    def check(self, layers: Sequence[torch.Tensor], tokens: int) -> None:
        """Check that keys and values are of the shape and number type of this model's.

        Raises:
            BitstreamError: they are not.
        """
        count, heads, width = self.kv_shape
        shape = (2, tokens, heads, width)
        fitting = all(layer.shape == shape and layer.dtype == self._model.dtype for layer in layers)
        if len(layers) != count or not fitting:
            raise BitstreamError(f"a KV chunk is of another shape than this model's {shape}, or of other numbers")

    @torch.inference_mode()
    def adopt(self, ids: Sequence[int], start: int, layers: Sequence[torch.Tensor], exact: int) -> None:
        """Take keys and values (2 × tokens × heads × head_dim a layer) of the tokens from `start` on as computed.

        Those before `start` must be kept already. What is taken is only like what would be computed from token
        `exact` on.
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
        """Read `prompts`, whose first `prefix` tokens are equal; each is longer than that.

        Returns the batch's state and how many prefix tokens were already there from an earlier batch.
        """
        reused = self._ensure_prefix(list(prompts[0][:prefix]))
        count, width = len(prompts), max(map(len, prompts)) - prefix
        ids = torch.zeros(count, width, dtype=torch.long)
        mask = torch.ones(count, prefix + width, dtype=torch.long)
        # Padding goes between prefix and suffix, so that every row's next token follows the last column.
        for row, prompt in enumerate(prompts):
            padding = width - (len(prompt) - prefix)
            ids[row, padding:] = torch.tensor(prompt[prefix:])
            mask[row, prefix : prefix + padding] = 0
        mask = mask.to(self.device)
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        cache = _cache([(k[:, :, :prefix].expand(count, -1, -1, -1), v[:, :, :prefix].expand(count, -1, -1, -1))
                        for k, v in self._kept] if prefix else [])  # fmt: skip
        logits = self._forward(ids.to(self.device), cache, mask, positions[:, prefix:])
        if count == 1:  # nothing is padded, so the whole prompt can serve as the next one's prefix
            self.kept_ids, self._kept = list(prompts[0]), _layers(cache)
            self._extended(prefix)
        return Rows(logits[:, -1], cache, mask, positions[:, -1:]), reused

    @torch.inference_mode()
    def advance(self, rows: Rows, tokens: torch.Tensor) -> None:
        """Append one token (shape: rows) to each row and compute the next logits, in place."""
        rows.mask = torch.cat([rows.mask, rows.mask.new_ones(len(tokens), 1)], dim=1)
        rows.positions = rows.positions + 1
        rows.logits = self._forward(tokens[:, None], rows.cache, rows.mask, rows.positions)[:, -1]

    @torch.inference_mode()
    def look_ahead(self, rows: Rows, tokens: Sequence[int]) -> torch.Tensor:
        """Return the logits (rows × vocabulary) that follow once `tokens` are appended, leaving `rows` as they are."""
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
        """Make the kept keys and values begin with `prefix`; return how many of its tokens they already had."""
        reused = shared_length(prefix, self.kept_ids)
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
        """Take note that all but the first kept tokens, so many, were computed."""
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
    """Make a cache over existing tensors without copying them; it never writes into them, growing by concatenation."""
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
    """Return the tensors a cache holds."""
    return [(layer.keys, layer.values) for layer in cache.layers]


def _head_dim(config: Any) -> int:
    """Return the numbers of a head, which not every configuration says."""
    return int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)


def _device(device: str) -> str:
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise ConfigError(
            f"[engine] device: {device!r} asked for, but PyTorch sees no CUDA device; write 'cpu' or 'auto'"
        )
    return device
