"""The part of an engine that a query can count on, beside the other queries that use the engine."""

from typing import overload

from flightllm.llm.engine import Engine


@overload
def fair(whole: int, engine: Engine) -> int: ...
@overload
def fair(whole: None, engine: Engine) -> None: ...
def fair(whole: int | None, engine: Engine) -> int | None:
    """Return a new caller's part of `whole` blocks or places, at least 1; None if the whole is unknown.

    Each caller has an equal part, as in `flightllm.engines.shares`. An engine that does not count its callers
    counts as idle.
    """
    callers: int = getattr(engine, "callers", 0)
    return None if whole is None else max(1, whole // (callers + 1))
