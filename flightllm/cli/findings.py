"""The result of one check of `flightllm doctor`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check: `fix` says what to do if something is wrong; with `ok` false, it must be fixed."""

    what: str
    detail: str
    ok: bool = True
    fix: str = ""
