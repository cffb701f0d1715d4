"""Models, prompts and functions that SQL creates, in one file of the data folder that is valid after any crash."""

import json
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar

from flightllm.catalog.functions import CreatedFunction
from flightllm.common.atomic_files import make_private, write_atomically
from flightllm.config import EngineConfig, read_engine_keys
from flightllm.errors import ConfigError, InternalError, InvalidInputError, LimitExceededError, NotFoundError
from flightllm.functions.stored import StoredFunction
from flightllm.sql.grants import shown_by
from flightllm.storage.sealed import NewerVersionError, check_version, sealed, unsealed

FILE = "objects.json"
PREVIOUS = f"{FILE}.previous"
"""The state before the last change. It also tells that the file is missing, and not just never written."""
_T = TypeVar("_T")
_FORMAT, _WITH_FUNCTIONS = 1, 2
"""The format of the file, without functions and with functions: earlier versions must not lose functions."""
_UNSEALED_KEYS = frozenset({"format", "models", "prompts", "numbers"})
"""The keys of a file that an earlier version wrote without a checksum."""
_MOST_BYTES = 16 << 20
"""A bound on the file's size, because every change rewrites the file."""
_FUNCTION_KEY = "function:"
"""The start of the names under which functions are counted. No prompt has such a name."""
_LOOK_KEY = "looks:"
"""The start of the names under which looks at questions are counted. No prompt has such a name."""
_LONGEST_NAME = 60
_NAME = re.compile(r"[^\W\d][\w.-]*")
_MODEL_NAME = re.compile(r"[^\W\d][\w./:-]*")
"""A model can have the name that its hub or server gives it, such as `qwen/qwen3` or `qwen3:8b`."""
_REFERENCE = re.compile(r"([^\W\d][\w.-]*)(?:@(\d{1,9}))?")

Options: TypeAlias = Mapping[str, str | int | float | bool]
"""The options of CREATE MODEL; secrets are references."""


@dataclass(frozen=True, slots=True)
class CreatedModel:
    """A model as CREATE MODEL describes it."""

    name: str
    options: Options
    owner: str
    created: str
    config: EngineConfig = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "config", engine_config(self.options))


@dataclass(frozen=True, slots=True)
class CreatedPrompt:
    """A version of a prompt."""

    name: str
    version: int
    text: str
    owner: str
    created: str


def engine_config(options: Options) -> EngineConfig:
    """Return the engine configuration for a model's options; the option `engine` is the kind.

    Raises:
        ConfigError: there is no such kind of engine, or an option that every engine takes has a wrong value.
    """
    own = read_engine_keys({name: value for name, value in options.items() if name != "kind"})
    rest = {name: value for name, value in options.items() if name not in {"engine", *own}}
    return EngineConfig(str(options.get("engine", "")), options=MappingProxyType(rest), **own)


def is_reference(text: str) -> bool:
    """Return whether a text can be the name of a prompt, `name` or `name@2`, and so is not the prompt itself."""
    return _REFERENCE.fullmatch(text) is not None


def check_name(kind: str, name: str) -> None:
    """Check the name of a new object; raises `InvalidInputError`."""
    pattern, signs = (_MODEL_NAME, "'_', '-', '.', '/' and ':'") if kind == "model" else (_NAME, "'_', '-' and '.'")
    if pattern.fullmatch(name) is None or len(name) > _LONGEST_NAME:
        raise InvalidInputError(
            f"{name[:_LONGEST_NAME]!r} cannot be the name of a {kind}: write at most {_LONGEST_NAME} letters, digits,"
            f" {signs}, and begin with a letter or '_'"
        )


