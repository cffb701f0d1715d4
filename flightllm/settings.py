"""Settings of a session: the same three routes for each, `SET flightllm.KEY`, a session option, a call header."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from flightllm.errors import InvalidInputError

_SWITCH = {"on": True, "true": True, "1": True, "off": False, "false": False, "0": False}


@dataclass(frozen=True, slots=True)
class Settings:
    """What a session may choose; every field is a switch."""

    optimizer: bool = True
    """Plan AI calls as operators; off runs them as plain batch functions, one call per row, for comparison."""
    cache: bool = True
    """Read and keep answers across queries; off still asks the same prompt once per query."""

    def with_values(self, values: Mapping[str, str]) -> "Settings":
        """Return settings with some changed.

        Raises:
            InvalidInputError: an unknown key or value; the message says what is valid.
        """
        known = [f.name for f in fields(self)]
        changes = {}
        for name, value in values.items():
            key = name.lower().removeprefix("flightllm.")
            if key not in known:
                raise InvalidInputError(f"no setting {name!r}; there are {', '.join(f'flightllm.{k}' for k in known)}")
            if str(value).lower() not in _SWITCH:
                raise InvalidInputError(f"flightllm.{key} cannot be {value!r}: write 'on' or 'off'")
            changes[key] = _SWITCH[str(value).lower()]
        return replace(self, **changes)

    def reset(self, key: str) -> "Settings":
        """Return settings with one back at its default."""
        default = "on" if getattr(Settings(), key.lower().removeprefix("flightllm."), True) else "off"
        return self.with_values({key: default})

    def show(self, key: str) -> list[tuple[str, str]]:
        """Return the settings that SHOW flightllm.KEY names, `all` or one, as (name, value).

        Raises:
            InvalidInputError: there is no such setting.
        """
        values = self.as_text()
        if key != "all" and key not in values:
            raise InvalidInputError(f"no setting {key!r}; there are {', '.join(f'flightllm.{k}' for k in values)}")
        return [(f"flightllm.{name}", value) for name, value in values.items() if key in {"all", name}]

    def as_text(self) -> dict[str, str]:
        """Return every setting as its value in SQL."""
        return {f.name: "on" if getattr(self, f.name) else "off" for f in fields(self)}
