"""The KV connector for vLLM: it loads the KV cache of prompt prefixes from a store, and saves computed prefixes.

Loads run between the engine's steps, in parallel to the forward passes of other requests. A request whose chunks are
being loaded waits in the scheduler, and other requests do not see its blocks before they are filled.

The connector does not load layer by layer within a step, because a failed load would then show too late. Other requests
of the step would already have read the unfilled blocks and cached wrong tokens after them. vLLM 0.32 recomputes wrong
tokens only for requests that are still running.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import structlog

from flightllm.config import LogConfig
from flightllm.errors import ConfigError, UnsupportedError
from flightllm.kvcache.connector.loading import Loading
from flightllm.kvcache.connector.lookups import Lookups
from flightllm.kvcache.connector.paged import PagedMemory, PagedShape
from flightllm.kvcache.connector.saving import ChunkCopier
from flightllm.kvcache.connector.scheduling import ScheduledPrompt, Scheduling
from flightllm.kvcache.connector.tasks import LoadTask, Save
from flightllm.kvcache.connector.timing import StepTimer
from flightllm.kvcache.opening import open_codecs, open_store, profile_digest
from flightllm.kvcache.options import HINT, read_kv_options
from flightllm.kvcache.prefixes import Cutting
from flightllm.kvcache.saver import Saver
from flightllm.kvcache.store.base import ChunkStore
from flightllm.kvcache.stream.adapt import Adaptive
from flightllm.kvcache.stream.base import Ladder
from flightllm.kvcache.stream.link import Link
from flightllm.kvcache.stream.prefill import Parts, Prefill
from flightllm.kvcache.stream.source import ChunkSource
from flightllm.kvcache.vllm_names import is_known, known_versions, unfit, vllm_version
from flightllm.kvcache.where_sooner import WhereSooner
from flightllm.llm.cost import Rates
from flightllm.llm.files import model_digest
from flightllm.log import configure_logging

try:
    from vllm.distributed.kv_transfer.kv_connector.v1.base import (
        KVConnectorBase_V1,
        KVConnectorMetadata,
        KVConnectorRole,
        KVConnectorWorkerMetadata,
    )
    from vllm.v1.kv_cache_interface import FullAttentionSpec, SlidingWindowSpec
except ImportError as error:
    raise ImportError(f"the KV store cannot work here: {unfit('connector')}") from error

if TYPE_CHECKING:
    import torch

_NEVER_SOONER = 10.0
"""The assumed seconds to compute a token before they are measured. They are so many that a load counts as faster."""

_ATTENTION = (FullAttentionSpec, SlidingWindowSpec)
"""The supported kinds of layers; kinds derived from them store something else."""

_UNFIT = unfit("connector")

_log = structlog.get_logger(__name__)


@dataclass
class StepTasks(KVConnectorMetadata):
    """The worker's tasks in a step."""

    loads: Sequence[LoadTask]
    saves: Sequence[Save]
    computed: Parts = ()
    """The parts of prompts that the step computes."""


@dataclass
class WorkerReport(KVConnectorWorkerMetadata):
    """The worker's report: requests whose loads ended because computing is faster, and chunks that were not saved."""

    chosen: set[str]
    dropped: set[str]

    def aggregate(self, other: KVConnectorWorkerMetadata) -> KVConnectorWorkerMetadata:
        """Return the union of two workers' reports."""
        if not isinstance(other, WorkerReport):
            return self
        return WorkerReport(self.chosen | other.chosen, self.dropped | other.dropped)


