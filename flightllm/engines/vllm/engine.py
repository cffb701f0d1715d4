"""The production engine: vLLM in this process, on the host's GPU, or on a CPU for tests."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any

from flightllm.common.parent_process import keep_children
from flightllm.engines.kv_hints import Hints
from flightllm.engines.loaded import LoadedEngine
from flightllm.engines.number_type import number_type
from flightllm.engines.options import read_options
from flightllm.engines.probabilities import TOP, TokenStep, constrained_probabilities, first_token_probabilities
from flightllm.engines.shares import Shares
from flightllm.engines.vllm.choices import FirstTokens, FirstTokenTables
from flightllm.engines.vllm.events import KvPublishing
from flightllm.engines.vllm.kv import eviction_config, kv_transfer, lossy_codecs
from flightllm.engines.vllm.lora import Adapter, read_adapter
from flightllm.engines.vllm.sampling import SamplingMaker, single_token, thought_sampling
from flightllm.engines.vllm.start import telling_of_start
from flightllm.engines.window import LoopThread, Window
from flightllm.errors import ConfigError, EngineUnavailableError, MissingExtraError
from flightllm.llm.engine import (
    Choice,
    Completion,
    KvEventsAddress,
    Parameters,
    PrefixCache,
    Request,
    cache_salt,
)
from flightllm.llm.files import check_model, model_digest, model_folder
from flightllm.llm.thinking import UNTHINKING, no_room_to_think, thought_room, unfinished_thought
from flightllm.llm.tokenizer import PromptEncoder, misfit

if TYPE_CHECKING:
    from pathlib import Path

    from flightllm.config import EngineConfig

_CPU_KV_BYTES = 256 << 20
_STOP_SECONDS = 20.0
_LEFT_TO_VLLM = (
    *("quantization", "max_num_batched_tokens", "max_model_len", "kv_cache_memory_bytes", "gpu_memory_utilization"),
    "block_size",
)
"""The options that are passed to vLLM unless they are 0 or empty."""


@dataclass(frozen=True, slots=True)
class VllmOptions:
    """The most common engine arguments; 0 or None means vLLM's default. `engine_args` holds any other arguments.

    On a CPU, the defaults are an explicit KV cache size (otherwise vLLM takes most of the memory), 32-token blocks and
    eager mode. With `kv_events`, the engine publishes its KV events: True publishes them only on this host, an address
    such as `tcp://*:5557` at this ZeroMQ address. `kv_replay` is then the address that sends past events again.

    `kv_store` is the address of a KV store, as `grpc://host:port`. The store keeps recurring starts of prompts for
    later runs of this engine, and for other engines of the same model. `kv_codec` encodes these starts; `kv_options`
    are further options of `KvOptions`.

    `revision` pins a hub model's branch, tag or commit. `quantization` is vLLM's name of a method, for a model whose
    configuration does not name a method. `tensor_parallel_size` is the number of GPUs that share the model. `lora` is
    the folder of an adapter for all prompts. `max_num_batched_tokens` bounds one step of the model.

    `kv_eviction` is the eviction policy of the prefix cache, see `flightllm.kvcache.eviction`; `none` means vLLM's own
    policy. `kv_eviction_memory` is the path of a file in which the policy keeps what it learned over a restart.
    """

    revision: str = ""
    quantization: str = ""
    tensor_parallel_size: int = 1
    lora: str = ""
    max_num_batched_tokens: int = 0
    max_model_len: int = 0
    kv_cache_memory_bytes: int = 0
    gpu_memory_utilization: float = 0.0
    dtype: str = "auto"
    block_size: int = 0
    enforce_eager: bool | None = None
    enable_prefix_caching: bool = True
    kv_events: bool | str = False
    kv_replay: str = ""
    kv_store: str = ""
    kv_codec: str = ""
    kv_token: str | None = None
    kv_options: Mapping[str, object] = field(default_factory=dict)
    kv_eviction: str = "planned"
    kv_eviction_memory: str = ""
    engine_args: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        KvPublishing(self.kv_events, self.kv_replay)
        _ = self.kv_transfer
        _ = self.evicting
        if self.kv_events and not self.enable_prefix_caching:
            raise ValueError("kv_events: needs a prefix cache; write enable_prefix_caching = true or remove kv_events")
        if self.tensor_parallel_size < 1:
            raise ValueError(f"tensor_parallel_size: expected at least 1, got {self.tensor_parallel_size}")
        if self.max_num_batched_tokens < 0:
            raise ValueError(f"max_num_batched_tokens: expected at least 0, got {self.max_num_batched_tokens}")
        if self.lora and self.kv_store:
            raise ValueError("lora: a KV store does not support adapters; remove lora or kv_store")

    @property
    def kv_transfer(self) -> dict[str, Any] | None:
        """Return vLLM's argument for the KV store, or None if there is no store."""
        return kv_transfer(self.kv_store, self.kv_codec, self.kv_token, self.kv_options)

    @property
    def evicting(self) -> dict[str, Any]:
        """Return the part of vLLM's `additional_config` about eviction; empty for vLLM's own policy."""
        return eviction_config(self.kv_eviction, self.kv_eviction_memory) if self.enable_prefix_caching else {}


