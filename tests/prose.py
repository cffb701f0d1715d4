"""Passages of prose: docstrings, comments and messages of Python, text of Markdown, comments of TOML."""

import ast
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Final, Literal

Kind = Literal["docstring", "comment", "message", "page"]

_WORDS_OF_MESSAGE: Final = 4
"""A shorter string is a name, a key or a label."""
_CODE: Final = re.compile(r" *(python |flightllm |\"|\||[A-Z]{2,} )|.*(\S {2,}\S|\w\()")
"""The first line of an indented block that is a command, JSON, a table, SQL, columns of text, or a plan."""
_DIRECTIVE: Final = re.compile(r"#\s*(noqa|type:|fmt:|pragma|mypy:|ruff:|syntax=|!)")
_SPAN: Final = re.compile(r"``.+?``|`[^`\n]*(?:\n[^`\n]*)?`|https?://\S+", re.DOTALL)
_FENCE: Final = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
_HIDDEN: Final = re.compile(r"<!-- begin .*?<!-- end [\w-]+ -->|<!--.*?-->|<[a-zA-Z/][^>]*>", re.DOTALL)
_LINK: Final = re.compile(r"\]\([^)\s]+\)")
_PARAGRAPH: Final = re.compile(r"\n[ \t]*\n|\n(?=[ \t]*[-*] )|\n(?=[ \t]*\d+\. )|\n(?=\|)|\n(?=#)|\n(?=[ \t]*\w+: )|\|")
_SECTION: Final = re.compile(r" *(Raises|Yields|Returns|Args):$")
_SENTENCE: Final = re.compile(r"(?<=[.:;!?])[)\"'”»]*\s+|\s[–—]\s")
_SQL: Final = re.compile(r"\b(SELECT|CREATE|INSERT|UPDATE|DELETE|FROM|ALTER|PIVOT)\b.*\b[A-Z]{2,}\b", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Passage:
    """Connected prose; `line` is that of its first character.

    In `text` code is masked by as many letters, so that it counts as one word; `original` has the same length.
    """

    line: int
    kind: Kind
    text: str
    original: str

    def line_at(self, offset: int) -> int:
        """Return the line of a character of the text."""
        return self.line + self.original.count("\n", 0, offset)


def passages(path: Path) -> Iterator[Passage]:
    """Yield the passages of a .py, .md or .toml file in no fixed order; a file of another kind has none.

    Raises:
        SyntaxError: the file is not valid Python.
    """
    if path.suffix not in {".py", ".md", ".toml"}:
        return
    text = path.read_text(encoding="utf-8")
    match path.suffix:
        case ".py":
            yield from _strings(text)
            yield from _comments(text)
        case ".toml":
            yield from _toml_comments(text)
        case ".md":
            yield _passage(1, "page", _LINK.sub(_blank, _HIDDEN.sub(_blank, _FENCE.sub(_blank, text))))


def sentences(passage: Passage) -> Iterator[tuple[int, int]]:
    """Yield the offsets at which the sentences of a passage start and end."""
    start = 0
    for end, following in [*((found.start(), found.end()) for found in _PARAGRAPH.finditer(passage.text)), (None, 0)]:
        paragraph = passage.text[start:end]
        inner = 0
        for found in [*_SENTENCE.finditer(paragraph), None]:
            sentence = paragraph[inner : found.start() if found else None]
            if sentence.strip():
                first = start + inner + len(sentence) - len(sentence.lstrip())
                yield first, first + len(sentence.strip())
            inner = found.end() if found else 0
        start = following


def _strings(text: str) -> Iterator[Passage]:
    nodes = list(ast.walk(ast.parse(text)))
    read: set[int] = set()
    """Strings that are read, or that are parts of those."""
    for node in nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            read.add(id(node.value))
            yield _passage(node.lineno, "docstring", _without_examples(node.value.value))
        elif isinstance(node, ast.JoinedStr):
            read.update(map(id, ast.walk(node)))
            parts = (part.value if isinstance(part, ast.Constant) else "`x`" for part in node.values)
            yield from _message(node.lineno, "".join(map(str, parts)))
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in read:
            yield from _message(node.lineno, node.value)


def _message(line: int, text: str) -> Iterator[Passage]:
    if len(text.split()) >= _WORDS_OF_MESSAGE and not _SQL.search(text):
        yield _passage(line, "message", text)


def _comments(text: str) -> Iterator[Passage]:
    if "#" not in text:
        return
    block: list[str] = []
    first = column = last = 0
    for token in tokenize.generate_tokens(StringIO(text).readline):
        if token.type != tokenize.COMMENT or _DIRECTIVE.match(token.string):
            continue
        line, start = token.start
        alone = not token.line[:start].strip()
        if block and not (alone and start == column and line == last + 1):
            yield _passage(first, "comment", "\n".join(block))
            block = []
        if not block:
            first, column = line, start if alone else -1
        block.append(token.string.lstrip("#").strip())
        last = line
    if block:
        yield _passage(first, "comment", "\n".join(block))


def _toml_comments(text: str) -> Iterator[Passage]:
    """Yield blocks of comment lines, without lines that are settings to uncomment."""
    block: list[str] = []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        comment = re.search(r"(?:^|\s)#\s?(.*)$", line)
        words = comment[1] if comment and not re.match(r"[\w.\"]+ *=|\[", comment[1]) else None
        if words is not None and line.lstrip().startswith("#"):
            block.append(words)
            continue
        if block:
            yield _passage(number - len(block), "comment", "\n".join(block))
            block = []
        if words is not None:
            yield _passage(number, "comment", words)


def _without_examples(text: str) -> str:
    """Blank the lines of a docstring that are not prose: code, SQL, tables, plans and commands.

    Code is a line of SQL, a doctest, a line with two spaces before `→`, or a line indented by 8 more than the text. An
    indented block after an empty line is code if its first line looks like code. A paragraph after click's mark for
    verbatim text is code too. Entries of `Raises:` are prose.
    """
    lines = text.split("\n")
    margins = [len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()]
    margin = min(margins, default=0)
    code = re.compile(rf" {{{margin + 8}}}| *(>>>|\.\.\. |\||SELECT )|.*  →")
    verbatim = section = False
    kept = []
    for before, line in zip(["", *lines], lines, strict=False):
        if not line.strip() or "\b" in line:
            verbatim, section = "\b" in line, False
        section = section or _SECTION.match(line) is not None
        verbatim = verbatim or (
            not before.strip() and line.startswith(" " * (margin + 4)) and _CODE.match(line) is not None
        )
        kept.append(" " * len(line) if verbatim or (not section and code.match(line)) else line)
    return "\n".join(kept)


def _passage(line: int, kind: Kind, text: str) -> Passage:
    return Passage(line, kind, _SPAN.sub(lambda found: "c" * len(found[0]), text), text)


def _blank(found: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", found[0])
