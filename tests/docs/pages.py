"""The pages of the documentation, read: code blocks, sentences, links and headings."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
README: Final = ROOT / "README.md"
DOCS: Final = ROOT / "docs"
PAGES: Final = (README, *sorted(DOCS.rglob("*.md")))

ENGINES: Final = find_spec("torch") and find_spec("openai") and find_spec("ray") and find_spec("sentence_transformers")
"""Whether every engine's options can be read."""
NO_ENGINES: Final = "an extra of local, openai, ray or vector is not installed"

_FENCE: Final = re.compile(r"^(?P<indent> *)```(?P<kind>\w*)\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
_NOT_RUN: Final = re.compile(r"<!-- not run: \S.*-->\s*$")
_GENERATED: Final = re.compile(r"<!-- begin .*?<!-- end [\w-]+ -->", re.DOTALL)
_LINK: Final = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
_HEADING: Final = re.compile(r"^#+ +(.+?)(?: *\{#([\w.-]+)\})?$", re.MULTILINE)
_BLOCK: Final = re.compile(r"\n\s*\n|\n(?= *[-*] )|\n(?= *\d+\. )|\n(?=\|)|\n(?=#)")
_SENTENCE: Final = re.compile(r"(?<=[.:;!?])\s+")


@dataclass(frozen=True, slots=True)
class Block:
    """A code block of a page; `line` is that of its fence, and `runs` says that nothing marks it as not to be run."""

    page: Path
    line: int
    kind: str
    text: str
    runs: bool

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path, kind: str) -> list[Block]:
    """Return the code blocks of a page in a language, in their order."""
    return [block for block in _blocks(page) if block.kind == kind]


def _blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for found in _FENCE.finditer(text):
        before = text[: found.start()]
        code = re.sub(rf"^{found['indent']}", "", found["text"], flags=re.MULTILINE)
        yield Block(page, before.count("\n") + 1, found["kind"], code, _NOT_RUN.search(before) is None)


def statements(block: Block) -> list[str]:
    """Return the statements of an SQL block, which end with a semicolon at the end of a line."""
    return [part for part in re.split(r";\s*(?:\n|\Z)", block.text) if part.strip()]


def commands(text: str) -> Iterator[list[str]]:
    """Yield what follows `flightllm` in each command of a block of `sh`."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        ends = [number for number, word in enumerate(words) if word in {"&&", "|", ";"}]
        for start, end in zip([0, *(at + 1 for at in ends)], [*ends, len(words)], strict=True):
            command = words[start:end]
            if command and Path(command[0]).name == "flightllm":
                yield command[1:]


def sentences(page: Path) -> list[str]:
    """Return the sentences that somebody wrote, each piece of code as one word; a table's cells count by themselves."""
    text = _GENERATED.sub("", page.read_text(encoding="utf-8"))
    text = re.sub(r"<!--.*?-->", "", _FENCE.sub("", text), flags=re.DOTALL)
    text = _LINK.sub(r"\g<text>", re.sub(r"`[^`]*`", "code", text))
    parts = [cell for part in _BLOCK.split(text) for cell in (part.split("|") if part.startswith("|") else [part])]
    return [" ".join(one.split()) for part in parts for one in _SENTENCE.split(part) if one.strip()]


def links(page: Path) -> list[str]:
    """Return the targets of a page's links and pictures, those on other sites left out."""
    text = re.sub(r"`[^`]*`", "", _FENCE.sub("", page.read_text(encoding="utf-8")))
    return [found["target"] for found in _LINK.finditer(text) if "://" not in found["target"]]


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and mkdocs make them."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    return {given or _slug(title) for title, given in _HEADING.findall(text)}


def _slug(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")
