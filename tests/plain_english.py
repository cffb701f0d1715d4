"""Find sentences that are probably hard to read: `python -m tests.plain_english [FILE | FOLDER …]` lists them.

Read are docstrings, comments and messages in Python files, the text of Markdown pages, and comments in TOML files. A
finding is a hint: rewrite the whole sentence as a newcomer would want to read it, not only the words that were found.
"""

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.prose import Kind, Passage, passages, sentences

ROOT: Final = Path(__file__).resolve().parent.parent
PLAIN: Final = (
    *("flightllm", "udfs", "bench", "training", "docs", "config", "deploy", "examples"),
    *("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"),
)
"""Files and folders in which a finding fails the check; the command reads them if none is named."""
MOST_WORDS: Final = 25
"""The length of a sentence in a docstring, a comment or a page; a longer one holds more than one idea."""
TOO_LONG: Final = "too many words"
EVERYWHERE: Final[frozenset[Kind]] = frozenset(["docstring", "comment", "message", "page"])
IN_CODE: Final[frozenset[Kind]] = frozenset(["docstring", "comment"])


@dataclass(frozen=True, slots=True)
class Pattern:
    """A tell-tale of a sentence that needs two readings, and what to write instead.

    `expression` is searched in each sentence, with case; all white space in the sentence is one space.
    """

    name: str
    expression: str
    instead: str
    kinds: frozenset[Kind] = EVERYWHERE

    def search(self, sentence: str) -> re.Match[str] | None:
        """Return the first match in a sentence whose words are one space apart."""
        return re.search(self.expression, sentence)


_END: Final = r"(?=[.,;:!?)]|$)"
PATTERNS: Final = (
    # Words that have a plainer one.
    Pattern("may", r"\bmay\b", "`can` for ability, `must not` for a ban"),
    Pattern("alone", r"(?<!left )(?<!leave )\balone\b", "`only` before the noun: 'only admins', not 'admins alone'"),
    Pattern("but for", r"\bbut for\b", "`except`"),
    Pattern("the very", r"\bthe very\b", "`the same`, or nothing"),
    Pattern(
        "archaic",
        r"\b(ere|here(by|in|of)|there(of|in|from|to|upon)|where(of|in|to|upon|by)|whence|thence|whither|lest|ought|"
        r"shall|altogether|anew|beforehand|whosoever|nought|aught)\b",
        "today's word: again, before, entirely, must, so that … not",
    ),
    Pattern("be given up", r"\b(is|are|was|were|be|been) given up\b", "`is cancelled`"),
    Pattern("let go", r"\blet(s|ting)? go\b(?! of)|\blet(s|ting)? (\w+ )?go first\b", "`evict`, `release` or `drop`"),
    Pattern("found out", r"\b(is|are|was|were|be|been) found out\b", "`is detected`"),
    Pattern("be said", r"\b(is|are|was|were|be|been) said\b", "`is given`, `is configured`, `is stated`"),
    Pattern("be had", r"\bbe had\b", "`is available`"),
    Pattern("come to nothing", r"\b(came|come|comes) to nothing\b", "`fail`"),
    Pattern("tell of", r"\b(tell(s|ing)?|told|spoken|speaks?) of\b", "`report`, `describe`"),
    Pattern(
        "stand",
        r"\b(stands?|stood) (in(?! for)|at|on|above|below|behind|beside|between|before|around|there|where)\b",
        "`is`, `follows`, `precedes`",
    ),
    # A negation after the verb, or before a noun in place of `not`.
    Pattern(
        "verb, then not",
        r"\b(reads|knows|needs|takes|gives|comes|finds|holds|sees|asks|uses|fits|belongs|stays|keeps|writes|lets|gets|"
        rf"waits|matters|exists|works|has|have|had)( it| them| one| that)? not{_END}",
        "`does not read`",
    ),
    Pattern("has not a", r"\b(has|have|had) not (a|an|any|the|one|its|their|it|them)\b", "`has no`, `does not have`"),
    Pattern(
        "is no",
        r"(?<!there )(?<!There )\b(is|are|was|were) no (?!longer|more\b|less|fewer|other|use\b|way|room|need|such|\d)",
        "`is not a`",
    ),
    # Pronouns in place of a noun.
    Pattern(
        "none",
        r"\b(is|are|be|was|were|has|have|had|needs?|takes?|finds?|gives?|makes?|gets?|lacks?|leaves?|keeps?|waits for|"
        r"for|without|of|with|where|to|at|than) none\b|\b[Nn]one (is|are|has|have|does|do|can|was|were|that|but|"
        r"without)\b",
        "`no` with the noun: 'there is no key', 'no column matches'; `not a` with the noun",
    ),
    Pattern("is one", rf"\b(it|this|that|they) (is|are) one{_END}", "the noun in place of `one`"),
    Pattern("without one", rf"\b(without|has|have) (one|such|any){_END}", "the noun in place of the pronoun"),
    Pattern("such", rf"(?<!as )\bsuch{_END}", "the noun in place of `such`"),
    Pattern(
        "so long",
        r"\b(for|of|with|after|by|than|in|where|there are|to [a-z]+) so (long|much|many|few|little)\b(?! (that|as))",
        "`this long`, or the name of the number",
    ),
    Pattern("one call more", r"\bone (?!or\b|and\b|of\b)\w+ more\b(?! than)", "`one more call`"),
    Pattern(
        "possessive without a noun",
        r"\b(is|are|was|were|be)( not| no)?( an?| the)?( \w+)? (?!it's|that's|what's)\w+'s"
        r"(?=[.;:,)]|$| (has|have|is)\b)",
        "`belongs to`, or the noun after the possessive",
    ),
    # A relative clause in place of a noun.
    Pattern("whose it is", r"\b[Ww]hose (it|they|this|that|these|those) (is|are|was|were)\b", "`the owner`"),
    Pattern("of whose", r"\b(of|to|from|with|by) whose\b", "two sentences"),
    Pattern("whoever", r"\b[Ww]hoever\b", "`a user who`, `the thread that`"),
    Pattern(
        "who without a noun",
        r"^(Who|Whose)\b(?!.*\?$)|\b(of|to|for|from|with|by|than|at|against|let|gain|[Oo]ne|sees|see) who\b",
        "`the user who`, `the client that`",
        IN_CODE | {"message"},
    ),
    Pattern("tell whether", r"^Tell whether\b", "`Return whether`", IN_CODE),
    Pattern("what as a subject", r"^What\b(?!.*\?$)", "the noun: 'The rows that …'", IN_CODE),
    Pattern("what there is", r"\bwhat (there (is|are|was)|of|in|by|goes|stands|lies)\b", "the noun"),
    Pattern("by what", r"\b(by|beside|like|after|before|above|without) what\b", "the noun: 'by the rows that …'"),
    Pattern(
        "comma, that",
        r"^(?!- |If|Where|When|While|Since|As|For|With|In|On|At|To|Without|Once|After|Before|Of)[^:;]*, that "
        r"(?!is(,|$)|way|case|means|it\b|that\b)(\w+s|no|nobody|nothing|can|was|were|have|are|other) ",
        "`, which`, or no comma",
    ),
    # A duty or a plan as an infinitive.
    Pattern(
        "is to be",
        r"\b(is|are|was|were) to (be|go|have|hold|tell|come|take|stand|make|keep|read|know|see|show|run|wait|end)\b",
        "`must`, or the active verb",
    ),
)

