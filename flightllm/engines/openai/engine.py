"""The engine for any OpenAI-compatible endpoint over HTTP, such as a hosted API, `vllm serve` or Ollama."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import structlog

from flightllm.config.secrets import checked_secret
from flightllm.engines.cache_rules import CacheRules
from flightllm.engines.documented_logprobs import returns_logprobs
from flightllm.engines.extras import EngineExtras
from flightllm.engines.kv_hints import Hints
from flightllm.engines.openai.answers import (
    EndpointAnswer,
    ErrorBodyError,
    MalformedError,
    model_names,
    model_owners,
    read_chat,
    read_texts,
)
from flightllm.engines.openai.believed import Sent, believed, lost
from flightllm.engines.openai.cache_keys import KEY, OPTIONS, CacheKeys, marked_messages
from flightllm.engines.openai.cache_observer import CacheObserver
from flightllm.engines.openai.capabilities import Capabilities, Refusal, RequestAttempts, RequestPlan
from flightllm.engines.openai.decision_probe import other_api
from flightllm.engines.openai.empty import EmptyAnswers, advice, proven
from flightllm.engines.openai.leaders import Leaders, Turn
from flightllm.engines.openai.options import OpenAIOptions, read_openai_options
from flightllm.engines.openai.token_rates import TokenRates
from flightllm.engines.openai.usage import Usage
from flightllm.engines.openai.wire import share_out, usage_of, with_reasoning
from flightllm.engines.prefix_memory import PrefixMemory
from flightllm.engines.probabilities import TOP, read_probabilities
from flightllm.engines.prompt_parts import PromptParts
from flightllm.engines.providers import UNKNOWN, provider_of
from flightllm.engines.public_tokenizers import counter, has_tokenizer
from flightllm.engines.secrets import shown_address
from flightllm.engines.shares import Shares
from flightllm.engines.token_estimate import token_rules
from flightllm.engines.trial import PROBE, QUESTION
from flightllm.engines.window import LoopThread, Window
from flightllm.errors import EngineError, EngineUnavailableError, MissingExtraError
from flightllm.llm.engine import (
    Choice,
    Completion,
    Constraint,
    JsonSchema,
    KvEventsAddress,
    Parameters,
    PatientEngine,
    PrefixCache,
    Request,
    cache_salt,
    call_site,
)
from flightllm.llm.prompt_formats import messages, one_text, split_prompt
from flightllm.llm.tokenizer import read_tokenizer

if TYPE_CHECKING:
    from flightllm.config import EngineConfig

try:
    import httpx2
    import openai
    from aiolimiter import AsyncLimiter

    from flightllm.engines.http_bodies import ENCODING, BodyError, EndpointClient, RedirectError, keyed
    from flightllm.engines.openai.batch_forms import batches_of
    from flightllm.engines.openai.batches import OpenAIBatches, batch_address, batch_options, check_status
    from flightllm.engines.openai.delivery import Delivery, EndpointError, RowsError
    from flightllm.engines.openai.fault_reader import (
        PROBE_SECONDS,
        FaultReader,
        RefusedError,
        UnreadableAnswerError,
        listed_models,
    )
    from flightllm.engines.openai.faults import ACCOUNT, Fault, FaultKind, line_to_change, read_fault
    from flightllm.engines.openai.verdicts import EndpointHistory, Trial
except ImportError as exc:
    raise MissingExtraError("the engine 'openai'", "openai") from exc

_RECOGNISE_SECONDS = 2.0
_CHECK_SECONDS = 30.0
_DOWN_SECONDS = 10.0
"""After so many seconds without a success, an endpoint that fails is shown as down."""
_TOPS = (TOP, 5)
"""How many log probabilities to ask for, the best number first; some endpoints accept fewer, some do not return any."""
_NAMED = 5
_LATE = frozenset({408, 504, 524})
"""Statuses of proxies that do not wait longer for an answer."""
_log = structlog.get_logger(__name__)


class OpenAIEngine(PatientEngine, EngineExtras):
    """An engine with one endpoint and model.

    Features that the endpoint rejects, such as a list of prompts or a form of constraint, are not tried again. A prompt
    that fails is sent again while the others in flight go on; `EndpointHistory` decides whose fault a failure is.
    """

    reconnects = True
    """The engine stays usable when the endpoint dies: later requests can succeed, and other requests continue."""
    probe_request = PROBE
    """The short question that shows whether the endpoint answers."""

    def __init__(self, model: str, window: int, options: OpenAIOptions, reasoning: str | None = None) -> None:
        self._model = model
        self._reasoning = reasoning
        self._window = window
        self._options = options
        self._per_request = options.prompts_per_request
        self._record = Capabilities(
            options.known_provider, model, chat=not options.completions, constraints=options.send_constraints
        )
        own = PrefixCache(options.block_tokens, options.cache_blocks, at_once=bool(options.kv_events))
        template = token_rules(self._record.provider.name, model)
        around = 2 * template.message, template.prompt
        self._cache = CacheObserver(self._cache_rules(), own, self.count_tokens, around)
        self._rates = TokenRates()
        self._recognising = asyncio.Lock()
        self._recognised = self._record.provider is not UNKNOWN
        self._key = options.read_key()
        self._address = options.address.replace("{model}", quote(model, safe=""))
        self._client = self._open_client()
        self._request_limit = _request_limiter(options.requests_per_minute)
        self._token_limit = AsyncLimiter(options.tokens_per_minute, 60) if options.tokens_per_minute else None
        self._shares = Shares(window)
        self._keys = CacheKeys(self._cache.rules, options.extra_body)
        self._note_keys()
        self._leaders = Leaders(self._cache, self._shares.rest)
        self._history = EndpointHistory(options.max_retries)
        self._delivery = Delivery(
            self._history,
            options.timeout,
            window,
            self._probe_once,
            options.prompts_per_request,
            self._shares.resize,
        )
        self._faults = FaultReader(self.name, model, self._key, self._address)
        self._empty = EmptyAnswers()
        self._loop = LoopThread("openai")
        self._batches: OpenAIBatches | None = None

    def _open_client(self) -> openai.AsyncOpenAI:
        return _client(self._address, self._key, self._options)

    def _cache_rules(self) -> CacheRules | None:
        """Return the rules of the hosted provider's cache; None for other endpoints."""
        return self._options.cache_rules(self._model)

    @property
    def patience(self) -> float:
        """Return for how many seconds nothing must succeed before the endpoint counts as down."""
        return self._history.patience

    @patience.setter
    def patience(self, seconds: float) -> None:
        self._history.patience = seconds

    @property
    def alive(self) -> bool:
        """Return whether anything has succeeded lately, as far as is known."""
        return self._history.down_seconds < _DOWN_SECONDS

    @property
    def reason(self) -> str:
        """Return why the last request failed; empty if it succeeded."""
        return self._history.reason

    @property
    def name(self) -> str:
        """Return the engine kind, model and endpoint."""
        return f"openai ({self._model} at {shown_address(self._address)})"

    @property
    def revision(self) -> str:
        """Return the endpoint, the model's name and the options that affect answers; the weights are unknown."""
        return f"openai-1 {self._address} {self._model} {self._way}{self._told}"

    @property
    def shared_revision(self) -> str:
        """Return the revision without the address, which all endpoints of the same model share."""
        return f"openai-1 {self._model} {self._way}{self._told}"

    @property
    def _told(self) -> str:
        """Return the other options that affect answers; empty at the defaults."""
        return self._options.revision_suffix() + (f" {self._reasoning}" if self._reasoning not in {None, "off"} else "")

    @property
    def _way(self) -> str:
        return "text" if self._options.completions else "chat"

    @property
    def prefix_cache(self) -> PrefixCache | None:
        """Return the cache of the hosted provider; else the configured one, by default of blocks of 16 tokens.

        The default number of blocks is small because other clients use the cache too. With many blocks, any order of
        prompts would look good, and the prompts would not be sorted for a server with a smaller cache.
        """
        return self._cache.cache

    @property
    def cached_texts(self) -> PrefixMemory | None:
        """Return the texts that a hosted provider's cache can hold now; None for other endpoints."""
        return self._cache.memory

    def sent_text(self, request: Request) -> str:
        """Return the text of a prompt with all that the engine adds to it, by the present knowledge."""
        form = self._record.likely_form(request.parameters.constraint)
        if self._options.completions:
            return one_text(request.prompt) + form.words
        return self._chat_text(self._messages(request.prompt, form.words, folded=self._record.no_system), form.body)

    def parts_of(self, request: Request, text: str | None = None) -> PromptParts:
        """Return a prompt as `sent_text` returns it, with the ends of its parts."""
        sent = self.sent_text(request) if text is None else text
        words = len(self._record.likely_form(request.parameters.constraint).words)
        before = len(sent) - words - len(request.prompt)  # the engine adds all but these words before the prompt
        ends = tuple(end + before for end in request.ends if end + before > 0)
        shared = max(0, request.shared + before) if request.shared else 0
        around = self.added_tokens(request)
        after = min(around, token_rules(self._record.provider.name, self._model).prompt)
        return PromptParts(sent, ends, shared, around - after, after)

    def head_of(self, constraint: Constraint) -> str:
        """Return the text that the endpoint reads before a prompt with this constraint, such as a schema."""
        return "" if self._options.completions else self._chat_text([], self._record.likely_form(constraint).body)

    def _chat_text(self, said: Sequence[Mapping[str, str]], body: Mapping[str, Any]) -> str:
        """Return messages as one text, in the order in which the cache reads them: a schema that counts is first."""
        rules = token_rules(self._record.provider.name, self._model)
        schema = body.get("response_format", {}).get("json_schema") if rules.schema else None
        schemas = [json.dumps(schema, separators=(",", ":"))] if schema else []
        return "\n".join([*schemas, *(one["content"] for one in said)])

    def known_tokens(self, text: str) -> int | None:
        """Return the tokens that the endpoint reported for a text like `sent_text`; None for one not sent lately."""
        return self._rates.known(text)

    def tokens_per_estimate(self, request: Request) -> float:
        """Return how many tokens the endpoint counts for each estimated token of a prompt like this."""
        return self._rates.rate(_site(request))

    def added_tokens(self, request: Request) -> int:
        """Return the estimated tokens of a prompt beyond `sent_text`: those of the chat template."""
        if self._options.completions:
            return 0
        has_system = bool(self._options.system_prompt or split_prompt(request.prompt)[0])
        return self._template_tokens(2 if has_system and not self._record.no_system else 1)

    def _template_tokens(self, messages: int) -> int:
        """Return the estimated tokens of the chat template around so many messages; 0 without messages."""
        rules = token_rules(self._record.provider.name, self._model)
        return rules.prompt + rules.message * messages if messages else 0

    @property
    def gives_probabilities(self) -> bool:
        """Return whether answers can have log probabilities, by the present knowledge."""
        if self._options.completions:
            return True
        documented = returns_logprobs(self._record.provider.name, self._model)
        return documented and self._record.supports("logprobs", True)  # noqa: FBT003 - the value to send

    def answer_tokens(self, text: str, constraint: Constraint) -> int:
        """Return the estimated tokens of an answer with all that the endpoint writes around it."""
        wrapped = not isinstance(constraint, JsonSchema) and self._record.likely_form(constraint).wrapped
        written = json.dumps({"answer": text}, ensure_ascii=False) if wrapped else text
        return self.count_tokens(written) + token_rules(self._record.provider.name, self._model).answer

    @property
    def kv_events(self) -> KvEventsAddress | None:
        """Return where the endpoint publishes its KV events; None if this is not configured."""
        options = self._options
        return KvEventsAddress(options.kv_events, options.kv_replay) if options.kv_events else None

    @property
    def separates_tenants(self) -> bool:
        """Return whether the option `cache_salt` keeps tenants' prefixes apart."""
        return self._options.cache_salt

    def generate(self, requests: Iterator[Request | None], cancelled: Callable[[], bool]) -> Iterator[Completion]:
        """Keep the window's prompts in flight, `prompts_per_request` in each HTTP request; see `Engine.generate`."""
        return Window(self._loop, self._answer, self._window, self._per_request, self._shares).stream(
            requests, cancelled
        )

    @property
    def in_flight(self) -> int:
        """Return how many prompts the endpoint is answering."""
        return self._shares.in_flight

    @property
    def callers(self) -> int:
        """Return how many calls of `generate` share the engine at present."""
        return self._shares.callers

    def count_tokens(self, text: str) -> int:
        """Count the tokens of `text` with the vendor's tokenizer if it is here; otherwise estimate them."""
        return counter(self._record.provider.name, self._model)(text)

    @property
    def counts_exactly(self) -> bool:
        """Return whether `count_tokens` has the model's tokenizer."""
        return has_tokenizer(self._record.provider.name, self._model)

    @property
    def context_tokens(self) -> int | None:
        """Return the endpoint's limit for a prompt with its answer, if the options tell it."""
        return self._options.max_model_len or None

    def most_thought(self, mode: str, max_tokens: int) -> int:
        """Return how many tokens a thought can have in a mode; the answer's `max_tokens` does not matter."""
        del max_tokens
        return self._record.most_thought(mode)

    def further_tokens(self, constraint: Constraint) -> tuple[int, int]:
        """Return the most tokens that the engine adds to a prompt with this constraint, and to its answer."""
        prompt, answer = self._record.further_tokens(constraint)
        return prompt + len(self._options.system_prompt.encode()), answer

    def probe(self) -> None:
        """Check that the endpoint answers, with a request for its list of models.

        Raises:
            EngineUnavailableError: the endpoint cannot be reached, or reports that it is overloaded or gone.
        """
        try:
            self._loop.run(listed_models(self._client, PROBE_SECONDS))
        except openai.APIConnectionError as exc:
            raise self._unreachable(self._faults.unreachable(exc)) from exc
        except openai.APIStatusError as exc:
            fault = read_fault(exc, self._model, self._key)
            if fault.kind in {FaultKind.GONE, FaultKind.RATE}:
                raise EngineUnavailableError(f"the engine {self.name} {fault.text}") from exc
        except RedirectError as exc:
            raise self._moved(exc) from exc

    def models(self) -> list[str]:
        """Return the models that the endpoint lists, which is free of charge; empty if there is no list.

        Raises:
            EngineUnavailableError: no server answers at the address; the message says what to change.
            EngineError: the key is wrong, or the quota is used up; the message says what to change.
        """
        return self._names()[0]

    def check(self) -> tuple[str, str]:
        """Return the text of `try_out`, and a warning if the answer is an error; see there for errors raised."""
        found, completion = self.try_out()
        return found, completion.error or ""

    def try_out(self) -> tuple[str, Completion]:
        """Ask the endpoint for its models, and the model a short question; return a summary and the answer.

        Raises:
            EngineUnavailableError: no server answers at the address; the message says what to change.
            EngineError: the key, model or path is wrong, or the quota is used up; the message says what to change.
        """
        place = shown_address(self._address)
        names, listed = self._names()
        try:
            impatient = self._quick(min(self._options.timeout, _CHECK_SECONDS))
            completion = self._loop.run(self._answer_one(QUESTION, impatient))
        except EngineUnavailableError as exc:
            if isinstance(exc, _UnreachableError):
                raise
            return f"{place} answers{listed}", Completion(QUESTION.id, None, str(exc))
        except FaultError as exc:
            fault = self._faulty(exc.fault, names)
            raise FaultError(f"{fault}{self._told_api()}", exc.fault) from exc
        if completion.error is not None:
            completion = replace(completion, error=f"{completion.error}{self._told_api()}")
        return f"{place} answers{listed}", completion

    def _told_api(self) -> str:
        """Return what to write if the endpoint answers another API than chat; empty if it does not."""
        if self._options.api != "auto":
            return ""
        client = self._quick(min(self._options.timeout, _CHECK_SECONDS))
        found = self._loop.run(other_api(client, self._model, self._options, self._address))
        return f'; the model answers decisions: write api = "{found}"' if found else ""

    def _names(self) -> tuple[list[str], str]:
        """Return the models that the endpoint lists, and a phrase about the list."""
        try:
            document = json.loads(self._loop.run(listed_models(self._client, PROBE_SECONDS)))
        except openai.APIConnectionError as exc:
            raise self._unreachable(self._faults.unreachable(exc)) from exc
        except openai.APIStatusError as exc:
            fault = read_fault(exc, self._model, self._key)
            if exc.status_code == 401 or fault.kind is FaultKind.QUOTA:
                raise self._faulty(fault) from exc
            return [], f", without a list of models (HTTP {exc.status_code})"
        except RedirectError as exc:
            raise self._moved(exc) from exc
        except (openai.APIError, ValueError, RecursionError):
            return [], ", without a list of models"
        self._recognised = True
        self._note_owner(document)
        names = model_names(document)
        if self._model in names or f"{self._model}:latest" in names:
            return names, f" and has the model {self._model}"
        return names, f", without {self._model!r} in its list of models" if names else ", without a list of models"

    def _faulty(self, fault: Fault, names: Sequence[str] = ()) -> FaultError:
        """Return an error that names the line of the configuration to change; `names` are the endpoint's models."""
        listed = ""
        if fault.kind is FaultKind.MODEL and names:
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            listed = f"; it lists {', '.join(names[:_NAMED])}{more}"
        line = line_to_change(fault.kind, key=self._options.key_reference, model=names[0] if names else "…")
        return FaultError(f"the engine {self.name} {fault.text}{listed}{line}", fault)

    def _quick(self, seconds: float) -> openai.AsyncOpenAI:
        """Return a copy of the client that does not retry and waits at most `seconds`."""
        return self._client.with_options(max_retries=0, timeout=seconds)

    def _unreachable(self, what: str) -> _UnreachableError:
        return _UnreachableError(f"the engine {self.name} {what}{line_to_change(FaultKind.UNREACHABLE)}")

    def _moved(self, error: RedirectError) -> EngineError:
        return EngineError(f"the engine {self.name} {error}")

    def close(self) -> None:
        """Abort running requests and close the connections. Idempotent."""
        if not self._loop.closed:
            self._loop.run(self._client.close())
            if self._batches is not None:
                self._batches.close()
            self._loop.close()

    async def _answer(self, chunk: Sequence[Request]) -> list[Completion]:
        for request in chunk:
            request.dispatch.waits = True
        completions: list[Completion] = []
        for _, group in groupby(chunk, key=lambda request: (request.parameters, self._further(request))):
            completions += await self._answer_group(list(group))
        return completions

    async def _answer_group(self, group: Sequence[Request]) -> list[Completion]:
        """Answer requests with equal parameters in one HTTP request; if it is rejected or fails, one by one."""
        refused, trial, failed = False, Trial(), ""
        if len(group) > 1 and self._per_request > 1:
            try:
                return await self._send(group, self._client, trial)
            except RefusedError as exc:
                refused, failed = exc.of_lists, str(exc)
                if not exc.again and not self._options.max_retries:
                    return self._failures(group, str(exc), trial.used)
            except RowsError as exc:
                failed = trial.failed
                if not self._options.max_retries:
                    return self._failures(group, str(exc), trial.used)
        shares = map(usage_of, self._failures(group, failed, trial.used))
        completions = [
            await self._answer_one(request, self._client, Trial(failed=failed, used=used))
            for request, used in zip(group, shares, strict=True)
        ]
        if refused and all(completion.error is None for completion in completions):
            self._per_request = self._delivery.per_request = (
                1  # each prompt works by itself, so the endpoint does not accept lists of prompts
            )
        return completions

    async def _answer_one(self, request: Request, client: openai.AsyncOpenAI, trial: Trial | None = None) -> Completion:
        """Answer one request; `trial` has what it took already, as one of several in an HTTP request."""
        trial = trial or Trial()
        try:
            return (await self._send([request], client, trial))[0]
        except (RefusedError, RowsError) as exc:
            [failed] = self._failures([request], str(exc), trial.used)
            failed.too_long = isinstance(exc, RefusedError) and exc.too_long
            return failed

    def _failures(self, group: Sequence[Request], what: str, used: Usage) -> list[Completion]:
        failed = [EndpointAnswer(None, f"the engine {self.name} {what}")] * len(group)
        return share_out(group, failed, used)

    async def _send(self, group: Sequence[Request], client: openai.AsyncOpenAI, trial: Trial) -> list[Completion]:
        """Answer some prompts in a form that the endpoint accepts, with a few HTTP requests to find the form.

        Raises:
            RefusedError: the endpoint rejects the prompts in every form.
            RowsError: the prompts fail where others succeed.
            EngineError: the account or the endpoint fails.
        """
        await self._recognise()
        parameters = group[0].parameters
        asking = self._asking(group)
        waits = all(request.waits for request in group)
        async with self._leaders.turn(lambda: self.parts_of(group[0]), len(group), waits=waits) as turn:
            found = await self._read_answers(group, asking, client, trial, turn)
        options = _options(parameters)
        found = [replace(one, probabilities=read_probabilities(one.logprobs, one.text, options)) for one in found]
        completions = share_out(group, found, with_reasoning(trial.used, found))
        for place, one in enumerate(found):
            if one.passes and len(group) > 1 and self._options.max_retries:
                share = Trial(failed=_unreadable(one), used=usage_of(completions[place]))
                completions[place] = await self._answer_one(group[place], client, share)
        return completions

    def _asking(self, group: Sequence[Request]) -> RequestAttempts:
        parameters = group[0].parameters
        level = parameters.reasoning or self._reasoning or "off"
        limit = max(one.limit for one in group)
        size = max(len(one.prompt) for one in group)
        return RequestAttempts(self._record, parameters, level, limit, self._further_parameters(parameters), size)

    async def _read_answers(
        self,
        group: Sequence[Request],
        asking: RequestAttempts,
        client: openai.AsyncOpenAI,
        trial: Trial,
        turn: Turn,
    ) -> list[EndpointAnswer]:
        """Return the answers in the first form that the endpoint accepts; see `_send` for the errors."""
        left_out: set[str] = set()
        while True:
            plan = asking.plan() if left_out else self._cached(group, asking.plan(), turn)
            marked = bool(plan.marks)
            try:
                answers, usage = await self._post(group, plan, client, trial)
            except RefusedError as exc:
                trial.failed = str(exc)
                if not exc.of_request:
                    raise
                said = f"{exc.refusal.parameter} {exc.refusal.text}"
                if self._keys.learn(said, plan.cache, marked=marked):
                    self._note_keys()
                elif not asking.refused(plan, exc.refusal):
                    left_out = left_out or self._keys.unproven(plan.cache, marked=marked)
                    if not (left_out and plan.cache):
                        raise
                continue
            turn.arrived()
            self._keys.refused |= left_out
            self._note_keys()
            self._keys.accepted(plan.cache, marked=marked)
            asking.accepted(plan)
            trial.used += usage
            read = [asking.read(plan, answer, usage) for answer in answers]
            if not any(again for _, again in read):
                return [one for one, _ in read]
            trial.failed = "returned an answer without a usable text"

    def _cached(self, group: Sequence[Request], plan: RequestPlan, turn: Turn) -> RequestPlan:
        """Return a plan with the keys and marks for the endpoint's prefix cache."""
        if self._cache.rules is None or plan.bare or self._options.completions:
            return plan
        request = group[0]
        body = self._keys.body(request.tenant, self._cache.key_start(self.parts_of(request)) or _site(request))
        marking = self._cache.cache.breakpoints and self._keys.marks
        # the words of the form, which is chosen now, follow the prompt: so the ends are counted from its end
        shift = len(turn.text) - len(self._record.likely_form(request.parameters.constraint).words)
        return replace(plan, cache=body, marks=tuple(shift - end for end in turn.starts) if marking else ())

    def _note_keys(self) -> None:
        self._cache.implicit, self._cache.marks = self._keys.implicit, self._keys.marks

    def _further_parameters(self, parameters: Parameters) -> dict[str, Sequence[object]]:
        """Return the parameters that ask for log probabilities, each with the values to try."""
        if not _options(parameters):
            return {}
        if self._options.completions:
            return {"logprobs": _TOPS}
        return {"logprobs": (True,), "top_logprobs": _TOPS}

    async def _post(
        self, group: Sequence[Request], plan: RequestPlan, client: openai.AsyncOpenAI, trial: Trial
    ) -> tuple[list[EndpointAnswer], Usage]:
        """Send prompts in one form, and again after failures that can pass; see `_send` for the errors."""
        send = partial(self._outcome, group, plan, client, trial)
        try:
            if client is not self._client:
                return await self._delivery.once(send)
            ready = partial(self._await_limits, group, plan)
            return await self._delivery.post(send, trial, [request.dispatch for request in group], ready, plan.tokens)
        except EndpointError as exc:
            raise self._final(exc) from exc

    async def _probe_once(self) -> None:
        """Ask the endpoint a short question; the delivery notes whether the endpoint answers."""
        with suppress(EngineError):
            await self._answer_one(self.probe_request, self._quick(min(self._options.timeout, _CHECK_SECONDS)))

    def _final(self, error: EndpointError) -> Exception:
        """Return the error for a failure after which the prompts are not sent again."""
        fault = error.fault
        match fault.kind:
            case FaultKind.UNREACHABLE:
                return self._unreachable(fault.text)
            case _ if fault.kind in ACCOUNT:
                return self._faulty(fault)
            case _:
                return EngineUnavailableError(f"the engine {self.name} {error.text}")

    async def _outcome(
        self, group: Sequence[Request], plan: RequestPlan, client: openai.AsyncOpenAI, trial: Trial
    ) -> tuple[list[EndpointAnswer], Usage] | Fault:
        """Send one HTTP request; return its answers, or the fault.

        Raises:
            RefusedError: the endpoint rejects these prompts or this form, or its answer cannot be read.
        """
        _mark_billed(group, billed=True)
        try:
            answers, usage = await self._call(group, plan, client)
        except Exception as exc:  # noqa: BLE001 - a response can raise any error in the client's packages
            billed = _worked(exc)
            if billed:
                trial.used += self._lost(group, plan)
            try:
                fault = await self._faults.read(exc, client, len(group), plan.body)
            except RefusedError:
                _mark_billed(group, billed=billed)
                raise
            if not billed and isinstance(exc, openai.APIConnectionError) and fault.kind is FaultKind.BROKEN:
                billed = True
                trial.used += self._lost(group, plan)
            _mark_billed(group, billed=billed)  # only now: a query that is stopped meanwhile counts the try
            return fault
        if len(answers) == 1:
            return self._checked_text(answers[0], usage, group[0].parameters.constraint, plan, trial)
        return answers, usage

    def _checked_text(
        self, answer: EndpointAnswer, usage: Usage, constraint: Constraint, plan: RequestPlan, trial: Trial
    ) -> tuple[list[EndpointAnswer], Usage] | Fault:
        """Return an answer, read beside the content if the content is empty; or a fault that can pass.

        Raises:
            UnreadableAnswerError: the endpoint gives each row an empty answer of this form.
        """
        answer = proven(answer, constraint, wrapped=plan.form.wrapped)
        if not answer.passes:
            self._empty.answered()
            return [answer], usage
        trial.used += usage
        said = _unreadable(answer)
        if answer.empty and self._empty.is_usual(answer.empty):
            raise UnreadableAnswerError(f"{said}; its last answers all have this form; {advice(answer.empty)}")
        return Fault(FaultKind.BROKEN, said)

    async def _recognise(self) -> None:
        """Recognise the provider at an unknown address once, by the owners in its list of models."""
        async with self._recognising:  # all requests wait, because the forms to learn depend on the provider
            if self._recognised:
                return
            self._recognised = True
            try:
                document = json.loads(await listed_models(self._client, _RECOGNISE_SECONDS))
            except Exception:  # noqa: BLE001 - no list, or a broken list: the provider stays unknown
                return
            self._note_owner(document)

    def _note_owner(self, document: object) -> None:
        provider = provider_of(model_owners(document))
        if provider is not UNKNOWN and self._record.provider is UNKNOWN:
            self._record.recognise(provider)
            _log.info("endpoint recognised", engine=self.name, provider=provider.name)

    def _further(self, request: Request) -> dict[str, Any]:
        """Return the configured parameters that only vLLM accepts."""
        further: dict[str, Any] = {"priority": request.priority} if self._options.priority else {}
        if self._options.cache_salt and request.tenant:
            further["cache_salt"] = cache_salt(request.tenant)
        return further

    def _hint(self, group: Sequence[Request]) -> dict[str, Any]:
        """Return the configured hints for vLLM: how many tokens at their start the prompts share with others."""
        del group
        return {}

    async def _call(
        self, group: Sequence[Request], plan: RequestPlan, client: Any
    ) -> tuple[list[EndpointAnswer], Usage]:
        """Send one HTTP request. `client` is Any: the accepted parameters depend on the endpoint, not on its types."""
        further = self._body(group, plan)
        sent = self._sent(group, plan)
        texts = sent.texts
        shared = [self._cache.shared(text, sent.marks) for text in texts]
        if self._options.completions:
            raw = await client.completions.with_raw_response.create(
                model=self._model,
                prompt=texts if len(texts) > 1 else texts[0],
                max_tokens=plan.tokens,
                extra_body=further,
            )
            answers, usage = read_texts(raw.http_response.content, len(group))
            return answers, self._checked(group, usage, answers, sent, shared)
        further = {**plan.token_limit, **further}
        raw = await client.chat.completions.with_raw_response.create(
            model=self._model, messages=self._marked(sent, plan), extra_body=further
        )
        answers, usage = read_chat(raw.http_response.content, thinks=plan.thinks)
        return answers, self._checked(group, usage, answers, sent, shared)

    def _body(self, group: Sequence[Request], plan: RequestPlan) -> dict[str, Any]:
        """Return the keys of a request's body beyond those that all requests have."""
        own = {**plan.cache, **self._further(group[0])}
        return {**plan.options, **own, **self._hint(group), **self._options.extra_body}

    @property
    def batches(self) -> OpenAIBatches | None:
        """Return the batch endpoint, or None; see the option `batch`."""
        if not self._options.has_batches:
            return None
        if self._batches is None:
            address = batch_address(self._address, self._options)
            client = _client(address, self._key, batch_options(self._options))
            form = batches_of(self._options.known_provider.name)
            self._batches = form(self, client, self._loop, self._faults, self._options, address, self._model)
        return self._batches

    @property
    def cache_rules(self) -> CacheRules | None:
        """Return the rules of the hosted provider's cache, or None."""
        return self._cache.rules

    async def drafted(self, request: Request) -> tuple[RequestPlan, dict[str, Any]]:
        """Return the plan and the body of a request that a batch sends."""
        await self._recognise()
        group, parts = [request], self.parts_of(request)
        turn = Turn(text=parts.text, starts=self._cache.starts(parts))  # a batch has no leaders
        plan = self._cached(group, self._asking(group).plan(), turn)
        given: dict[str, Any] = {"model": self._model}
        if self._options.completions:
            given |= {"prompt": self._sent(group, plan).texts[0], "max_tokens": plan.tokens}
        else:
            given |= {"messages": self._marked(self._sent(group, plan), plan), **plan.token_limit}
        return plan, {**given, **self._body(group, plan)}

    async def settled(self, request: Request) -> Completion | None:
        """Answer a request at once if nothing tells the form that the endpoint accepts; otherwise return None.

        A job in the wrong form would be asked twice, and would take a day.
        """
        await self._recognise()
        if self._record.provider is not UNKNOWN or self._record.knows(request.parameters.constraint):
            return None
        return await self._answer_one(request, self._client)

    async def read_drafted(
        self, request: Request, place: int, marks: tuple[int, ...], status: int, body: bytes, *, last: bool
    ) -> Completion | None:
        """Return the completion for a batch's answer to a request; None to ask again.

        The request had the form at `place`, and these marks.
        """
        asking, group = self._asking([request]), [request]
        plan = asking.plan()
        ladder = self._record.forms(request.parameters.constraint)
        place = min(place, len(ladder) - 1)
        plan = replace(plan, form=ladder[place], place=place, marks=marks)
        try:
            check_status(self._address, status, body)
            answers, usage = self._read_drafted(body, plan)
        except Exception as exc:  # noqa: BLE001 - as `_outcome`
            try:
                fault = await self._faults.read(exc, self._client, 1, plan.body)
            except RefusedError as refused:
                if not last and refused.of_request and self._learned_from(plan, asking, refused.refusal):
                    return None
                [failed] = self._failures(group, str(refused), Usage())
                failed.too_long = refused.too_long
                return failed
            return self._failures(group, fault.text, Usage())[0]
        usage = self._checked(group, usage, answers, self._sent(group, plan), [0])
        [answer] = (proven(one, request.parameters.constraint, wrapped=plan.form.wrapped) for one in answers)
        asking.accepted(plan)
        answer, again = asking.read(plan, answer, usage)
        if again and not last:
            return None
        found = read_probabilities(answer.logprobs, answer.text, _options(request.parameters))
        answer = replace(answer, probabilities=found)
        return share_out(group, [answer], with_reasoning(usage, [answer]))[0]

    def _learned_from(self, plan: RequestPlan, asking: RequestAttempts, refusal: Refusal) -> bool:
        """Learn from the rejection of a batch's request; return whether another body can be accepted."""
        said = f"{refusal.parameter} {refusal.text}"
        sent = dict.fromkeys((KEY, OPTIONS))  # an earlier rejection can have changed the plan since
        if self._keys.learn(said, sent, marked=bool(plan.marks)):
            self._note_keys()
            return True
        return asking.refused(plan, refusal)

    def _read_drafted(self, body: bytes, plan: RequestPlan) -> tuple[list[EndpointAnswer], Usage]:
        """Parse the answer to one request of a batch."""
        return read_texts(body, 1) if self._options.completions else read_chat(body, thinks=plan.thinks)

    def _checked(
        self,
        group: Sequence[Request],
        usage: Usage,
        answers: Sequence[EndpointAnswer],
        sent: Sent,
        shared: Sequence[int],
    ) -> Usage:
        """Return the usage with estimates in place of false numbers, and learn from it for forecasts."""
        usage = believed(usage, answers, sent, self.count_tokens)
        usage = replace(usage, written_tokens=self._cache.written_tokens(usage, sent.texts[0], sent.marks))
        if len(shared) == 1:  # of several prompts, the endpoint reports only the sum, or only the last one
            [text] = sent.texts
            counted = 0 if usage.estimated else self.count_tokens(text)
            self._cache.answered(text, shared[0], usage, counted, sent.marks)
            if not usage.estimated:
                estimate = counted + self._template_tokens(len(sent.said[0]) if sent.said else 0)
                self._rates.observe(_site(group[0]), text, estimate, usage.prompt_tokens)
        else:
            self._cache.keep(sent.texts)
        return usage

    def _sent(self, group: Sequence[Request], plan: RequestPlan) -> Sent:
        """Return the whole text of each prompt, as it is sent, and what is known about its tokens."""
        said: list[list[dict[str, str]]] = []
        if self._options.completions:
            texts = [one_text(request.prompt) + plan.form.words for request in group]
        else:
            said = [self._messages(request.prompt, plan.form.words, folded=plan.folded) for request in group]
            texts = [self._chat_text(messages, plan.form.body) for messages in said]
        further = {**plan.form.body, **self._options.extra_body}
        end = len(texts[0]) - len(plan.form.words)
        marks = tuple(end - back for back in plan.marks)
        estimate = partial(self._prompt_tokens, group, texts)
        return Sent(texts, said, further, estimate, plan.tokens, plan.allowance, marks)

    def _marked(self, sent: Sent, plan: RequestPlan) -> list[dict[str, Any]]:
        """Return the messages of a request with the marks of its plan."""
        words = len(plan.form.words)
        return marked_messages(sent.said[0], [back + words for back in plan.marks])

    def _prompt_tokens(self, group: Sequence[Request], texts: Sequence[str]) -> int:
        """Estimate the tokens of prompts, which are sent as `texts`."""
        return sum(
            round((self.count_tokens(text) + self.added_tokens(request)) * self.tokens_per_estimate(request))
            for request, text in zip(group, texts, strict=True)
        )

    def _lost(self, group: Sequence[Request], plan: RequestPlan) -> Usage:
        return lost(self._sent(group, plan), len(group))

    def _messages(self, prompt: str, words: str, *, folded: bool = False) -> list[dict[str, str]]:
        """Return a prompt as chat messages; the configured system prompt is first, and the form's words are last."""
        said = messages(prompt)
        said[-1]["content"] += words
        own = self._options.system_prompt
        if own and said[0]["role"] == "system":
            said[0]["content"] = f"{own}\n\n{said[0]['content']}"
        elif own:
            said.insert(0, {"role": "system", "content": own})
        if folded and len(said) > 1 and said[0]["role"] == "system":
            first = said.pop(0)
            said[0]["content"] = f"{first['content']}\n\n{said[0]['content']}"
        return said

    async def _await_limits(self, group: Sequence[Request], plan: RequestPlan) -> None:
        if self._request_limit is not None:
            await self._request_limit.acquire()
        if self._token_limit is not None:
            tokens = sum(self.count_tokens(request.prompt) + plan.tokens for request in group)
            await self._token_limit.acquire(min(tokens, self._token_limit.max_rate))