class FlightLLMConnector(KVConnectorBase_V1):
    """The connector, in the scheduler's process or in the worker's.

    Raises:
        ConfigError: an option is wrong.
        UnsupportedError: this version of vLLM lacks a name that the connector needs; or the KV cache of this model, or
            of this way to run it, cannot be stored.
    """

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Refuse a vLLM that lacks something, before Python refuses a class that lacks a method of vLLM's."""
        if not structlog.is_configured():  # in a separate process of vLLM
            configure_logging(LogConfig())
        reason = _UNFIT
        if not reason and (further := sorted(cls.__abstractmethods__)):
            reason = f"vLLM {vllm_version()} calls unknown methods: {', '.join(further)}"
        if reason:
            _log.error("kv_store_off", reason=reason)
            raise UnsupportedError(
                f"the KV store cannot work here: {reason}; remove --kv-transfer-config to run without"
            )
        if not is_known():
            _log.warning("kv_store_untested", vllm=vllm_version(), known=known_versions())
        made: Self = super().__new__(cls)
        return made

    def __init__(self, vllm_config: Any, role: KVConnectorRole, kv_cache_config: Any) -> None:
        super().__init__(vllm_config=vllm_config, role=role, kv_cache_config=kv_cache_config)
        self._options = read_kv_options(self._kv_transfer_config.kv_connector_extra_config)
        self._spec = _attention(vllm_config, kv_cache_config)
        codecs = open_codecs(self._options, Path(vllm_config.model_config.model))
        self._codecs = {codec.name: codec for codec in codecs}
        self._store = self.open_store()
        self._scheduling = self._start_scheduling() if role == KVConnectorRole.SCHEDULER else None
        self._loading: Loading | None = None
        self._saving: ChunkCopier | None = None
        self._timer: StepTimer | None = None
        self._missing: set[int] = set()

    def open_store(self) -> ChunkStore:
        """Return the store that the options name."""
        return open_store(self._options)

    @property
    def requires_kv_delivery(self) -> bool:
        """Return False: no request waits for saves."""
        return False

    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> tuple[int | None, bool]:
        """Return the number of tokens to load after the computed ones, and whether they load between steps."""
        if self._scheduling is None or not _is_plain(request) or request.skip_reading_prefix_cache:
            return 0, False
        matched = self._scheduling.matched(self._prompt(request), num_computed_tokens)
        return matched, bool(matched)

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        """Record a request's blocks."""
        if self._scheduling is not None and _is_plain(request):
            self._scheduling.allocated(self._prompt(request), blocks.get_block_ids()[0], num_external_tokens)

    def build_connector_meta(self, scheduler_output: Any) -> StepTasks:
        """Return the worker's loads and saves of this step."""
        if self._scheduling is None:
            return StepTasks((), ())
        computed = scheduler_output.num_scheduled_tokens
        started = {new.req_id: new.block_ids[0] for new in scheduler_output.scheduled_new_reqs}
        ends = {new.req_id: new.num_computed_tokens for new in scheduler_output.scheduled_new_reqs}
        added: dict[str, Sequence[int]] = {}
        cached = scheduler_output.scheduled_cached_reqs
        for request, blocks, before in zip(
            cached.req_ids, cached.new_block_ids, cached.num_computed_tokens, strict=True
        ):
            ends[request] = before
            target = started if request in cached.resumed_req_ids else added
            if blocks is not None:
                target[request] = blocks[0]
        parts = {request: (before, before + computed.get(request, 0)) for request, before in ends.items()}
        ends = {request: end for request, (_, end) in parts.items()}
        return StepTasks(*self._scheduling.step(started, added, ends), tuple(parts.values()))

    def update_connector_output(self, connector_output: Any) -> None:
        """Record the ended loads with their outcomes, and the chunks that were not saved."""
        if self._scheduling is not None:
            invalid, told = set(connector_output.invalid_block_ids or ()), connector_output.kv_connector_worker_meta
            report = told if isinstance(told, WorkerReport) else WorkerReport(set(), set())
            self._scheduling.loaded(connector_output.finished_recving or (), invalid, report.chosen)
            self._scheduling.dropped(report.dropped)

    def request_finished(self, request: Any, block_ids: Sequence[int]) -> tuple[bool, dict[str, Any] | None]:
        """Forget a request; its blocks can be freed at once."""
        del block_ids
        if self._scheduling is not None:
            self._scheduling.finished(request.request_id)
        return False, None

    def register_kv_caches(self, kv_caches: Mapping[str, torch.Tensor]) -> None:
        """Set the worker's paged memory."""
        [group] = self._kv_cache_config.kv_cache_groups
        attention = self._vllm_config.compilation_config.static_forward_context
        spec, blocks = self._spec, self._kv_cache_config.num_blocks
        layers = {name: kv_caches[name] for name in group.layer_names}
        if set(kv_caches) != set(layers):
            raise UnsupportedError(
                "layers of this model share their KV cache, but the KV store needs a cache for each layer"
                " (turn off the KV store for this model)"
            )
        memory = PagedMemory(layers, attention, PagedShape(blocks, spec.num_kv_heads, spec.head_size))
        options, codecs = self._options, self._codecs
        policy = Adaptive(Ladder(tuple(codecs), options.codec))
        link = Link(self._store, options.pause_seconds)
        source = ChunkSource(link, codecs, policy, self._prefill(), str(memory.device))
        self._timer = StepTimer(source.prefill, memory.device)
        slo = options.slo_seconds or None
        self._loading = Loading(source, memory, spec.block_size, options.load_seconds, slo)
        sooner = WhereSooner(link.meter, options.codec, options.where_sooner, str(memory.device))
        saver = Saver(self._store, tuple(codecs.values()), options.save_tokens, options.pause_seconds, sooner)
        self._saving = ChunkCopier(saver, memory, spec.block_size)

    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None:
        """Start this step's loads."""
        del forward_context, kwargs
        if self._loading is not None and self._timer is not None:
            tasks = self._get_connector_metadata()
            for load in tasks.loads:
                self._loading.start(load)
            self._timer.begin(tasks.computed)

    def wait_for_layer_load(self, layer_name: str) -> None:
        """Do nothing: a step has only requests whose loads have ended."""

    def save_kv_layer(self, layer_name: str, kv_layer: torch.Tensor, attn_metadata: Any, **kwargs: Any) -> None:
        """Do nothing: all layers are copied out after the step."""

    def wait_for_save(self) -> None:
        """Copy out the computed chunks that must be saved."""
        if self._saving is not None and self._loading is not None and self._timer is not None:
            self._timer.end()
            self._loading.prefill = self._timer.prefill
            self._saving.take(self._get_connector_metadata().saves)

    def get_finished(self, finished_req_ids: set[str]) -> tuple[set[str] | None, set[str] | None]:
        """Return the requests whose loads ended."""
        del finished_req_ids
        if self._loading is None:
            return None, None
        ended, missing = self._loading.finished()
        self._missing |= missing
        return None, ended or None

    def get_block_ids_with_load_errors(self) -> set[int]:
        """Return the ids of the blocks that the ended loads did not fill."""
        missing, self._missing = self._missing, set()
        return missing

    def build_connector_worker_meta(self) -> WorkerReport | None:
        """Return the loads that ended because computing is faster, and the chunks that were not saved."""
        if self._loading is None or self._saving is None or not (self._loading.chosen or self._saving.dropped):
            return None
        report = WorkerReport(self._loading.chosen, self._saving.dropped)
        self._loading.chosen, self._saving.dropped = set(), set()
        return report

    def shutdown(self) -> None:
        """Stop, after a wait of at most `flush_seconds` for running saves."""
        if self._scheduling is not None:
            self._scheduling.close()
        if self._loading is not None:
            self._loading.close()
        if self._saving is not None and self._loading is not None:
            counts = self._saving.close(self._options.flush_seconds)
            _log.info(
                "kv_store_left", tokens_loaded=self._loading.tokens, chunks_saved=counts.saved, bytes=counts.bytes
            )

    def _start_scheduling(self) -> Scheduling:
        options = self._options
        named = options.revision or _revision(self._vllm_config)
        revision = f"{named} {self._spec.dtype} {profile_digest(self._codecs.values())}"
        window = self._spec.sliding_window if isinstance(self._spec, SlidingWindowSpec) else None
        return Scheduling(
            Cutting(revision, options.chunk_tokens, options.min_tokens, window),
            Lookups(self._store, self._codecs, options.lookup_seconds, options.pause_seconds),
            options.save,
            block_tokens=self._spec.block_size,
            lossy=bool(options.lossy),
            sharing=bool(self._vllm_config.cache_config.enable_prefix_caching),
        )

    def _prefill(self) -> Prefill:
        """Return the estimate of computing times; a layer has about 12 × width² parameters."""
        rate, model = self._options.prefill_tokens_per_second, self._vllm_config.model_config
        [group] = self._kv_cache_config.kv_cache_groups
        layers, width = len(group.layer_names), model.get_hidden_size()
        rates = Rates(computed=1.0 / rate if rate else _NEVER_SOONER)
        return Prefill.of(rates, layers, width, 12 * layers * width**2)

    def _prompt(self, request: Any) -> ScheduledPrompt:
        hint = (request.sampling_params.extra_args or {}).get(HINT, 0)
        recurring = max(0, hint) if isinstance(hint, int) else 0  # clients can send anything
        return ScheduledPrompt(request.request_id, request.prompt_token_ids, recurring, request.cache_salt or "")