PROMPTS: Final = re.compile(
    r"(\{question\} )?(Answer|Reply) (again )?with .* alone\b|Judge only what is said\b|Praise and blame\b|"
    r"It may be in any language|no such$"
)
"""Starts of strings that are not for users: models read them, or they are searched for. Other words change answers."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A sentence to rewrite, with the tell-tale found in it."""

    path: Path
    line: int
    name: str
    instead: str
    text: str

    def __str__(self) -> str:
        path = self.path.relative_to(ROOT) if self.path.is_relative_to(ROOT) else self.path
        return f"{path}:{self.line}: {self.name}: {self.text}"


def find(path: Path) -> list[Finding]:
    """Return the findings of a file, or of all files below a folder, by file and line."""
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    found = [one for file in files if file.is_file() for passage in passages(file) for one in _read(file, passage)]
    return sorted(found, key=lambda one: (one.path, one.line, one.name))


def _read(file: Path, passage: Passage) -> Iterator[Finding]:
    for start, end in sentences(passage):
        sentence, shown = passage.text[start:end], " ".join(passage.original[start:end].split())
        text = " ".join(sentence.split())
        if passage.kind == "message" and PROMPTS.match(text):
            continue
        for pattern in PATTERNS:
            if passage.kind in pattern.kinds and (match := pattern.search(text)):
                words = len(text[: match.start()].split())
                at = start + [*re.finditer(r"\S+", sentence)][words].start()
                yield Finding(file, passage.line_at(at), pattern.name, pattern.instead, shown)
        words = sum(re.search(r"\w", word) is not None for word in text.split())
        if words > MOST_WORDS and passage.kind in IN_CODE:
            instead = f"sentences of at most {MOST_WORDS} words"
            yield Finding(file, passage.line_at(start), f"{words} words", instead, shown)


def main(arguments: Sequence[str]) -> int:
    """Print the findings, and how many each tell-tale has; return 1 if there are any."""
    parser = argparse.ArgumentParser(prog="python -m tests.plain_english", description=__doc__)
    parser.add_argument("places", nargs="*", metavar="FILE|FOLDER", help=f"what to read: {', '.join(PLAIN)}")
    options = parser.parse_args(arguments)
    paths = [Path(name).resolve() for name in options.places] or [ROOT / name for name in PLAIN]
    found = [one for path in paths for one in find(path)]
    for one in found:
        print(one)
    for name, count in Counter(re.sub(r"\d+ words", TOO_LONG, one.name) for one in found).most_common():
        instead = next((pattern.instead for pattern in PATTERNS if pattern.name == name), "two sentences")
        print(f"{count:6} {name} → {instead}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
