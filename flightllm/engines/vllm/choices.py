"""Answer a choice with a single token, where the first token of an answer already tells the option."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final

import structlog

from flightllm.common.newest import Newest
from flightllm.llm.engine import Choice, Parameters
from flightllm.llm.tokenizer import PromptEncoder

_log = structlog.get_logger(__name__)

_MOST_TOKENS: Final = 1_024
"""The most allowed tokens that vLLM takes with one request."""
_KEPT: Final = 256
"""How many choices are kept with their tokens."""


@dataclass(frozen=True, slots=True)
class FirstTokens:
    """The tokens with which an answer can begin, as a grammar of the options would allow them.

    An example with the options `neutral` and `negative`:

    | token | `spelled` | `options` |
    |---|---|---|
    | 7 | `neutral` | `neutral` |
    | 8 | `negative` | `negative` |
    | 9 | `neg` | `negative` |
    | 10 | `ne` | |

    The token 10 is shared: it can begin both options. After a shared token, the answer needs the grammar.
    """

    spelled: Mapping[int, bytes]
    """All tokens, with their texts."""
    options: Mapping[int, str]
    """The tokens that can begin only one option, with this option."""

    @property
    def exact(self) -> bool:
        """Return whether each token begins only one option."""
        return len(self.options) == len(self.spelled)


_UNKNOWN: Final = FirstTokens({}, {})
"""Stands for a choice whose tokens are not computed yet."""


def first_tokens(
    options: Sequence[str], spelled: Mapping[int, bytes], usual: Iterable[int | None]
) -> FirstTokens | None:
    """Return the first tokens of a choice; None if a single token cannot tell the options apart.

    `spelled` are the tokens that can begin an answer, with their texts. `usual` is the token with which the tokenizer
    begins each option by itself. An option whose usual token is not in `spelled` counts with its longest token: some
    tokenizers put a space before the first word of a text.
    """
    if not spelled or len(spelled) > _MOST_TOKENS:
        return None
    names = {option: option.encode() for option in options}
    begun = {
        token: [one for one, name in names.items() if text and name.startswith(text)] for token, text in spelled.items()
    }
    option_of = {token: found[0] for token, found in begun.items() if len(found) == 1}
    for option, token in zip(options, usual, strict=True):
        likely = token if token is not None and token in spelled else _longest(names[option], spelled)
        if option_of.get(likely) != option:
            return None
    return FirstTokens(spelled, option_of)


def _longest(name: bytes, spelled: Mapping[int, bytes]) -> int:
    """Return the longest token with which an option can begin; -1 without such a token."""
    fitting = [token for token, text in spelled.items() if text and name.startswith(text)]
    return max(fitting, key=lambda token: len(spelled[token]), default=-1)


def suits(found: FirstTokens, parameters: Parameters) -> bool:
    """Return whether a single token gives the answers that the grammar gives.

    A shared token is drawn again under the grammar. Without a seed, the second draw is another one, so the options
    with shared tokens would get too few answers.
    """
    return found.exact or parameters.temperature == 0.0 or parameters.seed is not None


class FirstTokenTables:
    """The first tokens of the choices of one model, computed once for each choice. Thread-safe.

    `vocabulary` is the number of tokens that the model can write. `guided` tells whether vLLM compiles grammars with
    the library that lists the tokens. With another library, a single token answers only where no token is shared.
    """

    def __init__(self, encoder: PromptEncoder, vocabulary: int, *, guided: bool = True) -> None:
        self._encoder = encoder
        self._vocabulary = vocabulary
        self._guided = guided
        self._failed = False
        self._lock = Lock()
        self._known = Newest[Choice, FirstTokens | None](_KEPT)
        self._spell: Callable[[Choice], Mapping[int, bytes]] | None = None

    def of(self, parameters: Parameters) -> FirstTokens | None:
        """Return the first tokens of the parameters' choice; None if its answers need the grammar."""
        choice = parameters.constraint
        if not isinstance(choice, Choice):
            return None
        found = self._known.get(choice, _UNKNOWN)  # once, because another thread can drop the choice meanwhile
        if found is _UNKNOWN:
            found = self._read(choice)
        if found is None or not (found.exact or self._guided):
            return None
        return found if suits(found, parameters) else None

    def _read(self, choice: Choice) -> FirstTokens | None:
        with self._lock:
            if choice not in self._known:
                self._known[choice] = self._try(choice)
            return self._known[choice]

    def _try(self, choice: Choice) -> FirstTokens | None:
        """Return the first tokens of a choice; None, with a warning the first time, where their computation fails."""
        try:
            return self._compute(choice)
        except Exception as exc:  # noqa: BLE001 - the libraries raise many types of errors; the grammar can answer
            if not self._failed:
                _log.warning("first_tokens_failed", error=type(exc).__name__)
            self._failed = True
            return None

    def _compute(self, choice: Choice) -> FirstTokens | None:
        if not choice.options or "" in choice.options:
            return None
        if self._spell is None:
            self._spell = _speller(self._encoder.tokenizer, self._vocabulary)
        begun = [self._encoder.continuation(option)[:1] for option in choice.options]
        return first_tokens(choice.options, self._spell(choice), [ids[0] if ids else None for ids in begun])


def _speller(tokenizer: Any, vocabulary: int) -> Callable[[Choice], Mapping[int, bytes]]:
    """Return a function that lists the tokens that can begin a choice's answers, with their texts.

    The library is the one with which vLLM's backend `guidance` compiles grammars. The function lists nothing for
    tokenizers that the library does not know, and on machines without the library.
    """
    import numpy as np

    try:
        import llguidance
        import llguidance.hf

        known = llguidance.hf.from_tokenizer(tokenizer, n_vocab=max(vocabulary, len(tokenizer)))
    except Exception:  # noqa: BLE001 - the library refuses tokenizers with many types of errors
        return lambda _: {}

    def spell(choice: Choice) -> Mapping[int, bytes]:
        pattern = "|".join(re.escape(option) for option in choice.options)
        matcher = llguidance.LLMatcher(known, llguidance.LLMatcher.grammar_from_regex(pattern))
        if matcher.is_error():
            return {}
        packed = np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8)
        allowed = np.flatnonzero(np.unpackbits(packed, bitorder="little")[:vocabulary])
        return {token: known.decode_bytes([token]) for token in allowed.tolist()}

    return spell
