"""Transcripts of Python's prompt on the pages run, and print what the pages show."""

import doctest
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, blocks

_TRANSCRIPTS = [page for page in PAGES if blocks(page, "pycon")]


@pytest.mark.parametrize("page", _TRANSCRIPTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_transcripts(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of a page run one after the other, as in one session."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLIGHTLLM_HOME", str(tmp_path / "home"))
    text = "\n".join(block.text for block in blocks(page, "pycon"))
    example = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    told: list[str] = []
    found = doctest.DocTestRunner(verbose=False).run(example, out=told.append)
    assert found.attempted
    assert not found.failed, "".join(told)
