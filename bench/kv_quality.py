"""The quality loss of coded KV caches: the demo model on contexts of 1,500 tokens that each codec encoded and decoded.

    python -m bench.kv_quality --repeats 250 --plot
    python -m bench.kv_quality --repeats 250 --parts

The questions are needles (a fact of the context, word for word) and yes/no questions. Their text is generated and
shares no sentence pattern with the model's training. Measured are the share of right answers and the perplexity of the
right answer. A further figure is the perplexity of long chats after the context, which this model can hardly read. The
first 1,500 tokens come from the codec; the rest is computed.

The levels are compared with int8, and with uniform quantisation to fewer bits and one entropy code for all numbers.
With `--parts` the default level is compared with variants that lack one part each. The bins of a variant are so wide
that it takes as many bits.
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
from flightllm.engines.local.model import PrefixModel
from flightllm.kvcache.codec import CODECS, DEFAULT_CODEC, open_codec
from flightllm.kvcache.codec.base import Codec, decode, shape_of
from flightllm.kvcache.codec.cachegen import CacheGenCodec
from flightllm.kvcache.codec.levels import BINS, Bins
from flightllm.kvcache.codec.profile import Profile
from flightllm.kvcache.profile.learn import learn
from flightllm.kvcache.profile.place import profile_path
from flightllm.kvcache.profile.texts import contexts, sample_texts
from flightllm.llm.tokenizer import PromptEncoder
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
"""The number of contexts to learn a profile from."""

Coding = Callable[[torch.Tensor], tuple[torch.Tensor, float]]
"""Returns the decoded chunk and its bits per element."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The figures of one codec.

    `bits` are per element, `needle` and `filter` are accuracies, and the perplexities are of right needle answers and
    of long chats.
    """

    bits: float
    needle: float
    filter: float
    perplexity: float
    perplexity_longchat: float | None


def codings() -> Mapping[str, Coding]:
    """Return the codings to compare, by name."""
    profile = profile_path(demo_model())
    found: dict[str, Coding] = {name: partial(_coded, open_codec(name, profile)) for name in CODECS}
    return {**found, **{f"uniform, {bits} bits, one distribution": partial(uniform, bits) for bits in _UNIFORM_BITS}}


def without_parts() -> Mapping[str, Coding]:
    """Return the default level, and variants without one of its parts, all learned from the same texts."""
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
    """Return a profile whose bins are so wide that the default level takes `wanted` bits per element."""
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
    """Quantise each token's vector relative to its largest number; the size is the joint entropy of all numbers."""
    largest = 2 ** (bits - 1) - 1
    scales = cache.abs().amax((3, 4), keepdim=True).clamp(min=1e-9) / largest
    numbers = (cache / scales).round()
    shares = torch.bincount((numbers + largest).long().flatten()).double() / numbers.numel()
    size = -float((shares * shares.clamp(min=1e-12).log2()).sum())
    return numbers * scales, size + 16 / shape_of(cache).channels


class Model:
    """The demo model, which runs on several versions of one context at once."""

    def __init__(self) -> None:
        from transformers import AutoModelForCausalLM

        loader: Any = AutoModelForCausalLM
        self._model = loader.from_pretrained(demo_model(), dtype=torch.float32).eval()
        self.encoder = PromptEncoder(demo_model())

    @torch.inference_mode()
    def context(self, ids: list[int]) -> torch.Tensor:
        """Return the KV chunk of a context."""
        layers = self._model(torch.tensor([ids]), use_cache=True).past_key_values.layers
        return torch.stack([torch.stack([layer.keys[0], layer.values[0]]).transpose(1, 2) for layer in layers])

    @torch.inference_mode()
    def answers(
        self, contexts: list[torch.Tensor], rest: list[int], wanted: list[int]
    ) -> tuple[list[str], list[float]]:
        """Return the greedy answer after each version of the context and the rest of the prompt.

        The second list has the mean negative log-likelihood of the wanted answer.
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
        """Return the mean negative log-likelihood of the tokens `following` after each version of the context."""
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
    """Yield questions of a task whose context is at least as long as a chunk, with their tokens."""
    writer = held_out_writer(SEED, f"coded {task}")
    while count:
        example = ask_needle(writer, writer.rng.randint(1_050, 1_300), early=True)
        ids = encoder.encode([example.prompt()])[0]
        if example.task == task and CONTEXT < len(ids) <= _LONGEST:
            yield example, ids
            count -= 1


@dataclass(slots=True)
class Tally:
    """The results of one codec so far, question by question or text by text."""

    bits: list[float] = field(default_factory=list)
    right: list[bool] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)

    @property
    def accuracy(self) -> float:
        """Return the share of right answers."""
        return statistics.mean(self.right)

    @property
    def perplexity(self) -> float:
        """Return the perplexity; each question or text has the same weight."""
        return math.exp(statistics.mean(self.losses))


def ask(model: Model, coders: Mapping[str, Coding], task: str, count: int) -> dict[str, Tally]:
    """Return the results of each codec on a task's questions.

    The results are the right answers and the likelihoods of the wanted answers.
    """
    found = {name: Tally() for name in coders}
    for example, ids in track(list(examples(model.encoder, task, count)), task):
        context, rest = model.context(ids[:CONTEXT]), ids[CONTEXT:]
        versions, call = _versions(coders, context, found), example.call()
        wanted = call.parse(example.answer)
        answer = [*model.encoder.continuation(example.answer), model.encoder.tokenizer.eos_token_id]
        for tally, text, loss in zip(found.values(), *model.answers(versions, rest, answer), strict=True):
            tally.losses.append(loss)
            with contextlib.suppress(ValueError):  # the text is not an answer
                tally.right.append(call.parse(text) == wanted)
                continue
            tally.right.append(False)
    return found


def read(model: Model, coders: Mapping[str, Coding], texts: list[list[int]]) -> dict[str, Tally]:
    """Return for each codec the likelihoods of the texts after the contexts."""
    found = {name: Tally() for name in coders}
    for ids in track(texts, "long chats"):
        versions = _versions(coders, model.context(ids[:CONTEXT]), found)
        losses = model.losses(versions, ids[CONTEXT : CONTEXT + _FOLLOWING])
        for tally, loss in zip(found.values(), losses, strict=True):
            tally.losses.append(loss)
    return found


def _versions(coders: Mapping[str, Coding], context: torch.Tensor, tallies: Mapping[str, Tally]) -> list[torch.Tensor]:
    """Return the context as decoded by each codec, and add its size to the codec's tally."""
    versions = []
    for name, coding in coders.items():
        cache, bits = coding(context)
        tallies[name].bits.append(bits)
        versions.append(cache)
    return versions


def long_chats(encoder: PromptEncoder, count: int) -> list[list[int]]:
    """Return the beginnings of long chats; an empty list if there are no long chats."""
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
    parser.add_argument(
        "--parts", action="store_true", help="compare the default level with variants that lack one part"
    )
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
    """Return the panels of the plot: each measure against the size."""
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
