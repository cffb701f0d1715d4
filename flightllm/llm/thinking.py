"""Switch a model's thinking on or off: the arguments of its chat template, and the text after the rendered prompt."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from flightllm.llm.reasoning import opens_reasoning

UNTHINKING: Final = "off"
MODES: Final = (UNTHINKING, "low", "medium", "high")
BUDGETS: Final = MappingProxyType({"low": 512, "medium": 2048, "high": 8192})
"""The most tokens of a thought, by mode, for models whose chat template this machine renders.

For endpoints, see `providers.ALLOWANCES`.
"""
_LEAST: Final = 16
_ANCHOR: Final = 12

_Render = Callable[[Mapping[str, Any]], str]


@dataclass(frozen=True, slots=True)
class ThoughtFormat:
    """The way in which a model writes a thought: `opening`, the thought, `closing`, `bridge`, the answer.

    `mark` is the part of `opening` that all templates include. `skip` after the prompt prevents a thought.
    """

    mark: str
    opening: str
    closing: str
    bridge: str = ""
    skip: str | None = None

    @property
    def empty(self) -> str:
        """Return the text of an empty thought."""
        return f"{self.opening}\n{self.closing}{self.bridge}" if self._on_lines else self.opening + self._end

    def ended(self, prompt: str) -> str:
        """Return the text that ends the thought that a prompt opens, before the model thinks."""
        if not self._on_lines:
            return self._end
        return ("\n" if prompt.endswith("\n") else "\n\n") + self._end

    @property
    def _end(self) -> str:
        return self.closing + self.bridge

    @property
    def _on_lines(self) -> bool:
        return self.opening.endswith("\n")


def _tag(name: str) -> ThoughtFormat:
    return ThoughtFormat(f"<{name}>", f"<{name}>\n", f"</{name}>", "\n\n")


_FORMS = (
    ThoughtFormat(
        "<|channel|>analysis",
        "<|channel|>analysis<|message|>",
        "<|end|>",
        "<|start|>assistant<|channel|>final<|message|>",
        "<|channel|>final<|message|>",
    ),
    ThoughtFormat(
        " to=self<|message|>",
        " to=self<|message|>",
        "<|eom|>",
        "<|start|>assistant to=user<|message|>",
        " to=user<|message|>",
    ),
    ThoughtFormat("<|open|>think<|sep|>", "<|open|>think<|sep|>", "<|close|>think<|sep|>", "<|open|>response<|sep|>"),
    ThoughtFormat("<|channel>thought", "<|channel>thought\n", "<channel|>"),
    ThoughtFormat("<|START_THINKING|>", "<|START_THINKING|>", "<|END_THINKING|>", "<|START_RESPONSE|>"),
    ThoughtFormat("<|begin_of_thought|>", "<|begin_of_thought|>\n\n", "<|end_of_thought|>", "\n\n"),
    ThoughtFormat("<|inner_prefix|>", "<|inner_prefix|>", "<|inner_suffix|>"),
    ThoughtFormat("<|plamo:begin_think:plamo|>", "<|plamo:begin_think:plamo|>", "<|plamo:end_think:plamo|>"),
    ThoughtFormat("[THINK]", "[THINK]", "[/THINK]"),
    ThoughtFormat("◁think▷", "◁think▷", "◁/think▷"),
    _tag("seed:think"),
    _tag("mm:think"),
    _tag("think"),
    _tag("thinking"),
    _tag("thought"),
    ThoughtFormat("Here is my thought process:", "Here is my thought process:", "Here is my response:", " "),
    ThoughtFormat("Here are my reasoning steps:", "Here are my reasoning steps:\n", "[BEGIN FINAL RESPONSE]", "\n"),
)
_OPEN_TAG = re.compile(r"<([\w:|]*think[\w:|]*|thought|reasoning)>\Z")

_SWITCHES = ("enable_thinking", "thinking", "enable_reasoning", "reasoning")
_EFFORTS = ("reasoning_effort", "reasoning_strength", "thinking_effort")
_NO_EFFORTS = ("no_think", "none", "minimal", "low")
_EFFORTS_LIKE = {
    "low": ("low", "medium", "high"),
    "medium": ("medium", "high", "low"),
    "high": ("high", "xhigh", "max"),
}


@dataclass(frozen=True, slots=True)
class ThinkingRequest:
    """How to ask for one mode: the arguments of the chat template, and the text after the rendered prompt."""

    arguments: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    tail: str = ""


@dataclass(frozen=True, slots=True)
class Thinking:
    """How to ask for each mode of a model, and the form of its thoughts: None if the model does not think."""

    form: ThoughtFormat | None
    asked: Mapping[str, ThinkingRequest]


def read_thinking(template: str, render: Callable[..., str]) -> Thinking:
    """Return how to ask the model of a chat template to think; `render` takes arguments of the template.

    Where a template cannot switch thinking off, an empty thought follows the prompt, or the end of an opened thought.
    """
    arguments = {mode: _arguments(template, mode, lambda given: render(**given)) for mode in MODES}
    rendered = {mode: _rendered(render, given) for mode, given in arguments.items()}
    off, on = rendered[UNTHINKING], rendered["low"]
    form = _form_at_end(on) or _form_at_end(off) or _form_of(template)
    if form is None:
        return Thinking(None, {mode: ThinkingRequest(given) for mode, given in arguments.items()})
    tail = _no_thought(form, off, on)
    form = _as_rendered(form, off + tail, on)
    asked = {UNTHINKING: ThinkingRequest(arguments[UNTHINKING], tail)}
    for mode in MODES[1:]:
        asked[mode] = ThinkingRequest(arguments[mode], "" if opens_reasoning(rendered[mode]) else form.opening)
    return Thinking(form, asked)


def thought_room(mode: str, max_tokens: int, room: int) -> int:
    """Return how many tokens a thought can have where the context has `room` tokens for thought and answer.

    The result is 0 if there is no room for a thought.
    """
    budget = most_thought(mode, max_tokens)
    left = room - min(max_tokens, room // 2)
    return min(budget, left) if left >= _LEAST else 0


def most_thought(mode: str, max_tokens: int) -> int:
    """Return the most tokens of a thought in a mode; 0 in `off`. A large `max_tokens` raises this limit too."""
    return max(BUDGETS[mode], max_tokens) if mode in BUDGETS else 0


def no_room_to_think(room: int) -> str:
    """Return the error of a row whose prompt leaves `room` tokens of the context."""
    return f"the prompt leaves the model {max(0, room)} tokens to think and to answer: write reasoning => 'off'"


def unfinished_thought(tokens: int) -> str:
    """Return the error of a row whose model was still thinking after `tokens` tokens."""
    return (
        f"the model was still thinking after {tokens:,} tokens, without an answer: write reasoning => 'off', or a"
        " larger max_tokens"
    )


def open_thought() -> str:
    """Return the error of a row whose answer is the beginning of a thought, although thinking was off."""
    return "the model thought instead of answering, until max_tokens: write a larger max_tokens"


def _names(template: str, name: str) -> bool:
    """Return whether a template reads a variable of this name; a message's field of this name does not count."""
    return re.search(rf"(?<![\w.'\"]){name}(?![\w'\"])", template) is not None


