"""CONTRIBUTING.md names files, lists and tests that exist, and each recipe says what to copy and what to extend."""

import re

import pytest

from tests.docs.pages import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PATHS = sorted(set(re.findall(r"`((?:flightllm|udfs|tests|docs|bench|config|examples)/[\w./-]*)`", TEXT)))
RECIPES = re.findall(r"^\| (an? [^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", TEXT, re.MULTILINE)
"""Rows of the table of extensions: what to add, what to copy, what to extend, and the test."""


@pytest.mark.parametrize("path", PATHS)
def test_paths_exist(path: str) -> None:
    """Each file and folder that the text names is in the repository."""
    assert (ROOT / path).exists()


@pytest.mark.parametrize(("what", "source", "extend", "test"), RECIPES, ids=[row[0] for row in RECIPES])
def test_recipes(what: str, source: str, extend: str, test: str) -> None:
    """A list or test that a recipe names is defined in the file or folder that follows it."""
    assert "`" in source, what
    for names, path in re.findall(r"((?:`\w+`(?:, | and )?)+) (?:in|of) `([^`]+)`", f"{extend}; {test}"):
        place = ROOT / path
        files = place.rglob("*.py") if place.is_dir() else [place]
        defined = "\n".join(file.read_text(encoding="utf-8") for file in files)
        for name in re.findall(r"`(\w+)`", names):
            assert re.search(rf"^(def )?{name}\b", defined, re.MULTILINE), (name, path)


def test_all_kinds_have_a_recipe() -> None:
    """Nobody has to ask how one of these is added."""
    kinds = {what.split(" ", 1)[1].strip() for what, *_ in RECIPES}
    wanted = {"AI function", "rewrite rule", "engine", "router policy", "eviction policy", "KV codec"}
    assert kinds >= wanted | {"session setting", "configuration key", "command", "dialect rewriting"}
