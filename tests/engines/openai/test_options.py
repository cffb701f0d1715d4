"""Tests of the options of the `openai` engine."""

from __future__ import annotations

from dataclasses import fields

import pytest

from flightllm.engines.openai.options import SAME_ANSWERS, OpenAIOptions

_NAMES = tuple(one.name for one in fields(OpenAIOptions))


def _with(name: str, value: object) -> OpenAIOptions:
    """Return options that are all at their defaults except one, which need not fit the others."""
    options = OpenAIOptions()
    object.__setattr__(options, name, value)
    return options


@pytest.mark.parametrize("name", _NAMES)
def test_revision_suffix_has_every_option_that_changes_answers(name: str) -> None:
    """Each option but the listed ones makes a revision of its own, and a new option does so by default."""
    suffixes = [_with(name, value).revision_suffix() for value in ("one", "two")]
    if name in SAME_ANSWERS:
        assert suffixes == ["", ""]
    else:
        assert suffixes == [f' {{"{name}": "one"}}', f' {{"{name}": "two"}}']


def test_revision_suffix_at_the_defaults() -> None:
    """Default options add nothing, so stored answers stay valid; only names of real options are left out."""
    assert not OpenAIOptions().revision_suffix()
    assert set(_NAMES) >= SAME_ANSWERS


def test_hints_to_a_store_change_answers() -> None:
    """A KV store can keep hinted starts with a loss, so their answers are kept apart."""
    assert OpenAIOptions(tokenizer="t", kv_hints=True).revision_suffix() == ' {"kv_hints": true}'
    assert not OpenAIOptions(tokenizer="t", reuse_hints=True).revision_suffix()


def test_revision_suffix_has_references_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A header's secret is there as its reference."""
    monkeypatch.setenv("ROUTE_KEY", "sk-hidden-value")
    options = OpenAIOptions(headers={"X-Api-Key": "env:ROUTE_KEY"}, organization="org-1")
    assert options.revision_suffix() == ' {"headers": {"X-Api-Key": "env:ROUTE_KEY"}, "organization": "org-1"}'
