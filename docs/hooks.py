"""Add pages of the repository to the site: the figures, and the page about the demonstration model."""

import re
from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

_ROOT: Final = Path(__file__).parents[1]
_PAGES: Final = {"benchmarks/figures.md": "bench/README.md", "explanation/demo-model.md": "training/README.md"}
_LINK: Final = re.compile(r"(?<!!)\[([^\]]*)\]\((?!https?:|#)([^)]+)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages and their pictures; a link to a file of the repository becomes the file's name."""
    for page, source in _PAGES.items():
        path = _ROOT / source
        text = _LINK.sub(r"\1", path.read_text(encoding="utf-8"))
        files.append(File.generated(config, page, content=text))
        for picture in path.parent.glob("*.png"):
            place = f"{Path(page).parent.as_posix()}/{picture.name}"
            files.append(File.generated(config, place, abs_src_path=str(picture)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Make links to these files lead to their pages; in a checkout, the links lead to the files."""
    del config, files
    depth = "../" * page.file.src_uri.count("/")
    for target, source in _PAGES.items():
        markdown = markdown.replace(f"](../{depth}{source})", f"]({depth}{target})")
    return markdown
