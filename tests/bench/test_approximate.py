"""The benchmark of approximate counts: its figures, and its errors."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.approximate import main


def test_a_proxy_needs_fewer_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On scores that are right, the interval holds, and takes fewer answers than without a proxy."""
    rng = np.random.default_rng(0)
    scores = rng.beta(0.2, 0.4, 4_000)
    answers = (rng.random(4_000) < scores).astype(int)
    path = tmp_path / "right.parquet"
    pq.write_table(pa.table({"proxy_pred_true_prob": scores, "oracle_pred": answers}), path)
    main(["--scores", str(path), "--rows", "1000", "--seeds", "4", "--within", "0.05", "--json"])
    found = json.loads(capsys.readouterr().out.splitlines()[-1])["sources"]["right"]
    assert found["proxy"]["asked"] < found["plain"]["asked"]
    assert max(found[method]["half_width"] for method in found) <= 0.05 + 1e-9
    assert max(found[method]["missed"] for method in found) <= 0.25


@pytest.mark.parametrize("within", ["0", "1", "2"])
def test_a_width_outside_its_range_is_refused(within: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The error names the option."""
    with pytest.raises(SystemExit):
        main(["--within", within])
    assert "--within" in capsys.readouterr().err
