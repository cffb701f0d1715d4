"""Measure the CPU milliseconds of a prompt in vLLM's frontend, with the engine's steps replaced by an idle worker.

    python -m bench.frontend [--model FOLDER] [--quick] [--json] [--repeats N]

The frontend is all work in the process that calls vLLM: it encodes prompts, checks parameters, sends requests to
vLLM's process, reads the answers and decodes them. All paths share one vLLM, and take turns. Every second turn has the
opposite order.

| path | work |
|---|---|
| `vllm` | vLLM as it is: each prompt is a text, a grammar allows the choices, each answer is a task of its own |
| `earlier` | the engine `vllm` of this project at 2fa5c30e, written again here, in today's window of requests |
| `flightllm` | the engine `vllm` of this project |

The earlier engine encoded prompts one by one on its event loop. It made new parameters for each prompt, so that vLLM
checked each grammar again. A choice took a token for each token of the option, and one for its end.

Figures are CPU milliseconds of a prompt. The ratios divide `vllm` and `earlier` by `flightllm`.

Each prompt has a review and asks for a choice between `Yes` and `No`, or for a text of 16 tokens. A choice with
`confidence` asks for its probability too. `labels` is a choice whose first tokens are the same, so every path needs a
grammar.
"""

import argparse
import asyncio
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from bench.common import Options, data_table, report
from bench.llm_queries import read_model
from bench.models import Folder
from flightllm.common.package_data import demo_model
from flightllm.config import EngineConfig
from flightllm.engines.probabilities import TOP
from flightllm.engines.prompt_format import format_of
from flightllm.engines.vllm.engine import VllmEngine, create
from flightllm.engines.vllm.engine import _completion as completion_of
from flightllm.engines.window import Window
from flightllm.llm.engine import Choice, Completion, Constraint, Parameters, Request, Reuse, call_site
from flightllm.llm.prompt_formats import one_text

_WORKER: Final = "bench.idle_worker.IdleWorker"
_WINDOW: Final = 128
_CONTEXT: Final = 2_048
_CHOICE: Final = Parameters(max_tokens=8, constraint=Choice(("Yes", "No")))
KINDS: Final[Mapping[str, Parameters]] = {
    "choice": _CHOICE,
    "choice, confidence": Parameters(max_tokens=8, constraint=Choice(("Yes", "No")), probability=True),
    "labels": Parameters(max_tokens=8, constraint=Choice(("1", "10", "100"))),
    "free text": Parameters(max_tokens=16),
}
_numbers = count()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", default=str(demo_model()), help="a folder with a tokenizer and a configuration")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    parser.add_argument("--quick", action="store_true", help="fewer prompts and rounds")
    parser.add_argument("--repeats", type=int, default=7, help="rounds; the median is reported (default 7)")
    given = parser.parse_args(arguments)
    prompts, repeats = (200, min(3, given.repeats)) if given.quick else (1_000, given.repeats)
    chosen = read_model(parser, given.model)
    if not isinstance(chosen, Folder):
        parser.error(f"--model: {given.model} is a shape without a tokenizer; name a model's folder")
    figures = measure(chosen.path, prompts, repeats)
    report("frontend", Options(given.json, given.quick, repeats), {"model": chosen.path.name, **figures})


def measure(model: Path, prompts: int, repeats: int) -> dict[str, Any]:
    """Return the median CPU milliseconds of a prompt by kind and path, and the ratios to our path."""
    config = EngineConfig("vllm", str(model), _WINDOW, _options())
    engine = create(config)
    try:
        found = {kind: _rounds(engine, _requests(config, prompts, one), repeats) for kind, one in KINDS.items()}
        size = statistics.mean(map(len, engine.token_ids([one.prompt for one in _requests(config, 50, _CHOICE)])))
    finally:
        engine.close()
    return {"tokens of a prompt": size, **found}


def _options() -> dict[str, object]:
    return {
        "max_model_len": _CONTEXT,
        "max_num_batched_tokens": 16 * _CONTEXT,
        "engine_args": {"worker_cls": _WORKER, "enforce_eager": True},
    }


def _requests(config: EngineConfig, prompts: int, parameters: Parameters) -> list[Request]:
    """Return requests as the operator makes them, with the hints for the prefix cache."""
    instruction, style = "Does the reviewer recommend the film?", format_of(config)
    reviews = pq.read_table(data_table("movie_reviews"))["review_content"].to_pylist()
    shared, site = len(style.render(instruction, None, ())), call_site("ai_filter", instruction)
    made = []
    for number in range(prompts):
        fields = (("review", str(reviews[number % len(reviews)])),)
        prompt = style.render(instruction, None, fields)
        reuse = Reuse(site, "query", number, min(shared, len(prompt)))
        made.append(Request(number, prompt, parameters, "ai_filter", instruction, fields, recurs=40, reuse=reuse))
    return made


