"""Encode prompts as the model's tokens, and decode generated tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from flightllm.common.cached import cached_property
from flightllm.common.package_data import demo_model
from flightllm.errors import ConfigError, MissingExtraError
from flightllm.llm.prompt_formats import messages, one_text
from flightllm.llm.reasoning import Split, marks_reasoning, split_reasoning
from flightllm.llm.thinking import MODES, UNTHINKING, Thinking, ThinkingRequest, ThoughtFormat, read_thinking

_PROBE: Final = "Is it so?"
_WORD: Final = "flightllm-system"
_PROBES: Final = (
    "",
    " ",
    "Is it so?",
    " Leading and  double spaces\n\n\tand tabs ",
    "e\u0301 é 日本語 \U0001f600 <s></s>",
    "ÀB" * 2_000,
    "<|im_start|>user\nHi<|im_end|>",
    "[INST] x [/INST] <unk><pad> <bos>",
    "1234567 0x1F don't I'LL",
)
"""Texts for which tokenizers differ most: spaces, accents, special tokens, lengths."""
_CONTEXT: Final = 8
"""The tokens before an answer that can change how its first word is decoded."""
_LONGEST_MARK: Final = 40
"""The most tokens of a closing mark."""


class PromptEncoder:
    """A model's tokenizer and chat template. Thread-safe once built.

    `model` is the model's folder, or a hub name, from which only the tokenizer is downloaded. Without `chat`, prompts
    are not put into the chat template. `reasoning` is the mode of prompts that do not set a mode.
    """

    def __init__(self, model: Path | str, *, chat: bool = True, reasoning: str | None = None) -> None:
        import transformers

        hub: Any = transformers.utils.logging
        hub.disable_progress_bar()
        self.tokenizer: Any = transformers.AutoTokenizer.from_pretrained(model)
        self._templated = chat and self.tokenizer.chat_template is not None
        self._default = reasoning or UNTHINKING
        self._thinking = Thinking(None, {mode: ThinkingRequest() for mode in MODES})
        if self._templated:
            self._thinking = read_thinking(_text(self.tokenizer.chat_template), partial(self._render, _PROBE))
        self._fast: Any = _tokenizer_below(self.tokenizer)  # here, because it can change the tokenizer's settings

    @property
    def form(self) -> ThoughtFormat | None:
        """Return the form of the model's thoughts, or None for a model that does not think."""
        return self._thinking.form

    @property
    def revision(self) -> str:
        """Return the part of the model's revision about its thinking; empty for a model that does not think."""
        return "" if self.form is None else f" reasoning={self._default}"

    def mode(self, reasoning: str | None) -> str:
        """Return the thinking mode of a prompt that asks for `reasoning`; `off` for a model that does not think."""
        return UNTHINKING if self.form is None else reasoning or self._default

    def encode(self, prompts: Sequence[str], reasoning: str | None = None) -> list[list[int]]:
        """Return the token ids of each prompt, rendered with the model's chat template, if it has a template.

        With `reasoning` other than `off`, the ids end where the thought of a thinking model begins.
        """
        if not self._templated:
            return self._ids([one_text(prompt) for prompt in prompts], special=True)
        asked = self._thinking.asked[reasoning or self._default]
        texts = [self._render(prompt, **asked.arguments) + asked.tail for prompt in prompts]
        return self._ids(texts, special=False)

    def _ids(self, texts: Sequence[str], *, special: bool) -> list[list[int]]:
        if self._fast is not None:
            return [one.ids for one in self._fast.encode_batch_fast(texts, add_special_tokens=special)]
        return _wrapped_ids(self.tokenizer, texts, special=special)

    def continuation(self, text: str) -> list[int]:
        """Return the token ids of `text` as the start of an answer."""
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def count(self, text: str) -> int:
        """Count the tokens of `text`, without special tokens."""
        return len(self.tokenizer.encode(text, add_special_tokens=False))

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of generated token ids, without special tokens."""
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=True))

    @property
    def decodes_at_once(self) -> bool:
        """Return whether `written` can decode an answer."""
        return self._fast is not None

    def written(self, ids: Sequence[int], prompt: Sequence[int]) -> str | None:
        """Return the text of token ids that a model wrote after a prompt's, without special tokens.

        An incomplete character at the end is left out. Return None for a tokenizer that cannot decode at once.
        """
        if self._fast is None:
            return None
        if not ids:
            return ""
        try:
            text = _stream(prompt[-_CONTEXT:]).step(self._fast, list(ids))
        except Exception:  # noqa: BLE001 - the library has no type of its own for texts that it cannot continue
            text = None
        # Without a text, the last character is incomplete, or there are only special tokens. With this character, a
        # wrong byte can have changed the text before the byte.
        return "".join(self._steps(ids, prompt)) if text is None or "\ufffd" in text else str(text)

    def _steps(self, ids: Sequence[int], prompt: Sequence[int]) -> Iterator[str]:
        """Yield the texts of token ids one by one, as vLLM does.

        A tokenizer with tokens of single bytes can decode `😀` otherwise after a wrong byte. The library then raises an
        error at each further token, so the stream begins again.
        """
        stream = _stream(prompt[-_CONTEXT:])
        for one in ids:
            try:
                yield stream.step(self._fast, one) or ""
            except (OverflowError, TypeError):  # no token has this number
                continue
            except Exception:  # noqa: BLE001 - as above
                stream = _stream(())
                yield stream.step(self._fast, one) or ""

    def decode_marks(self, ids: Sequence[int]) -> str:
        """Return the text of generated token ids, without the special tokens that do not mark a thought."""
        dropped = self._dropped
        return str(self.tokenizer.decode([one for one in ids if one not in dropped], skip_special_tokens=False))

    def answer(self, ids: Sequence[int], thought: Sequence[int] = ()) -> Split:
        """Split the token ids that a thinking model generated into its answer and its thought, both as texts.

        `thought` holds the token ids of a thought that was generated before, and has ended. Without `thought`, `ids`
        can begin with a thought.
        """
        written = list(ids)
        while written and written[-1] in self._special:
            written.pop()
        if not thought or self.form is None:
            return split_reasoning(self.decode_marks(written))
        return split_reasoning(self.form.opening + self.decode_marks([*thought, *written]))

    @cached_property
    def closing_token(self) -> int | None:
        """The token that ends a thought; None if the closing mark has several tokens."""
        ids = [] if self.form is None else self.continuation(self.form.closing)
        return ids[0] if len(ids) == 1 else None

    def ends_thought(self, ids: Sequence[int]) -> bool:
        """Return whether the closing mark is among the last tokens of a thought."""
        if self.form is None or self.closing_token is not None:
            return self.closing_token in ids[-1:]
        return self.form.closing in self.decode_marks(ids[-_LONGEST_MARK:])

    def ended_thought(self, ids: Sequence[int]) -> list[int]:
        """Return the tokens of a thought, its closing mark and the bridge to the answer."""
        form = self.form
        if form is None:
            return list(ids)
        thought = list(ids)
        while thought and thought[-1] in self._special and thought[-1] != self.closing_token:
            thought.pop()  # an end-of-text token ends the thought too
        if self.closing_token is None:
            text, _, _ = self.decode_marks(thought).partition(form.closing)
            return self.continuation(text + form.closing + form.bridge)
        closed = self.ends_thought(thought)
        return [*thought, *self.continuation(form.bridge if closed else form.closing + form.bridge)]

    @cached_property
    def _special(self) -> frozenset[int]:
        return frozenset(self.tokenizer.all_special_ids)

    @cached_property
    def _dropped(self) -> frozenset[int]:
        return frozenset(
            one for one in self._special if not marks_reasoning(str(self.tokenizer.convert_ids_to_tokens(one)))
        )

    def _render(self, prompt: str, **arguments: Any) -> str:
        said = messages(prompt) if self._takes_system else [{"role": "user", "content": one_text(prompt)}]
        return self._filled(said, **arguments)

    @cached_property
    def _takes_system(self) -> bool:
        """Return whether the chat template renders a system message: some raise an error, some drop the message."""
        try:
            return _WORD in self._filled([{"role": "system", "content": _WORD}, {"role": "user", "content": _PROBE}])
        except Exception:  # noqa: BLE001 - a template can raise any exception
            return False

    def _filled(self, said: Sequence[Mapping[str, str]], **arguments: Any) -> str:
        template = self.tokenizer.apply_chat_template
        return str(template(list(said), add_generation_prompt=True, tokenize=False, **arguments))


def _wrapped_ids(tokenizer: Any, texts: Sequence[str], *, special: bool) -> list[list[int]]:
    return [list(ids) for ids in tokenizer(list(texts), add_special_tokens=special, verbose=False).input_ids]


def _tokenizer_below(tokenizer: Any) -> Any:
    """Return the tokenizer below transformers' wrapper, which takes half the time; None where the tokens differ."""
    fast: Any = getattr(tokenizer, "backend_tokenizer", None)
    if not hasattr(fast, "encode_batch_fast"):
        return None
    for special in (True, False):
        try:
            expected = _wrapped_ids(tokenizer, _PROBES, special=special)  # this also turns cutting and padding off
        except Exception:  # noqa: BLE001 - some tokenizers cannot encode all probes, and libraries raise many types
            return None
        if expected != [one.ids for one in fast.encode_batch_fast(_PROBES, add_special_tokens=special)]:
            return None
    return fast


