"""Separate a thinking model's thoughts from its answer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

_TAIL: Final = 60
"""The most characters of a mark."""
_SUFFIX = r"(?::[^\s<>]+)?"


class _Block(NamedTuple):
    """The two patterns with which a family of models marks a thought."""

    opening: re.Pattern[str]
    closing: re.Pattern[str]
    bare: bool = True
    """Whether the closing mark also ends a thought that the prompt opened."""
    plain: bool = False
    """Whether people write these marks too, as in texts about a thought or in an outline."""


def _tag(name: str, suffix: str = "", *, plain: bool = False) -> _Block:
    return _marks(rf"<{name}{suffix}>", rf"</{name}{suffix}>", plain=plain)


def _marks(opening: str, closing: str, *, bare: bool = True, plain: bool = False) -> _Block:
    return _Block(re.compile(opening), re.compile(closing), bare, plain)


_BLOCKS = (
    _tag("think", _SUFFIX),
    _tag("thinking", plain=True),
    _tag("reasoning", plain=True),
    _tag("thought", plain=True),
    _tag("seed:think"),
    _tag("mm:think"),
    _marks(r"<ifm\|think(?:_fast|_faster)?>", r"</ifm\|think(?:_fast|_faster)?>"),
    _marks(r"\[THINK\]", r"\[/THINK\]"),
    _marks("◁think▷", "◁/think▷"),
    _marks(r"<\|thinking\|>", r"<\|/thinking\|>|</\|thinking\|>|<\|end_thinking\|>"),
    _marks(r"<\|START_THINKING\|>", r"<\|END_THINKING\|>"),
    _marks(r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>"),
    _marks(r"<\|inner_prefix\|>", r"<\|inner_suffix\|>"),
    _marks(r"<\|plamo:begin_think:plamo\|>", r"<\|plamo:end_think:plamo\|>"),
    _marks(r"<\|open\|>\s*think\s*<\|sep\|>", r"<\|close\|>\s*think\s*<\|sep\|>"),
    _marks(r"(?:<\|message_model\|>)?<\|content_thinking\|>", r"<\|end_message\|>"),
    _marks(r"<\|channel>(?:thought\b)?", r"<channel\|>"),
    _marks(r"(?:<\|start\|>assistant\s*)?to=self<\|message\|>", r"<\|eom\|>"),
    _marks(r"Here are my reasoning steps:", r"\[BEGIN FINAL RESPONSE\]", bare=False, plain=True),
    _marks(r"Here(?:'s| is) my thought process:", r"Here(?:'s| is) my response:", bare=False, plain=True),
)
_WRAPPERS = (
    # Some models wrap the answer that follows a thought: the start mark, and the end mark, which a cut text lacks.
    (r"<response>", r"</response>"),
    (r"<answer>", r"</answer>"),
    (r"<\|START_RESPONSE\|>", r"<\|END_RESPONSE\|>"),
    (r"<\|START_TEXT\|>", r"<\|END_TEXT\|>"),
    (r"<\|begin_of_solution\|>", r"<\|end_of_solution\|>"),
    (r"<\|open\|>\s*response\s*<\|sep\|>", r"<\|close\|>\s*response\s*<\|sep\|>(?:<\|close\|>message<\|sep\|>)?"),
    (r"(?:<\|message_model\|>)?<\|content_text\|>", r"<\|end_message\|>(?:<\|content_model_end_sampling\|>)?"),
    (r"(?:<\|start\|>assistant\s*)?to=user<\|message\|>", r"<\|eot\|>|<\|eom\|>"),
)
_WRAPPED = tuple(re.compile(rf"(?:{start})\s*(.*?)\s*(?:(?:{end})\s*)?", re.DOTALL) for start, end in _WRAPPERS)
_LAST_MARK = re.compile(r"\s*\[END FINAL RESPONSE\]\s*(?:<\|end\|>\s*)?\Z")

# The channels of gpt-oss: with their special tokens, and in a text from which the tokenizer dropped these tokens.
_HARMONY = re.compile(r"\s*(?:<\|start\|>assistant)?<\|channel\|>")
_FINAL_CHANNEL = "<|channel|>final<|message|>"
_MESSAGE = re.compile(
    r"<\|channel\|>(?P<channel>\w*)[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>(?P<body>.*?)"
    r"(?P<end><\|end\|>|<\|return\|>|<\|call\|>|(?=<\|start\|>)|(?=<\|channel\|>)|\Z)",
    re.DOTALL,
)
_BARE_HARMONY = re.compile(r"analysis(?P<thought>.*?)assistantfinal(?P<answer>.*)", re.DOTALL)
_BARE_CUT = re.compile(r"analysis(?:We|The user|User|I|Let's|Need|They)[ '].*", re.DOTALL)

_TOKENS = re.compile(
    r"</?(?:think|thinking|reasoning|thought|response|answer|seed:think|mm:think|ifm\|think\w*)" + _SUFFIX + r">"
    r"|\[/?THINK\]|◁/?think▷|<\|channel>|<channel\|>|</\|thinking\|>"
    r"|<\|(?:/?thinking|end_thinking|(?:START|END)_(?:THINKING|RESPONSE|TEXT)|(?:begin|end)_of_(?:thought|solution)"
    r"|inner_(?:prefix|suffix)|plamo:(?:begin|end)_think:plamo|open|close|sep|message_model|content_thinking"
    r"|content_text|end_message|content_model_end_sampling|eom|channel|message|constrain|start|end|return|call)\|>"
)


@dataclass(frozen=True, slots=True)
class Split:
    """An answer and the thought that precedes it; `closed` is False if the text ends inside the thought."""

    answer: str
    reasoning: str
    closed: bool


def split_reasoning(text: str, *, opened: bool = False, careful: bool = False) -> Split:
    """Split a model's text into its answer and the thought before it.

    A thought is at the start of the text, between marks such as `<think>` and `</think>`. A closing mark without an
    opening mark ends a thought that began with the text. Without a thought, the answer is the whole text, including any
    later marks. A text that ends inside its thought has an empty answer.

    With `opened`, the prompt ended with the opening mark, so the text begins inside the thought. `careful` is for
    models that are not known to think. Marks that people write too then count as text. A closing mark without an
    opening mark then ends a thought only where it has a line of its own.
    """
    harmony = _split_harmony(text, opened=opened)
    if harmony is not None:
        return harmony
    begun = text.lstrip()
    for block in _BLOCKS:
        opening = None if careful and block.plain else block.opening.match(begun)
        if opening is not None:
            return _split_block(begun[opening.end() :], block)
    return _split_opened(text) if opened else _split_lone(text, careful=careful)


def opens_reasoning(prompt: str) -> bool:
    """Return whether a prompt ends with a mark that opens a thought, so that the model's text begins inside it."""
    ended = prompt.rstrip()[-_TAIL:]
    return any(_ends_with(block.opening, ended) for block in _BLOCKS) or ended.endswith("analysis<|message|>")


