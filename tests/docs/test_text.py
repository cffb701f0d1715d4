"""What README and the documentation say: short sentences, links that lead somewhere, nothing out of date."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from docs import generate
from flightllm.errors import install_line
from tests.docs.pages import DOCS, ENGINES, NO_ENGINES, PAGES, README, ROOT, anchors, blocks, links, sentences

_MOST_WORDS = 25
_MOST_LINES = 150
_UNPLAIN = re.compile(r"\bmay\b|\bnone is\b|\bwho has it\b|\ball the same\b", re.IGNORECASE)
_LINKING = (*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md")


def test_readme_is_short() -> None:
    """README fits into 150 lines."""
    assert len(README.read_text(encoding="utf-8").splitlines()) <= _MOST_LINES


def test_install_takes_the_cpu_build() -> None:
    """Each line that installs PyTorch has the option of errors, and README's first warning stands before the line."""
    [option] = re.findall(r"--torch-backend \S+", install_line("local"))
    for page in (README, DOCS / "tutorials" / "own-csv.md", ROOT / "CONTRIBUTING.md"):
        lines = [line for block in blocks(page, "sh") for line in block.text.splitlines() if "pip install" in line]
        found = [line for line in lines if "[local" in line]
        assert found
        assert all(option in line for line in found), page
    text = README.read_text(encoding="utf-8")
    assert text.index("several gigabytes") < text.index("pip install")
    assert text.index("git clone") < text.index("pip install")


@pytest.mark.parametrize("page", [README, DOCS / "tutorials" / "own-csv.md"], ids=lambda page: page.name)
def test_ways_without_a_key(page: Path) -> None:
    """One line says what to do without a key, and names the ways of `flightllm init`."""
    [line] = re.findall(r"^No key\? .*$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert "Ollama" in line
    assert "fake" in line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_sentences_are_short_and_plain(page: Path) -> None:
    """No sentence that somebody wrote has more than 25 words, or a turn of phrase that the rules name."""
    found = sentences(page)
    assert found
    assert [one for one in found if len(one.split()) > _MOST_WORDS] == []
    assert [one for one in found if _UNPLAIN.search(one)] == []


@pytest.mark.parametrize("page", _LINKING, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Each link to a file of the repository names one that is there, and each anchor one of its headings."""
    for target in links(page):
        path, _, anchor = target.partition("#")
        other = (page.parent / path).resolve() if path else page
        made = other.relative_to(ROOT).as_posix() in MADE
        assert other.exists() or made, target
        if anchor and not made:
            assert anchor in anchors(other), target


MADE = frozenset(("docs/benchmarks/figures.md", "docs/explanation/demo-model.md"))
"""Pages that `docs/hooks.py` makes of files beside the code."""


@pytest.mark.parametrize("name", ["README.md", "docs/how-to/kv-caches.md", "docs/explanation/eviction.md"])
def test_files_that_the_configuration_names_exist(name: str) -> None:
    """The commented configurations send readers to pages that are there."""
    assert (ROOT / name).exists()
    for path in (ROOT / "config").glob("*.toml"):
        for named in re.findall(r"docs/[\w/-]+\.md", path.read_text(encoding="utf-8")):
            assert (ROOT / named).exists()


@pytest.mark.skipif(not ENGINES, reason=NO_ENGINES)
def test_reference_pages_follow_from_the_code() -> None:
    """`python docs/generate.py` would change no page."""
    assert [path.name for path, text in generate.pages().items() if path.read_text(encoding="utf-8") != text] == []


def test_settings_have_no_error_about_a_value() -> None:
    """The values of a setting are those that its error allows, without what is wrong with the value that was tried."""
    rows = [line for line in generate._settings().splitlines() if "`?`" in line]
    assert rows == []


@pytest.mark.skipif(find_spec("material") is None, reason="mkdocs-material, of the extra 'docs', is not installed")
def test_site_builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`mkdocs build --strict` makes a page of every file, and warns of nothing."""
    monkeypatch.setenv("NO_MKDOCS_2_WARNING", "1")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(tmp_path), strict=True)
    build(config)
    for page in DOCS.rglob("*.md"):
        folder = page.relative_to(DOCS).with_suffix("")
        made = tmp_path / (folder.parent if folder.name == "index" else folder) / "index.html"
        assert made.exists(), page