class VllmEngine(LoadedEngine):
    """An engine with an `AsyncLLM` on its own event loop's thread; the model runs in vLLM's own process."""

    def __init__(self, model: str, window: int, options: VllmOptions, reasoning: str | None = None) -> None:
        prepare_environment()
        try:
            from vllm.usage.usage_lib import UsageContext
            from vllm.v1.engine.async_llm import AsyncLLM
        except ImportError as exc:
            raise MissingExtraError("the engine 'vllm'", "gpu") from exc
        folder = model_folder(model, revision=options.revision)
        adapter = read_adapter(options.lora) if options.lora else None
        lossy = lossy_codecs(options.engine_args.get("kv_transfer_config", options.kv_transfer), folder)
        self._events = KvPublishing(options.kv_events, options.kv_replay) if options.kv_events else None
        events = self._events.open() if self._events else {}
        arguments = _engine_args(folder, window, options, adapter, events)
        self._name = f"vllm ({model})"
        self._window = window
        self._encoder = PromptEncoder(folder, reasoning=reasoning)
        self._hints = _hints(self._encoder, arguments.kv_transfer_config, evicting=bool(options.evicting))
        self._choice_tokens: dict[Choice, int] = {}
        self._numbers = count()
        self._closed = False
        self._shares = Shares(window)
        self._loop = LoopThread("vllm")

        async def start() -> Any:
            # The usage context sets the default tokens of a step; AsyncLLM's own context has no value for large GPUs.
            return AsyncLLM.from_engine_args(arguments, usage_context=UsageContext.LLM_CLASS)

        try:
            with telling_of_start(
                model, dtype=options.dtype, on_cpu=on_cpu(), max_num_seqs=arguments.max_num_seqs
            ) as up:
                self._engine = self._loop.run(start())
                up(self._engine.vllm_config)
        except Exception as exc:  # the start can fail in many ways: memory, a bad argument, an unknown architecture
            self._end()
            raise EngineUnavailableError(f"the engine {self._name} did not start: {exc}") from exc
        self._limit = self._engine.model_config.max_model_len
        most = self._engine.model_config.max_logprobs
        listed = TOP if most < 0 else min(TOP, most)
        self._sampling = SamplingMaker(listed, decodes=not self._encoder.decodes_at_once)
        config = self._engine.vllm_config
        # A step with drafts of further tokens checks the allowed tokens of each draft.
        plain = config.speculative_config is None and not self._engine.model_config.is_diffusion
        vocabulary = self._engine.model_config.get_vocab_size()
        guided = config.structured_outputs_config.backend == "guidance"
        self._first_tokens = FirstTokenTables(self._encoder, vocabulary, guided=guided) if plain else None
        dtype = self._engine.model_config.dtype
        changed = [f"quantization {options.quantization}"] if options.quantization else []
        changed += [] if adapter is None else [f"lora {adapter.digest}"]
        self._lora = None if adapter is None else adapter.request()
        self._revision = " ".join(("vllm-1", model_digest(folder), str(dtype), *lossy, *changed))
        self._revision += self._encoder.revision

    @property
    def revision(self) -> str:
        """Return digests of the model's and adapter's files, and other facts that change answers, as the data type."""
        return self._revision

    @property
    def prefix_cache(self) -> PrefixCache | None:
        """Return the size of vLLM's cache, without the block that vLLM reserves as the null block."""
        cache = self._engine.vllm_config.cache_config
        if not cache.enable_prefix_caching or cache.num_gpu_blocks is None:
            return None
        return PrefixCache(cache.block_size, cache.num_gpu_blocks - 1)

    @property
    def kv_events(self) -> KvEventsAddress | None:
        """Return where the engine publishes its KV events; None if it does not."""
        return None if self._events is None else self._events.address

    @property
    def separates_tenants(self) -> bool:
        """Return whether the engine keeps tenants' prefixes apart, which `cache_salt` does."""
        return True

    def generate(self, requests: Iterator[Request | None], cancelled: Callable[[], bool]) -> Iterator[Completion]:
        """Keep the window's requests in vLLM's scheduler; see `Engine.generate`."""
        window = Window(self._loop, self._answer, self._window, shares=self._shares, prepare=self._prepare)
        return window.stream(requests, cancelled)

    @property
    def in_flight(self) -> int:
        """Return how many prompts vLLM is answering."""
        return self._shares.in_flight

    @property
    def callers(self) -> int:
        """Return how many calls of `generate` share the engine at present."""
        return self._shares.callers

    def close(self) -> None:
        """Abort running requests and stop vLLM's process. Idempotent."""
        if self._closed:
            return
        self._closed = True

        async def stop() -> None:
            self._engine.shutdown(timeout=_STOP_SECONDS / 2)
            del self._engine  # so that its finalizer runs now, not at the interpreter's exit

        try:
            self._loop.run(stop(), _STOP_SECONDS)
        finally:
            self._end()

    def _end(self) -> None:
        self._loop.close()
        if self._events is not None:
            self._events.close()

    def _prepare(self, requests: Sequence[Request]) -> Sequence[_Prompt]:
        """Encode prompts together, in the caller's thread, so that the engine's loop is free for answers."""
        known: dict[Parameters, FirstTokens | None] = {}
        prompts = []
        for request, ids in self._encode(requests):
            parameters = request.parameters
            if parameters not in known:
                known[parameters] = self._first(parameters)
            prompts.append(_Prompt(request, ids, known[parameters]))
        return prompts

    def _first(self, parameters: Parameters) -> FirstTokens | None:
        """Return the tokens that tell the options of a choice apart; None where an answer needs several tokens."""
        if self._first_tokens is None or self._encoder.mode(parameters.reasoning) != UNTHINKING:
            return None
        return single_token(self._first_tokens.of(parameters), parameters)

    async def _answer(self, chunk: Sequence[_Prompt]) -> list[Completion]:
        return [await self._answer_one(prompt) for prompt in chunk]

    async def _answer_one(self, prompt: _Prompt) -> Completion:
        request, ids = prompt.request, prompt.ids
        if isinstance(ids, str):
            return Completion(request.id, None, ids)
        constraint = request.parameters.constraint
        answer = self._longest_option(constraint) if isinstance(constraint, Choice) else 1
        error = misfit(len(ids), answer, self._limit)
        if error:
            return Completion(request.id, None, error, len(ids), too_long=bool(ids))
        mode = self._encoder.mode(request.parameters.reasoning)
        if mode != UNTHINKING:
            return await self._think(request, mode, ids)
        if prompt.first is not None:
            return await self._choose(request, ids, answer, prompt.first)
        return await self._write(request, ids, answer)

    async def _choose(self, request: Request, ids: list[int], answer: int, first: FirstTokens) -> Completion:
        """Choose an option by the first token; after a token that several options share, write the whole answer."""
        final = await self._generate(request, ids, self._sampling.answer(request.parameters, 1, first))
        if isinstance(final, str):
            return Completion(request.id, None, final, len(ids))
        begun = _completion(request, len(ids), final)
        if begun.error is not None:
            return begun
        output = final.outputs[0]
        option = first.options.get(output.token_ids[0])
        if option is not None:
            constraint = request.parameters.constraint
            options = constraint.options if isinstance(constraint, Choice) else ()
            probabilities = _probabilities(output, option, first, options)
            return replace(begun, text=option, probabilities=probabilities, finish_reason="stop")
        written = await self._write(request, ids, answer)
        tokens = begun.completion_tokens + written.completion_tokens
        return replace(written, cached_tokens=begun.cached_tokens, completion_tokens=tokens)

    async def _write(self, request: Request, ids: list[int], answer: int) -> Completion:
        """Let the model write the whole answer, under the constraint of the request."""
        final = await self._generate(request, ids, self._written(request, answer, self._limit - len(ids)))
        if isinstance(final, str):
            return Completion(request.id, None, final, len(ids))
        return self._read(request, ids, final)

    def _written(self, request: Request, answer: int, room: int) -> Any:
        """Return vLLM's parameters of an answer that needs up to `answer` tokens and has `room` for tokens."""
        is_choice = isinstance(request.parameters.constraint, Choice)
        most = max(request.limit, answer) if is_choice else request.limit
        return self._sampling.answer(request.parameters, min(most, room))

    async def _think(self, request: Request, mode: str, ids: list[int]) -> Completion:
        """Let the model think until the closing mark, then answer.

        This takes two requests. The first has no constraint and a separate token budget. The second finds the tokens
        of the first in the prefix cache. So the probability of a choice covers only the answer.
        """
        parameters, encoder = request.parameters, self._encoder
        room = self._limit - len(ids)
        budget = thought_room(mode, parameters.max_tokens, room)
        if budget == 0:
            return Completion(request.id, None, no_room_to_think(room), len(ids))
        form, closing = encoder.form, encoder.closing_token
        ending = {"stop_token_ids": [closing]} if closing is not None else {"stop": [form.closing] if form else []}
        final = await self._generate(request, ids, thought_sampling(parameters, budget, ending))
        if isinstance(final, str):
            return Completion(request.id, None, final, len(ids))
        begun = _completion(request, len(ids), final)
        if begun.error or begun.partial:
            reason = begun.error or unfinished_thought(begun.completion_tokens)
            return replace(begun, text=None, error=reason, reasoning_tokens=begun.completion_tokens)
        thought = encoder.ended_thought(final.outputs[0].token_ids)
        behind = [*ids, *thought]
        constraint = parameters.constraint
        answer = self._longest_option(constraint) if isinstance(constraint, Choice) else 1
        error = misfit(len(behind), answer, self._limit)
        if error is None:
            left = self._limit - len(behind)
            final = await self._generate(request, behind, self._written(request, answer, left))
            error = final if isinstance(final, str) else None
        spent = begun.completion_tokens
        if error is not None:
            return replace(begun, text=None, error=error, reasoning_tokens=spent)
        ended = self._read(request, behind, final, thought)
        return replace(
            ended,
            prompt_tokens=len(ids),
            cached_tokens=begun.cached_tokens,
            completion_tokens=spent + ended.completion_tokens,
            reasoning_tokens=spent,
        )

    def _read(self, request: Request, ids: Sequence[int], final: Any, thought: Sequence[int] = ()) -> Completion:
        """Return the completion of the tokens `ids`, without the thought of a thinking model."""
        completion = _completion(request, len(ids), final)
        if completion.error is not None:
            return completion
        output = final.outputs[0]
        if not output.text and not self._thinks(request):
            ended = output.finish_reason == "stop"  # the last token is then the end token
            text = self._encoder.written(output.token_ids[:-1] if ended else output.token_ids, ids)
            completion = replace(completion, text=text or "")
        return self._without_thought(request, completion, output.token_ids, thought)

    async def _generate(self, request: Request, ids: Sequence[int], sampling: Any) -> Any:
        """Return vLLM's final output for a prompt's tokens; the text of an error if vLLM rejects them.

        Raises:
            EngineUnavailableError: the engine died.
        """
        from vllm.v1.engine.exceptions import EngineDeadError

        if self._hints is not None:
            sampling.extra_args = self._hints.extra_args([request], [ids]) or None
        # With its type, a prompt needs no further thread: vLLM would render a prompt without a type in one.
        prompt: dict[str, Any] = {"type": "token", "prompt_token_ids": list(ids)}
        if request.tenant:
            prompt["cache_salt"] = cache_salt(request.tenant)
        name, final = f"f{next(self._numbers)}", None
        # With a reasoning parser in `engine_args`, vLLM would wait for a thought before it applies the constraint.
        ended = {"reasoning_ended": True} if sampling.structured_outputs is not None else {}
        try:
            async for output in self._engine.generate(
                prompt, sampling, name, lora_request=self._lora, priority=request.priority, **ended
            ):
                final = output
        except EngineDeadError as exc:
            raise EngineUnavailableError(f"the engine {self._name} died; see its log") from exc
        except Exception as exc:  # noqa: BLE001 - vLLM rejects a request with many types of errors; others continue
            return f"the engine {self._name} rejected the prompt: {str(exc) or type(exc).__name__}"
        return final

    def _longest_option(self, choice: Choice) -> int:
        if choice not in self._choice_tokens:
            longest = max(len(self._encoder.continuation(option)) for option in choice.options)
            self._choice_tokens[choice] = longest + 1  # plus the end token
        return self._choice_tokens[choice]


