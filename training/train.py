"""Train the demo model: `python -m training.train`. README.md in this folder describes the training."""

from __future__ import annotations

import argparse
import copy
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from torch.nn import functional

from flightllm.llm.engine import Choice
from training.batches import Batch, Encoded, batches, encode, repetitions
from training.evaluate import positive, report
from training.examples import training_family, training_text
from training.forward import rotation, states
from training.hints import mark_loss, pointer_loss
from training.induction import MEANING, add_induction, add_pointing
from training.meaning import meanings
from training.muon import Muon
from training.tasks.base import Example
from training.tokenizer import SPECIAL_TOKENS, VOCABULARY, train_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_EVALUATED = 100
"""The examples of each measure after training; `training.evaluate` uses more."""
_TEMPERATURES = [2 ** (step / 8) for step in range(-8, 17)]
_WORDS = range(len(SPECIAL_TOKENS), VOCABULARY)


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that decides the weights.

    A step is one batch of at most `batch_tokens`. Training has `pools` pools of `pool_families` families of examples
    each, and it can stop and resume between pools. The learning rates rise over the first pools, stay, and fall almost
    to zero over the last `cooldown` share. At first the model also learns the prompts' text: a token of it has the
    weight `text_weight`, which falls to zero at `text_until`.

    The hints (`hints.py`) apply before and in the layer `hint_layer`, with `mark_weight` and `pointer_weight` relative
    to the answers. The tokenizer is trained on `tokenizer_families`, and the first embeddings come from
    `meaning_texts`. In each pool, `pool_repetitions` rows are random tokens to copy. `induction.py` requires models 256
    wide with heads of 64.
    """

    seed: int = 1
    pools: int = 400
    pool_families: int = 256
    pool_repetitions: int = 24
    batch_tokens: int = 2048
    hidden: int = 256
    intermediate: int = 512
    layers: int = 6
    heads: int = 4
    kv_heads: int = 2
    context_tokens: int = 2048
    rope_theta: float = 500_000.0
    matrix_rate: float = 0.004
    vector_rate: float = 0.006
    warmup: float = 0.01
    cooldown: float = 0.9
    text_weight: float = 0.2
    text_until: float = 0.1
    hint_layer: int = 3
    mark_weight: float = 0.5
    pointer_weight: float = 1.0
    tokenizer_families: int = 5000
    meaning_texts: int = 40_000


class Trainer:
    """The state of one training run. The caller can `save` and `load` it between pools."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        torch.manual_seed(recipe.seed)
        known = [training_family(recipe.seed, -number) for number in range(1, recipe.tokenizer_families + 1)]
        self.tokenizer = _tokenizer(recipe, known)
        spoken_of = {meaning for family in known for example in family for _, meaning in example.marks}
        self.meanings = {meaning: number for number, meaning in enumerate(sorted(spoken_of))}
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.precision = fast_precision(self.device)
        self.model = new_model(recipe, self.tokenizer)
        add_induction(self.model, self._meanings())
        add_pointing(self.model, recipe.hint_layer)
        self.model.meanings = torch.nn.Linear(recipe.hidden, len(self.meanings), bias=False)
        self.model.to(self.device)
        self.twin = copy.deepcopy(self.model).to(self.precision)
        matrices = [value for name, value in self.model.named_parameters() if value.ndim == 2 and "layers" in name]
        taken = set(map(id, matrices))
        vectors = [value for value in self.model.parameters() if id(value) not in taken]
        self.optimizers: list[Any] = [
            Muon(matrices, recipe.matrix_rate, self.precision),
            torch.optim.AdamW(vectors, lr=recipe.vector_rate, betas=(0.9, 0.98), weight_decay=0.0),
        ]
        self.pool = 0
        self.loss = float("nan")

    def train_pool(self) -> None:
        """Take one step per batch of the next pool."""
        recipe = self.recipe
        rate = self._rate()
        for optimizer, base in zip(self.optimizers, (recipe.matrix_rate, recipe.vector_rate), strict=True):
            for group in optimizer.param_groups:
                group["lr"] = base * rate
        rng = random.Random(f"{recipe.seed} pool {self.pool}")
        text_weight = recipe.text_weight * max(0.0, 1 - self.pool / (recipe.text_until * recipe.pools))
        rows = batches(self._rows(rng), recipe.batch_tokens, rng, text_weight)
        self.loss = float(torch.stack([self._step(batch) for batch in rows]).mean())
        self.pool += 1

    def save(self, path: Path) -> None:
        """Write the state atomically to a file."""
        state = {
            "recipe": asdict(self.recipe),
            "pool": self.pool,
            "tokenizer": self.tokenizer.backend_tokenizer.to_str(),
            "model": self.model.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(state, path.with_suffix(".new"))
        path.with_suffix(".new").replace(path)

    def load(self, path: Path) -> None:
        """Load a saved state.

        Raises:
            SystemExit: the state belongs to another recipe, or to a tokenizer trained on other text.
        """
        state = torch.load(path, map_location=self.device, weights_only=True)
        if state["recipe"] != asdict(self.recipe):
            raise SystemExit(f"{path} was saved with another recipe: delete it, or write another --work folder")
        if state["tokenizer"] != self.tokenizer.backend_tokenizer.to_str():
            raise SystemExit(f"{path} was saved with another training text: delete it, or write another --work folder")
        self.model.load_state_dict(state["model"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self.pool = state["pool"]
        self._refresh_twin()

    def _step(self, batch: Batch) -> torch.Tensor:
        """Learn from a batch; return its loss.

        Gradients are computed in the fast precision, weights are kept in float32.
        """
        loss: Any = self._loss(batch)
        loss.backward()
        weights, copies = list(self.model.parameters()), list(self.twin.parameters())
        for weight, fast in zip(weights, copies, strict=True):
            if fast.grad is not None:  # it is None for the meanings in a batch without marks
                weight.grad, fast.grad = fast.grad.to(weight.dtype), None
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self._refresh_twin()
        detached: torch.Tensor = loss.detach()
        return detached

    @torch.no_grad()
    def _refresh_twin(self) -> None:
        for weight, fast in zip(self.model.parameters(), self.twin.parameters(), strict=True):
            fast.copy_(weight)

    def _rows(self, rng: random.Random) -> list[Encoded]:
        first = self.pool * self.recipe.pool_families
        progress = self.pool / self.recipe.pools
        numbers = range(first, first + self.recipe.pool_families)
        families = [training_family(self.recipe.seed, number, progress) for number in numbers]
        return [*repetitions(self.recipe.pool_repetitions, _WORDS, rng), *self.fitting(families)]

    def fitting(self, families: Sequence[Sequence[Example]]) -> list[Encoded]:
        """Return the encoded families that fit the context."""
        rows = encode(self.tokenizer, families, self.meanings)
        return [row for row in rows if len(row.ids) <= self.recipe.context_tokens]

    def _meanings(self) -> torch.Tensor:
        texts = [training_text(self.recipe.seed, -number) for number in range(1, self.recipe.meaning_texts + 1)]
        ids = self.tokenizer(texts, add_special_tokens=False).input_ids
        return meanings(ids, VOCABULARY, MEANING.stop - MEANING.start)

    def _rate(self) -> float:
        done = (self.pool + 1) / self.recipe.pools
        return max(
            0.02, min(1.0, done / self.recipe.warmup, (1 - self.pool / self.recipe.pools) / self.recipe.cooldown)
        )

    def _loss(self, batch: Batch) -> torch.Tensor:
        """Return the weighted mean of the tokens' losses."""
        turned = rotation(self.twin, batch)
        found = states(self.twin, batch, turned)
        hidden, hinted = found[-1], found[self.recipe.hint_layer]
        counted = (batch.weights > 0).to(self.device)
        logits = self.twin.lm_head(hidden[counted]).float()
        targets, weights = batch.targets.to(self.device)[counted], batch.weights.to(self.device)[counted]
        loss = (functional.cross_entropy(logits, targets, reduction="none") * weights).sum() / weights.sum()
        if len(batch.marks):
            loss = loss + self.recipe.mark_weight * mark_loss(self.twin, hinted, batch)
        if len(batch.pointers):
            layer = self.twin.model.layers[self.recipe.hint_layer]
            loss = loss + self.recipe.pointer_weight * pointer_loss(layer, hinted, turned, batch)
        return loss


def fast_precision(device: str) -> torch.dtype:
    """Return bfloat16 if the processor multiplies bfloat16 matrices faster than float32 ones, else float32."""
    if device == "cpu" and not torch.cpu.get_capabilities().get("amx_bf16", False):
        return torch.float32
    return torch.bfloat16


def new_model(recipe: Recipe, tokenizer: PreTrainedTokenizerFast) -> Any:
    """Return an untrained model with grouped-query attention and heads of 64, which vLLM can run on CPU."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=recipe.hidden,
        intermediate_size=recipe.intermediate,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        num_key_value_heads=recipe.kv_heads,
        head_dim=recipe.hidden // recipe.heads,
        max_position_embeddings=recipe.context_tokens,
        rope_parameters={"rope_type": "default", "rope_theta": recipe.rope_theta},
        tie_word_embeddings=False,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        dtype="float32",
    )
    model: Any = LlamaForCausalLM
    return model(config)


@torch.no_grad()
def calibrate(trainer: Trainer, families: int = 300) -> float:
    """Divide all logits by the best temperature for the first tokens of choices, and return this temperature.

    Answers stay the same. Probabilities come closer to the share of right answers (Guo et al. 2017, section 4.2). The
    texts are new. The temperature becomes part of the last norm, so that every engine applies it.
    """
    seed = f"{trainer.recipe.seed} calibration"
    examples = [example for number in range(families) for example in training_family(seed, number)]
    choices = [[example] for example in examples if isinstance(example.call().parameters.constraint, Choice)]
    logits, targets = [], []
    for batch in batches(trainer.fitting(choices), trainer.recipe.batch_tokens, random.Random(seed)):
        hidden = trainer.model.model(input_ids=batch.ids.to(trainer.device), use_cache=False).last_hidden_state.cpu()
        answered = batch.weights > 0
        places = answered.any(-1).nonzero()[:, 0]
        first = answered.float().argmax(-1)[places]
        logits.append(trainer.model.lm_head(hidden[places, first].to(trainer.device)).float().cpu())
        targets.append(batch.targets[places, first])
    values, wanted = torch.cat(logits), torch.cat(targets)
    losses = {one: float(functional.cross_entropy(values / one, wanted)) for one in _TEMPERATURES}
    best = min(losses, key=losses.__getitem__)
    trainer.model.model.norm.weight.div_(best)
    return best


def save_model(trainer: Trainer, folder: Path) -> None:
    """Write the model as bfloat16 safetensors with its tokenizer.

    Its configuration says float32, in which engines compute.
    """
    model: Any = trainer.model
    state = {name: value.to(torch.bfloat16) for name, value in model.state_dict().items() if name != "meanings.weight"}
    model.save_pretrained(folder, state_dict=state, safe_serialization=True)
    trainer.tokenizer.save_pretrained(folder)
    for name in ("model.safetensors", "tokenizer.json"):  # their writers make them readable only for the owner
        (folder / name).chmod(0o644)


def main() -> None:
    """Train, or continue a stopped run, and write the model."""
    parser = argparse.ArgumentParser(description="Train the demo model.")
    parser.add_argument("--folder", type=Path, default=Path("demo-model"), help="folder to write the model to")
    parser.add_argument("--work", type=Path, default=Path("demo-training"), help="folder of the saved state")
    parser.add_argument("--pools", type=positive, default=Recipe().pools, help="length of the training")
    arguments = parser.parse_args()
    trainer = Trainer(Recipe(pools=arguments.pools))
    state = arguments.work / "state.pt"
    if state.is_file():
        trainer.load(state)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns) as progress:
        task = progress.add_task("training", total=trainer.recipe.pools, completed=trainer.pool)
        while trainer.pool < trainer.recipe.pools:
            trainer.train_pool()
            progress.update(task, completed=trainer.pool, description=f"training, loss {trainer.loss:.3f}")
            if trainer.pool % 10 == 0 or trainer.pool == trainer.recipe.pools:
                trainer.save(state)
    calibrate(trainer)
    save_model(trainer, arguments.folder)
    report("local", str(arguments.folder), _EVALUATED, None).show(Console())


def _tokenizer(recipe: Recipe, families: Sequence[Sequence[Example]]) -> PreTrainedTokenizerFast:
    texts = (f"{example.prompt()}\n{example.answer}" for family in families for example in family[:2])
    return train_tokenizer(texts, recipe.context_tokens)


if __name__ == "__main__":
    main()
