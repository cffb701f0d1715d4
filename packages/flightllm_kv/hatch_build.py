"""Choose the modules of `flightllm` that go into the distribution: those that the listed modules import."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_PACKAGE = "flightllm"


class ModulesHook(BuildHookInterface[Any]):
    """Adds the modules to a wheel, and to the archive of sources from which a wheel can be built later."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the files; an editable install would see the whole package, so there is none."""
        if version == "editable":
            raise ValueError("flightllm-kv has no editable install: install the whole package by pip install -e .")
        folder = self._sources()
        chosen = closure(folder, self.config["modules"])
        chosen |= {path for pattern in self.config["files"] for path in (folder / _PACKAGE).glob(pattern)}
        included = {str(path): str(path.relative_to(folder)) for path in sorted(chosen)}
        if self.target_name == "sdist":
            included[str((Path(self.root) / "LICENSE").resolve())] = "LICENSE"  # itself a link out of the folder
        build_data["force_include"] |= included

    def _sources(self) -> Path:
        """Return the folder of the package: beside this file in an archive of sources, else the checkout's top."""
        here = Path(self.root)
        return here if (here / _PACKAGE).is_dir() else here.parents[1]


def closure(folder: Path, modules: list[str]) -> set[Path]:
    """Return the files of modules, of their packages, and of what they import at any time except to check types."""
    found, left = set[Path](), [file for name in modules for file in _files(folder, name)]
    while left:
        file = left.pop()
        if file not in found:
            found.add(file)
            tree = ast.parse(file.read_text(encoding="utf-8"))
            left += [one for name in _imported(tree) for one in _files(folder, name)]
    return found


def _files(folder: Path, name: str) -> Iterator[Path]:
    """Yield the file of a module and the files of the packages around it; the name can go on inside the module."""
    parts = name.split(".")
    if parts[0] != _PACKAGE:
        return
    for end in range(1, len(parts) + 1):
        path = folder.joinpath(*parts[:end])
        yield from (file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file())


def _imported(node: ast.AST) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.Import):
            yield from (one.name for one in child.names)
        elif isinstance(child, ast.ImportFrom) and child.module:
            yield from (f"{child.module}.{one.name}" for one in child.names)
        yield from _imported(child)
