"""The SQL texts of all tests: literals of the test files, and files of statements."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_TESTS = Path(__file__).parents[1]
_BEGINS = re.compile(
    r"[\s(]*(?:SELECT|WITH|VALUES|FROM|INSERT\s+INTO|UPDATE|DELETE\s+FROM|MERGE\s+INTO|EXPLAIN"
    r"|CREATE\s+(?:OR\s+REPLACE\s+)?(?:TEMP(?:ORARY)?\s+)?(?:TABLE|VIEW))\s",
    re.IGNORECASE,
)
_SHORTEST, _LONGEST = 10, 20_000
_BETWEEN = re.compile(r"^-- name: .*$|;\s*$", re.MULTILINE)


@cache
def texts() -> tuple[str, ...]:
    """Return the texts, each once, in the order of the files. Not all of them are valid SQL."""
    found = [*_literals(), *_statements()]
    return tuple(dict.fromkeys(sql for sql in found if _SHORTEST < len(sql) < _LONGEST and _BEGINS.match(sql)))


def _literals() -> Iterator[str]:
    for path in sorted(_TESTS.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        in_formats = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in in_formats:
                yield node.value.strip()


def _statements() -> Iterator[str]:
    for path in sorted(_TESTS.rglob("*.sql")):
        for part in _BETWEEN.split(path.read_text(encoding="utf-8")):
            yield "\n".join(line for line in part.splitlines() if not line.startswith("-- ")).strip()
