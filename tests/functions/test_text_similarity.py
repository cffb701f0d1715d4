"""The similarities of texts are those of DuckDB, which the tests have from DuckDB 2.0."""

import pyarrow as pa
import pytest

from flightllm.errors import SqlError
from flightllm.functions.text_similarity import damerau_levenshtein, hamming, jaro, jaro_winkler

_PAIRS = [("abc", "abd"), ("MARTHA", "MARHTA"), ("", ""), ("a", ""), (None, "a")]
_LEFT, _RIGHT = (pa.array(one, pa.string()) for one in zip(*_PAIRS, strict=True))


def test_jaro() -> None:
    """The similarity of Jaro."""
    found = jaro(pa.array(["duck", "DIXON"]), pa.array(["duckdb", "DICKSONX"])).to_pylist()
    assert found == [pytest.approx(0.8888888888888888), pytest.approx(0.7666666666666666)]


def test_jaro_winkler() -> None:
    """A common prefix counts more; empty texts have no similarity."""
    found = jaro_winkler(_LEFT, _RIGHT).to_pylist()
    assert found == [pytest.approx(0.8222222222222222), pytest.approx(0.9611111111111111), 0.0, 0.0, None]


def test_damerau_levenshtein() -> None:
    """An exchange of neighbors is one change."""
    assert damerau_levenshtein(_LEFT, _RIGHT).to_pylist() == [1, 1, 0, 1, None]
    assert damerau_levenshtein(pa.array(["ca"]), pa.array(["abc"])).to_pylist() == [2]


def test_hamming() -> None:
    """Texts of the same length are compared place by place."""
    assert hamming(_LEFT[:3], _RIGHT[:3]).to_pylist() == [1, 2, 0]
    with pytest.raises(SqlError, match="levenshtein"):
        hamming(pa.array(["a"]), pa.array(["bb"]))
    with pytest.raises(SqlError, match="longer"):
        hamming(pa.array(["a" * 10_001]), pa.array(["b"]))
