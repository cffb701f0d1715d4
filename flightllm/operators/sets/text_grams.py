"""Texts as sets of short pieces: how similar two spellings are, without a model."""

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from flightllm.errors import check_cancelled

Ints = NDArray[np.int64]
Hashes = NDArray[np.uint64]

_MOST_GRAMS: Final = 128
"""The most pieces of a text: of a longer text, those with the lowest hashes, so that equal parts give equal pieces."""
_MOST_CHARACTERS: Final = 8_192
"""The characters of a text that are compared."""
_PART: Final = 2_000_000
"""The characters that are cut into pieces at once."""
_PAIRS_AT_ONCE: Final = 50_000
_MIX: Final = np.uint64(0x9E3779B97F4A7C15)


def folded(text: str) -> str:
    """Return a text without case, accents and punctuation, so that spellings of one name become similar.

    Example: `"Café  Müller, Inc."` becomes `"cafe muller inc"`. A text without letters keeps its punctuation.
    """
    plain = unicodedata.normalize("NFKD", text[:_MOST_CHARACTERS]).casefold()
    letters = "".join(one if one.isalnum() else " " for one in plain if not unicodedata.combining(one))
    return " ".join(letters.split()) or " ".join(plain.split())


def mixed(values: Hashes, seed: int) -> Hashes:
    """Return other hashes of hashes, one hash function for each seed."""
    with np.errstate(over="ignore"):
        value = (values ^ np.uint64(seed * 0x632BE5AB + 0x1B873593)) * _MIX
        value ^= value >> np.uint64(29)
        value *= np.uint64(0xBF58476D1CE4E5B9)
        return value ^ (value >> np.uint64(32))


@dataclass(frozen=True, slots=True)
class GramTable:
    """The pieces of texts: words, and three neighbouring characters of each word.

    The pieces of text i are `grams[starts[i]:starts[i + 1]]`, ascending. The order of the words of a text is not kept.
    """

    starts: Ints
    grams: Ints
    """The number of each piece; equal pieces have equal numbers."""
    hashes: Hashes
    counts: Ints
    """By number, how many texts have the piece."""
    lengths: NDArray[np.float64]
    """The length of each text's vector: a piece weighs the more, the fewer texts have it."""

    def __len__(self) -> int:
        """Return the number of texts."""
        return len(self.starts) - 1

    @property
    def owners(self) -> Ints:
        """Return the text of each piece."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    def similarity(self, left: Ints, right: Ints, cancelled: Callable[[], bool]) -> NDArray[np.float64]:
        """Return the cosine of the vectors of pairs of texts, from 0 to 1.

        Raises:
            CancelledError: the query was cancelled.
        """
        wide = max(1, len(self.counts))
        keys = self.owners * wide + self.grams
        weights = _weights(self.counts, len(self)) ** 2
        found = np.zeros(len(left))
        for first in range(0, len(left), _PAIRS_AT_ONCE):
            check_cancelled(cancelled)
            one, other = left[first : first + _PAIRS_AT_ONCE], right[first : first + _PAIRS_AT_ONCE]
            sizes = self.starts[one + 1] - self.starts[one]
            pair = np.repeat(np.arange(len(one)), sizes)
            inside = np.arange(len(pair)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            grams = self.grams[self.starts[one][pair] + inside]
            wanted = other[pair] * wide + grams
            at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1) if len(keys) else np.zeros(0, np.int64)
            shared = np.where(keys[at] == wanted, weights[grams], 0.0) if len(keys) else np.zeros(0)
            found[first : first + len(one)] = np.bincount(pair, shared, minlength=len(one))
        return found / np.maximum(self.lengths[left] * self.lengths[right], 1e-12)


def gram_table(texts: Sequence[str], cancelled: Callable[[], bool]) -> GramTable:
    """Cut texts into pieces; `texts` are folded. Memory grows with the number of texts, not with their lengths.

    Raises:
        CancelledError: the query was cancelled.
    """
    owners, hashes = [np.empty(0, np.int64)], [np.empty(0, np.uint64)]
    for first, some in _parts(texts):
        check_cancelled(cancelled)
        owner, found = _pieces(some)
        owners.append(owner + first)
        hashes.append(found)
    every, found = np.concatenate(owners), np.concatenate(hashes)
    known, numbers = np.unique(found, return_inverse=True)
    order = np.lexsort((numbers, every))
    every, numbers, found = every[order], numbers[order].astype(np.int64), found[order]
    starts = np.searchsorted(every, np.arange(len(texts) + 1)).astype(np.int64)
    counts = np.bincount(numbers, minlength=len(known)).astype(np.int64)
    squares = np.bincount(every, _weights(counts, len(texts))[numbers] ** 2, minlength=len(texts))
    return GramTable(starts, numbers, found, counts, np.sqrt(squares))


def _weights(counts: Ints, texts: int) -> NDArray[np.float64]:
    return np.asarray(np.log(1 + texts / np.maximum(counts, 1)), np.float64)


def _parts(texts: Sequence[str]) -> Iterator[tuple[int, Sequence[str]]]:
    first = size = 0
    for place, text in enumerate(texts):
        size += len(text)
        if size > _PART:
            yield first, texts[first : place + 1]
            first, size = place + 1, 0
    if first < len(texts):
        yield first, texts[first:]


def _pieces(texts: Sequence[str]) -> tuple[Ints, Hashes]:
    """Return the distinct pieces of texts by their hashes, each with the place of its text."""
    padded = [f" {text} " for text in texts]
    codes = np.frombuffer("".join(padded).encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.uint64)
    owner = np.repeat(np.arange(len(texts)), [len(text) for text in padded])
    with np.errstate(over="ignore"):
        three = mixed(codes[:-2] + codes[1:-1] * np.uint64(1 << 21) + codes[2:] * np.uint64(1 << 42), 1)
    space = codes == np.uint64(32)
    inside = (owner[:-2] == owner[2:]) & ~space[1:-1]
    word_starts = np.flatnonzero(~space & np.concatenate([[True], space[:-1]]))
    words, word_owner = np.empty(0, np.uint64), np.empty(0, np.int64)
    if len(word_starts):
        number = np.cumsum(~space & np.concatenate([[True], space[:-1]])) - 1
        letters = np.flatnonzero(~space)
        offset = (letters - word_starts[number[letters]]).astype(np.uint64)
        with np.errstate(over="ignore"):
            each = mixed(codes[letters] + (offset << np.uint64(32)), 2)
            words = mixed(np.add.reduceat(each, np.searchsorted(letters, word_starts)), 3)
        word_owner = owner[word_starts]
    owners = np.concatenate([owner[:-2][inside], word_owner])
    hashes = np.concatenate([three[inside], words])
    order = np.lexsort((hashes, owners))
    owners, hashes = owners[order], hashes[order]
    fresh = np.ones(len(owners), bool)
    fresh[1:] = (owners[1:] != owners[:-1]) | (hashes[1:] != hashes[:-1])
    owners, hashes = owners[fresh], hashes[fresh]
    starts = np.searchsorted(owners, np.arange(len(texts)))
    kept = np.arange(len(owners)) - starts[owners] < _MOST_GRAMS
    return owners[kept], hashes[kept]
