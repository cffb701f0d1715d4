"""The base of engines that load their model on this machine."""

from collections.abc import Sequence
from dataclasses import replace

from flightllm.llm.engine import Completion, Request
from flightllm.llm.thinking import open_thought
from flightllm.llm.tokenizer import PromptEncoder


class LoadedEngine:
    """The base of an engine of one model, with that model's tokenizer.

    The constructor of an engine sets the attributes below.
    """

    _name: str
    _encoder: PromptEncoder
    _limit: int
    """The most tokens of a prompt together with its answer."""

    @property
    def name(self) -> str:
        """Return the engine kind and model."""
        return self._name

    @property
    def context_tokens(self) -> int:
        """Return how many tokens a prompt can have together with its answer."""
        return self._limit

    def count_tokens(self, text: str) -> int:
        """Count the tokens of `text`, without special tokens."""
        return self._encoder.count(text)

    def token_ids(self, prompts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of each prompt as the model gets it, chat template and special tokens included."""
        return self._encoder.encode(prompts)

    def _without_thought(
        self, request: Request, completion: Completion, ids: Sequence[int], thought: Sequence[int] = ()
    ) -> Completion:
        """Return a completion without the thought of a thinking model; under a constraint there is no thought.

        `ids` are the tokens of the completion, and `thought` the tokens of a thought that the prompt already had.
        """
        if self._encoder.form is None or request.parameters.constraint is not None:
            return completion
        split = self._encoder.answer(ids, thought)
        if not split.closed:
            return replace(completion, text=None, error=open_thought())
        return replace(completion, text=split.answer)
