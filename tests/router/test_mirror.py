"""The tree agrees with what engines tell of their prefix caches, whatever else happens to it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from flightllm.router.fleet import Fleet
from flightllm.router.mirror import KvMirror
from flightllm.router.prompt import RoutedPrompt
from flightllm.router.tree import pack

BLOCK_TOKENS = 2
EXACT = (0, 2)
"""Replicas whose engines tell; what replica 1 holds is estimated."""
SALTS = (b"", b"acme")

Block = tuple[int, ...]
Chain = tuple[Block, ...]

blocks = st.sampled_from([(1, 1), (1, 2), (2, 1)])
chains = st.lists(blocks, min_size=1, max_size=6).map(tuple)
salts = st.sampled_from(SALTS)
exact = st.sampled_from(EXACT)
replicas = st.sampled_from((0, 1, 2))


def tokens(chain: Sequence[Block]) -> bytes:
    """Return blocks as the tree keeps them."""
    return pack([token for block in chain for token in block])


def name(salt: bytes, chain: Sequence[Block]) -> bytes:
    """Return the hash of a block: it stands for all before it too."""
    return repr((salt, tuple(chain))).encode()


@dataclass
class Told:
    """What one engine holds by its own account: each block by its hash, with all before it."""

    held: dict[bytes, tuple[bytes, Chain]] = field(default_factory=dict)

    def leading(self, salt: bytes, chain: Chain, also: Sequence[Chain]) -> int:
        """Return how many blocks of a prompt are held without a gap, or in one of the chains under way."""
        count = 0
        for end in range(1, len(chain) + 1):
            part = chain[:end]
            if name(salt, part) not in self.held and not any(other[:end] == part for other in also):
                break
            count = end
        return count


class Mirrored(RuleBasedStateMachine):
    """Engines store, drop and clear blocks while prompts come and go on all replicas."""

    def __init__(self) -> None:
        super().__init__()
        self.fleet = Fleet(BLOCK_TOKENS, window_seconds=5.0)
        for replica in range(3):
            self.fleet.add(None if replica == 2 else 8, exact=replica in EXACT)
        self.mirrors = {r: KvMirror(self.fleet.tree, self.fleet.caches[r]) for r in EXACT}
        self.told = {r: Told() for r in EXACT}
        self.open: dict[int, tuple[int, bytes, Chain]] = {}
        self.asked: list[tuple[bytes, Chain]] = []
        self.now = 0.0
        self.number = 0
        self.random = Random(0)  # noqa: S311 - no cryptography

    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        """Choose which prompts are looked up."""
        self.random = Random(seed)  # noqa: S311 - no cryptography

    @rule(replica=exact, salt=salts, chain=chains, data=st.data())
    def store(self, replica: int, salt: bytes, chain: Chain, data: st.DataObject) -> None:
        """Let an engine hold the end of a prompt whose beginning it holds."""
        told, mirror = self.told[replica], self.mirrors[replica]
        known = [end for end in range(len(chain)) if end == 0 or name(salt, chain[:end]) in told.held]
        after = data.draw(st.sampled_from(known))
        hashes = [name(salt, chain[:end]) for end in range(after + 1, len(chain) + 1)]
        mirror.stored(hashes, name(salt, chain[:after]) if after else None, tokens(chain[after:]), salt)
        told.held |= {one: (salt, chain[:end]) for end, one in enumerate(hashes, after + 1)}
        self.asked.append((salt, chain))

    @rule(replica=exact, salt=salts, chain=chains)
    def store_after_something_unknown(self, replica: int, salt: bytes, chain: Chain) -> None:
        """Blocks whose beginning was never told of are left out, and so are those of another size."""
        mirror = self.mirrors[replica]
        before, unknown = len(mirror), mirror.unknown
        mirror.stored([b"x" + name(salt, chain)], b"never heard of", tokens(chain[:1]), salt)
        mirror.stored([b"y" + name(salt, chain)], None, tokens(chain[:1])[:-4], salt)
        assert (len(mirror), mirror.unknown) == (before, unknown + 2)

    @precondition(lambda self: any(told.held for told in self.told.values()))
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        """Let an engine drop some blocks, in any order, and one that it never had."""
        replica = data.draw(st.sampled_from([r for r in EXACT if self.told[r].held]))
        held = self.told[replica].held
        gone = data.draw(st.lists(st.sampled_from(sorted(held)), min_size=1, max_size=4, unique=True))
        self.mirrors[replica].removed([*gone, b"never heard of"])
        for one in gone:
            del held[one]

    @rule(replica=exact)
    def clear(self, replica: int) -> None:
        """Let an engine drop everything."""
        self.mirrors[replica].cleared()
        self.told[replica].held.clear()

    @rule(replica=exact, salt=salts, chain=chains)
    def lose(self, replica: int, salt: bytes, chain: Chain) -> None:
        """Lose a replica; what its engine still tells of what it held before is of no account."""
        before = sorted(self.told[replica].held)
        for prompt in self.fleet.lose(replica):
            del self.open[prompt.key]
        self.fleet.bring_back(replica)
        for parent in before[:2]:
            self.mirrors[replica].stored([b"z" + name(salt, chain)], parent, tokens(chain[:1]), salt)
        self.mirrors[replica].removed(before[2:])
        self.mirrors[replica].cleared()
        self.told[replica].held.clear()

    @rule(replica=replicas, salt=salts, chain=chains)
    def assign(self, replica: int, salt: bytes, chain: Chain) -> None:
        """Give a replica a prompt."""
        self.number += 1
        prompt = RoutedPrompt(self.number, tokens(chain) + pack([9]), 1, salt)
        self.fleet.assign(prompt, self.fleet.insert(prompt), replica, self.now)
        self.open[self.number] = replica, salt, chain
        self.asked.append((salt, chain))

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        """Have a prompt answered."""
        key = data.draw(st.sampled_from(sorted(self.open)))
        del self.open[key]
        self.fleet.finished(key, 1)

    @rule(seconds=st.floats(0, 10))
    def wait(self, seconds: float) -> None:
        """Let time pass, so that requests are no longer recent."""
        self.now += seconds

    @invariant()
    def agrees(self) -> None:
        """Every prompt, seen or made up, has as many blocks cached as the engine told."""
        for salt, chain in self.looked_up():
            prompt = RoutedPrompt(0, tokens(chain), 1, salt)
            leaf = self.fleet.insert(prompt)
            for replica, told in self.told.items():
                also = [one for on, with_, one in self.open.values() if (on, with_) == (replica, salt)]
                assert self.fleet.tree.cached_blocks(leaf, replica) == told.leading(salt, chain, also)
            self.fleet.tree.prune(leaf)

    @invariant()
    def counts(self) -> None:
        """The blocks counted are those in the tree, and no branch is left in it that nobody uses."""
        nodes = self.fleet.tree.walk()
        assert len(nodes) == self.fleet.tree.nodes
        held: Counter[int] = Counter()
        for node in nodes:
            assert node.parent is not None
            assert node.start == node.parent.end
            assert node.parent.parent is not None or not self.fleet.tree._dead(node)
            for replica, bits in node.held.items():
                assert 0 < bits < 1 << node.blocks
                held[replica] += bits.bit_count()
        for replica, cache in enumerate(self.fleet.caches):
            assert cache.used == held[replica]
            assert len(cache._order) <= 2 * cache.used + 64
            assert {node for node in cache._order if replica in node.held} <= set(nodes)
        for replica, told in self.told.items():
            assert held[replica] == len(self.mirrors[replica]) == len(told.held)

    def looked_up(self) -> list[tuple[bytes, Chain]]:
        """Return some prompts: a few of those that were there, in part or longer."""
        found: list[tuple[bytes, Chain]] = []
        for salt, chain in self.random.sample(self.asked, min(4, len(self.asked))):
            end = self.random.randint(1, len(chain))
            found.append((self.random.choice(SALTS), chain[:end] + chain[: self.random.randint(0, 2)]))
            found.append((salt, chain))
        return found


TestMirrored: Any = Mirrored.TestCase
TestMirrored.settings = settings(max_examples=100, stateful_step_count=40)
