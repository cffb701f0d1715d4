"""Learn from an endpoint's rejections and answers which request parameters it accepts, so that no form is retried."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from flightllm.common.newest import Newest
from flightllm.engines.openai.answers import EndpointAnswer
from flightllm.engines.openai.reading import read_constrained
from flightllm.engines.openai.usage import Usage
from flightllm.engines.openai.wire import ConstraintForm, forms
from flightllm.engines.providers import ALLOWANCES, Provider, ThinkingLevel, thinking_steps, thinks
from flightllm.llm.engine import Choice, Constraint, JsonSchema, Parameters, Regex
from flightllm.llm.reasoning import split_reasoning

MOST_TRIES = 10
"""The most HTTP requests for one answer, while the endpoint's capabilities are unknown."""
_MOST_KNOWN = 1_024
_RARE = 20
"""An endpoint ignores a form of constraint if more than one answer in this many violates the constraint."""
_FIRST_ALLOWANCE, _MOST_ALLOWANCE = 1_024, 16_384
_SCHEMA = re.compile(
    r"invalid schema|schema (?:is |for )|not permitted|too (?:many|complex|deep)|compil", re.IGNORECASE
)
"""Rejections of this schema; the endpoint still accepts other schemas in this form."""
_RANGE = re.compile(r"between|range|less than|at most|greater than|maximum|<=|\[0", re.IGNORECASE)
_LENGTH = re.compile(
    r"context length|context window|too large"
    r"|max(?:_completion)?_tokens.{0,60}(?:exceed|at most|less|<=|maximum allowed)",
    re.IGNORECASE,
)
_WORDS_OF_FORMS = re.compile(
    r"response_?format|json_?schema|structured_?outputs?|guided_|grammar|\bregex\b", re.IGNORECASE
)

_NO_SYSTEM = re.compile(
    r"(?:system|developer) (?:role|message|instruction|prompt)s?\b.{0,40}\bnot (?:supported|enabled|allowed)"
    r"|(?:not|n't) support.{0,20}\b(?:system|developer) (?:role|message|instruction|prompt)"
    r"|\brole\W{0,3}(?:does not|doesn't|cannot) (?:support|accept|be)\W{1,3}(?:system|developer)\b"
    r"|\brole\b.{0,60}should be 'user'|roles must alternate",
    re.IGNORECASE,
)
_UNKNOWN = re.compile(
    r"unknown|unsupported|unrecogni[sz]ed|unexpected|not (?:permitted|supported|allowed|recogni[sz]ed)",
    re.IGNORECASE,
)
_NO_JSON = re.compile(r"failed to (?:generate|validate) json|json_validate_failed", re.IGNORECASE)
"""Rejections of what the model wrote, by an endpoint that checks its own JSON; another prompt can succeed."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The endpoint's reason for rejecting a request: its text, and the parameter that it names, which can be empty."""

    text: str
    parameter: str = ""

    def names(self, *keys: str) -> bool:
        """Return whether the rejection is about one of these keys."""
        if self.parameter:
            return self.parameter.partition(".")[0].partition("[")[0] in keys
        return any(re.search(_about(key), self.text.lower()) for key in keys)


def _about(key: str) -> str:
    """Return a pattern for texts about a key. A text about all of `a` is about `a.b` too, but not one about `a.c`."""
    outer, _, inner = key.partition(".")
    whole = rf"(?<![a-z_]){re.escape(key)}(?![a-z_])"
    return rf"{whole}|(?<![a-z_.]){re.escape(outer)}(?![a-z_.])" if inner else whole