@dataclass(frozen=True, slots=True)
class _Prompt:
    """A request with the tokens of its prompt, or the reason why the prompt has no tokens.

    `first` are the tokens that tell the options of a choice apart.
    """

    request: Request
    ids: list[int] | str
    first: FirstTokens | None


def _hints(encoder: PromptEncoder, transfer: Any, *, evicting: bool) -> Hints | None:
    if transfer is None:
        return Hints(encoder, keeping=False, evicting=True) if evicting else None
    offloading = transfer.kv_connector == "OffloadingConnector"
    return Hints(encoder, keeping=not offloading, evicting=evicting or offloading, offloading=offloading)


def create(config: EngineConfig) -> VllmEngine:
    """Start vLLM on the model that the configuration names (seconds to minutes)."""
    return VllmEngine(config.model, config.max_in_flight, check(config), config.reasoning)


def check(config: EngineConfig) -> VllmOptions:
    """Return the options, after a check that model and adapter exist; a hub model is downloaded later."""
    options = read_options(VllmOptions, "vllm", config.options)
    check_model(config.model, options.revision)
    if options.lora:
        read_adapter(options.lora)
    return options


def _completion(request: Request, prompt_tokens: int, final: Any) -> Completion:
    output = final.outputs[0] if final is not None and final.outputs else None
    reason = None if output is None else output.finish_reason
    if output is None or reason in {"abort", "error"} or not output.token_ids:
        reason = f"with the reason {reason!r}" if reason in {"abort", "error"} else "without an answer"
        return Completion(request.id, None, f"vLLM ended the request {reason}", prompt_tokens)
    probabilities, constraint = None, request.parameters.constraint
    if isinstance(constraint, Choice) and output.logprobs:
        probabilities = constrained_probabilities(_steps(output), output.text, constraint.options)
    cached, tokens = final.num_cached_tokens or 0, len(output.token_ids)
    finish_reason = output.finish_reason or "stop"
    return Completion(request.id, output.text, None, prompt_tokens, cached, tokens, probabilities, finish_reason)


