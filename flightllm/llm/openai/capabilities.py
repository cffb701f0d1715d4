"""What one endpoint and model turned out to take: learned from refusals and answers, so that nothing is tried twice."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from flightllm.llm.openai.answers import Answer, Usage
from flightllm.llm.openai.reading import read_constrained
from flightllm.llm.openai.wire import Form, forms
from flightllm.llm.providers import ALLOWANCES, Provider, Step, thinking_steps, thinks
from flightllm.model.engine import Choice, Constraint, JsonSchema, Parameters, Regex
from flightllm.model.reasoning import split_reasoning

MOST_TRIES = 10
"""HTTP requests that one answer can take while its endpoint is being learned."""
_MOST_KNOWN = 1_024
_RARE = 20
"""One answer in so many that does not keep to a constraint does not show that the endpoint ignores it."""
_FIRST_ALLOWANCE, _MOST_ALLOWANCE = 1_024, 16_384
_SCHEMA = re.compile(
    r"invalid schema|schema (?:is |for )|not permitted|too (?:many|complex|deep)|compil", re.IGNORECASE
)
"""What is refused is this schema, not the way to say schemas."""
_RANGE = re.compile(r"between|range|less than|at most|greater than|maximum|<=|\[0", re.IGNORECASE)
_LENGTH = re.compile(
    r"context length|context window|too large|max(?:_completion)?_tokens.{0,60}(?:exceed|at most|less|<=)",
    re.IGNORECASE,
)
_WORDS_OF_FORMS = re.compile(
    r"response_?format|json_?schema|structured_?outputs?|guided_|grammar|\bregex\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """What an endpoint said against a request: its words, and the parameter that it names, which can be empty."""

    text: str
    parameter: str = ""

    def names(self, *keys: str) -> bool:
        """Tell whether it is about one of these keys."""
        if self.parameter:
            return self.parameter.partition(".")[0].partition("[")[0] in keys
        return any(re.search(rf"(?<![a-z_]){re.escape(key)}(?![a-z_])", self.text.lower()) for key in keys)


@dataclass(frozen=True, slots=True)
class Plan:
    """What one HTTP request says beside its prompts."""

    body: dict[str, Any]
    form: Form
    place: int
    """Of the form among those of its constraint."""
    step: Step
    step_place: int
    tokens: int
    allowance: int
    bare: bool

    @property
    def options(self) -> dict[str, Any]:
        """Return all keys of the request but model and prompt."""
        return {**self.body, **dict(self.step.body), **self.form.body}


class Capabilities:
    """The record of one engine. It needs no lock: its event loop alone changes it, and calls all but `most_thought`."""

    def __init__(self, provider: Provider, model: str, *, chat: bool, constraints: bool) -> None:
        self.provider = provider
        self.model = model
        self.chat = chat
        self.constraints = constraints
        self.tokens_key = provider.tokens_key if chat else "max_tokens"
        self.refused: dict[str, set[str]] = {}
        """By parameter the values that the endpoint does not take."""
        self.reasons = thinks(model)
        """The model thinks before it answers, by its name or as was seen."""
        self.allowance = 0
        """Tokens for its thoughts, as far as answers were cut."""
        self.accepted = False
        self._rooms: dict[int, int] = {}
        """By the length of prompts, to a power of two, the most that was accepted for thoughts where more was not."""
        self._forms: dict[Constraint, list[Form]] = {}
        self._ways: dict[type, int] = {}
        self._known: OrderedDict[Constraint, int] = OrderedDict()
        """The place of the form that was accepted for a constraint."""
        self._steps: dict[str, int] = {}
        self._seen: dict[tuple[type, int], list[int]] = {}
        """By kind and form how many answers kept to the constraint, and how many did not."""

    def recognise(self, provider: Provider) -> None:
        """Take over what is known of a provider. What was learned by then was learned of the unknown one's forms."""
        self.provider = provider
        self.tokens_key = provider.tokens_key if self.chat else "max_tokens"
        self._ways.clear()
        self._known.clear()
        self._steps.clear()
        self._forms.clear()

    def forms(self, constraint: Constraint) -> list[Form]:
        """Return the forms in which a constraint can be said here, best first."""
        found = self._forms.get(constraint)
        if found is None:
            ways = {Choice: self.provider.choice, JsonSchema: self.provider.json, Regex: self.provider.regex}
            chosen = ways.get(type(constraint), ()) if self.constraints else ("words",)
            while len(self._forms) >= _MOST_KNOWN:
                del self._forms[next(iter(self._forms))]
            found = self._forms[constraint] = forms(constraint, chosen, chat=self.chat)
        return found

    def place(self, constraint: Constraint) -> int:
        """Return which of `forms(constraint)` to send next, as an index: the best one that is not given up.

        A form is given up where the endpoint refuses it, or answers as if it were not there.
        """
        return self._known.get(constraint, self._ways.get(type(constraint), 0))

    def knows(self, constraint: Constraint) -> bool:
        """Tell whether a form of this constraint was accepted."""
        return constraint in self._known

    def accept(self, constraint: Constraint, place: int) -> None:
        """Note the form that an endpoint took for a constraint."""
        self.accepted = True
        self._known[constraint] = max(place, self._known.get(constraint, 0))
        self._known.move_to_end(constraint)
        while len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)

    def give_up(self, constraint: Constraint, place: int, *, alone: bool = False) -> None:
        """Do not say constraints of this kind in the form at `place` any more; `alone`: only this constraint."""
        if alone:
            self._known[constraint] = max(place + 1, self._known.get(constraint, 0))
            return
        kind = type(constraint)
        self._ways[kind] = max(place + 1, self._ways.get(kind, 0))
        for known in [one for one, at in self._known.items() if type(one) is kind and at <= place]:
            del self._known[known]

    def note(self, constraint: Constraint, place: int, *, ignored: bool) -> None:
        """Count an answer that kept to its constraint, or not, and give up a form that an endpoint ignores."""
        seen = self._seen.setdefault((type(constraint), place), [0, 0])
        seen[ignored] += 1
        if ignored and self.chat and seen[1] * _RARE > seen[0]:
            self.give_up(constraint, place)

    def steps(self, level: str) -> list[Step]:
        """Return the ways to ask for a level of thinking; nothing is asked of a model that does not think."""
        if not self.chat or (level == "off" and not self.reasons):
            return [Step((), "none")]
        return thinking_steps(self.provider.thinking, level, self.model)

    def step(self, level: str) -> tuple[int, Step]:
        """Return which of `steps(level)` to send next, as an index and the step itself.

        That is the best one that the endpoint has not refused, or the last one, which asks for nothing.
        """
        found = self.steps(level)
        place = min(self._steps.get(level, 0), len(found) - 1)
        return place, found[place]

    def next_step(self, level: str, place: int) -> None:
        """Do not ask for a level in the way at `place` any more."""
        self._steps[level] = max(place + 1, self._steps.get(level, 0))

    def allowed(self, step: Step, size: int) -> int:
        """Return how many tokens thoughts get beside the answer's, for prompts of so many characters."""
        rooms = (most for length, most in self._rooms.items() if length <= size.bit_length())
        return min(self._allowance(step), *rooms, _MOST_ALLOWANCE)

    def most_thought(self, level: str) -> int:
        """Return how many tokens thoughts get beside the answer's at most, by all that is known now.

        Other threads than the event loop's can ask too.
        """
        return min(self._allowance(self.step(level)[1]), _MOST_ALLOWANCE)

    def _allowance(self, step: Step) -> int:
        known = ALLOWANCES.get(step.effort, 0) if self.reasons or step.body else 0
        return max(known, self.allowance)

    def has_room(self, size: int, most: int) -> None:
        """Note how many tokens for thoughts were accepted where more were refused. Longer prompts have no more room."""
        self._rooms[size.bit_length()] = most

    def takes(self, name: str, value: object) -> bool:
        """Tell whether to send a parameter with this value: yes, unless the endpoint has refused exactly that."""
        return repr(value) not in self.refused.get(name, ())

    def refuse(self, name: str, value: object) -> None:
        """Do not send a parameter with this value any more."""
        self.refused.setdefault(name, set()).add(repr(value))


