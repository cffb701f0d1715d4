"""The table of eviction policies on traces."""

from docs.answers import eviction_traces


def test_each_case_names_the_best_classical_policy() -> None:
    """A cell has the distance of `workload_aware` from the best one; the sentence counts the losses."""
    first = {"lru": 0.3, "2q": 0.2, "gdsf": 0.1, "arc": 0.25, "s3_fifo": 0.0, "workload_aware": 0.31}
    told = eviction_traces({"parts": [0.05, 0.2], "hits": {"some": {"10": first, "40": {**first, "arc": 0.33}}}})
    assert "| `workload_aware` above the best of 5, points | 5 % | 20 % |" in told
    assert "| some | +1.00 (`lru`) | -2.00 (`arc`) |" in told
    assert "-0.50 points above" in told
    assert "-2.00 at worst" in told
    assert "0.2 points: 1." in told