def _stream(before: Sequence[int]) -> Any:
    from tokenizers.decoders import DecodeStream

    return DecodeStream(ids=list(before), skip_special_tokens=True)


def _text(template: Any) -> str:
    """Return the text of a chat template; of several templates, the default one."""
    return str(template.get("default", "")) if isinstance(template, dict) else str(template)


def read_tokenizer(model: str, *, chat: bool) -> PromptEncoder:
    """Return the encoder of a model that runs elsewhere; `model` is `demo`, a folder or a hub name.

    Raises:
        ConfigError: the model has no readable tokenizer.
        MissingExtraError: the extra `cluster` is not installed.
    """
    try:
        return PromptEncoder(demo_model() if model == "demo" else model, chat=chat)
    except ImportError as exc:
        raise MissingExtraError(f"the tokenizer {model!r}", "cluster") from exc
    except (OSError, ValueError) as exc:  # transformers: folder missing, hub out of reach, no tokenizer in the folder
        raise ConfigError(f"[engine] tokenizer: cannot read the tokenizer of {model!r}: {exc}") from exc


def misfit(tokens: int, answer: int, limit: int) -> str | None:
    """Return an error text unless a prompt of `tokens` leaves room for `answer` more within the model's context."""
    if tokens == 0:
        return "the prompt is empty"
    if tokens + answer <= limit:
        return None
    return f"the prompt has {tokens:,} tokens; the model's context limit is {limit:,} with the answer (max_model_len)"