def _probabilities(output: Any, option: str, first: FirstTokens, options: Sequence[str]) -> tuple[float, ...] | None:
    """Return the probability of each option, by the log probabilities of the tokens that can begin an answer."""
    if not output.logprobs:
        return None
    spelled = first.spelled
    listed = [(spelled[token], min(0.0, one.logprob)) for token, one in output.logprobs[0].items() if token in spelled]
    return first_token_probabilities(listed, option, options)


def _steps(output: Any) -> list[TokenStep]:
    """Return an answer's tokens with the log probabilities at each position, taken after the constraint's mask."""
    listed = [
        {token: ((one.decoded_token or "").encode(), min(0.0, one.logprob)) for token, one in place.items()}
        for place in output.logprobs
    ]
    return [
        TokenStep(place[token][0], tuple(place.values()))
        for token, place in zip(output.token_ids, listed, strict=False)
    ]


def _engine_args(
    folder: Path, window: int, options: VllmOptions, adapter: Adapter | None, events: Mapping[str, object]
) -> Any:
    from vllm.engine.arg_utils import AsyncEngineArgs

    dtype = number_type(folder, options.dtype, on_cpu=on_cpu())
    arguments: dict[str, object] = {
        "model": str(folder),
        "dtype": dtype,
        "tensor_parallel_size": options.tensor_parallel_size,
        "max_num_seqs": window,
        "enable_prefix_caching": options.enable_prefix_caching,
        "disable_log_stats": True,
        "scheduling_policy": "priority",
        # Without optional whitespace, a weak model cannot generate blanks up to the token limit. The backend guidance
        # supports this and most of JSON Schema; the local engine uses the same library.
        "structured_outputs_config": {"backend": "guidance", "disable_any_whitespace": True},
    }
    if on_cpu():
        memory = _CPU_KV_BYTES if dtype == options.dtype else 2 * _CPU_KV_BYTES  # for as many tokens in float32
        arguments |= {"kv_cache_memory_bytes": memory, "block_size": 32, "enforce_eager": True}
    for name in _LEFT_TO_VLLM:
        if getattr(options, name):
            arguments[name] = getattr(options, name)
    if adapter is not None:
        arguments |= adapter.engine_args
    if options.enforce_eager is not None:
        arguments["enforce_eager"] = options.enforce_eager
    arguments |= {**events, **options.engine_args}
    if options.evicting:
        further = arguments.get("additional_config")
        arguments["additional_config"] = {**options.evicting, **(further if isinstance(further, Mapping) else {})}
    _keep_kv(arguments, options.kv_transfer)
    try:
        return AsyncEngineArgs(**arguments)
    except TypeError as exc:
        raise ConfigError(f"[engine] engine_args: {exc}") from exc


