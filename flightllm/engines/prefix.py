"""Simulate a serving engine's prefix cache: which tokens of each prompt it would serve from the cache.

The rules are those of vLLM:

- Prompts are cut into blocks. A block that one request computes is available to every later request, even in the same
  step.
- Blocks of running requests stay. Of the other blocks, the least recently used are evicted first, and the end of a
  prompt before its beginning.
- A block that an answer filled is kept like any other block, although no prompt will ask for it.
- The last token of a prompt is always computed.
"""

from collections import OrderedDict, deque
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from flightllm.engines.prompt_parts import PromptParts
from flightllm.llm.engine import PrefixCache

STEP_TOKENS = 2_048
"""The most tokens that an engine computes in one step, if necessary of a part of a prompt: vLLM's default."""


@dataclass(slots=True)
class SimulatedRequest:
    """A request in the simulation: its block identities in order, and its prompt and answer tokens."""

    id: int
    blocks: Sequence[Hashable]
    """One identity per full block; equal identities mean equal tokens in the block and before it."""
    tokens: int
    answer_tokens: int
    parts: PromptParts | None = None
    """The text of the prompt and its parts, for a hosted provider."""
    cached_tokens: int = 0
    written_tokens: int = 0
    """The tokens that a hosted provider stores for a fee."""
    left: int = 0
    """The number of prompt tokens that are still to compute."""
    answered: int = 0
    held: list[Hashable] = field(default_factory=list)
    own: int = 0
    """The number of blocks that no other request can use: the partial last one, the answer's and repeated ones."""


class PrefixSimulator:
    """A simulated scheduler: add requests in order, run steps, and get requests with `cached_tokens`. One thread."""

    def __init__(self, shape: PrefixCache, at_once: int, step_tokens: int = STEP_TOKENS) -> None:
        self._size = shape.block_tokens
        self._empty = shape.blocks if shape.blocks is not None else 1 << 62
        self._at_once = at_once
        self._step_tokens = step_tokens
        self._waiting: deque[SimulatedRequest] = deque()
        self._running: list[SimulatedRequest] = []
        self._used: dict[Hashable, int] = {}
        self._idle: OrderedDict[Hashable, None] = OrderedDict()
        self._shares_at_once = shape.at_once
        self._unshared: set[Hashable] = set()
        """Blocks that a running request computes and that others cannot use before its end."""
        self.computed = 0
        """The number of prompt tokens that the last step computed."""
        self.decoding = 0
        """The number of requests for which the last step computed the next token of an answer."""

    @property
    def in_flight(self) -> int:
        """Return how many requests are not finished."""
        return len(self._waiting) + len(self._running)

    @property
    def waiting(self) -> int:
        """Return how many requests wait for blocks or for a place."""
        return len(self._waiting)

    @property
    def held_blocks(self) -> int:
        """Return how many blocks the running requests hold."""
        return len(self._used) + sum(run.own for run in self._running)

    def add(self, run: SimulatedRequest) -> None:
        """Queue a request."""
        self._waiting.append(run)

    def step(self) -> list[SimulatedRequest]:
        """Run one step and return the requests that it finished."""
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

    def _advance(self, run: SimulatedRequest, room: int) -> int:
        """Compute up to `room` tokens of a prompt, or the next token of its answer; return the computed tokens."""
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

    def _admit(self, run: SimulatedRequest) -> bool:
        """Give a request its cached and new blocks; return False if it must wait for blocks of other requests."""
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

    def _hold(self, run: SimulatedRequest, hits: int) -> None:
        for place, block in enumerate(run.blocks):
            if place >= hits and (block in self._used or block in self._idle):
                continue
            if place >= hits and not self._shares_at_once:
                self._unshared.add(block)
            self._idle.pop(block, None)
            self._used[block] = self._used.get(block, 0) + 1
            run.held.append(block)

    def _take(self, count: int) -> int:
        """Take new blocks, empty ones first, then evicted ones; return how many are missing.

        Blocks are missing only for a request that is larger than the cache.
        """
        fresh = min(count, self._empty)
        self._empty -= fresh
        evicted = min(count - fresh, len(self._idle))
        for _ in range(evicted):
            self._idle.popitem(last=False)
        return count - fresh - evicted

    def _release(self, run: SimulatedRequest) -> None:
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
    """Return identities of a prompt's blocks; each identity depends on all blocks before it too."""
    before: Hashable = None
    chain: list[Hashable] = []
    for part in parts:
        before = hash((before, part))
        chain.append(before)
    return chain