@dataclass(frozen=True, slots=True)
class RequestPlan:
    """The parameters of one HTTP request, except its prompts."""

    body: dict[str, Any]
    form: ConstraintForm
    place: int
    """The index of `form` in `Capabilities.forms`."""
    step: ThinkingLevel
    step_place: int
    tokens: int
    allowance: int
    bare: bool
    folded: bool = False
    """Whether the system message is part of the user's message."""
    tokens_key: str = "max_tokens"
    """The key of the token limit; empty for an endpoint that rejects both keys."""
    cache: Mapping[str, Any] = field(default_factory=dict)
    """The keys for the endpoint's prefix cache."""
    marks: tuple[int, ...] = ()
    """The ends of the starts to mark, in characters back from the end of the prompt."""

    @property
    def token_limit(self) -> dict[str, int]:
        """Return the token limit under its key."""
        return {self.tokens_key: self.tokens} if self.tokens_key else {}

    @property
    def options(self) -> dict[str, Any]:
        """Return all keys of the request except the model, the prompt and the token limit."""
        return {**self.body, **dict(self.step.body), **self.form.body}

    @property
    def thinks(self) -> bool:
        """Return whether the model can think: yes, unless the request switches thoughts off in the chat template."""
        return self.step.effort != "none" or "chat_template_kwargs" not in dict(self.step.body)


@lru_cache(maxsize=_MOST_KNOWN)
def _forms_of(constraint: Constraint, ways: tuple[str, ...], *, chat: bool) -> tuple[ConstraintForm, ...]:
    return tuple(forms(constraint, ways, chat=chat))