def _keep_kv(arguments: dict[str, object], transfer: Mapping[str, Any] | None) -> None:
    """Add the KV store to the arguments as vLLM's type; a `kv_transfer_config` of `engine_args` has precedence."""
    from vllm.config import KVTransferConfig

    found = arguments.get("kv_transfer_config", transfer)
    if isinstance(found, Mapping):
        arguments["kv_transfer_config"] = KVTransferConfig(**found)


def prepare_environment() -> None:
    """Set the environment variables for vLLM that the user has not set; vLLM reads them when its process starts.

    From this call on, vLLM's processes end with this process.
    """
    keep_children()
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    # With a fork, the server's threads (gRPC, DataFusion) would be missing in the child, and its open port would stay.
    os.environ.setdefault("VLLM_WORKER_MULTIPROC_METHOD", "spawn")
    if on_cpu():
        # Bound threads make vLLM 3–10 times slower as soon as other work uses the same cores.
        os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
        os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 2) // 2)))


def on_cpu() -> bool:
    """Return whether this machine has no GPU for vLLM.

    Raises:
        MissingExtraError: PyTorch is not installed.
    """
    try:
        import torch
    except ImportError as exc:
        raise MissingExtraError("the engine 'vllm'", "gpu") from exc
    return not torch.cuda.is_available()
