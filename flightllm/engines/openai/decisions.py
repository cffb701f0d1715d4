"""The engine for endpoints that answer typed questions with probabilities, and write no text."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flightllm.engines.openai.answers import EndpointAnswer
from flightllm.engines.openai.believed import Sent, believed
from flightllm.engines.openai.bundles import Bundle, Bundled, Bundler
from flightllm.engines.openai.capabilities import RequestPlan
from flightllm.engines.openai.decision_answers import read_decisions
from flightllm.engines.openai.decision_probe import RAW
from flightllm.engines.openai.decision_questions import (
    Question,
    body_of,
    content_of,
    dialect_of,
    question_of,
    question_text,
    text_of,
    unanswerable,
)
from flightllm.engines.openai.delivery import RowsError
from flightllm.engines.openai.engine import FaultError, OpenAIEngine
from flightllm.engines.openai.fault_reader import RefusedError
from flightllm.engines.openai.faults import Fault, FaultKind
from flightllm.engines.openai.usage import Usage
from flightllm.engines.openai.verdicts import Trial
from flightllm.engines.openai.wire import NOTHING, share_out, usage_of
from flightllm.engines.prompt_parts import PromptParts
from flightllm.engines.providers import ThinkingLevel
from flightllm.engines.trial import QUESTION
from flightllm.engines.window import Window
from flightllm.errors import EngineError
from flightllm.llm.engine import Choice, Completion, Constraint, Parameters, Request, call_site

if TYPE_CHECKING:
    import openai

    from flightllm.engines.openai.options import OpenAIOptions

_PLAN = RequestPlan({}, NOTHING, 0, ThinkingLevel((), "none"), 0, 0, 0, bare=False)
_AROUND = 256
"""More tokens than an endpoint adds to a question, beside those of each option."""
_OF_OPTION = 16
_PRIVATE, _PRIVATE_SIZE = 0xE000, 6_400
"""The private characters of Unicode, which no text has."""


class DecisionsEngine(OpenAIEngine):
    """An engine with one decision endpoint and model.

    Neighbouring requests about one content go in one HTTP request; each of them has its own answer, error or refusal.
    If the endpoint rejects several questions, they are sent in halves. So one bad question does not spoil the others.
    """

    probe_request = QUESTION
    joins_questions = True
    """Requests about the same values cost less as neighbours."""
    gives_probabilities = True
    least_answer_tokens = 0
    """An answer can have no token, because the endpoint writes no text."""

    def __init__(self, model: str, window: int, options: OpenAIOptions, reasoning: str | None = None) -> None:
        super().__init__(model, window, options, reasoning)
        self._dialect = dialect_of(options.api, options.known_provider.name, self._address)
        self._most_questions = self._dialect.questions

    @property
    def _way(self) -> str:
        return "decisions"

    def refusal(self, parameters: Parameters) -> str | None:
        """Return why this engine cannot answer calls with these parameters, and what to write instead; or None."""
        why = unanswerable(parameters.constraint, self._dialect)
        return f"{why}: name another model for this call, as model => 'NAME'" if why else None

    def sent_text(self, request: Request) -> str:
        """Return all that the endpoint reads for a request that is sent by itself."""
        return text_of(content_of(request), [self._question(request)])

    def parts_of(self, request: Request, text: str | None = None) -> PromptParts:
        """Return a prompt as `sent_text` returns it. The endpoint takes no marks, so it gets no ends."""
        return PromptParts(self.sent_text(request) if text is None else text)

    def forecast_text(self) -> Callable[[Request], str]:
        """Return a function to the text that each request adds, in the order of its calls.

        A request about the same content as the request before it adds only its question. The first character of such a
        text stands for the content. Equal questions about different contents do not hit the cache: each content comes
        before its questions.
        """
        before: Hashable = None
        asked = contents = 0

        def text(request: Request) -> str:
            nonlocal before, asked, contents
            key = _key(request)
            asked = asked + 1 if key == before and asked < min(self._most_questions, self._window) else 1
            before = key
            if asked == 1:
                contents += 1
                return self.sent_text(request)
            return chr(_PRIVATE + contents % _PRIVATE_SIZE) + question_text(self._question(request))[1:]

        return text

    def added_tokens(self, request: Request) -> int:
        """Return 0: how an endpoint renders questions is unknown, so its first answers show what it adds."""
        del request
        return 0

    def answer_tokens(self, text: str, constraint: Constraint) -> int:
        """Return 0: the endpoint writes no text."""
        del text, constraint
        return 0

    def most_thought(self, mode: str, max_tokens: int) -> int:
        """Return 0: the model does not think."""
        del mode, max_tokens
        return 0

    def further_tokens(self, constraint: Constraint) -> tuple[int, int]:
        """Return the most tokens that the question adds to a prompt with this constraint, and to its answer."""
        options = constraint.options if isinstance(constraint, Choice) else ()
        listed = sum(len(option.encode()) + _OF_OPTION for option in options)
        return _AROUND + listed + len(self._options.system_prompt.encode()), 0

    def generate(self, requests: Iterator[Request | None], cancelled: Callable[[], bool]) -> Iterator[Completion]:
        """Answer requests, the questions about one content together; see `Engine.generate`.

        Raises:
            EngineError: a request asks for a text; the message says what to write instead.
        """
        bundler = Bundler(requests, self._checked_key, lambda: self._most_questions, self._window)
        window = Window(self._loop, self._answer, self._window, 1, self._shares)
        with closing(window.stream(bundler, cancelled)) as bundles:
            for bundle in bundles:
                for completion in bundle.members if isinstance(bundle, Bundled) else (bundle,):
                    yield completion
                    bundler.in_flight -= 1

    def _checked_key(self, request: Request) -> Hashable:
        if (why := self.refusal(request.parameters)) is not None:
            raise EngineError(f"the engine {self.name} cannot answer {request.function or 'this call'}: {why}")
        return _key(request)

    def _question(self, request: Request) -> Question:
        return question_of(request, self._dialect, self._options.system_prompt)

    async def _answer(self, chunk: Sequence[Request]) -> list[Completion]:
        found: list[Completion] = []
        for bundle in chunk:
            members = bundle.members if isinstance(bundle, Bundle) else (bundle,)
            answered = [self._only_option(one) for one in members]
            asked = [one for one, known in zip(members, answered, strict=True) if known is None]
            rest = iter(await self._answer_together(asked, Trial()) if asked else ())
            completions = tuple(next(rest) if known is None else known for known in answered)
            found.append(Bundled(bundle.id, None, members=completions))
        return found

    def _only_option(self, request: Request) -> Completion | None:
        """Return the answer to a choice of one option, which endpoints reject; None for other requests."""
        constraint = request.parameters.constraint
        if not isinstance(constraint, Choice) or len(constraint.options) > 1:
            return None
        return Completion(request.id, constraint.options[0], probabilities=(1.0,))

    async def _answer_together(self, group: Sequence[Request], trial: Trial) -> list[Completion]:
        """Answer the questions about one content in one HTTP request; if that fails, in two halves."""
        if len(group) == 1:
            return [await self._answer_one(group[0], self._client, trial)]
        try:
            return await self._send(group, self._client, trial)
        except (RefusedError, RowsError) as exc:
            if not self._options.max_retries and not getattr(exc, "again", False):
                return self._failures(group, str(exc), trial.used)
            refused, failed = isinstance(exc, RefusedError), str(exc)
        half = len(group) // 2
        completions = await self._answer_together(group[:half], Trial(failed=failed, used=trial.used))
        completions += await self._answer_together(group[half:], Trial(failed=failed))
        if refused and all(one.error is None for one in completions):
            self._most_questions = min(self._most_questions, len(group) - half)  # only their number was wrong
        return completions

    async def _send(self, group: Sequence[Request], client: openai.AsyncOpenAI, trial: Trial) -> list[Completion]:
        """Answer some questions about one content in one HTTP request; see `OpenAIEngine._send` for the errors."""
        found, usage = await self._post(group, _PLAN, client, trial)
        trial.used += usage
        found = [
            one if request.parameters.probability else replace(one, probabilities=None)
            for one, request in zip(found, group, strict=True)
        ]
        completions = share_out(group, found, trial.used)
        for place, one in enumerate(found):
            if one.passes and len(group) > 1 and self._options.max_retries:
                share = Trial(failed=one.error or "", used=usage_of(completions[place]))
                completions[place] = await self._answer_one(group[place], client, share)
        return completions

    async def _call(
        self, group: Sequence[Request], plan: RequestPlan, client: Any
    ) -> tuple[list[EndpointAnswer], Usage]:
        """Send one HTTP request; `client` is Any, because the package has no type for paths of other providers."""
        questions = [self._question(request) for request in group]
        body = body_of(self._model, content_of(group[0]), questions, self._dialect.shape)
        further = self._further(group[0])
        further.pop("prompt_cache_key", None)
        body |= {**further, **self._options.extra_body}
        raw = await client.post(self._dialect.path, cast_to=object, body=body, options=RAW)
        answers, usage = read_decisions(raw.http_response.content, questions)
        return answers, self._believed(group, usage, self._sent(group, plan))

    def _believed(self, group: Sequence[Request], usage: Usage, sent: Sent) -> Usage:
        """Return the usage with an estimate in place of a false number of input tokens, and learn from it."""
        checked = believed(replace(usage, completion_tokens=0, reasoning_tokens=0), (), sent, self.count_tokens)
        if not checked.estimated:
            [text] = sent.texts
            counted = self.count_tokens(text)
            for request in group:
                site = call_site(request.function, request.instruction)
                self._rates.observe(site, text, counted, checked.prompt_tokens)
        return replace(checked, completion_tokens=usage.completion_tokens)

    def _sent(self, group: Sequence[Request], plan: RequestPlan) -> Sent:
        text = text_of(content_of(group[0]), [self._question(request) for request in group])

        def estimate() -> int:
            return round(self.count_tokens(text) * self.tokens_per_estimate(group[0]))

        return Sent([text], [], self._options.extra_body, estimate, plan.tokens)

    async def _await_limits(self, group: Sequence[Request], plan: RequestPlan) -> None:
        if self._request_limit is not None:
            await self._request_limit.acquire()
        if self._token_limit is not None:
            tokens = self.count_tokens(self._sent(group, plan).texts[0])
            await self._token_limit.acquire(min(tokens, self._token_limit.max_rate))

    def _faulty(self, fault: Fault, names: Sequence[str] = ()) -> FaultError:
        if fault.kind is not FaultKind.PATH:
            return super()._faulty(fault, names)
        advice = 'if the endpoint has no decisions, the line to change is [engine] api = "chat"'
        return FaultError(f"the engine {self.name} {fault.text}; {advice}", fault)


def _key(request: Request) -> Hashable:
    """Return what requests of one HTTP request have in common: the content, and whose prompt it is."""
    return content_of(request), request.tenant, request.user, request.priority
