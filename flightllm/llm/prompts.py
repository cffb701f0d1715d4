"""From prompt text to the model's tokens."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from flightllm.errors import ConfigError, MissingExtraError
from flightllm.llm.formats import messages, one_text
from flightllm.resources import demo_model


class PromptEncoder:
    """A model's tokenizer and chat template. Thread-safe once built.

    `model` is its folder, or a hub name, of which only the tokenizer is fetched. Without `chat` prompts are taken as
    they are, also where there is a template.
    """

    def __init__(self, model: Path | str, *, chat: bool = True) -> None:
        import transformers

        hub: Any = transformers.utils.logging
        hub.disable_progress_bar()
        self.tokenizer: Any = transformers.AutoTokenizer.from_pretrained(model)
        self._templated = chat and self.tokenizer.chat_template is not None

    def encode(self, prompts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each prompt, put into the chat template as its messages where there is one."""
        if not self._templated:
            return [list(ids) for ids in self.tokenizer([one_text(prompt) for prompt in prompts]).input_ids]
        texts = [self._render(prompt) for prompt in prompts]
        return [list(ids) for ids in self.tokenizer(texts, add_special_tokens=False).input_ids]

    def continuation(self, text: str) -> list[int]:
        """Return the token ids of `text` as the start of an answer."""
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def count(self, text: str) -> int:
        """Count the tokens of `text`, without special tokens."""
        return len(self.tokenizer.encode(text, add_special_tokens=False))

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of generated token ids, without special tokens."""
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=True))

    def _render(self, prompt: str) -> str:
        said = messages(prompt) if self._takes_system else [{"role": "user", "content": one_text(prompt)}]
        return str(self.tokenizer.apply_chat_template(said, add_generation_prompt=True, tokenize=False))

    @cached_property
    def _takes_system(self) -> bool:
        """Tell whether the chat template has a place for a system message: some raise an error, some drop it."""
        word = "flightllm-system"
        said = [{"role": "system", "content": word}, {"role": "user", "content": "?"}]
        try:
            return word in str(self.tokenizer.apply_chat_template(said, add_generation_prompt=True, tokenize=False))
        except Exception:  # noqa: BLE001 - a template raises whatever it likes
            return False


def read_tokenizer(model: str, *, chat: bool) -> PromptEncoder:
    """Return the encoder of a model that runs elsewhere: `demo`, its folder or its hub name.

    Raises:
        ConfigError: there is none.
        MissingExtraError: the extra `cluster` is not installed.
    """
    try:
        return PromptEncoder(demo_model() if model == "demo" else model, chat=chat)
    except ImportError as exc:
        raise MissingExtraError(f"the tokenizer {model!r}", "cluster") from exc
    except (OSError, ValueError) as exc:  # what transformers raises for no folder, no hub, and a folder without one
        raise ConfigError(f"[engine] tokenizer: cannot read that of {model!r}: {exc}") from exc


def misfit(tokens: int, answer: int, limit: int) -> str | None:
    """Return an error text unless a prompt of `tokens` leaves room for `answer` more within the model's context."""
    if tokens == 0:
        return "the prompt is empty"
    if tokens + answer <= limit:
        return None
    return f"the prompt has {tokens:,} tokens; the model's context limit is {limit:,} with the answer (max_model_len)"
