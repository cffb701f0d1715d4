"""What every embedder offers: texts in, one vector each out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Vectors: TypeAlias = NDArray[np.float32]
"""Rows × dimensions."""
Role = Literal["document", "query"]
"""What a text is in a search; some models are told."""


class Embedder(Protocol):
    """A model that turns texts into vectors. Safe to call from several threads at once."""

    @property
    def name(self) -> str:
        """Return the kind and model for messages and SHOW, e.g. `local (minilm)`."""

    @property
    def revision(self) -> str:
        """Return a text that changes whenever the same text could get another vector."""

    @property
    def dimensions(self) -> int:
        """Return the length of its vectors."""

    def embed(self, texts: Sequence[str], role: Role = "document") -> Vectors:
        """Return a vector per text; what is longer than the model reads is cut.

        Raises:
            EngineError: the model refuses, or is gone.
        """

    def count_tokens(self, text: str) -> int:
        """Count the tokens of a text under the model's tokenizer."""

    def close(self) -> None:
        """Release the model. Idempotent."""


@dataclass(frozen=True, slots=True)
class Prefixes:
    """Options of engines that do not know what their models are to be told: what goes before texts of each role."""

    query_prefix: str = ""
    document_prefix: str = ""

    def prefix(self, role: Role) -> str:
        """Return what goes before a text."""
        return self.query_prefix if role == "query" else self.document_prefix
