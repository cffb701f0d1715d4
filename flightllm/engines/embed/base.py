"""The protocol of embedders: texts in, one vector for each text out."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from flightllm.engines.shares import Shares
from flightllm.engines.window import LoopThread
from flightllm.errors import AnswerError
from flightllm.llm.engine import Dispatch

Vectors: TypeAlias = NDArray[np.float32]
"""Rows × dimensions."""
Outcome: TypeAlias = NDArray[np.float32] | AnswerError
"""The vector of one text, or the error of this text."""
Role = Literal["document", "query"]
"""The role of a text in a search; some models embed queries and documents differently."""


class TextsError(AnswerError):
    """An error for some of several texts; `outcomes` has one outcome per text, and the message is the first error."""

    def __init__(self, outcomes: Sequence[Outcome]) -> None:
        super().__init__(str(next(one for one in outcomes if isinstance(one, AnswerError))))
        self.outcomes = outcomes


class Embedder(Protocol):
    """A model that turns texts into vectors. Safe to call from several threads at once."""

    @property
    def name(self) -> str:
        """Return the kind and model for messages and SHOW, such as `local (minilm)`."""

    @property
    def revision(self) -> str:
        """Return a text that changes whenever the same text could get another vector."""

    @property
    def dimensions(self) -> int:
        """Return the length of the vectors."""

    def embed(self, texts: Sequence[str], role: Role = "document") -> Vectors:
        """Return a vector per text (rows × dimensions); texts beyond the model's maximum length are cut.

        Raises:
            EngineError: the model rejects the texts, or is gone.
        """

    def count_tokens(self, text: str) -> int:
        """Count the tokens of a text under the model's tokenizer."""

    def close(self) -> None:
        """Release the model. Idempotent."""


class RemoteEmbedder(ABC):
    """An embedder at an endpoint, which answers several calls at once on an event loop of its own."""

    name: str
    revision: str
    loop: LoopThread
    shares: Shares
    """The texts that the endpoint can embed at once, shared by all queries."""
    patience: float
    """For how many seconds nothing must succeed before the endpoint counts as down."""

    @property
    @abstractmethod
    def dimensions(self) -> int:
        """Return the length of the vectors."""

    @abstractmethod
    def embed(self, texts: Sequence[str], role: Role = "document") -> Vectors:
        """Return a vector per text; see `Embedder.embed`."""

    @abstractmethod
    def count_tokens(self, text: str) -> int:
        """Count the tokens of a text."""

    @abstractmethod
    def close(self) -> None:
        """Close the connections. Idempotent."""

    @property
    @abstractmethod
    def down_seconds(self) -> float:
        """Return for how long nothing has succeeded; 0 if the last request did."""

    @property
    @abstractmethod
    def texts_at_once(self) -> int:
        """Return how many texts to pass to one call, so that requests are full."""

    @abstractmethod
    async def outcomes(self, texts: Sequence[str], role: Role, dispatches: Sequence[Dispatch]) -> list[Outcome]:
        """Return the vector or the error of each text; `dispatches` count the tries of each text.

        Raises:
            EngineError: the endpoint is gone, or rejects all requests.
        """


@dataclass(frozen=True, slots=True)
class RolePrefixes:
    """The prefixes for texts of each role, as options of engines that do not know the prefixes of their models."""

    query_prefix: str = ""
    document_prefix: str = ""

    def prefix(self, role: Role) -> str:
        """Return the prefix of a text with this role."""
        return self.query_prefix if role == "query" else self.document_prefix
