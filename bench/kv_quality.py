"""What coding the KV cache costs in quality: the demo model on contexts of 1,500 tokens that come back from each codec.

    python -m bench.kv_quality --repeats 250 --plot
    python -m bench.kv_quality --repeats 250 --parts

Needles (a fact of the context, word for word) and yes/no questions on it, in generated text that shares no sentence
pattern with the model's training: right answers, and the perplexity of the right one. Perplexity of long chats after
the context, for a model that can hardly read them. The first 1,500 tokens come from the codec, the rest is computed.
Beside the levels stand int8, and uniform quantisation to fewer bits, entropy-coded with one distribution for all. With
`--parts` the default level stands beside itself without one part, its bins such that it takes as many bits.
"""

import argparse
import contextlib
import json
import math
import os
import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch
from rich.progress import track

from bench.common import machine, markdown
from bench.plot import Curve, plot_curves
from flightllm.common.package_data import demo_model
from flightllm.kvcache.codec import CODECS, DEFAULT_CODEC, open_codec
from flightllm.kvcache.codec.base import Codec, decode, shape_of
from flightllm.kvcache.codec.cachegen import CacheGenCodec
from flightllm.kvcache.codec.levels import BINS, Bins
from flightllm.kvcache.codec.profile import Profile
from flightllm.kvcache.profile.learn import learn
from flightllm.kvcache.profile.place import profile_path
from flightllm.kvcache.profile.texts import contexts, sample_texts
from flightllm.llm.local.model import PrefixModel
from flightllm.model.tokenizer import PromptEncoder
from training.evaluate import SEED
from training.examples import held_out_writer
from training.tasks.base import Example
from training.tasks.needles import ask_needle

CONTEXT = 1_500
_LONGEST = 1_950
_FOLLOWING = 400
_ANSWER_TOKENS = 24
_UNIFORM_BITS = (6, 5, 4, 3)
_LEARNED = 30
"""Contexts to learn from."""

Coding = Callable[[torch.Tensor], tuple[torch.Tensor, float]]
"""Returns what comes back of a chunk, and its bits an element."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One codec: bits an element, accuracies, the perplexities of needles' right answers and of long chats."""

    bits: float
    needle: float
    filter: float
    perplexity: float
    perplexity_longchat: float | None


def codings() -> Mapping[str, Coding]:
    """Return what is compared, by name."""
    profile = profile_path(demo_model())
    found: dict[str, Coding] = {name: partial(_coded, open_codec(name, profile)) for name in CODECS}
    return {**found, **{f"uniform, {bits} bits, one distribution": partial(uniform, bits) for bits in _UNIFORM_BITS}}


def without_parts() -> Mapping[str, Coding]:
    """Return the default level, and without one of its parts each, learned from the same texts."""
    model, encoder = PrefixModel(demo_model(), "cpu", "auto"), PromptEncoder(demo_model(), chat=False)
    rows = (encoder.encode([text])[0] for text in sample_texts())
    learned = [model.kv_cache(ids) for ids in contexts(rows, CONTEXT, _LEARNED)]
    whole = learn(lambda: learned)
    wanted = _bits(whole, learned)
    variants: Mapping[str, Callable[[Bins], Profile]] = {
        "equal bins in all layers": lambda bins: learn(lambda: learned, Bins((bins.thirds[1],) * 3)),
        "no rotation": lambda bins: learn(lambda: learned, bins, rotate=False),
        "no differences": lambda bins: learn(lambda: learned, bins, weight=0.0),
        "whole anchors subtracted, no rotation (the paper)": lambda bins: learn(
            lambda: learned, bins, rotate=False, weight=1.0
        ),
    }
    found: dict[str, Coding] = {"raw": _exact, DEFAULT_CODEC: partial(_coded, CacheGenCodec(whole))}
    for name, make in variants.items():
        found[name] = partial(_coded, CacheGenCodec(_as_large(make, learned, wanted)))
    return found


def _as_large(make: Callable[[Bins], Profile], learned: list[torch.Tensor], wanted: float) -> Profile:
    """Return a profile whose bins are so wide that the default level takes the bits wanted."""
    low, high = 0.5, 4.0
    for _ in range(6):
        factor = (low * high) ** 0.5
        profile = make(Bins((BINS[0] * factor, BINS[1] * factor, BINS[2] * factor)))
        low, high = (factor, high) if _bits(profile, learned) > wanted else (low, factor)
    return profile


def _bits(profile: Profile, chunks: list[torch.Tensor]) -> float:
    codec = CacheGenCodec(profile)
    return statistics.mean(8 * len(codec.encode(chunk)) / chunk.numel() for chunk in chunks[:4])


def _exact(cache: torch.Tensor) -> tuple[torch.Tensor, float]:
    return cache, 8.0 * cache.itemsize


