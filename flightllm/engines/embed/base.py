"""The protocol of embedders: texts in, one vector for each text out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from flightllm.errors import AnswerError

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


@dataclass(frozen=True, slots=True)
class RolePrefixes:
    """The prefixes for texts of each role, as options of engines that do not know the prefixes of their models."""

    query_prefix: str = ""
    document_prefix: str = ""

    def prefix(self, role: Role) -> str:
        """Return the prefix of a text with this role."""
        return self.query_prefix if role == "query" else self.document_prefix
