"""Orders the prompts of a call, and the fields in them, by the method in the setting."""

from flightllm.prompt_order.auto import auto
from flightllm.prompt_order.base import CacheShape, Draft, Encoded, Method, Ordering
from flightllm.prompt_order.greedy import greedy
from flightllm.prompt_order.interleave import interleave
from flightllm.prompt_order.lists import gather, spread
from flightllm.prompt_order.measure import finish, measured
from flightllm.prompt_order.uniform import as_given, by_score

UNLIMITED = CacheShape()
"""A cache that never evicts."""


def order(encoded: Encoded, method: Method, cache: CacheShape = UNLIMITED, window: int = 1) -> Ordering:
    """Order the tuples by `method` for an engine that runs `window` requests at once (1: no interleaving).

    The result is deterministic. Raises ValueError for an unknown method.
    """
    lists = spread(encoded) if encoded.lists and method != "none" else None
    solved = encoded if lists is None else lists.encoded
    draft = _draft(solved, method, cache)
    if window > 1 and draft.method != "none":
        draft = interleave(solved, draft, cache, window)
    if lists is not None:
        draft = gather(encoded, lists, measured(solved, draft, cache))
    return finish(encoded, draft, cache)


def _draft(encoded: Encoded, method: str, cache: CacheShape) -> Draft:
    match method:
        case "none":
            return as_given(encoded)
        case "fixed":
            return by_score(encoded)
        case "greedy":
            return greedy(encoded, cache)
        case "auto":
            return auto(encoded, cache)
    raise ValueError(f"unknown ordering '{method}': use none, fixed, greedy or auto")