def _arguments(template: str, mode: str, render: _Render) -> Mapping[str, Any]:
    """Return the arguments for a template in a mode: the first candidates with which the template renders."""
    for given in _candidates(template, mode):
        try:
            render(given)
        except Exception:  # noqa: BLE001, S112 - templates can raise any exception; the next candidates are tried
            continue
        return MappingProxyType(given)
    return MappingProxyType({})


def _candidates(template: str, mode: str) -> Iterator[dict[str, Any]]:
    on = mode != UNTHINKING
    plain: dict[str, Any] = {name: on for name in _SWITCHES if _names(template, name)}
    if _names(template, "thinking_budget"):
        plain["thinking_budget"] = BUDGETS[mode] if on else 0
    if _names(template, "thinking_mode") and re.search(r"['\"]disabled['\"]", template):
        plain["thinking_mode"] = "enabled" if on else "disabled"
    efforts = [name for name in _EFFORTS if _names(template, name)]
    if efforts:
        known = [word for word in _NO_EFFORTS if re.search(rf"['\"]{word}['\"]", template)]
        for word in _EFFORTS_LIKE[mode] if on else (*known, "low"):
            yield plain | dict.fromkeys(efforts, word)
    yield plain
    yield {}


def _rendered(render: Callable[..., str], arguments: Mapping[str, Any]) -> str:
    try:
        return render(**arguments)
    except Exception:  # noqa: BLE001 - rendering a real prompt reports the error
        return ""


def _form_of(template: str) -> ThoughtFormat | None:
    return next((form for form in _FORMS if form.mark in template), None)


def _form_at_end(prompt: str) -> ThoughtFormat | None:
    """Return the form of the thought that a rendered prompt opens."""
    ended = prompt.rstrip()
    if not opens_reasoning(ended):
        return None
    for form in _FORMS:
        if ended.endswith(form.mark):
            return form
    tag = _OPEN_TAG.search(ended)
    return None if tag is None else _tag(tag.group(1))


def _no_thought(form: ThoughtFormat, off: str, on: str) -> str:
    """Return the text after the prompt that keeps the model from thinking."""
    if form.skip is not None:
        return form.skip
    if opens_reasoning(off):
        return form.ended(off)
    ended = off.rstrip()
    closed = ended.endswith(form.closing) or (form.bridge.strip() and ended.endswith(form.bridge.strip()))
    # Where the modes render differently, the template itself switches thinking off.
    return "" if closed or off != on else form.empty


def _as_rendered(form: ThoughtFormat, off: str, on: str) -> ThoughtFormat:
    """Return the form with the template's own line breaks, where the template shows an empty thought."""
    before, closing, bridge = off[-200:].rpartition(form.closing)
    if not closing or form.skip is not None:
        return form
    anchor = on[-_ANCHOR:]
    lead, found, opened = before.rpartition(anchor)
    del lead
    if not found or form.mark not in opened:
        return replace(form, bridge=bridge)
    start, mark, rest = opened.partition(form.mark)
    return replace(form, opening=start + mark + ("\n" if rest.startswith("\n") else ""), bridge=bridge)