def _rounds(engine: VllmEngine, requests: Sequence[Request], repeats: int) -> dict[str, float]:
    paths: dict[str, Callable[[VllmEngine, Sequence[Request]], None]] = {
        "vllm": _texts,
        "earlier": _earlier,
        "flightllm": _engine,
    }
    taken: dict[str, list[float]] = {name: [] for name in paths}
    for turn in range(repeats + 1):
        for name, path in list(paths.items())[:: -1 if turn % 2 else 1]:
            started = time.process_time()
            path(engine, requests)
            if turn:  # the first round fills caches
                taken[name].append((time.process_time() - started) * 1000 / len(requests))
    found = {f"{name}_ms": statistics.median(one) for name, one in taken.items()}
    for name in ("vllm", "earlier"):
        pairs = zip(taken[name], taken["flightllm"], strict=True)
        found[f"{name}_ratio"] = statistics.median(other / ours for other, ours in pairs)
    return found


def _engine(engine: VllmEngine, requests: Sequence[Request]) -> None:
    _read(engine.generate(iter(requests), lambda: False), requests)


def _read(completions: Iterable[Completion], requests: Sequence[Request]) -> None:
    """Read all answers.

    Raises:
        RuntimeError: an answer is an error, or is missing.
    """
    answered = 0
    for completion in completions:
        if completion.error is not None:
            raise RuntimeError(completion.error)
        answered += 1
    if answered != len(requests):
        raise RuntimeError(f"{answered} answers to {len(requests)} prompts")


def _earlier(engine: VllmEngine, requests: Sequence[Request]) -> None:
    """Answer the prompts as the engine of 2fa5c30e did.

    That engine used parts of its own that only an engine needs, so this path reads private attributes of the package.
    """
    window = Window(engine._loop, partial(_earlier_answers, engine), _WINDOW)  # noqa: SLF001 -- the same vLLM
    _read(window.stream(iter(requests), lambda: False), requests)


async def _earlier_answers(engine: VllmEngine, chunk: Sequence[Request]) -> list[Completion]:
    return [await _earlier_answer(engine, request) for request in chunk]


async def _earlier_answer(engine: VllmEngine, request: Request) -> Completion:
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    parameters, choice = request.parameters, request.parameters.constraint
    ids = _earlier_ids(engine, request.prompt)
    most = request.limit
    if isinstance(choice, Choice):
        most = max(most, engine._longest_option(choice))  # noqa: SLF001
    sampling = SamplingParams(
        max_tokens=min(most, engine.context_tokens - len(ids)),
        temperature=parameters.temperature,
        top_p=parameters.top_p,
        seed=parameters.seed,
        structured_outputs=_structured(choice),
        logprobs=TOP if parameters.probability else None,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )
    if engine._hints is not None:  # noqa: SLF001
        sampling.extra_args = engine._hints.extra_args([request], [ids]) or None  # noqa: SLF001
    ended = {"reasoning_ended": True} if sampling.structured_outputs is not None else {}
    name, final = f"e{next(_numbers)}", None
    async for output in engine._engine.generate(  # noqa: SLF001
        {"prompt_token_ids": ids}, sampling, name, priority=request.priority, **ended
    ):
        final = output
    return completion_of(request, len(ids), final)


def _earlier_ids(engine: VllmEngine, prompt: str) -> list[int]:
    """Return the tokens of one prompt, by transformers' tokenizer."""
    encoder = engine._encoder  # noqa: SLF001
    special = not encoder._templated  # noqa: SLF001
    text = one_text(prompt) if special else encoder._render(prompt)  # noqa: SLF001
    (ids,) = encoder.tokenizer([text], add_special_tokens=special).input_ids
    return list(ids)


def _structured(choice: Constraint) -> Any:
    from vllm.sampling_params import StructuredOutputsParams

    return StructuredOutputsParams(choice=list(choice.options)) if isinstance(choice, Choice) else None


def _texts(engine: VllmEngine, requests: Sequence[Request]) -> None:
    """Answer the prompts as a caller of vLLM does: one text and one task for each prompt."""
    engine._loop.run(_all_texts(engine, requests))  # noqa: SLF001 -- the same vLLM


async def _all_texts(engine: VllmEngine, requests: Sequence[Request]) -> None:
    room = asyncio.Semaphore(_WINDOW)

    async def one(request: Request) -> None:
        async with room:
            await _text(engine, request)

    await asyncio.gather(*map(one, requests))


async def _text(engine: VllmEngine, request: Request) -> None:
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    parameters = request.parameters
    sampling = SamplingParams(
        max_tokens=parameters.max_tokens,
        temperature=0.0,
        structured_outputs=_structured(parameters.constraint),
        logprobs=TOP if parameters.probability else None,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )
    prompt = {"prompt": _rendered(engine, request.prompt)}
    async for _ in engine._engine.generate(prompt, sampling, f"b{next(_numbers)}"):  # noqa: SLF001
        pass


def _rendered(engine: VllmEngine, prompt: str) -> str:
    """Return a prompt as the model gets it: callers of vLLM fill the chat template for each prompt."""
    encoder = engine._encoder  # noqa: SLF001
    return encoder._render(prompt) if encoder._templated else prompt  # noqa: SLF001


if __name__ == "__main__":
    main()
