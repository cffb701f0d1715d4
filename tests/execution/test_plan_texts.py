"""The texts of EXPLAIN about DataFusion's plans hide the folders of files."""

import pytest

from flightllm.execution.plan_texts import without_folders


def test_folders_are_left_out() -> None:
    """A plan names the files it reads, not the folders they are in; other paths are the user's own words."""
    groups = "{2 groups: [[srv/data/a.parquet:0..9, srv/my data/b.parquet], [c.parquet]]}"
    plan = f"DataSourceExec: file_groups={groups}, projection=[x/y], predicate=z = '/w'\n  file_groups={{s/d}}"
    shown = "{2 groups: [[a.parquet:0..9, my b.parquet], [c.parquet]]}"
    expected = f"DataSourceExec: file_groups={shown}, projection=[x/y], predicate=z = '/w'\n  file_groups={{d}}"
    assert without_folders(plan) == expected


@pytest.mark.parametrize("plan", ["file_groups={" * 100_000, f"file_groups={{{'a' * 2_000_000}}}"])
def test_values_that_look_like_files(plan: str) -> None:
    """A query's own text may look like a list of files, however long: that must not take the square of its length."""
    assert without_folders(plan) == plan
