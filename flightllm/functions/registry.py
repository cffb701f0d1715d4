"""All functions of a server: the shipped functions and those in configured folders, one file each.

Those that need no model are registered with DataFusion.
"""

import hashlib
import importlib.util
import re
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache, lru_cache
from itertools import chain
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Final, cast

import pyarrow as pa

from flightllm.common.package_data import packaged_folder
from flightllm.errors import ConfigError
from flightllm.functions.base import AIFunction, ScalarFunction
from flightllm.functions.call import SEARCH
from flightllm.functions.internal import INTERNAL
from flightllm.functions.learned import DECISIONS
from flightllm.functions.own import OWN_PREFIX
from flightllm.functions.stored import StoredFunction
from flightllm.llm.engine import Engine

if TYPE_CHECKING:
    from datafusion import SessionContext

_STARTS: Final = ("ai_", OWN_PREFIX)
"""The first letters of most functions: a text that lacks these letters calls none of those."""


class FunctionRegistry:
    """Functions by lower-case name and alias. Immutable; threads can share it."""

    def __init__(
        self,
        functions: Mapping[str, AIFunction | ScalarFunction],
        own_names: frozenset[str] = frozenset(),
        stored: Mapping[str, StoredFunction] = MappingProxyType({}),
    ) -> None:
        self.own_names = own_names
        """Names and aliases of the functions in the configured folders."""
        self.stored = stored
        """The functions that SQL created, by name."""
        self._by_name = dict(functions)
        names = dict.fromkeys([*_STARTS, *(name.lower() for name in functions), *stored])
        self._names = tuple(name for name in names if name in _STARTS or not name.startswith(_STARTS))

    @classmethod
    def load(cls, folders: Sequence[Path] = ()) -> "FunctionRegistry":
        """Read the shipped functions, then each `*.py` of the folders whose name does not begin with `_`.

        A function of the folders replaces a shipped `json_…` function with the same name.

        Raises:
            ConfigError: a folder is missing, a file cannot be imported or declares no `FUNCTION`, or a name is taken.
                The error names the file.
        """
        found: dict[str, AIFunction | ScalarFunction] = {}
        origin: dict[str, Path] = {}
        shipped = packaged_folder("udfs")
        own = ((path, _read(path)) for folder in folders for path in _files(folder))
        for path, function in chain(_read_shipped(shipped), own):
            for name in function.names:
                if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
                    raise ConfigError(f"{path}: {name!r} is not a function name: use lower-case letters, digits and _")
                taken = origin.get(name)
                if taken is not None and not (taken.parent == shipped and _gives_way(found[name])):
                    raise ConfigError(f"{path}: function {name} is already defined in {taken}")
                origin[name] = path
                found[name] = function
        return cls(found, frozenset(name for name, path in origin.items() if path.parent != shipped))

    def with_stored(self, stored: Mapping[str, StoredFunction]) -> "FunctionRegistry":
        """Return a registry that also has the functions that SQL created; those of the server come first."""
        if not stored and not self.stored:
            return self
        return FunctionRegistry(self._by_name, self.own_names, stored)

    def stored_function(self, name: str) -> StoredFunction | None:
        """Return the function of this name that SQL created, in any case; None for a function of the server."""
        return None if self.knows(name) else self.stored.get(name.lower())

    def is_called_by(self, name: str) -> bool:
        """Return whether a call by this name is an AI call, directly or in a function that SQL created."""
        return self.get(name) is not None or self.stored_function(name) is not None

    def get(self, name: str) -> AIFunction | None:
        """Return the AI function of this name or alias, in any case; None if there is no such function."""
        function = self._by_name.get(name.lower())
        return function if isinstance(function, AIFunction) else None

    def lifted(self, name: str) -> tuple[ScalarFunction, AIFunction] | None:
        """Return the ordinary function of this name that takes an AI function's answers, with that AI function."""
        function = self._by_name.get(name.lower())
        through = self.get(function.through or "") if isinstance(function, ScalarFunction) else None
        return None if through is None or not isinstance(function, ScalarFunction) else (function, through)

    def knows(self, name: str) -> bool:
        """Return whether an AI or scalar function has this name, in any case."""
        return name.lower() in self._by_name

    def may_be_in(self, sql: str) -> bool:
        """Tell quickly whether a function's name can occur in the text; if false, the text calls no function."""
        text = sql.lower()  # `in` reads a text of 15 MB 100 times as quickly as a pattern of all names
        return any(name in text for name in self._names)

    def may_search(self, sql: str) -> bool:
        """Tell quickly whether the name of a search function can occur in the text."""
        return any(function.backend == SEARCH and function.name in sql.lower() for function in self.ai_functions())

    def scalars(self) -> tuple[ScalarFunction, ...]:
        """Return the ordinary functions that a session registers with DataFusion, bound to its engine."""
        return (*(function for function in self if isinstance(function, ScalarFunction)), *DECISIONS)

    def ai_functions(self) -> tuple[AIFunction, ...]:
        """Return all AI functions."""
        return tuple(function for function in self if isinstance(function, AIFunction))

    def suggest(self, name: str) -> list[str]:
        """Return up to three names close to an unknown one."""
        return get_close_matches(name.lower(), self._by_name, n=3, cutoff=0.5)

    def __iter__(self) -> Iterator[AIFunction | ScalarFunction]:
        return iter({function.name: function for function in self._by_name.values()}.values())


def scalars_registrar(functions: FunctionRegistry, engine: Callable[[], Engine]) -> "Callable[[SessionContext], None]":
    """Return a function that registers the ordinary functions with a context; each call uses the present engine."""
    from datafusion import udf  # here, because clients import this module and need no DataFusion

    made = [
        udf(_bound_late(scalar, engine), list(scalar.arguments), scalar.output, "immutable", scalar.name)
        for scalar in functions.scalars()
    ]
    made += [function.registered() for function in INTERNAL]

    def register(context: "SessionContext") -> None:
        for one in made:
            context.register_udf(one)

    return register


def _bound_late(scalar: ScalarFunction, engine: Callable[[], Engine]) -> Callable[..., pa.Array]:
    bound = lru_cache(maxsize=1)(cast("Callable[[Hashable], Callable[..., pa.Array]]", scalar.bind))

    def values(*arguments: pa.Array) -> pa.Array:
        return bound(cast("Hashable", engine()))(*arguments)

    return values


def _gives_way(function: AIFunction | ScalarFunction) -> bool:
    """Return whether a function in a configured folder can replace this shipped function."""
    return isinstance(function, ScalarFunction) and function.name.startswith("json_")


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise ConfigError(f"functions.folders: {folder} is not a folder")
    return sorted(path for path in folder.glob("*.py") if not path.name.startswith("_"))


@cache
def _read_shipped(folder: Path) -> Sequence[tuple[Path, AIFunction | ScalarFunction]]:
    """Return the functions of a folder whose files do not change."""
    return [(path, _read(path)) for path in _files(folder)]


def _read(path: Path) -> AIFunction | ScalarFunction:
    function = getattr(_import(path), "FUNCTION", None)
    if not isinstance(function, AIFunction | ScalarFunction):
        raise ConfigError(f"{path}: needs FUNCTION = AIFunction(…) or ScalarFunction(…)")
    return function


def _import(path: Path) -> ModuleType:
    digest = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]
    spec = importlib.util.spec_from_file_location(f"flightllm_udf_{path.stem}_{digest}", path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path}: cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and pickle look up modules there
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # the user's file can raise anything
        del sys.modules[spec.name]
        raise ConfigError(f"{path}: {type(error).__name__}: {error}") from error
    return module
