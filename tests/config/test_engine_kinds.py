"""The table of engines: its names are those of real modules, classes and extras."""

import ast
from importlib.util import find_spec
from pathlib import Path

import pytest

from flightllm.cli.doctor import EXTRAS
from flightllm.config.engine_kinds import EMBEDDERS, ENGINES, EmbedderKind, EngineKind


def defined(module: str) -> set[str]:
    """Return the names of a module's functions and classes without an import of its extra."""
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}


@pytest.mark.parametrize("kind", [*ENGINES.values(), *EMBEDDERS.values()], ids=lambda kind: str(kind.module))
def test_names(kind: EngineKind | EmbedderKind) -> None:
    """Each kind has a module that creates it, and a class of options."""
    assert "create" in defined(kind.module)
    module, _, options = kind.options.partition(":")
    assert options in defined(module)


@pytest.mark.parametrize("kind", ENGINES.values(), ids=ENGINES)
def test_engines(kind: EngineKind) -> None:
    """Each engine's module checks options too, and `flightllm doctor` knows the extra."""
    assert "check" in defined(kind.module)
    assert kind.extra is None or kind.extra in EXTRAS