class Capabilities:
    """The known capabilities of one endpoint and model.

    Needs no lock: only the engine's event loop changes it, and calls all methods except
    `most_thought`, `further_tokens` and `likely_form`.
    """

    def __init__(self, provider: Provider, model: str, *, chat: bool, constraints: bool) -> None:
        self.provider = provider
        self.model = model
        self.chat = chat
        self.constraints = constraints
        self.tokens_key = provider.tokens_key if chat else "max_tokens"
        self.refused: dict[str, set[str]] = {}
        """The values that the endpoint rejects, by parameter."""
        self.reasons = thinks(model)
        """Whether the model thinks before it answers, by its name or by its answers."""
        self.allowance = 0
        """The tokens for a thought that cut answers have shown to be necessary."""
        self.accepted = False
        self.no_system = False
        """Whether the endpoint rejects system messages."""
        self._rooms: dict[int, int] = {}
        """The most tokens for thoughts that the endpoint accepts, by the bit length of the prompt's length.

        Only lengths at which the endpoint rejected more tokens are here."""
        self._forms = Newest[Constraint, list[ConstraintForm]](_MOST_KNOWN)
        self._ways: dict[type, int] = {}
        self._known = Newest[Constraint, int](_MOST_KNOWN)
        """The index of the accepted form, by constraint."""
        self._taken: dict[type, set[int]] = {}
        """The indexes of all forms that were accepted, by kind of constraint."""
        self._steps: dict[str, int] = {}
        self._seen: dict[tuple[type, int], list[int]] = {}
        """How many answers kept to the constraint, and how many violated it, by kind of constraint and form."""

    def recognise(self, provider: Provider) -> None:
        """Use the forms of a recognised provider, and forget all facts about the forms of the unknown provider."""
        self.provider = provider
        self.tokens_key = provider.tokens_key if self.chat else "max_tokens"
        self._ways.clear()
        self._known.clear()
        self._taken.clear()
        self._steps.clear()
        self._forms.clear()

    def forms(self, constraint: Constraint) -> list[ConstraintForm]:
        """Return the forms in which a request to this endpoint can express a constraint, the best first."""
        found = self._forms.use(constraint)
        if found is None:
            found = self._forms[constraint] = self._made(constraint)
        return found

    def further_tokens(self, constraint: Constraint) -> tuple[int, int]:
        """Return the most tokens that a form of this constraint adds to a prompt, and to an answer.

        Any thread can call this method.
        """
        made = self._made(constraint)
        prompt = max(len(form.words.encode()) + len(json.dumps(form.body).encode()) for form in made)
        return prompt, max(form.more_tokens for form in made)

    def likely_form(self, constraint: Constraint) -> ConstraintForm:
        """Return the form in which the next request will probably express a constraint. Any thread can call this."""
        made = self._made(constraint)
        place = self._known.get(constraint, self._ways.get(type(constraint), 0))
        return made[min(place, len(made) - 1)]

    def _made(self, constraint: Constraint) -> list[ConstraintForm]:
        ways = {Choice: self.provider.choice, JsonSchema: self.provider.json, Regex: self.provider.regex}
        chosen = ways.get(type(constraint), ()) if self.constraints else ("words",)
        return list(_forms_of(constraint, chosen, chat=self.chat))

    def form_index(self, constraint: Constraint) -> int:
        """Return the index in `forms(constraint)` of the form to send next: the best that is not excluded.

        A form is excluded if the endpoint rejects or ignores it.
        """
        known = self._known.use(constraint)
        return self._ways.get(type(constraint), 0) if known is None else known

    def knows(self, constraint: Constraint) -> bool:
        """Return whether the endpoint has accepted a form of this constraint."""
        return constraint in self._known

    def took(self, constraint: Constraint, place: int) -> bool:
        """Return whether the endpoint has accepted the form at `place` for a constraint of this kind."""
        return place in self._taken.get(type(constraint), ())

    def accept(self, constraint: Constraint, place: int) -> None:
        """Record the form that the endpoint accepted for a constraint."""
        self.accepted = True
        self._taken.setdefault(type(constraint), set()).add(place)
        known = self._known.get(constraint)
        if known is None or place > known:
            self._known[constraint] = place

    def give_up(self, constraint: Constraint, place: int, *, alone: bool = False) -> None:
        """Exclude the form at `place` for constraints of this kind; with `alone`, only for this constraint."""
        if alone:
            self._known[constraint] = max(place + 1, self._known.get(constraint, 0))
            return
        kind = type(constraint)
        self._ways[kind] = max(place + 1, self._ways.get(kind, 0))
        for known in [one for one, at in self._known.items() if type(one) is kind and at <= place]:
            del self._known[known]

    def note(self, constraint: Constraint, place: int, *, ignored: bool) -> None:
        """Count an answer that kept to its constraint, or ignored it; exclude a form that the endpoint ignores."""
        seen = self._seen.setdefault((type(constraint), place), [0, 0])
        seen[ignored] += 1
        if ignored and self.chat and seen[1] * _RARE > seen[0]:
            self.give_up(constraint, place)

    def steps(self, level: str) -> list[ThinkingLevel]:
        """Return the ways to ask for a level of thinking; for a model that does not think, one empty step."""
        if not self.chat or (level == "off" and not self.reasons):
            return [ThinkingLevel((), "none")]
        return thinking_steps(self.provider.thinking, level, self.model)

    def step(self, level: str) -> tuple[int, ThinkingLevel]:
        """Return the index in `steps(level)` of the step to send next, and the step itself.

        This is the best step that the endpoint has not rejected, or the last step, which is empty.
        """
        found = self.steps(level)
        place = min(self._steps.get(level, 0), len(found) - 1)
        return place, found[place]

    def next_step(self, level: str, place: int) -> None:
        """Exclude the step at `place` for a level of thinking."""
        self._steps[level] = max(place + 1, self._steps.get(level, 0))

    def allowed(self, step: ThinkingLevel, size: int) -> int:
        """Return how many tokens thoughts get in addition to the answer, for prompts of `size` characters."""
        rooms = (most for length, most in self._rooms.items() if length <= size.bit_length())
        return min(self._allowance(step), *rooms, _MOST_ALLOWANCE)

    def most_thought(self, level: str) -> int:
        """Return the most tokens that thoughts get in addition to the answer, by the present knowledge.

        Any thread can call this method.
        """
        return min(self._allowance(self.step(level)[1]), _MOST_ALLOWANCE)

    def _allowance(self, step: ThinkingLevel) -> int:
        known = ALLOWANCES.get(step.effort, 0) if self.reasons or step.body else 0
        return max(known, self.allowance)

    def has_room(self, size: int, most: int) -> None:
        """Record the accepted tokens for thoughts where more were rejected; longer prompts have no more room."""
        self._rooms[size.bit_length()] = most

    def supports(self, name: str, value: object) -> bool:
        """Return whether to send a parameter with this value: yes, unless the endpoint has rejected exactly this."""
        return repr(value) not in self.refused.get(name, ())

    def refuse(self, name: str, value: object) -> None:
        """Record that the endpoint rejects a parameter with this value."""
        self.refused.setdefault(name, set()).add(repr(value))