@dataclass(frozen=True, slots=True)
class _State:
    """All models, prompts and functions at one time."""

    models: Mapping[str, CreatedModel] = field(default_factory=lambda: MappingProxyType({}))
    prompts: Mapping[str, tuple[CreatedPrompt, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """The versions of each prompt, the newest last."""
    numbers: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """The last version of each prompt, dropped prompts included, so that no version number is ever used for two
    texts."""
    functions: Mapping[str, CreatedFunction] = field(default_factory=lambda: MappingProxyType({}))
    stored: Mapping[str, StoredFunction] = field(init=False)

    def __post_init__(self) -> None:
        stored = {name: function.stored() for name, function in self.functions.items()}
        object.__setattr__(self, "stored", MappingProxyType(stored))


class Objects:
    """The models, prompts and functions of a server. Several threads can use it; a change is on disk when it returns.

    Reading takes no lock: every change replaces the whole state.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._lock = threading.Lock()
        self._state = _read(self._path)

    @property
    def revision(self) -> object:
        """Return an object that is replaced by another object at each change."""
        return self._state

    @property
    def owners(self) -> set[str]:
        """Return the names of the owners of all models, prompts and functions."""
        functions = {function.owner for function in self.functions()}
        return functions | {model.owner for model in self.models()} | {prompt.owner for prompt in self.prompts()}

    def functions(self) -> list[CreatedFunction]:
        """Return all functions by name."""
        return [function for _, function in sorted(self._state.functions.items())]

    def function(self, name: str) -> CreatedFunction | None:
        """Return the function of this name, or None."""
        return self._state.functions.get(name)

    @property
    def stored_functions(self) -> Mapping[str, StoredFunction]:
        """Return all functions by name, as texts call them. Each change makes a new mapping."""
        return self._state.stored

    def put_function(self, function: CreatedFunction, before: CreatedFunction | None) -> CreatedFunction:
        """Store a function with the next version number of its name; a later version keeps the first owner.

        `before` is the function of this name, or None, as the caller has checked it.

        Raises:
            InvalidInputError: another statement has created, changed or dropped the function since then.
        """
        with self._lock:
            state, key = self._state, f"{_FUNCTION_KEY}{function.name}"
            if state.functions.get(function.name) is not before:
                raise InvalidInputError(
                    f"another statement has created, changed or dropped {function.name!r} in the meantime: nothing was"
                    " stored, run this one again"
                )
            function = replace(
                function,
                version=state.numbers.get(key, 0) + 1,
                owner=function.owner if before is None else before.owner,
                created=_now(),
            )
            numbers = {**state.numbers, key: function.version}
            self._write(replace(state, functions={**state.functions, function.name: function}, numbers=numbers))
        return function

    def drop_function(self, name: str) -> None:
        """Remove a function; a later function of this name continues its version numbers.

        Raises:
            NotFoundError: there is no function of this name.
        """
        with self._lock:
            state = self._state
            self._write(replace(state, functions=_without("function", name, state.functions)))

    def count_look(self, question: str) -> int:
        """Return how often labels judged a fit to a question, with this time, which is counted on disk first.

        Dropping a filter does not reset the count: a bound must hold for all looks together.
        """
        with self._lock:
            state, key = self._state, f"{_LOOK_KEY}{question}"
            looks = state.numbers.get(key, 0) + 1
            self._write(replace(state, numbers={**state.numbers, key: looks}))
        return looks

    def models(self) -> list[CreatedModel]:
        """Return all models by name."""
        return [model for _, model in sorted(self._state.models.items())]

    def model(self, name: str) -> CreatedModel | None:
        """Return the model of this name, or None."""
        return self._state.models.get(name)

    def engine(self, name: str) -> EngineConfig | None:
        """Return the engine of the model of this name, or None."""
        model = self._state.models.get(name)
        return None if model is None else model.config

    def prompts(self) -> list[CreatedPrompt]:
        """Return all versions of all prompts by name, the oldest first."""
        return [version for _, versions in sorted(self._state.prompts.items()) for version in versions]

    def prompt(self, reference: str) -> CreatedPrompt:
        """Return the newest version of the prompt that `name` refers to, or the version of `name@2`.

        Raises:
            NotFoundError: there is no such prompt or version.
        """
        match = _REFERENCE.fullmatch(reference)
        name, number = match.groups() if match else (reference, None)
        versions = self._state.prompts.get(name)
        if not versions:
            raise missing("prompt", name)
        if number is None:
            return versions[-1]
        for version in versions:
            if version.version == int(number):
                return version
        raise NotFoundError(
            f"the prompt {name!r} has no version {number}; it has {', '.join(str(v.version) for v in versions)}"
        )

    def owner_of_prompt(self, name: str) -> str | None:
        """Return the owner of the prompt of this name, or None if no such prompt exists."""
        versions = self._state.prompts.get(name)
        return versions[0].owner if versions else None

    def put_model(self, name: str, options: Options, owner: str) -> CreatedModel:
        """Store a model under a name, in place of an earlier model."""
        model = CreatedModel(name, MappingProxyType(dict(options)), owner, _now())
        with self._lock:
            state = self._state
            self._write(replace(state, models={**state.models, name: model}))
        return model

    def drop_model(self, name: str) -> None:
        """Remove a model.

        Raises:
            NotFoundError: there is no model of this name.
        """
        with self._lock:
            state = self._state
            self._write(replace(state, models=_without("model", name, state.models)))

    def put_prompt(self, name: str, text: str, owner: str) -> CreatedPrompt:
        """Store a prompt's first or next version; later versions keep the first owner."""
        with self._lock:
            state = self._state
            before = state.prompts.get(name, ())
            owner = before[0].owner if before else owner
            prompt = CreatedPrompt(name, state.numbers.get(name, 0) + 1, text, owner, _now())
            versions = {**state.prompts, name: (*before, prompt)}
            self._write(replace(state, prompts=versions, numbers={**state.numbers, name: prompt.version}))
        return prompt

    def drop_prompt(self, name: str) -> None:
        """Remove all versions of a prompt; a later prompt of this name continues their numbers.

        Raises:
            NotFoundError: there is no prompt of this name.
        """
        with self._lock:
            state = self._state
            self._write(replace(state, prompts=_without("prompt", name, state.prompts)))

    def _write(self, state: _State) -> None:
        """Write a state to disk, then make it the current state. The caller holds the lock."""
        content = _text(state)
        if len(content) > _MOST_BYTES:
            raise LimitExceededError(
                f"models, prompts and functions can take at most {_MOST_BYTES >> 20} MiB together: drop some first"
            )
        try:
            make_private(self._path.parent)
            for left in self._path.parent.glob(f".{FILE}*-*"):  # left by a server that was killed while it wrote
                left.unlink()
            write_atomically(self._path.with_name(PREVIOUS), _text(self._state))
            write_atomically(self._path, content)
        except OSError as error:
            raise InternalError(
                f"the change could not be written to disk, and nothing has changed: {error.strerror}"
            ) from error
        self._state = state


def _text(state: _State) -> bytes:
    return sealed(json.dumps(_document(state), indent=1)).encode()


def _document(state: _State) -> dict[str, Any]:
    functions = [function.as_json() for function in state.functions.values()]
    counted = any(name.startswith(_FUNCTION_KEY) for name in state.numbers)
    return {
        "format": _WITH_FUNCTIONS if functions or counted else _FORMAT,
        **({"functions": functions} if functions else {}),
        "models": {
            name: {"options": dict(model.options), "owner": model.owner, "created": model.created}
            for name, model in state.models.items()
        },
        "prompts": [asdict(version) for versions in state.prompts.values() for version in versions],
        "numbers": dict(state.numbers),
    }


def _read(path: Path) -> _State:
    """Read the file; a file that was never written is read as an empty one.

    Raises:
        ConfigError: the file cannot be read, is damaged, or is missing although it was written; or a newer version
            wrote it.
    """
    previous = path.with_name(PREVIOUS)
    try:
        return _state(unsealed(path.read_bytes().decode(), _UNSEALED_KEYS))
    except FileNotFoundError as error:
        if not previous.exists():
            return _State()
        raise ConfigError(
            f"the file of models and prompts {path} is missing, but {PREVIOUS} is there: restore {FILE} from a backup;"
            f" or copy {PREVIOUS} in its place, which is the state before the last change; or move {PREVIOUS} away to"
            " begin without models and prompts"
        ) from error
    except NewerVersionError:
        raise
    except (OSError, ValueError, TypeError, KeyError, AttributeError, ConfigError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
        raise ConfigError(
            f"{path}: models and prompts cannot be read ({reason}): restore the file from a backup; or copy {PREVIOUS}"
            f" in its place, if it is there, which is the state before the last change; or move {FILE} and {PREVIOUS}"
            " away to begin without models and prompts"
        ) from error


def _state(document: Any) -> _State:
    if document["format"] != _FORMAT:
        check_version(FILE, document["format"], _WITH_FUNCTIONS)
    models = {name: CreatedModel(name, _options(one.pop("options")), **one) for name, one in document["models"].items()}
    prompts: dict[str, tuple[CreatedPrompt, ...]] = {}
    for one in document["prompts"]:
        if not isinstance(one["text"], str) or type(one["version"]) is not int:
            raise TypeError(f"a version of the prompt {one['name']!r} has no text or number")
        prompt = CreatedPrompt(**one)
        prompts[prompt.name] = (*prompts.get(prompt.name, ()), prompt)
    numbers = {name: max(int(number), 0) for name, number in document["numbers"].items()}
    if any(versions[-1].version > numbers[name] for name, versions in prompts.items()):
        raise ValueError("a prompt has more versions than were counted")
    functions = {one.name: one for one in map(CreatedFunction.of_json, document.get("functions", ()))}
    return _State(models, prompts, numbers, functions)


def _options(options: Any) -> Options:
    return MappingProxyType(dict(options.items()))


def missing(kind: str, name: str) -> NotFoundError:
    """Return the error for an object that does not exist, or that the user has no right to use."""
    return NotFoundError(f"there is no {kind} {name!r}: see {shown_by(kind.upper())}")


def _without(kind: str, name: str, known: Mapping[str, _T]) -> Mapping[str, _T]:
    """Return the objects by name without the object `name`; raises `NotFoundError` if it is missing."""
    if name not in known:
        raise missing(kind, name)
    return {other: kept for other, kept in known.items() if other != name}


def suggestion(name: str, known: Sequence[str]) -> str:
    """Return a suggestion for an unknown name: a similar name, or the known names."""
    close = get_close_matches(name[:200], known, n=1)  # for long texts this takes minutes
    return f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(sorted(known)[:20]) or 'none yet'}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
