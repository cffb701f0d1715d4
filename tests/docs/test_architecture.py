"""The page about the architecture: it names functions and folders that are there."""

import re
from functools import reduce
from importlib import import_module

import flightllm
from tests.docs.pages import DOCS, ROOT

_PAGE = (DOCS / "architecture.md").read_text(encoding="utf-8")
_FUNCTION = re.compile(r"`([a-z_]+/[a-z_/]+)\.([A-Za-z_.]+)`")


def test_functions_exist() -> None:
    """Each function that a step names can be imported."""
    named = [found for found in _FUNCTION.findall(_PAGE) if found != ("folder/module", "function")]
    assert len(named) > 30
    for module, name in named:
        found: object = reduce(
            getattr, name.split("."), import_module(f"{flightllm.__name__}.{module.replace('/', '.')}")
        )
        assert callable(found), name


def test_all_folders_are_listed() -> None:
    """The table of folders has one line for each folder of the package, in alphabetical order."""
    listed = re.findall(r"^\| `([a-z_]+)` \|", _PAGE[_PAGE.index("## Folders") :], re.MULTILINE)
    assert listed == sorted(path.parent.name for path in (ROOT / "flightllm").glob("*/__init__.py"))
