"""The base of engines that load their model on this machine."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from flightllm.engines.extras import EngineExtras
from flightllm.llm.engine import Completion, Request
from flightllm.llm.thinking import open_thought
from flightllm.llm.tokenizer import PromptEncoder


class LoadedEngine(EngineExtras):
    """The base of an engine of one model, with that model's tokenizer.

    The constructor of an engine sets the attributes below.
    """

    _name: str
    _encoder: PromptEncoder
    _limit: int
    """The most tokens of a prompt together with its answer."""

    has_tokenizer = True

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

    def _encode(self, requests: Sequence[Request]) -> list[tuple[Request, list[int] | str]]:
        """Return each request with the tokens of its prompt, or with the reason why the prompt has no tokens."""
        found: dict[int, list[int] | str] = {}
        alike: dict[str, list[int]] = defaultdict(list)
        for place, request in enumerate(requests):
            alike[self._encoder.mode(request.parameters.reasoning)].append(place)
        for mode, places in alike.items():
            found |= zip(places, self._encode_alike([requests[place].prompt for place in places], mode), strict=True)
        return [(request, found[place]) for place, request in enumerate(requests)]

    def _encode_alike(self, prompts: Sequence[str], mode: str) -> Sequence[list[int] | str]:
        try:
            return self._encoder.encode(prompts, mode)
        except Exception as exc:  # noqa: BLE001 - tokenizers and templates reject texts with many types of errors
            if len(prompts) == 1:
                return [f"the prompt cannot be encoded: {exc}"]
        return [self._encode_alike([prompt], mode)[0] for prompt in prompts]

    def _thinks(self, request: Request) -> bool:
        """Return whether the answer of a request can begin with a thought."""
        return self._encoder.form is not None and request.parameters.constraint is None

    def _without_thought(
        self, request: Request, completion: Completion, ids: Sequence[int], thought: Sequence[int] = ()
    ) -> Completion:
        """Return a completion without the thought of a thinking model; under a constraint there is no thought.

        `ids` are the tokens of the completion, and `thought` the tokens of a thought that the prompt already had.
        """
        if not self._thinks(request):
            return completion
        split = self._encoder.answer(ids, thought)
        if not split.closed:
            return replace(completion, text=None, error=open_thought())
        return replace(completion, text=split.answer)