@dataclass(slots=True)
class Asking:
    """One request while it is being asked: in what form next, and what its outcome teaches."""

    record: Capabilities
    parameters: Parameters
    level: str = "off"
    """How long the model can think."""
    limit: int = 0
    """Most tokens of the answer alone; where that is refused, less, down to what the call site says."""
    extra: dict[str, Sequence[object]] = field(default_factory=dict)
    """Further optional parameters of the request, each with the values to try, best first; one that is refused with
    each of them is dropped, and log probabilities all together."""
    size: int = 0
    """Characters of the longest prompt."""
    tries: int = 0
    _place: int = 0
    _unnamed_at: int = -1
    """The form that was refused without a word about what is wrong."""
    _bare: bool = False
    _switched: bool = False
    """The key for the most tokens was changed for this request."""
    _most_allowance: int = _MOST_ALLOWANCE

    def plan(self) -> Plan:
        """Return what to send next, by all that is known now."""
        record, parameters = self.record, self.parameters
        self.tries += 1
        ladder = record.forms(parameters.constraint)
        place = min(max(self._place, record.place(parameters.constraint)), len(ladder) - 1)
        step_place, step = record.step(self.level)
        if self._bare:
            step_place, step = len(record.steps(self.level)) - 1, Step((), step.effort)
        form, allowance = ladder[place], self._allowed(step)
        body = {} if self._bare else self._optional()
        if "thinking" in dict(step.body) and step.effort != "none":
            body.pop("temperature", None)  # who thinks so takes the default alone
        tokens = max(self.limit, parameters.max_tokens) + form.more_tokens + allowance
        return Plan(body, form, place, step, step_place, tokens, allowance, self._bare)

    def _optional(self) -> dict[str, Any]:
        """Return the parameters that can be left out, without those that were refused."""
        wanted = {name: (value,) for name, value in _sampling(self.parameters).items()} | self.extra
        body: dict[str, Any] = {}
        for name, values in wanted.items():
            taken = [value for value in values if self.record.takes(name, value)]
            body |= {name: taken[0]} if taken else {}
        probabilities = {name for name in wanted if name.endswith("logprobs")}
        if not probabilities <= body.keys():
            body = {name: value for name, value in body.items() if name not in probabilities}
        return body

    def refused(self, plan: Plan, refusal: Refusal) -> bool:
        """Learn from a refusal; return whether there is another form to try."""
        if self.tries >= MOST_TRIES:
            return False
        if self._other_tokens(plan, refusal):
            return True
        named = self._named(plan, refusal)
        return self._unnamed(plan, refusal) if named is None else named

    def _other_tokens(self, plan: Plan, refusal: Refusal) -> bool:
        record, text = self.record, refusal.text
        # First what is too long: vLLM names both keys in that error. A key changes once, as it cannot be both.
        if _LENGTH.search(text) and self._shorter(plan):
            return True
        if self._switched:
            return False
        key = record.tokens_key
        self._switched = self._other_key(refusal)
        return self._switched and key != record.tokens_key

    def _other_key(self, refusal: Refusal) -> bool:
        """Take the other key for the most tokens, where a refusal is about this one."""
        record, text = self.record, refusal.text
        if record.chat and "max_tokens" in text and "max_completion_tokens" in text:
            # What is told to be used instead is what was not sent.
            other = "max_tokens" if record.tokens_key == "max_completion_tokens" else "max_completion_tokens"
            mine = re.search(rf"use '?\W?{record.tokens_key}|instead of '?\W?{other}", text)
            if mine is None and refusal.parameter in {"", record.tokens_key, "max_tokens", "max_completion_tokens"}:
                record.tokens_key = other
                return True
        if record.tokens_key == "max_completion_tokens" and refusal.names("max_completion_tokens"):
            record.tokens_key = "max_tokens"
            return True
        if record.tokens_key == "max_tokens" and record.chat and "max_completion_tokens" in text:
            record.tokens_key = "max_completion_tokens"
            return True
        return False

    def _shorter(self, plan: Plan) -> bool:
        """Leave less for thoughts, or for an answer of more than its call site asks: the context has no room for it."""
        if plan.allowance:
            self._most_allowance = plan.allowance // 2
            return True
        shorter = max(self.parameters.max_tokens, self.limit // 4)
        found, self.limit = shorter < self.limit, min(self.limit, shorter)
        return found

    def _named(self, plan: Plan, refusal: Refusal) -> bool | None:
        """Drop what a refusal names; None where it names nothing that was sent."""
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
                return False  # the value is at fault, and whoever chose it is told so
            # An endpoint that refuses log probabilities can take fewer of them.
            lower = "top_logprobs" if name == "logprobs" and "top_logprobs" in plan.body else name
            record.refuse(lower, plan.body[lower])
            return True
        return None

    def _unnamed(self, plan: Plan, refusal: Refusal) -> bool:
        """Say the constraint in the next form, then leave out all that can be, where nothing was ever accepted."""
        record, constraint = self.record, self.parameters.constraint
        if refusal.parameter or record.knows(constraint):
            return False  # so it is the prompt that is refused
        if plan.place + 1 < len(record.forms(constraint)):
            self._place, self._unnamed_at = plan.place + 1, plan.place
            return True
        if not record.accepted and not self._bare and (plan.step.body or constraint is None) and plan.body:
            self._bare = True
            return True
        return False

    def accepted(self, plan: Plan) -> None:
        """Remember a form once it worked: else it was the prompt that was refused."""
        record, constraint = self.record, self.parameters.constraint
        if 0 <= self._unnamed_at < plan.place:
            record.give_up(constraint, self._unnamed_at)
            self._unnamed_at = -1
        if plan.bare:
            for name, value in self._optional().items():
                record.refuse(name, value)
            record.next_step(self.level, len(record.steps(self.level)) - 2)
        record.accept(constraint, plan.place)
        if self._most_allowance < _MOST_ALLOWANCE:
            record.has_room(self.size, plan.allowance)

    def read(self, plan: Plan, answer: Answer, usage: Usage) -> tuple[Answer, bool]:
        """Return an answer without thoughts and in the form of its constraint, and whether to ask once more."""
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

    def _note_thinking(self, plan: Plan, answer: Answer, usage: Usage) -> None:
        record = self.record
        if not (answer.reasoning or usage.reasoning_tokens):
            return
        if not record.reasons:
            record.reasons = True
        elif self.level == "off" and "chat_template_kwargs" in dict(plan.step.body):
            record.next_step("off", plan.step_place)  # the endpoint does not know these keys

    def _grow(self, plan: Plan) -> bool:
        """Leave more for thoughts, which took all that an answer had; return whether that is worth another try."""
        record = self.record
        if self.tries >= MOST_TRIES or not record.chat:
            return False
        if self._allowed(plan.step) > plan.allowance:
            return True  # another request has learned it meanwhile
        record.allowance = min(max(2 * plan.allowance, _FIRST_ALLOWANCE), _MOST_ALLOWANCE)
        return self._allowed(record.step(self.level)[1]) > plan.allowance

    def _allowed(self, step: Step) -> int:
        return min(self.record.allowed(step, self.size), self._most_allowance)


def _sampling(parameters: Parameters) -> dict[str, Any]:
    """Return how to sample; what came after the temperature is sent only where it is set."""
    given = {"top_p": None if parameters.top_p == 1.0 else parameters.top_p, "seed": parameters.seed}
    return {"temperature": parameters.temperature} | {name: one for name, one in given.items() if one is not None}


def without_reasoning(answer: Answer, *, thinks: bool = True) -> Answer:
    """Return an answer whose thoughts stand apart; one that ends in its thoughts has no text.

    Of a model that is not known to think, only marks are taken for those of a thought that nobody writes otherwise.
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


def _as_told(text: str, found: str | None, plan: Plan) -> bool:
    """Tell whether a text can come from an endpoint that knows the form's keys: the answer, or JSON, and no more."""
    if found is None:
        return False
    stripped = text.strip()
    return stripped.startswith("{") if plan.form.wrapped else stripped[:1] in {"{", "["} or stripped == found.strip()
