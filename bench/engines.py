"""Engines whose prefix cache is smaller than a query's prompts, so that the order of prompts matters."""

import math
import statistics
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

from bench.common import read_to_end
from bench.models import CONTEXT_TOKENS, Folder, Model, model
from bench.setting import database_over, open_database
from bench.trie import Line, Parts, fields_begin, least, least_of_any_field_order, line, parts
from flightllm.common.text import shared_start
from flightllm.config import EngineConfig
from flightllm.engines.fake.engine import FakeEngine
from flightllm.engines.loaded import LoadedEngine
from flightllm.engines.supervised import SupervisedEngine
from flightllm.engines.vllm.engine import VllmEngine
from flightllm.llm.engine import Completion, Engine, Request
from flightllm.llm.files import model_folder
from flightllm.llm.prompt_formats import FORMATS, PLAIN
from flightllm.llm.tokenizer import PromptEncoder

CACHE_BLOCKS: Final = 320
"""Blocks of 32 tokens, 10,240 tokens in all. The texts shared by the prompts of 2,000 rows have at least 36,000
tokens.
"""
BLOCK_TOKENS: Final = 32
_FAKE_CHARACTERS: Final = 4
"""Characters of a token of the engine `fake`."""
_FAKE_BLOCK_TOKENS: Final = 16
"""Tokens of a block of its prefix cache."""
IN_FLIGHT: Final = 16
_SHARE: Final = 16
"""The least tokens of a query's prompts are this many times as many as the tokens of its small cache."""
_ANSWER_TOKENS: Final = 32
"""Room for an answer, and for what another layout adds to a prompt."""


