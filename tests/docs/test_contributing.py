"""CONTRIBUTING.md names files, lists and tests that exist, and each recipe says what to copy and what to extend."""

import re
from pathlib import Path

import pytest

from flightllm.functions import FunctionRegistry
from flightllm.optimizer import rules
from flightllm.plan.nodes import Node
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
    for names, path in re.findall(r"((?:`\w+`(?:, | and | or )?)+) (?:in|of) `([^`]+)`", f"{extend}; {test}"):
        place = ROOT / path
        files = place.rglob("*.py") if place.is_dir() else [place]
        defined = "\n".join(file.read_text(encoding="utf-8") for file in files)
        for name in re.findall(r"`(\w+)`", names):
            assert re.search(rf"^(def )?{name}\b", defined, re.MULTILINE), (name, path)


@pytest.mark.parametrize(("what", "extend"), [(row[0], row[2]) for row in RECIPES], ids=[row[0] for row in RECIPES])
def test_lists_are_written_by_hand(what: str, extend: str) -> None:
    """A list that a recipe extends has its names in the source; a list made from another one cannot take a name."""
    for names, path in re.findall(r"((?:`\w+`(?:, | and | or )?)+) in `([^`]+\.py)`", extend):
        source = (ROOT / path).read_text(encoding="utf-8")
        for name in re.findall(r"`([A-Z_]+)`", names):
            written = rf"^{name}\b[^=\n]*= (MappingProxyType\()?\s*[\[({{]"
            assert re.search(written, source, re.MULTILINE), (what, name, path)


def test_the_recipe_of_a_function(tmp_path: Path) -> None:
    """The copy of the file is a function under its new name, and `FUNCTION` must keep its name."""
    [source] = [source.strip("` ") for what, source, *_ in RECIPES if what.strip() == "an AI function"]
    text = (ROOT / source).read_text(encoding="utf-8")
    copied = text.replace(f'name="{Path(source).stem}"', 'name="ai_copy_of_the_tests"')
    (tmp_path / "ai_copy_of_the_tests.py").write_text(copied, encoding="utf-8")
    found = FunctionRegistry.load([tmp_path]).get("ai_copy_of_the_tests")
    assert found is not None
    assert found.name == "ai_copy_of_the_tests"
    assert "must stay `FUNCTION`" in _note("AI function")


def test_the_recipe_of_a_rule() -> None:
    """A rule is a key of the dicts that the recipe names; its values are tuples of node kinds."""
    [extend] = [extend for what, _, extend, _ in RECIPES if what.strip() == "a rewrite rule"]
    named = re.findall(r"`(\w+)`", extend)
    assert named == ["_RULES", "_LAST_RULES"]
    assert "kinds of node" in extend
    assert "tuples of node kinds" in _note("Rewrite rule")
    for name, derived in zip(named, (rules.RULES, rules.LAST_RULES), strict=True):
        needs = getattr(rules, name)
        assert tuple(needs) == derived
        kinds = [kind for choices in needs.values() for choice in choices for kind in choice]
        assert kinds
        assert all(issubclass(kind, Node) for kind in kinds)


def _note(kind: str) -> str:
    """Return the note below the table about a kind of extension, in one line."""
    [found] = re.findall(rf"^- \*\*{kind}\.\*\* (.*(?:\n  .*)*)", TEXT, re.MULTILINE)
    return " ".join(found.split())


def test_all_kinds_have_a_recipe() -> None:
    """Each kind of extension has a row in the table."""
    kinds = {what.split(" ", 1)[1].strip() for what, *_ in RECIPES}
    wanted = {"AI function", "rewrite rule", "engine", "router policy", "eviction policy", "KV codec"}
    assert kinds >= wanted | {"session setting", "configuration key", "command", "dialect rewriting"}
