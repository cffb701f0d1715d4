"""ai_similarity: how similar two texts are in meaning, by the cosine of their vectors."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from flightllm.functions import Engine, ScalarFunction

_VECTOR = pa.list_(pa.float32())


def bind(_: Engine) -> Callable[[pa.Array, pa.Array], pa.Array]:
    """Compare vectors row by row; NULL where one is missing or has no direction."""

    def similarity(left: pa.Array, right: pa.Array) -> pa.Array:
        there = pc.and_(left.is_valid(), right.is_valid())
        a, b = (_rows(side.filter(there)) for side in (left, right))
        lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
        with np.errstate(invalid="ignore"):
            cosines = pa.array(np.einsum("nd,nd->n", a, b) / lengths, pa.float64(), mask=lengths == 0)
        return pc.replace_with_mask(pa.nulls(len(left), pa.float64()), there, cosines)

    return similarity


def _rows(vectors: pa.Array) -> NDArray[np.float64]:
    """Return vectors of equal length as rows."""
    numbers: NDArray[np.float64] = vectors.flatten().to_numpy().astype(np.float64)
    return numbers.reshape(len(vectors), -1 if len(vectors) else 0)


FUNCTION = ScalarFunction(
    name="ai_similarity",
    summary="How similar two texts are in meaning: the cosine of their vectors, 1 for equal meanings.",
    returns="double",
    arguments=(_VECTOR, _VECTOR),
    output=pa.float64(),
    bind=bind,
    through="ai_embed",
)