def engine_config(
    kind: str,
    chosen: Model,
    blocks: int,
    in_flight: int = IN_FLIGHT,
    *,
    prefix_cache: bool,
    kv_eviction: str = "planned",
) -> EngineConfig:
    """Return the configuration of an engine with a small prefix cache, or without a prefix cache.

    `chosen` is vLLM's model; the engine `local` takes it too, if it is a folder. Each of the `blocks` of its KV cache
    holds the keys and values of 32 tokens. The number of blocks is the same with and without the prefix cache. vLLM
    gets `in_flight` prompts at once. With `kv_eviction` of `none`, vLLM's prefix cache drops the block whose last use
    is the oldest.
    """
    tokens = blocks * BLOCK_TOKENS
    if kind == "fake":
        return EngineConfig("fake", options={"cache_blocks": tokens // _FAKE_BLOCK_TOKENS if prefix_cache else 0})
    if kind != "vllm":
        return EngineConfig(kind, str(chosen.path)) if isinstance(chosen, Folder) else EngineConfig(kind)
    context = min(CONTEXT_TOKENS, chosen.context) if isinstance(chosen, Folder) else CONTEXT_TOKENS
    options: dict[str, object] = {
        "kv_cache_memory_bytes": chosen.kv_bytes(tokens),
        "enable_prefix_caching": prefix_cache,
        "kv_eviction": kv_eviction,
        "dtype": "bfloat16",
        "max_model_len": min(context, tokens - BLOCK_TOKENS),  # vLLM reserves one block
        "engine_args": {} if isinstance(chosen, Folder) or chosen.weights else {"load_format": "dummy"},
    }
    folder = chosen.path if isinstance(chosen, Folder) else model(chosen)
    return EngineConfig("vllm", str(folder), in_flight, options)


def small_cache(queries: Iterable[Sequence[Sequence[int]]], in_flight: int) -> int:
    """Return the number of blocks of a cache that cannot hold the prompts of the largest query.

    `queries` has the tokens of each query's prompts. The cache holds a sixteenth of the least tokens that the largest
    query must compute. But it always holds `in_flight` prompts of mean length, or the longest prompt, each with its
    answer. So prompts that are longer than the mean do not always fit at once. vLLM reserves one more block.
    """
    blocks = [0]
    for prompts in queries:
        sizes = [len(tokens) + _ANSWER_TOKENS for tokens in prompts]
        wanted = (least(prompts) / _SHARE, in_flight * statistics.fmean(sizes or [0]), max(sizes, default=0))
        blocks += [math.ceil(tokens / BLOCK_TOKENS) for tokens in wanted]
    return 1 + max(blocks)


def prompt_tokens(
    config: EngineConfig, files: Mapping[str, Path], sql: str, settings: Mapping[str, str]
) -> list[list[int]]:
    """Return the tokens of a query's prompts in the order in which they are sent. The model does not run.

    Prompts that depend on a model's answers can differ from these.
    """
    with open_database(EngineConfig("fake"), {}) as holder:
        fake = unwrapped(holder.engine)
        with database_over(holder.engine, config, files) as database, requests_sent(holder.engine) as sent:
            read_to_end(database.session().execute(sql, settings=settings).batches)
        encode = (
            fake.token_ids if isinstance(fake, FakeEngine) and config.kind == "fake" else _encoder(config.model).encode
        )
        return encode([request.prompt for request in sent])


@cache
def _encoder(model: str) -> PromptEncoder:
    return PromptEncoder(model_folder(model))


def keeps_prefixes(engine: Engine) -> bool:
    """Return whether one engine can serve several measurements, each of which begins with an empty prefix cache."""
    return isinstance(unwrapped(engine), VllmEngine | FakeEngine)


@contextmanager
def requests_sent(engine: Engine) -> Iterator[list[Request]]:
    """Yield a list to which the engine adds each request that it gets."""
    inner, sent = unwrapped(engine), list[Request]()
    if inner is None:
        raise RuntimeError(f"the engine {engine.name} is down")
    generate = inner.generate

    def recording(requests: Iterator[Request | None], cancelled: Callable[[], bool]) -> Iterator[Completion]:
        def recorded() -> Iterator[Request | None]:
            for request in requests:
                if request is not None:
                    sent.append(request)
                yield request

        return generate(recorded(), cancelled)

    attributes: dict[str, Any] = vars(inner)
    attributes["generate"] = recording
    try:
        yield sent
    finally:
        del attributes["generate"]


def least_tokens(engine: Engine, requests: Iterable[Request]) -> dict[str, int]:
    """Return the least number of tokens that the engine must compute for the requests' prompts, by three bounds.

    `least_tokens` counts the nodes of the prompts' token trie: no order of the prompts needs fewer.
    `least_block_tokens` counts whole blocks of the engine's cache instead, also if its prefix cache is off.
    `any_order_tokens` is a bound over the order of prompts and the order of the fields in each. See `bench.trie`. The
    engine `fake` has tokens of four characters from the start of a prompt, so its last bound counts characters and
    divides. `undivided_prompts` is the number of prompts that this bound leaves out, because their fields could not be
    told apart.

    Raises:
        TypeError: the engine has no tokenizer here.
    """
    inner = unwrapped(engine)
    found = {request.prompt: request.fields for request in requests}
    encode: Callable[[str], Sequence[int]]
    texts_of: Callable[[list[str]], Sequence[Sequence[int]]]
    if isinstance(inner, FakeEngine):
        encode, characters = _codes, _FAKE_CHARACTERS
        texts_of = _all_codes
        tokens, texts = inner.token_ids(list(found)), _all_codes(found)
    elif isinstance(inner, LoadedEngine):
        encoder = inner._encoder  # noqa: SLF001 - the engine's own methods add special tokens to a text
        encode, characters = encoder.continuation, 1
        texts_of = inner.token_ids
        texts = tokens = inner.token_ids(list(found)) if found else []
    else:
        raise TypeError(f"the engine {engine.name} has no tokenizer: use vllm, local or fake")
    known = cache(lambda text: line(text, encode))
    start = cache(lambda head: texts_of([head])[0])
    divided = [
        _divided(prompt, fields, text, start, known)
        for (prompt, fields), text in zip(found.items(), texts, strict=True)
    ]
    any_order = least_of_any_field_order(one for one in divided if one is not None)
    return {
        "least_tokens": least(tokens),
        "least_block_tokens": least(tokens, _block_tokens(inner)),
        "any_order_tokens": -(-any_order // characters),
        "undivided_prompts": divided.count(None),
    }


def _block_tokens(engine: Engine) -> int:
    """Return the tokens of a block of the engine's cache, also if its prefix cache is off."""
    if engine.prefix_cache:
        return engine.prefix_cache.block_tokens
    return _FAKE_BLOCK_TOKENS if isinstance(engine, FakeEngine) else BLOCK_TOKENS


def _divided(
    prompt: str,
    fields: Sequence[tuple[str, str]],
    tokens: Sequence[int],
    start: Callable[[str], Sequence[int]],
    known: Callable[[str], Line],
) -> Parts | None:
    """Divide the tokens of a prompt. `start` encodes its text before the fields, `known` the text of a field.

    A prompt format has a line for each field, or puts its value between tags.
    """
    for style in (PLAIN, FORMATS["fenced"]):
        lines = [style._field(name, value) for name, value in fields]  # noqa: SLF001 - only benchmarks look for fields
        place = fields_begin(prompt, lines)
        if place is not None:
            return parts(tokens, [known(one) for one in lines], shared_start(start(prompt[:place]), tokens))
    return None


def _all_codes(texts: Iterable[str]) -> list[list[int]]:
    return [_codes(text) for text in texts]


def _codes(text: str) -> list[int]:
    return array("I", text.encode("utf-32-le", "surrogatepass")).tolist()


def unwrapped(engine: Engine) -> Engine | None:
    """Return the engine inside the wrapper that restarts a dead engine. A database always wraps its engine."""
    return engine.inner if isinstance(engine, SupervisedEngine) else engine


def forget_prefixes(engine: Engine) -> None:
    """Empty the prefix cache of an idle engine.

    Raises:
        RuntimeError: the engine is not idle.
        TypeError: this kind of engine cannot empty its prefix cache; see `keeps_prefixes`.
    """
    vllm = unwrapped(engine)
    # Only benchmarks need an empty cache, so engines have no method that empties it.
    if isinstance(vllm, FakeEngine):
        vllm._blocks.clear()  # noqa: SLF001
        return
    if not isinstance(vllm, VllmEngine):
        raise TypeError(f"the engine {engine.name} cannot empty its prefix cache")
    if not vllm._loop.run(vllm._engine.reset_prefix_cache()):  # noqa: SLF001
        raise RuntimeError(f"the engine {engine.name} is not idle: wait for its requests before you empty its cache")