def marks_reasoning(token: str) -> bool:
    """Return whether a special token is part of a thought's marks, which `split_reasoning` needs in the text."""
    return _TOKENS.fullmatch(token) is not None


def _ends_with(pattern: re.Pattern[str], text: str) -> bool:
    return any(match.end() == len(text) for match in pattern.finditer(text))


def _split_block(inside: str, block: _Block) -> Split:
    """Split a text that follows the opening mark."""
    closing = block.closing.search(inside)
    if closing is None:
        return Split("", inside.strip(), closed=False)
    thought, answer = inside[: closing.start()].strip(), inside[closing.end() :]
    while (again := block.closing.match(answer.lstrip())) is not None:  # some models end a thought twice
        answer = answer.lstrip()[again.end() :]
    if not thought:  # an empty block switches thinking off, but some models think after it
        return split_reasoning(_answer(answer))
    return Split(_answer(answer), thought, closed=True)


def _split_opened(text: str) -> Split:
    """Split a text that begins inside a thought, at the closing mark of the first family that matches."""
    for block in _BLOCKS:
        closing = block.closing.search(text)
        if closing is not None and block.bare:
            return Split(_answer(text[closing.end() :]), text[: closing.start()].strip(), closed=True)
    return Split("", text.strip(), closed=False)


def _split_lone(text: str, *, careful: bool) -> Split:
    """Split a text at a closing mark that no opening mark precedes; most texts have no such mark."""
    for block in _BLOCKS:
        closing = block.closing.search(text) if block.bare and not (careful and block.plain) else None
        if closing is not None and careful and not _stands_alone(text, closing):
            continue
        if closing is not None and block.opening.search(text, 0, closing.start()) is None:
            return Split(_answer(text[closing.end() :]), text[: closing.start()].strip(), closed=True)
    return Split(text, "", closed=True)


def _stands_alone(text: str, mark: re.Match[str]) -> bool:
    """Return whether a mark has a line of its own."""
    before, after = text[: mark.start()], text[mark.end() :]
    return (not before.strip() or before.rstrip(" ").endswith("\n")) and after.lstrip(" ")[:1] in {"\n", "", "\r"}


def _answer(text: str) -> str:
    """Return the text after a thought, without leading blanks and without the marks in which a model wraps it."""
    answer = text.lstrip()
    for wrapped in _WRAPPED:
        found = wrapped.fullmatch(answer)
        if found is not None:
            return str(found.group(1))
    return _LAST_MARK.sub("", answer)


def _split_harmony(text: str, *, opened: bool) -> Split | None:
    """Split a text of gpt-oss by its channels; None if the text has no channels."""
    if _HARMONY.match(text) is None and not (opened and _FINAL_CHANNEL in text):
        bare = _BARE_HARMONY.fullmatch(text)
        if bare is not None:
            return Split(bare.group("answer").strip(), bare.group("thought").strip(), closed=True)
        return Split("", text.removeprefix("analysis"), closed=False) if _BARE_CUT.fullmatch(text) else None
    if opened and _HARMONY.match(text) is None:
        text = f"<|channel|>analysis<|message|>{text}"
    messages = [(found.group("channel"), found.group("body").strip()) for found in _MESSAGE.finditer(text)]
    answers = [body for channel, body in messages if channel == "final"]
    thoughts = [body for channel, body in messages if channel != "final" and body]
    return Split("".join(answers), "\n".join(thoughts), closed=bool(answers))
