"""Simulate a serving engine's prefix cache: which tokens of each prompt it would find computed already.

As vLLM does it: prompts are cut into blocks; a block that one request computes is there for every later one, in the
same step already; blocks of running requests stay; of the others the least recently used go first, a prompt's end
before its beginning. A block that its answer filled is kept like any other, though no prompt will ask for it. The last
token of a prompt is always computed.
"""

from collections import OrderedDict, deque
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from flightllm.model.engine import PrefixCache

STEP_TOKENS = 2_048
"""Tokens that an engine computes in one step, prompts in part where need be: vLLM's own default."""


@dataclass(slots=True)
class Run:
    """A request on its way: its blocks' identities in order, and its tokens in and out."""

    id: int
    blocks: Sequence[Hashable]
    """One per full block; equal ones have equal tokens before them and in them."""
    tokens: int
    answer_tokens: int
    cached_tokens: int = 0
    left: int = 0
    """Prompt tokens still to compute."""
    answered: int = 0
    held: list[Hashable] = field(default_factory=list)
    own: int = 0
    """Blocks that nobody else can use: the unfinished last one, the answer's, repeated ones."""


class PrefixSimulator:
    """Requests in, in order; steps; requests out with `cached_tokens` set. One thread uses it."""

    def __init__(self, shape: PrefixCache, at_once: int, step_tokens: int = STEP_TOKENS) -> None:
        self._size = shape.block_tokens
        self._empty = shape.blocks if shape.blocks is not None else 1 << 62
        self._at_once = at_once
        self._step_tokens = step_tokens
        self._waiting: deque[Run] = deque()
        self._running: list[Run] = []
        self._used: dict[Hashable, int] = {}
        self._idle: OrderedDict[Hashable, None] = OrderedDict()
        self._shares_at_once = shape.at_once
        self._unshared: set[Hashable] = set()
        """Blocks that a running request computes, where others cannot use them before it ends."""
        self.computed = 0
        """Prompt tokens that the last step computed."""
        self.decoding = 0
        """Requests for which it computed the next token of an answer."""

    @property
    def in_flight(self) -> int:
        """Return how many requests have not come out."""
        return len(self._waiting) + len(self._running)

    def add(self, run: Run) -> None:
        """Queue a request."""
        self._waiting.append(run)

    def step(self) -> list[Run]:
        """Compute one step and return the requests that it finished."""
        room = self._step_tokens
        self.computed = self.decoding = 0
        for run in self._running:
            room -= self._advance(run, room)
        while room > 0 and self._waiting and len(self._running) < self._at_once:
            if not self._admit(self._waiting[0]):
                break
            run = self._waiting.popleft()
            self._running.append(run)
            room -= self._advance(run, room)
        done = [run for run in self._running if not run.left and run.answered >= run.answer_tokens]
        if done:
            self._running = [run for run in self._running if run.left or run.answered < run.answer_tokens]
        for run in done:
            self._release(run)
        return done

    def _advance(self, run: Run, room: int) -> int:
        """Compute what fits of a prompt, or the next token of its answer; return the tokens it took."""
        if room <= 0:
            return 0
        if not run.left:
            run.answered += 1
            self.decoding += 1
            return 1
        taken = min(room, run.left)
        run.left -= taken
        self.computed += taken
        if not run.left:
            run.answered += 1
        return taken

    def _admit(self, run: Run) -> bool:
        """Give a request its blocks, those cached and new ones; False where it must wait for others to end."""
        hits = 0
        for block in run.blocks[: (run.tokens - 1) // self._size]:
            if block in self._unshared or (block not in self._used and block not in self._idle):
                break
            hits += 1
        total = -(-(run.tokens + run.answer_tokens) // self._size)
        revived = sum(block in self._idle for block in run.blocks[:hits])
        if total - hits > self._empty + len(self._idle) - revived and self._running:
            return False
        self._hold(run, hits)
        run.own = total - len(run.held)
        run.own -= self._take(total - hits)
        run.cached_tokens = hits * self._size
        run.left = run.tokens - run.cached_tokens
        return True

    def _hold(self, run: Run, hits: int) -> None:
        for place, block in enumerate(run.blocks):
            if place >= hits and (block in self._used or block in self._idle):
                continue
            if place >= hits and not self._shares_at_once:
                self._unshared.add(block)
            self._idle.pop(block, None)
            self._used[block] = self._used.get(block, 0) + 1
            run.held.append(block)

    def _take(self, count: int) -> int:
        """Take new blocks, empty ones first; return how many are missing for a request larger than the cache."""
        fresh = min(count, self._empty)
        self._empty -= fresh
        evicted = min(count - fresh, len(self._idle))
        for _ in range(evicted):
            self._idle.popitem(last=False)
        return count - fresh - evicted

    def _release(self, run: Run) -> None:
        computed = run.tokens + run.answer_tokens - 1  # the last token of an answer is never fed back
        filled = min(run.own, computed // self._size - len(run.held))
        run.own -= filled
        self._idle.update(((run.id, place), None) for place in range(filled))
        for block in reversed(run.held):
            self._unshared.discard(block)
            self._used[block] -= 1
            if not self._used[block]:
                del self._used[block]
                self._idle[block] = None
        self._empty += run.own
        while self._empty < 0 and self._idle:
            self._idle.popitem(last=False)
            self._empty += 1


def chained(parts: Iterator[Hashable]) -> list[Hashable]:
    """Return identities of a prompt's blocks, each of which stands for all before it too."""
    before: Hashable = None
    chain: list[Hashable] = []
    for part in parts:
        before = hash((before, part))
        chain.append(before)
    return chain
