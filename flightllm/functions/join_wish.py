"""How a filter that joins two tables finds the matching pairs, and what it promises about them."""

from dataclasses import dataclass
from typing import Final

from flightllm.quality.targets import Targets

PAIRS: Final = "pairs"
MAP: Final = "map"
PIVOT: Final = "pivot"
EMBEDDING: Final = "embedding"
CLASSIFY: Final = "classify"
BLOCK: Final = "block"
AUTO: Final = "auto"


@dataclass(frozen=True)
class JoinWish:
    """How a call finds the matching pairs of a join, and what it promises about these pairs."""

    strategy: str = PAIRS
    """`pairs` asks about each distinct pair; the other ways ask fewer questions and prove a promise on a sample."""
    symmetric: bool = False
    """Whether the answer about (a, b) is also the answer about (b, a)."""
    targets: Targets | None = None
    """The promise of the other ways; None with `pairs`."""

    @property
    def embeds(self) -> bool:
        """Return whether the call cannot do without the embedding model."""
        return self.strategy == EMBEDDING

    @property
    def can_embed(self) -> bool:
        """Return whether the embedding model can find similar values, if there is one."""
        return self.strategy in {EMBEDDING, AUTO}

    def __str__(self) -> str:
        """Return the options in the words of SQL."""
        found = [f"strategy => '{self.strategy}'"]
        found += ["symmetric => true"] if self.symmetric else []
        return ", ".join(found)