def _coded(codec: Codec, cache: torch.Tensor) -> tuple[torch.Tensor, float]:
    data = codec.encode(cache)
    return decode(codec, data), 8 * len(data) / cache.numel()


def uniform(bits: int, cache: torch.Tensor) -> tuple[torch.Tensor, float]:
    """Quantise each token's vector by its largest number; the size is the entropy of all numbers taken together."""
    largest = 2 ** (bits - 1) - 1
    scales = cache.abs().amax((3, 4), keepdim=True).clamp(min=1e-9) / largest
    numbers = (cache / scales).round()
    shares = torch.bincount((numbers + largest).long().flatten()).double() / numbers.numel()
    size = -float((shares * shares.clamp(min=1e-12).log2()).sum())
    return numbers * scales, size + 16 / shape_of(cache).channels


class Model:
    """The demo model, run on several versions of one context at once."""

    def __init__(self) -> None:
        from transformers import AutoModelForCausalLM

        loader: Any = AutoModelForCausalLM
        self._model = loader.from_pretrained(demo_model(), dtype=torch.float32).eval()
        self.encoder = PromptEncoder(demo_model())

    @torch.inference_mode()
    def context(self, ids: list[int]) -> torch.Tensor:
        """Return the chunk of a context."""
        layers = self._model(torch.tensor([ids]), use_cache=True).past_key_values.layers
        return torch.stack([torch.stack([layer.keys[0], layer.values[0]]).transpose(1, 2) for layer in layers])

    @torch.inference_mode()
    def answers(
        self, contexts: list[torch.Tensor], rest: list[int], wanted: list[int]
    ) -> tuple[list[str], list[float]]:
        """Return what is answered, greedily, after each version of the context and the rest of the prompt.

        And the mean negative log-likelihood of the wanted answer.
        """
        cache, count = _cache(contexts), len(contexts)
        first = self._logits(torch.tensor([rest]).repeat(count, 1), cache)[:, -1:]
        read = cache.get_seq_length()
        target = torch.tensor([wanted]).repeat(count, 1)
        logits = torch.cat([first, self._logits(target, cache)[:, :-1]], 1)
        losses = torch.nn.functional.cross_entropy(logits.transpose(1, 2), target, reduction="none").mean(1)
        cache.crop(read - cache.get_seq_length())
        end = self.encoder.tokenizer.eos_token_id
        written = [first.argmax(-1)]
        ended = written[0] == end
        while len(written) < _ANSWER_TOKENS and not bool(ended.all()):
            written.append(self._logits(written[-1], cache)[:, -1:].argmax(-1))
            ended |= written[-1] == end
        rows = torch.cat(written, 1).tolist()
        texts = [self.encoder.decode(row[: row.index(end)] if end in row else row) for row in rows]
        return texts, losses.tolist()

    @torch.inference_mode()
    def losses(self, contexts: list[torch.Tensor], following: list[int]) -> list[float]:
        """Return the mean negative log-likelihood of what follows each version of the context."""
        tokens = torch.tensor([following]).repeat(len(contexts), 1)
        logits = self._logits(tokens, _cache(contexts))[:, :-1].transpose(1, 2)
        found: list[float] = torch.nn.functional.cross_entropy(logits, tokens[:, 1:], reduction="none").mean(1).tolist()
        return found

    def _logits(self, tokens: torch.Tensor, cache: Any) -> torch.Tensor:
        logits: torch.Tensor = self._model(tokens, past_key_values=cache, use_cache=True).logits
        return logits


def _cache(contexts: list[torch.Tensor]) -> Any:
    from transformers import DynamicCache

    cache: Any = DynamicCache()
    for layer in range(len(contexts[0])):
        keys, values = torch.stack([context[layer] for context in contexts], 1).transpose(2, 3)
        cache.update(keys.contiguous(), values.contiguous(), layer)
    return cache


def examples(encoder: PromptEncoder, task: str, count: int) -> Iterator[tuple[Example, list[int]]]:
    """Yield questions of a task whose context alone is as long as a chunk, with their tokens."""
    writer = held_out_writer(SEED, f"coded {task}")
    while count:
        example = ask_needle(writer, writer.rng.randint(1_050, 1_300), early=True)
        ids = encoder.encode([example.prompt()])[0]
        if example.task == task and CONTEXT < len(ids) <= _LONGEST:
            yield example, ids
            count -= 1


@dataclass(slots=True)
class Tally:
    """What one codec has come to so far, question by question or text by text."""

    bits: list[float] = field(default_factory=list)
    right: list[bool] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)

    @property
    def accuracy(self) -> float:
        """Return the share of right answers."""
        return statistics.mean(self.right)

    @property
    def perplexity(self) -> float:
        """Return the perplexity, each question or text counting the same."""
        return math.exp(statistics.mean(self.losses))


