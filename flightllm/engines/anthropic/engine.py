"""The engine for Claude through the native Messages API, and for other endpoints with this API."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from flightllm.engines.anthropic.answers import read_message
from flightllm.engines.anthropic.capabilities import MessagesCapabilities
from flightllm.engines.anthropic.claude import claude_rules_of
from flightllm.engines.anthropic.forms import schema_text
from flightllm.engines.anthropic.layout import Layout
from flightllm.engines.anthropic.options import AnthropicOptions, read_anthropic_options
from flightllm.engines.batch_starts import marked_blocks
from flightllm.engines.cache_rules import NO_CACHE, CacheRules
from flightllm.engines.openai.answers import EndpointAnswer
from flightllm.engines.openai.believed import Sent
from flightllm.engines.openai.capabilities import RequestPlan
from flightllm.engines.openai.leaders import Turn
from flightllm.engines.openai.usage import Usage
from flightllm.engines.secrets import shown_address
from flightllm.errors import MissingExtraError
from flightllm.llm.engine import Parameters, Request

if TYPE_CHECKING:
    import openai

    from flightllm.config import EngineConfig

try:
    from flightllm.engines.anthropic.batches import AnthropicBatches
    from flightllm.engines.anthropic.client import MessagesClient
    from flightllm.engines.openai.batches import batch_options
    from flightllm.engines.openai.engine import OpenAIEngine
except ImportError as exc:
    raise MissingExtraError("the engine 'anthropic'", "anthropic") from exc

_LEAST_BUDGET: Final = 1_024
"""The fewest tokens for a thought that the API accepts."""


class AnthropicEngine(OpenAIEngine):
    """An engine with one endpoint of the Messages API and one model.

    Deliveries, retries and faults are those of `OpenAIEngine`. The starts of prompts that Claude's cache must
    keep are marked with `cache_control`, see `CacheObserver.starts`.
    """

    def __init__(self, model: str, window: int, options: AnthropicOptions, reasoning: str | None = None) -> None:
        self._messages_options = options
        super().__init__(model, window, options.http(), reasoning)
        self._record = MessagesCapabilities(model, options.address, constraints=options.send_constraints)
        self._recognised = True

    def _cache_rules(self) -> CacheRules | None:
        """Return the rules by the model; of another vendor's model, those by the address."""
        rules = claude_rules_of(self._model)
        if rules is None:
            return super()._cache_rules()
        return rules if self._messages_options.prompt_cache == "auto" else NO_CACHE

    def _open_client(self) -> openai.AsyncOpenAI:
        client = MessagesClient.of(self._messages_options, self._options, self._key)
        return cast("openai.AsyncOpenAI", client)  # it has those parts that the base class uses

    @property
    def name(self) -> str:
        """Return the engine kind, model and endpoint."""
        return f"anthropic ({self._model} at {shown_address(self._address)})"

    @property
    def revision(self) -> str:
        """Return the endpoint, the model's name and the options that affect answers; the weights are unknown."""
        return f"anthropic-1 {self._address} {self._model}{self._told}"

    @property
    def shared_revision(self) -> str:
        """Return the revision without the address, which all endpoints of the same model share."""
        return f"anthropic-1 {self._model}{self._told}"

    @property
    def gives_probabilities(self) -> bool:
        """Return False: the API has no log probabilities."""
        return False

    def _chat_text(self, said: Sequence[Mapping[str, str]], body: Mapping[str, Any]) -> str:
        return _layout(said, body).text

    def _further_parameters(self, parameters: Parameters) -> dict[str, Sequence[object]]:
        """Return nothing: the API has no log probabilities."""
        del parameters
        return {}

    async def _call(
        self, group: Sequence[Request], plan: RequestPlan, client: Any
    ) -> tuple[list[EndpointAnswer], Usage]:
        """Send one HTTP request with one prompt."""
        [request] = group
        sent = self._sent(group, plan)
        [text] = sent.texts
        shared = [self._cache.shared(text, sent.marks)]
        answer, usage = read_message(await client.send(self._request_body(request, plan, sent, sent.marks)))
        return [answer], self._checked(group, usage, [answer], sent, shared)

    def _request_body(self, request: Request, plan: RequestPlan, sent: Sent, marks: Sequence[int]) -> dict[str, Any]:
        """Return the body of a request, with breakpoints at `marks`."""
        [text] = sent.texts
        spoken = _spoken(_layout(sent.said[0], plan.form.body), _cuts(request, text, plan.form.words), marks)
        body = _merged({**self._parameters(plan), **spoken}, self._options.extra_body)
        return {"model": self._model, **body}

    @property
    def batches(self) -> AnthropicBatches | None:
        """Return the batch endpoint, or None; see the option `batch`."""
        if not self._messages_options.has_batches:
            return None
        if self._batches is None:
            options = batch_options(self._options)
            given = replace(self._messages_options, response_bytes=options.response_bytes, timeout=options.timeout)
            client = cast("openai.AsyncOpenAI", MessagesClient.of(given, options, self._key))
            self._batches = AnthropicBatches(self, client, self._loop, self._faults, self._options, self._address)
        return cast("AnthropicBatches", self._batches)

    async def drafted(self, request: Request) -> tuple[RequestPlan, dict[str, Any]]:
        """Return the plan and the body of a request that a batch sends; its marks keep a start for an hour."""
        parts = self.parts_of(request)
        turn = Turn(text=parts.text, starts=self._cache.starts(parts))  # a batch has no leaders
        plan = self._cached([request], self._asking([request]).plan(), turn)
        sent = self._sent([request], plan)
        body = self._request_body(request, plan, sent, sent.marks)
        for block in marked_blocks(body):
            block["cache_control"] = {"type": "ephemeral", "ttl": "1h"}
        return plan, body

    def _read_drafted(self, body: bytes, plan: RequestPlan) -> tuple[list[EndpointAnswer], Usage]:
        del plan
        answer, usage = read_message(body)
        return [answer], usage

    def _parameters(self, plan: RequestPlan) -> dict[str, Any]:
        """Return the parameters of a plan; a dot in a key leads to a key inside."""
        body: dict[str, Any] = {"max_tokens": plan.tokens}
        for name, value in plan.options.items():
            if name == "max_tokens":
                continue
            outer, _, inner = name.partition(".")
            body[outer] = {**body.get(outer, {}), inner: value} if inner else value
        if body.get("temperature", 1.0) != 1.0:
            body.pop("top_p", None)  # newer models take one of both
        elif "top_p" in body:
            body.pop("temperature", None)
        thinking = body.get("thinking")
        if isinstance(thinking, dict) and "budget_tokens" in thinking:
            budget = max(_LEAST_BUDGET, min(thinking["budget_tokens"], plan.allowance))
            body["thinking"] = {**thinking, "budget_tokens": budget}
        return body

    def _sent(self, group: Sequence[Request], plan: RequestPlan) -> Sent:
        sent = super()._sent(group, plan)
        return replace(sent, further={**sent.further, **dict(plan.step.body)})


