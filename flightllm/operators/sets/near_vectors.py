"""Find pairs of texts with near vectors: texts that mean the same can have no word in common."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from flightllm.errors import InvalidInputError, check_cancelled
from flightllm.operators.sets.asker import Asker
from flightllm.operators.sets.candidates import Pairs

_TEXTS_AT_ONCE: Final = 2_048
_NUMBERS: Final = 8_000_000
"""The most similarities that are in memory at once."""
_ALIKE: Final = 0.5
"""The cosine from which texts count as similar; it becomes the score 0."""
_MOST_TEXTS: Final = 50_000
"""More texts would be compared for minutes, because each is compared with each other one."""


def vectors_of(texts: Sequence[str], asker: Asker) -> NDArray[np.float32]:
    """Return the vectors of texts with length 1, or zeros for a text without a vector.

    Raises:
        FlightLLMError: as `Asker.embed`.
    """
    parts = [asker.embed(texts[at : at + _TEXTS_AT_ONCE]) for at in range(0, len(texts), _TEXTS_AT_ONCE)]
    width = max((part.shape[1] for part in parts), default=1)
    parts = [part if part.shape[1] == width else np.zeros((len(part), width), np.float32) for part in parts]
    found = np.concatenate(parts) if parts else np.zeros((0, 1), np.float32)
    lengths = np.linalg.norm(found, axis=1, keepdims=True)
    scaled: NDArray[np.float32] = (found / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    return scaled


def near_pairs(texts: Sequence[str], each: int, asker: Asker) -> Pairs:
    """Return for each text the pairs with its `each` nearest texts. Time grows with the square of the texts.

    Raises:
        InvalidInputError: there are too many texts.
        FlightLLMError: as `Asker.embed`.
    """
    if len(texts) > _MOST_TEXTS:
        raise InvalidInputError(
            f"{asker.call.text} has {len(texts):,} distinct texts, and blocking => 'meaning' compares at most"
            f" {_MOST_TEXTS:,}: write blocking => 'spelling', or fewer rows, such as those of one country at a time"
        )
    vectors = vectors_of(texts, asker)
    count, each = len(vectors), min(each, len(vectors) - 1)
    rows = max(1, _NUMBERS // max(1, count))
    left, right, scores = [], [], []
    for first in range(0, count, rows):
        check_cancelled(asker.cancelled)
        cosines = vectors[first : first + rows] @ vectors.T
        own = np.arange(len(cosines))
        cosines[own, own + first] = -1
        near = np.argpartition(-cosines, each - 1, axis=1)[:, :each]
        left.append(np.repeat(own + first, each))
        right.append(near.ravel())
        scores.append(np.take_along_axis(cosines, near, 1).ravel())
    one, other, cosine = np.concatenate(left), np.concatenate(right), np.concatenate(scores).astype(np.float64)
    alike = cosine > _ALIKE
    low, high = np.minimum(one, other)[alike], np.maximum(one, other)[alike]
    return Pairs(low, high, np.minimum((cosine[alike] - _ALIKE) / (1 - _ALIKE), 1.0))
