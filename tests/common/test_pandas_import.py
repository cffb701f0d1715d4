"""pyarrow's import of pandas can be put off."""

import subprocess
import sys

import pytest

_SCRIPT = """
import sys
from flightllm.common.pandas_import import put_off_pandas
put_off_pandas()
import datafusion
import pyarrow as pa
pa.array(["a", None])
pa.array([{"a": 1.5}])
print("pandas" in sys.modules)
print(pa.table({"n": [41]}).to_pandas()["n"][0])
"""


def test_pandas_waits_for_its_first_use() -> None:
    """Arrays do not import pandas, and `to_pandas` still does."""
    pytest.importorskip("pandas")
    ran = subprocess.run([sys.executable, "-c", _SCRIPT], check=True, capture_output=True, text=True, timeout=60)
    assert ran.stdout.split() == ["False", "41"]