def ask(model: Model, coders: Mapping[str, Coding], task: str, count: int) -> dict[str, Tally]:
    """Return what is answered to questions of a task, by codec, and how likely the right answers were."""
    found = {name: Tally() for name in coders}
    for example, ids in track(list(examples(model.encoder, task, count)), task):
        context, rest = model.context(ids[:CONTEXT]), ids[CONTEXT:]
        versions, call = _versions(coders, context, found), example.call()
        wanted = call.parse(example.answer)
        answer = [*model.encoder.continuation(example.answer), model.encoder.tokenizer.eos_token_id]
        for tally, text, loss in zip(found.values(), *model.answers(versions, rest, answer), strict=True):
            tally.losses.append(loss)
            with contextlib.suppress(ValueError):  # no answer at all
                tally.right.append(call.parse(text) == wanted)
                continue
            tally.right.append(False)
    return found


def read(model: Model, coders: Mapping[str, Coding], texts: list[list[int]]) -> dict[str, Tally]:
    """Return how likely what follows the contexts is, by codec."""
    found = {name: Tally() for name in coders}
    for ids in track(texts, "long chats"):
        versions = _versions(coders, model.context(ids[:CONTEXT]), found)
        losses = model.losses(versions, ids[CONTEXT : CONTEXT + _FOLLOWING])
        for tally, loss in zip(found.values(), losses, strict=True):
            tally.losses.append(loss)
    return found


def _versions(coders: Mapping[str, Coding], context: torch.Tensor, tallies: Mapping[str, Tally]) -> list[torch.Tensor]:
    """Return what comes back of a context from each codec, whose tally gets the size."""
    versions = []
    for name, coding in coders.items():
        cache, bits = coding(context)
        tallies[name].bits.append(bits)
        versions.append(cache)
    return versions


def long_chats(encoder: PromptEncoder, count: int) -> list[list[int]]:
    """Return the beginnings of long chats, where there are any."""
    path = Path(os.environ.get("FLIGHTLLM_DATA", "")) / "longchat.parquet"
    if not path.is_file():
        return []
    texts = pq.read_table(path).column("prompt").to_pylist()[:count]
    return [encoder.encode([text[:20_000]])[0] for text in texts]


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=300, help="questions of each task (default 300)")
    parser.add_argument("--texts", type=int, default=50, help="texts for perplexities (default 50)")
    parser.add_argument("--parts", action="store_true", help="the default level without one part each")
    parser.add_argument("--plot", action="store_true", help="write bench/kv_quality.png")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    parser.add_argument("--quick", action="store_true", help="under a minute")
    options = parser.parse_args()
    if options.quick:
        options.repeats, options.texts = 10, 3
    model, coders = Model(), without_parts() if options.parts else codings()
    needles = ask(model, coders, "needle", options.repeats)
    filters = ask(model, coders, "long filter", options.repeats)
    chats = read(model, coders, long_chats(model.encoder, options.texts))
    outcomes = {
        name: Outcome(
            statistics.mean(needles[name].bits),
            needles[name].accuracy,
            filters[name].accuracy,
            needles[name].perplexity,
            chats[name].perplexity if chats[name].losses else None,
        )
        for name in coders
    }
    columns: Mapping[str, Callable[[Any], str]] = {
        "bits/element": lambda one: f"{one.bits:.2f}",
        "needle": lambda one: f"{one.needle:.1%}",
        "yes/no": lambda one: f"{one.filter:.1%}",
        "perplexity": lambda one: f"{one.perplexity:.3f}",
        "of long chats": lambda one: "" if one.perplexity_longchat is None else f"{one.perplexity_longchat:.1f}",
    }
    print(markdown("codec", columns, outcomes))
    if options.plot:
        plot_curves(_panels(outcomes), Path(__file__).with_name("kv_quality.png"), "bits an element")
    if options.json:
        rows = {name: asdict(one) for name, one in outcomes.items()}
        print(json.dumps({"bench": "kv_quality", "outcomes": rows, "machine": machine()}))


def _panels(outcomes: Mapping[str, Outcome]) -> dict[str, dict[str, Curve]]:
    """Return the pictures of the plot: each measure against size."""
    members = {
        label: [one for name, one in outcomes.items() if name.startswith(start)]
        for label, start in {
            "CacheGen levels": "cachegen",
            "uniform, one distribution": "uniform",
            "int8": "int8",
        }.items()
    }
    measures: Mapping[str, Callable[[Outcome], float]] = {
        "needle, right answers": lambda one: one.needle,
        "yes/no, right answers": lambda one: one.filter,
        "needle, perplexity of the right answer": lambda one: one.perplexity,
    }
    return {
        title: {label: [(one.bits, measure(one)) for one in curve] for label, curve in members.items()}
        for title, measure in measures.items()
    }


if __name__ == "__main__":
    main()