def _layout(said: Sequence[Mapping[str, str]], body: Mapping[str, Any]) -> Layout:
    """Return the layout of chat messages, with the form's parameters."""
    schemas = schema_text(body)
    said = said or [{"role": "user", "content": ""}]
    head = json.dumps(schemas, ensure_ascii=False, separators=(",", ":")) if schemas else ""
    system = said[0]["content"] if said[0]["role"] == "system" else ""
    return Layout(head, system, said[-1]["content"])


def _cuts(request: Request, text: str, words: str) -> list[int]:
    """Return where the parts of a prompt end in the text that is sent, before the words of the form."""
    before = len(text) - len(words) - len(request.prompt)
    return [end + before for end in request.ends]


def _spoken(layout: Layout, cuts: Sequence[int], marks: Sequence[int]) -> dict[str, Any]:
    """Return the system message and the messages of a body: plain texts where nothing is marked.

    Prompts with a common start are cut at the same places in it, because the cache compares blocks.
    """
    system: object = layout.system
    user: object = layout.user
    if marks:
        system, user = layout.blocks([one for one in cuts if one <= marks[-1]], marks)
    spoken: dict[str, Any] = {"messages": [{"role": "user", "content": user}]}
    return {"system": system, **spoken} if system else spoken


def _merged(body: Mapping[str, Any], further: Mapping[str, object]) -> dict[str, Any]:
    """Return a body with further keys; two objects under one key become one."""
    found = dict(body)
    for name, value in further.items():
        known = found.get(name)
        found[name] = {**known, **value} if isinstance(known, dict) and isinstance(value, dict) else value
    return found


def create(config: EngineConfig) -> AnthropicEngine:
    """Create the engine that the configuration describes; this sends no request."""
    options = read_anthropic_options(config.options)
    return AnthropicEngine(config.model, config.max_in_flight, options, config.reasoning)


def check(config: EngineConfig) -> None:
    """Check the options and the API key to which they refer; see `OpenAIOptions.read_key`."""
    read_anthropic_options(config.options).http().read_key()
