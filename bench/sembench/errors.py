"""Which answers of the labelled model are wrong: by a hash, so that each run repeats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from bench.sembench.labels import Review


@dataclass(frozen=True, slots=True)
class Errors:
    """The model's chance to take a review for its opposite.

    Equal texts err alike: the model understands a review in the same way in every prompt. An answer about two reviews
    follows from both. With `independent`, each answer is wrong with this chance, whatever other prompts have.
    """

    rate: float = 0.0
    seed: int = 0
    independent: bool = False

    def understood(self, reviews: Sequence[Review], prompt: str) -> Sequence[Review]:
        """Return reviews of one question as the model understands them."""
        if not self.rate:
            return reviews
        if not self.independent:
            return [one.mirrored() if self._errs(one.text) else one for one in reviews]
        wrong = self._errs("\0".join([prompt, *(one.text for one in reviews)]))
        return [one.mirrored() if wrong and not place else one for place, one in enumerate(reviews)]

    def _errs(self, text: str) -> bool:
        digest = blake2b(f"{self.seed}\0{text}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") / 2**64 < self.rate
