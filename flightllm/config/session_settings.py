"""Settings of a session. Each can be set in three ways: `SET flightllm.KEY`, a session option, a call header."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Protocol

from flightllm.config.quality import read_quality
from flightllm.errors import InvalidInputError, PermissionDeniedError
from flightllm.prompt_order.base import Method
from flightllm.quality.targets import Targets

AUTO_ROWS: Final = 0
"""The value of `rows_per_request` and `questions_per_request` for `auto`."""
INTERACTIVE_PROMPTS: Final = 64
"""A query counts as interactive until it has sent this many prompts; after that it counts as bulk work."""


class _Kind(Protocol):
    """The values of one setting, and how they are written in SQL."""

    def read(self, text: str) -> Any:
        """Return the value; raise ValueError with the texts that are valid."""

    def write(self, value: Any) -> str:
        """Return the text of a value."""


@dataclass(frozen=True, slots=True)
class _OneOf:
    """One word of a few; each word stands for a value."""

    words: Mapping[str, Any]
    shown: tuple[str, ...]

    def read(self, text: str) -> Any:
        if text.lower() not in self.words:
            raise ValueError(" or ".join(f"'{word}'" for word in self.shown))
        return self.words[text.lower()]

    def write(self, value: Any) -> str:
        return next(word for word in self.shown if self.words[word] == value)


@dataclass(frozen=True, slots=True)
class _AtMost:
    """A limit: a number of the given type, or `none`."""

    type: type[int] | type[float]

    def read(self, text: str) -> Any:
        if text.lower() == "none":
            return None
        try:
            value = self.type(text)
        except ValueError:
            value = -1
        if not 0 <= value < float("inf"):
            raise ValueError(f"'none' or a {'whole ' if self.type is int else ''}number from 0 on")
        return value

    def write(self, value: Any) -> str:
        return "none" if value is None else str(value)


@dataclass(frozen=True, slots=True)
class _Quality:
    """The targets of queries, or `none`."""

    def read(self, text: str) -> Any:
        return read_quality(text)

    def write(self, value: Any) -> str:
        return "none" if value is None else str(value)


@dataclass(frozen=True, slots=True)
class _Whole:
    """A whole number from 1 to `most`."""

    most: int

    def read(self, text: str) -> Any:
        if not text.isdecimal() or not 1 <= int(text) <= self.most:
            raise ValueError(f"a whole number from 1 to {self.most}")
        return int(text)

    def write(self, value: Any) -> str:
        return str(value)


@dataclass(frozen=True, slots=True)
class _Together:
    """A whole number of rows or questions up to `most`, where `off` is 1 and `auto` is `AUTO_ROWS`."""

    what: str
    most: int

    def read(self, text: str) -> Any:
        if text.lower() in {"off", "auto"}:
            return 1 if text.lower() == "off" else AUTO_ROWS
        if not text.isdecimal() or not 1 <= int(text) <= self.most:
            raise ValueError(f"'off', 'auto' or a whole number of {self.what} from 1 to {self.most:,}")
        return int(text)

    def write(self, value: Any) -> str:
        return {1: "off", AUTO_ROWS: "auto"}.get(value, str(value))


@dataclass(frozen=True, slots=True)
class _Share:
    """A share of rows: a number above 0 and below 1."""

    def read(self, text: str) -> Any:
        try:
            value = float(text)
        except ValueError:
            value = 0.0
        if not 0 < value < 1:
            raise ValueError("a number above 0 and below 1, such as '0.9'")
        return value

    def write(self, value: Any) -> str:
        return str(value)


_SWITCH = _OneOf(
    {"on": True, "true": True, "1": True, "off": False, "false": False, "0": False}, ("on", "off")
)  # fmt: skip


def _words(*words: str) -> _OneOf:
    return _OneOf({word: word for word in words}, words)


def _setting(text: str, kind: _Kind, *, default: Any = None) -> Any:
    return field(default=default, metadata={"kind": kind, "text": text})


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings that a session can choose."""

    optimizer: bool = _setting(
        "Plan AI calls as operators; off runs them as plain batch functions, one call per row, for comparison.",
        _SWITCH,
        default=True,
    )
    cache: bool = _setting(
        "Cache answers across queries; off still asks the same prompt once per query.", _SWITCH, default=True
    )
    rules: bool = _setting("Move AI calls in the plan to where fewer rows need them.", _SWITCH, default=True)
    dedup: bool = _setting(
        "Ask the same prompt once per query; off asks for every row, for comparison.", _SWITCH, default=True
    )
    ordering: Method = _setting(  # noqa: RUF009 - frozen
        "How prompts are ordered for the engine's prefix cache; fixed and greedy also order the fields in each prompt,"
        " which can change answers.",
        _words("auto", "none", "rows", "fixed", "greedy"),
        default="auto",
    )
    layout: str = _setting(
        "What each prompt begins with: the instruction, or the fields; auto: what costs less by the provider's prices."
        " Another layout can change answers.",
        _words("instruction", "fields", "auto"),
        default="instruction",
    )
    rows_per_request: int = _setting(
        "The most rows that share one request, which makes bills smaller and can change answers; off asks about each"
        " row by itself, and auto shares requests where this is cheaper and sampled rows have the same answers.",
        _Together("rows", 1_000),
        default=1,
    )
    questions_per_request: int = _setting(
        "The most questions about one row that share one request, where this is cheaper, which can change answers; off"
        " asks one after another, and auto joins questions where sampled rows have the same answers.",
        _Together("questions", 100),
        default=1,
    )
    rows_agreement: float = _setting(
        "The share of rows that must have the same answer in both ways before 'auto' lets rows or questions share"
        " requests.",
        _Share(),
        default=0.9,
    )
    max_calls: int | None = _setting("The most calls a query can make.", _AtMost(int))
    max_tokens: int | None = _setting("The most tokens, prompts and answers together, a query can use.", _AtMost(int))
    max_cost: float | None = _setting(
        "The most a query can cost, in the currency of the prices in the configuration.", _AtMost(float)
    )
    timeout: float | None = _setting(
        "The seconds that planning a statement, and running it, can each take; the server's own limit holds as well.",
        _AtMost(float),
    )
    priority: str = _setting(
        "The priority of prompts where several queries share an engine: interactive ones go first; auto: a query is"
        f" interactive until it has sent {INTERACTIVE_PROMPTS}.",
        _words("auto", "interactive", "bulk"),
        default="auto",
    )
    on_budget: str = _setting(
        "What happens when a query reaches a limit midway: the other rows get NULL, or the query fails; auto: it fails"
        " where it stores its rows.",
        _words("auto", "null", "fail"),
        default="auto",
    )
    dialect: str = _setting(
        "The SQL dialect of queries and changes of rows; default is this server's own.",
        _words("default", "snowflake", "bigquery", "databricks", "duckdb", "postgres", "spark"),
        default="default",
    )
    read_only: bool = _setting(
        "Refuse each statement and upload that changes anything but the session; a session cannot turn it off again.",
        _SWITCH,
        default=False,
    )
    quality: Targets | None = _setting(  # noqa: RUF009 - frozen
        "The recall and precision of the rows of each query, relative to those that its models give without"
        " proxies: cheaper proxies then decide rows where the targets still hold.",
        _Quality(),
    )
    delivery: str = _setting(
        "How models get the prompts of SELECT, INSERT … SELECT and CREATE TABLE AS: immediate, or batch: by the"
        " provider's batch endpoint, at a lower price and within hours; the statement returns a handle at once.",
        _words("immediate", "batch"),
        default="immediate",
    )
    endpoints: int = _setting(
        "The number of parts of a result that a client can fetch at once, in no order; many clients support only one.",
        _Whole(64),
        default=1,
    )

    @property
    def fields_first(self) -> bool:
        """Return whether prompts begin with the fields, and not with the instruction."""
        return self.layout == "fields"

    def with_values(self, values: Mapping[str, str]) -> "Settings":
        """Return these settings with some values changed.

        Raises:
            InvalidInputError: a key or value is unknown; the message says what is valid.
        """
        changes = {}
        for name, value in values.items():
            key = _key(name)
            try:
                changes[key] = _KINDS[key].read(str(value).strip())
            except ValueError as error:
                raise InvalidInputError(f"flightllm.{key} cannot be {value!r}: write {error}") from error
        return replace(self, **changes)

    def reset(self, key: str) -> "Settings":
        """Return these settings with one back at its default, or all of them for the key `all`.

        Raises:
            InvalidInputError: there is no such setting.
        """
        if key.lower() == "all":
            return Settings()
        return self.with_value_of(key, Settings())

    def with_value_of(self, key: str, other: "Settings") -> "Settings":
        """Return these settings with one value of other settings.

        Raises:
            InvalidInputError: there is no such setting.
        """
        name = _key(key)
        return replace(self, **{name: getattr(other, name)})

    def check_unlocked(self, key: str) -> None:
        """Check that a statement can change or reset a setting; `all` stands for all of them.

        Raises:
            PermissionDeniedError: the setting is `read_only`, and it is on.
        """
        if self.read_only and key.lower().removeprefix("flightllm.") in {"read_only", "all"}:
            raise PermissionDeniedError(
                "flightllm.read_only is on, and a session cannot turn it off again: open another session"
            )

    def for_storing(self) -> "Settings":
        """Return settings for a statement that stores rows: at the end of a budget it fails by default."""
        return replace(self, on_budget="fail") if self.on_budget == "auto" else self

    @property
    def on_error_of_stored(self) -> str:
        """The default of `on_error` in a statement that stores rows: with `on_budget = 'null'` it is NULL."""
        return "null" if self.on_budget == "null" else "fail"

    def show(self, key: str) -> list[tuple[str, str]]:
        """Return the settings that SHOW flightllm.KEY names, one or `all`, as (name, value).

        Raises:
            InvalidInputError: there is no such setting.
        """
        names = list(_KINDS) if key == "all" else [_key(key)]
        values = self.as_text()
        return [(f"flightllm.{name}", values[name]) for name in names]

    @staticmethod
    def descriptions() -> dict[str, str]:
        """Return the description of each setting."""
        return {f.name: f.metadata["text"] for f in fields(Settings)}

    def changed(self) -> dict[str, str]:
        """Return the settings that differ from their defaults, with their values as in SQL."""
        usual = Settings().as_text()
        return {name: value for name, value in self.as_text().items() if value != usual[name]}

    def as_text(self) -> dict[str, str]:
        """Return all settings, with their values as in SQL."""
        return {name: kind.write(getattr(self, name)) for name, kind in _KINDS.items()}


_KINDS: dict[str, _Kind] = {f.name: f.metadata["kind"] for f in fields(Settings)}


def _key(name: str) -> str:
    key = name.lower().removeprefix("flightllm.")
    if key not in _KINDS:
        raise InvalidInputError(f"no setting {name!r}; there are {', '.join(f'flightllm.{k}' for k in _KINDS)}")
    return key
