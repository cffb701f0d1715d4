"""What earlier answers tell of the next ones: a few of each call site's answers, and how long they were.

Predictions draw from them, and EXPLAIN tells what a query makes of these: so nobody's are drawn from others'.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from flightllm.model.engine import Choice, Completion, Parameters, Request

Asked: TypeAlias = tuple[str, str, Parameters, tuple[str, ...]]
"""A call site as an engine sees it: function, instruction, parameters, and the names of its fields, sorted."""

_MOST_SITES, _MOST_USERS = 200, 64
_KEPT_ANSWERS, _KEPT_TEXTS = 256, 16
"""Answers kept of a call site, the latest ones: the share of Yes among them is known to about 3 points. Of free texts,
which may be long and which nothing is decided by, fewer."""
_KEPT_OPTIONS = 256
_ENOUGH = 16
"""Fewer answers than this say too little."""


def asked_by(request: Request) -> Asked:
    """Return the call site of a request; NULL in a field makes another one of it."""
    return request.function, request.instruction, request.parameters, tuple(sorted(name for name, _ in request.fields))


@dataclass(slots=True)
class _Seen:
    texts: list[str] = field(default_factory=list)
    count: int = 0
    tokens: int = 0


class Learned:
    """The latest answers to one user per call site of a model, in memory. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sites: OrderedDict[Asked, _Seen] = OrderedDict()
        self._options: dict[str, int] = {}

    def observe(self, asked: Asked, completion: Completion) -> None:
        """Remember an answer; one that failed says nothing."""
        if completion.text is None:
            return
        with self._lock:
            seen = self._sites.setdefault(asked, _Seen())
            self._sites.move_to_end(asked)
            most = _KEPT_TEXTS if asked[2].constraint is None else _KEPT_ANSWERS
            if len(seen.texts) < most:
                seen.texts.append(completion.text)
            else:
                seen.texts[seen.count % most] = completion.text
            if isinstance(asked[2].constraint, Choice):
                self._options.pop(completion.text, None)
                self._options[completion.text] = completion.completion_tokens
                if len(self._options) > _KEPT_OPTIONS:
                    del self._options[next(iter(self._options))]
            seen.count += 1
            seen.tokens += completion.completion_tokens
            if len(self._sites) > _MOST_SITES:
                self._sites.popitem(last=False)

    def tokens_of(self, option: str) -> int | None:
        """Return how many tokens the engine reported for an answer that is one of a few; None where it never was."""
        with self._lock:
            return self._options.get(option)

    def beyond(self, count: Callable[[str], int]) -> int:
        """Return how many tokens the engine reports for such an answer beyond those of its text, as `count` has it."""
        with self._lock:
            known = list(self._options.items())[-1:]
        return max(0, known[0][1] - count(known[0][0])) if known else 0

    def length(self, function: str, max_tokens: int) -> float | None:
        """Return how many tokens a free text takes on average, at most `max_tokens`; None while too few are known.

        The texts are those of the function if there are enough of them, else those of all functions.
        """
        with self._lock:
            sites = [(a, seen) for a, seen in self._sites.items() if a[2].constraint is None]
        own = [(a, seen) for a, seen in sites if a[0] == function]
        for some in (own, sites):
            count = sum(seen.count for _, seen in some)
            if count >= _ENOUGH:
                return min(max_tokens, sum(seen.tokens for _, seen in some) / count)
        return None

    def alike(self, asked: Asked) -> list[str]:
        """Return answers to other call sites of the same function and options; none while too few are known."""
        with self._lock:
            sites = [
                seen.texts
                for a, seen in self._sites.items()
                if a[0] == asked[0] and a[2].constraint == asked[2].constraint
            ]
        texts = [text for some in sites for text in some]
        return texts if len(texts) >= _ENOUGH else []

    def answers(self, asked: Asked) -> tuple[list[str], float] | None:
        """Return texts to draw likely answers from and their average tokens, or None while too few are known."""
        with self._lock:
            seen = self._sites.get(asked)
            if seen is None or seen.count < _ENOUGH:
                return None
            return list(seen.texts), seen.tokens / seen.count


class LearnedByUser:
    """What the answers of one model tell, apart for each of the users who asked last. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users: OrderedDict[str, Learned] = OrderedDict()

    def of(self, user: str) -> Learned:
        """Return what the answers to a user tell, also those to come."""
        with self._lock:
            learned = self._users.setdefault(user, Learned())
            self._users.move_to_end(user)
            if len(self._users) > _MOST_USERS:
                self._users.popitem(last=False)
            return learned