def _is_plain(request: Any) -> bool:
    """Return whether a request generates text, and its KV cache depends only on its tokens."""
    return (
        request.sampling_params is not None
        and bool(request.prompt_token_ids)
        and getattr(request, "prompt_embeds", None) is None
        and not request.mm_features
        and request.lora_request is None
    )


def _attention(vllm_config: Any, kv_cache_config: Any) -> Any:
    """Return the KV cache specification of the model's layers.

    vLLM keeps all tokens of all layers if some layers have full attention and others a sliding window. Then the layers
    are alike for a store. vLLM keeps only the window's tokens if all layers have a window.

    Raises:
        ConfigError: with this configuration a failed load would fail its request.
        UnsupportedError: the layers differ, or the model runs on several GPUs at once.
    """
    if vllm_config.kv_transfer_config.kv_load_failure_policy != "recompute":
        raise ConfigError("KV store: set kv_load_failure_policy to 'recompute' in vLLM's kv_transfer_config")
    if vllm_config.parallel_config.world_size > 1:
        raise UnsupportedError("the KV store supports only engines on one GPU: run one engine for each GPU")
    if vllm_config.speculative_config is not None:
        raise UnsupportedError(
            "the KV store does not support speculative decoding: turn off speculative decoding or the KV store"
        )
    groups = kv_cache_config.kv_cache_groups
    if len(groups) != 1:
        raise UnsupportedError(
            f"the KV store supports only models with one kind of layer; this model has {len(groups)} kinds"
        )
    spec = groups[0].kv_cache_spec
    if type(spec) not in _ATTENTION:
        raise UnsupportedError(
            "the KV store supports only models whose layers all have full attention or a sliding window; this one has"
            f" {type(spec).__name__}"
        )
    if getattr(spec, "non_causal", False):
        raise UnsupportedError(
            "the KV store supports only models in which a token's keys and values depend only on earlier tokens"
        )
    if spec.head_size_v != spec.head_size:
        raise UnsupportedError("the KV store supports only models whose keys and values have the same length")
    return spec


def _revision(vllm_config: Any) -> str:
    """Return the identity of the model: its files if it has a local folder, else its name and version."""
    model = vllm_config.model_config
    folder, commit = Path(model.model), getattr(model.hf_config, "_commit_hash", None)
    name = model_digest(folder) if folder.exists() else f"{model.model} {commit or model.revision}"
    if "longrope" in str(
        getattr(model.hf_text_config, "rope_parameters", "")
    ):  # longrope's rotation depends on the longest allowed prompt
        name = f"{name} {model.max_model_len}"
    return f"{name} {model.quantization or ''} {model.hf_overrides or ''}".strip()
