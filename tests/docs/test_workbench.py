"""The page about the workbench: its command labels an answer on a real server."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, blocks
from tests.web.conftest import open_page

__all__ = ["open_page"]


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl here: apt-get install curl")
def test_curl(open_page: str, tmp_path: Path) -> None:
    """The commands of the page sign in and keep a label, apart from the port of its server."""
    (block,) = [block for block in blocks(DOCS / "how-to/workbench.md", "sh") if "curl" in block.text]
    commands = block.text.replace("http://localhost:8080", open_page)
    done = subprocess.run(
        ["/bin/sh", "-c", commands], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    signed_in, told = map(json.loads, done.stdout.split("\n")[:2])
    assert signed_in["user"]
    assert (told["label"]["verdict"], told["label"]["label"], told["previous"]) == ("wrong", "Yes", None)
