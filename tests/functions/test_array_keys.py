"""The keys of arrays."""

import pyarrow as pa

from flightllm.functions.array_keys import array_key


def test_array_key() -> None:
    """Each element comes after the word whether it is NULL; a slice of arrays has its own keys."""
    arrays = pa.array([[9], [1, None], None, []], pa.list_(pa.int64())).slice(1)
    null, value = {"c0": True, "c1": None}, {"c0": False, "c1": 1}
    assert array_key(arrays).to_pylist() == [[value, null], None, []]
    assert str(array_key(pa.array([[-0.0]]))[0].as_py()[0]["c1"]) == "0.0"