@dataclass(slots=True)
class RequestAttempts:
    """The state of one request with its retries: chooses the next form, and records the outcome of each try."""

    record: Capabilities
    parameters: Parameters
    level: str = "off"
    """How long the model can think."""
    limit: int = 0
    """The most tokens of the answer without thoughts. A rejection lowers it, down to the call site's limit."""
    extra: dict[str, Sequence[object]] = field(default_factory=dict)
    """Further optional parameters, each with the values to try, the best first.

    A parameter is dropped after all its values were rejected. If one parameter for log probabilities is dropped, all of
    them are dropped."""
    size: int = 0
    """The number of characters of the longest prompt."""
    tries: int = 0
    _place: int = 0
    _unnamed_at: int = -1
    """The index of the form that was rejected without a reason."""
    _bare: bool = False
    """Whether all optional parameters are left out."""
    _switched: bool = False
    """Whether this request has already changed the key for the token limit."""
    _unchecked: bool = False
    """Whether only this request leaves out the constraint, because the model's JSON failed."""
    _most_allowance: int = _MOST_ALLOWANCE

    def plan(self) -> RequestPlan:
        """Return the parameters to send next, by the present knowledge."""
        record, parameters = self.record, self.parameters
        self.tries += 1
        ladder = record.forms(parameters.constraint)
        place = min(max(self._place, record.form_index(parameters.constraint)), len(ladder) - 1)
        step_place, step = record.step(self.level)
        if self._bare:
            step_place, step = len(record.steps(self.level)) - 1, ThinkingLevel((), step.effort)
        form, allowance = ladder[place], self._allowed(step)
        body = {} if self._bare else self._optional()
        if "thinking" in dict(step.body) and step.effort != "none":
            body.pop("temperature", None)  # Anthropic accepts only the default temperature with `thinking`
        tokens = max(self.limit, parameters.max_tokens) + form.more_tokens + allowance
        return RequestPlan(
            body, form, place, step, step_place, tokens, allowance, self._bare, record.no_system, record.tokens_key
        )

    def _optional(self) -> dict[str, Any]:
        """Return the optional parameters, without those that were rejected."""
        wanted = {name: (value,) for name, value in _sampling(self.parameters).items()} | self.extra
        body: dict[str, Any] = {}
        for name, values in wanted.items():
            taken = [value for value in values if self.record.supports(name, value)]
            body |= {name: taken[0]} if taken else {}
        probabilities = {name for name in wanted if name.endswith("logprobs")}
        if not probabilities <= body.keys():
            body = {name: value for name, value in body.items() if name not in probabilities}
        return body

    def refused(self, plan: RequestPlan, refusal: Refusal) -> bool:
        """Learn from a rejection; return whether there is another form to try."""
        if self.tries >= MOST_TRIES:
            return False
        if not plan.folded and self.record.chat and _NO_SYSTEM.search(refusal.text):
            self.record.no_system = True
            return True
        if plan.form.body and _NO_JSON.search(refusal.text):
            self._place, self._unchecked = len(self.record.forms(self.parameters.constraint)) - 1, True
            return self._place > plan.place
        if self._other_tokens(plan, refusal):
            return True
        named = self._named(plan, refusal)
        return self._unnamed(plan, refusal) if named is None else named

    def _other_tokens(self, plan: RequestPlan, refusal: Refusal) -> bool:
        # The length is checked first, because vLLM's error for a long prompt names both keys. The key changes only
        # once, because a second change would restore the rejected key.
        if _LENGTH.search(refusal.text) and self._shorter(plan):
            return True
        if self._switched:
            left_out = plan.tokens_key if _is_unknown(refusal, plan.tokens_key) else ""
            self.record.tokens_key = "" if left_out else self.record.tokens_key
            return left_out != ""
        key = self._other_key(plan.tokens_key, refusal)
        if key is None:
            return False
        # Another request can have changed the key since this one was sent.
        self._switched, self.record.tokens_key = True, key
        return True

    def _other_key(self, sent: str, refusal: Refusal) -> str | None:
        """Return the other key for the token limit if the rejection is about the key that was sent."""
        text = refusal.text
        other = "max_tokens" if sent == "max_completion_tokens" else "max_completion_tokens"
        if not sent or not (self.record.chat or sent == "max_completion_tokens"):
            return None
        if "max_tokens" in text and "max_completion_tokens" in text:
            # The key that the endpoint suggests is the key that was not sent.
            mine = re.search(rf"use '?\W?{sent}|instead of '?\W?{other}", text)
            if mine is None and refusal.parameter in {"", "max_tokens", "max_completion_tokens"}:
                return other
        if sent == "max_completion_tokens":
            return other if refusal.names(sent) else None
        return other if "max_completion_tokens" in text or _is_unknown(refusal, sent) else None

    def _shorter(self, plan: RequestPlan) -> bool:
        """Lower the tokens for thoughts, or else the answer's limit, because the context is too small.

        The answer's limit stays at least that of the call site.
        """
        if plan.allowance:
            self._most_allowance = plan.allowance // 2
            return True
        shorter = max(self.parameters.max_tokens, self.limit // 4)
        found, self.limit = shorter < self.limit, min(self.limit, shorter)
        return found

    def _named(self, plan: RequestPlan, refusal: Refusal) -> bool | None:
        """Drop the parameter that a rejection names; return whether to retry, or None if it names no sent parameter."""
        record, constraint = self.record, self.parameters.constraint
        if plan.form.body and (refusal.names(*plan.form.body) or _WORDS_OF_FORMS.search(refusal.text)):
            record.give_up(constraint, plan.place, alone=_SCHEMA.search(refusal.text) is not None)
            return plan.place + 1 < len(record.forms(constraint))
        thinking = dict(plan.step.body)
        if thinking and (refusal.names(*thinking, "reasoning", "thinking", "effort", "enable_thinking")):
            record.next_step(self.level, plan.step_place)
            return True
        for name, value in plan.body.items():
            if not refusal.names(name):
                continue
            if isinstance(value, float) and value > 1 and _RANGE.search(refusal.text):
                return False  # the value is out of range: the user who chose it gets the error
            # An endpoint that rejects a number of log probabilities can accept a smaller number.
            lower = "top_logprobs" if name == "logprobs" and "top_logprobs" in plan.body else name
            record.refuse(lower, plan.body[lower])
            return True
        return None

    def _unnamed(self, plan: RequestPlan, refusal: Refusal) -> bool:
        """Try the next form of the constraint; then omit all optional parameters if no request was ever accepted."""
        record, constraint = self.record, self.parameters.constraint
        if plan.place < record.form_index(constraint):
            return True  # meanwhile, other requests have found that the endpoint rejects this form
        if refusal.parameter or record.knows(constraint):
            return False  # the endpoint rejects the prompt
        if plan.place + 1 < len(record.forms(constraint)):
            self._place, self._unnamed_at = plan.place + 1, plan.place
            return True
        if not record.accepted and not self._bare and (plan.step.body or constraint is None) and plan.body:
            self._bare = True
            return True
        return False

    def accepted(self, plan: RequestPlan) -> None:
        """Record the form after it worked: before that, the prompt could have been the cause of the rejections."""
        record, constraint = self.record, self.parameters.constraint
        unnamed, self._unnamed_at = self._unnamed_at, -1
        if 0 <= unnamed < plan.place:
            if record.took(constraint, unnamed):
                return  # the form works for other prompts, so this prompt was the cause
            record.give_up(constraint, unnamed)
        if plan.bare:
            for name, value in self._optional().items():
                record.refuse(name, value)
            record.next_step(self.level, len(record.steps(self.level)) - 2)
        if not self._unchecked:
            record.accept(constraint, plan.place)
        if self._most_allowance < _MOST_ALLOWANCE:
            record.has_room(self.size, plan.allowance)

    def read(self, plan: RequestPlan, answer: EndpointAnswer, usage: Usage) -> tuple[EndpointAnswer, bool]:
        """Return an answer without its thoughts in the format of its constraint, and whether to ask again."""
        answer = without_reasoning(answer, thinks=self.record.reasons or self.level != "off")
        self._note_thinking(plan, answer, usage)
        if not answer.text and answer.finish_reason == "length":
            return answer, self._grow(plan)
        if answer.text is None or self.parameters.constraint is None:
            return answer, False
        found = read_constrained(answer.text, self.parameters.constraint, wrapped=plan.form.wrapped)
        ignored = plan.form.enforced and answer.finish_reason != "length" and not _as_told(answer.text, found, plan)
        self.record.note(self.parameters.constraint, plan.place, ignored=ignored)
        if found is not None:
            return replace(answer, text=found), False
        self._place = plan.place + 1
        further = self._place < len(self.record.forms(self.parameters.constraint))
        return answer, ignored and further and self.record.chat and self.tries < MOST_TRIES

    def _note_thinking(self, plan: RequestPlan, answer: EndpointAnswer, usage: Usage) -> None:
        record = self.record
        if not (answer.reasoning or usage.reasoning_tokens):
            return
        if not record.reasons:
            record.reasons = True
        elif self.level == "off" and "chat_template_kwargs" in dict(plan.step.body):
            record.next_step("off", plan.step_place)  # the endpoint ignores these keys

    def _grow(self, plan: RequestPlan) -> bool:
        """Raise the tokens for thoughts, which left none for the answer; return whether to ask again."""
        record = self.record
        if self.tries >= MOST_TRIES or not record.chat:
            return False
        if self._allowed(plan.step) > plan.allowance:
            return True  # another request has raised them meanwhile
        record.allowance = min(max(2 * plan.allowance, _FIRST_ALLOWANCE), _MOST_ALLOWANCE)
        return self._allowed(record.step(self.level)[1]) > plan.allowance

    def _allowed(self, step: ThinkingLevel) -> int:
        return min(self.record.allowed(step, self.size), self._most_allowance)


def _is_unknown(refusal: Refusal, key: str) -> bool:
    """Return whether an endpoint does not know a key; a value out of range is another reason."""
    return bool(key) and refusal.names(key) and _UNKNOWN.search(refusal.text) is not None


def _sampling(parameters: Parameters) -> dict[str, Any]:
    """Return the sampling parameters; `top_p` and `seed` only where they are set."""
    given = {"top_p": None if parameters.top_p == 1.0 else parameters.top_p, "seed": parameters.seed}
    return {"temperature": parameters.temperature} | {name: one for name, one in given.items() if one is not None}


def without_reasoning(answer: EndpointAnswer, *, thinks: bool = True) -> EndpointAnswer:
    """Return an answer with its thoughts in `reasoning`; an answer that ends inside its thoughts has no text.

    For a model that is not known to think, only marks that people do not write themselves count as marks of a thought.
    """
    if not answer.text:
        return answer
    split = split_reasoning(answer.text, careful=not thinks)
    if not split.reasoning and split.answer == answer.text:
        return answer
    thought = "\n".join(filter(None, (answer.reasoning, split.reasoning)))
    if split.closed:
        return replace(answer, text=split.answer, reasoning=thought)
    reason = answer.finish_reason
    cut = " within max_tokens" if reason == "length" else ""
    return replace(answer, text=None, error=f"the model did not end its thoughts{cut}", reasoning=thought)


def _as_told(text: str, found: str | None, plan: RequestPlan) -> bool:
    """Return whether an endpoint that knows the form's keys can return a text: only the answer, or only JSON."""
    if found is None:
        return False
    stripped = text.strip()
    return stripped.startswith("{") if plan.form.wrapped else stripped[:1] in {"{", "["} or stripped == found.strip()
