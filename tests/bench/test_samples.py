"""The sample of joined rows: density kept, order random or stored, nothing without a text."""

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from bench.common import data_table
from bench.samples import sample
from bench.suite import Suite, suites


@pytest.fixture(params=["movies", "products"])
def suite(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Suite:
    """Each topic over the packaged tables."""
    monkeypatch.delenv("FLIGHTLLM_DATA", raising=False)
    return suites()[request.param]


def test_the_join_has_the_rows_asked_for(suite: Suite) -> None:
    """Every review kept has its subject, no subject is without a review, and all have texts."""
    tables = sample(suite.pair, 120)
    subjects, reviews = tables[suite.pair.subjects], tables[suite.pair.reviews]
    key = suite.pair.key
    assert len(reviews) == 120
    assert set(reviews[key].to_pylist()) == set(subjects[key].to_pylist())
    assert reviews[suite.pair.text].null_count == subjects[suite.pair.subject_text].null_count == 0


def test_fewer_rows_are_about_fewer_subjects(suite: Suite) -> None:
    """A subject keeps all of its reviews but for the last one's, so that rows share as much as in the whole join."""
    whole = pq.read_table(data_table(suite.pair.reviews))
    tables = sample(suite.pair, 300)
    key = suite.pair.key
    subjects = pc.count_distinct(tables[suite.pair.reviews][key]).as_py()
    per_subject = len(whole) / pc.count_distinct(whole[key]).as_py()
    assert 300 / subjects == pytest.approx(per_subject, rel=0.5)


def test_order_is_random_or_stored_and_always_the_same(suite: Suite) -> None:
    """The same rows twice; `stored` puts them into the order of the file, which the random order is not."""
    random, again = (sample(suite.pair, 100)[suite.pair.reviews] for _ in range(2))
    stored = sample(suite.pair, 100, stored=True)[suite.pair.reviews]
    assert random.equals(again)
    assert not random.equals(stored)
    assert _sorted(random).equals(_sorted(stored))


def _sorted(table: pa.Table) -> pa.Table:
    return table.sort_by([(name, "ascending") for name in table.column_names])
