"""What one check of `flightllm doctor` found."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of one check: `fix` says what to do where something is wrong; without `ok` it is broken."""

    what: str
    detail: str
    ok: bool = True
    fix: str = ""
