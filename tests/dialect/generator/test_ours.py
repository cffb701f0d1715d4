"""Each class of sqlglot has one rule of ours: a later mapping would hide the rule of an earlier one."""

from collections import Counter

from flightllm.dialect.generator.aggregates import aggregates
from flightllm.dialect.generator.dates import dates
from flightllm.dialect.generator.duckdb_forms import duckdb_forms
from flightllm.dialect.generator.json_texts import json_texts
from flightllm.dialect.generator.json_values import json_values
from flightllm.dialect.generator.lists import lists
from flightllm.dialect.generator.numbers import numbers
from flightllm.dialect.generator.texts import texts
from flightllm.dialect.generator.times import times
from flightllm.dialect.generator.variants import variants

_MAPPINGS = (aggregates, dates, lists, numbers, texts, times, json_texts, json_values, variants, duckdb_forms)


def test_each_class_is_in_one_mapping() -> None:
    """No class is in two of the mappings that the generator merges; refusals are the first of all."""
    found = Counter(one for mapping in _MAPPINGS for one in mapping())
    assert [one.__name__ for one, count in found.items() if count > 1] == []
