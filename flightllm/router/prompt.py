"""A prompt as the router sees it."""

from dataclasses import dataclass

from flightllm.router.tree import TOKEN_BYTES


@dataclass(frozen=True, slots=True)
class RoutedPrompt:
    """A prompt on its way to a replica; `tokens` is the result of `tree.pack`."""

    key: int
    """Unique among all prompts that have no answer yet."""
    tokens: bytes
    answer_tokens: int
    """The largest number of tokens that the answer can have."""
    salt: bytes = b""
    """Prompts with different salts share no prefix."""
    priority: int = 0
    """Prompts of a lower number are sent first."""

    @property
    def count(self) -> int:
        """Return the number of the prompt's tokens."""
        return len(self.tokens) // TOKEN_BYTES