def _options(parameters: Parameters) -> tuple[str, ...]:
    """Return the options of a call that asks for the probability of its choice; empty for any other call."""
    constraint = parameters.constraint
    return constraint.options if parameters.probability and isinstance(constraint, Choice) else ()


def _site(request: Request) -> str:
    return call_site(request.function, request.instruction)


def _unreadable(answer: EndpointAnswer) -> str:
    return f"returned an answer that cannot be read: {answer.error}"


def _mark_billed(group: Sequence[Request], *, billed: bool) -> None:
    for request in group:
        request.dispatch.billed = billed


def _worked(error: Exception) -> bool:
    """Return whether the model can have worked for a failed request: its answer cannot be read, or came too late."""
    if isinstance(error, openai.APIStatusError):
        return error.status_code in _LATE
    if isinstance(error, openai.APITimeoutError):
        return True
    return isinstance(error, MalformedError | BodyError) and not isinstance(error, ErrorBodyError)


class _UnreachableError(EngineUnavailableError):
    """An error for an endpoint to which there is no connection."""


class FaultError(EngineError):
    """An error that later prompts would get too."""

    def __init__(self, text: str, fault: Fault) -> None:
        super().__init__(text)
        self.fault = fault


class TokenizingOpenAIEngine(OpenAIEngine):
    """An engine with one endpoint and model whose tokenizer is known, so that token counts are exact."""

    has_tokenizer = True

    def __init__(self, model: str, window: int, options: OpenAIOptions, reasoning: str | None = None) -> None:
        self._encoder = read_tokenizer(options.tokenizer, chat=not options.completions)
        self._hints = Hints(self._encoder, keeping=options.kv_hints, evicting=options.reuse_hints)
        super().__init__(model, window, options, reasoning)

    def count_tokens(self, text: str) -> int:
        """Count the tokens of `text`, without special tokens."""
        return self._encoder.count(text)

    @property
    def context_tokens(self) -> int:
        """Return how many tokens a prompt can have together with its answer."""
        return self._options.max_model_len or int(self._encoder.tokenizer.model_max_length)

    def _prompt_tokens(self, group: Sequence[Request], texts: Sequence[str]) -> int:
        del texts
        return sum(map(len, self._encoder.encode([request.prompt for request in group])))

    def _hint(self, group: Sequence[Request]) -> dict[str, Any]:
        if not (self._options.kv_hints or self._options.reuse_hints):
            return {}
        hints = self._hints.extra_args(group, self._encoder.encode([request.prompt for request in group]))
        return {"vllm_xargs": hints} if hints else {}

    def token_ids(self, prompts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of each prompt as in the endpoint, chat template and special tokens included."""
        return self._encoder.encode(prompts)


def create(config: EngineConfig) -> OpenAIEngine:
    """Create the engine that the configuration describes; this sends no request."""
    options = read_openai_options(config.options)
    kind = TokenizingOpenAIEngine if options.tokenizer else OpenAIEngine
    return kind(config.model, config.max_in_flight, options, config.reasoning)


def _client(address: str, key: str, options: OpenAIOptions) -> openai.AsyncOpenAI:
    """Return the HTTP client, with the headers, query, proxy and limits of the options."""
    header = options.known_provider.key_header
    return openai.AsyncOpenAI(
        base_url=address,
        api_key=key,
        organization=checked_secret("[engine] organization", options.organization) or None,
        project=checked_secret("[engine] project", options.project) or None,
        timeout=options.timeout,
        max_retries=0,  # the engine itself decides what to send again
        default_headers={"Accept-Encoding": ENCODING, **options.read_headers()},
        default_query=options.read_query(),
        http_client=EndpointClient(
            options.response_bytes,
            timeout=options.timeout,
            proxy=options.read_proxy(),
            request=keyed(header, key, httpx2.URL(address).host) if header else None,
        ),
    )


def _request_limiter(per_minute: float) -> AsyncLimiter | None:
    """Return a limiter whose burst is one second of requests, or one request; never a whole minute's requests."""
    if not per_minute:
        return None
    burst = max(1.0, per_minute / 60)
    return AsyncLimiter(burst, burst * 60 / per_minute)
