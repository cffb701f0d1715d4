"""A radix tree of prompts' tokens, and of what each replica's prefix cache holds of them.

Edges carry tokens in whole blocks, the unit in which engines cache; with blocks of one token it is a plain token radix
tree. What a replica holds of an edge is a set of blocks, kept as the bits of a number, so that an engine's own account
of its cache can be followed block by block.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Final

TOKEN_BYTES: Final = 4
_TOKEN_MASK: Final = 0xFFFF_FFFF


def pack(token_ids: Sequence[int]) -> bytes:
    """Return token ids as the tree keeps them, four bytes each."""
    try:
        return array("I", token_ids).tobytes()
    except OverflowError:  # made-up ids, as of engines without a tokenizer
        return array("I", [token & _TOKEN_MASK for token in token_ids]).tobytes()


class Node:
    """An edge with the tokens on it, and who holds or uses them. One thread at a time.

    A node keeps its identity when it is split: it becomes the lower part, and `parent` a new node above it.
    """

    __slots__ = ("blocks", "children", "held", "open", "parent", "recent", "start", "tokens")

    def __init__(self, parent: Node | None, tokens: bytes, start: int, blocks: int) -> None:
        self.parent = parent
        self.tokens = tokens  # of a root, its salt
        self.start = start
        """Blocks above it."""
        self.blocks = blocks
        """Blocks on its edge."""
        self.children: dict[bytes, Node] = {}
        """By the tokens of their first block."""
        self.held: dict[int, int] = {}
        """By replica the blocks of this edge that it holds: bit 0 is the first."""
        self.recent: dict[int, int] = {}
        """By replica the requests of the last while that went through here."""
        self.open: dict[int, int] = {}
        """By replica those of them that have not ended."""

    @property
    def end(self) -> int:
        """Return the blocks from the root to the end of this edge."""
        return self.start + self.blocks

    def path(self) -> list[Node]:
        """Return the nodes from below the root to this one."""
        nodes = []
        node: Node | None = self
        while node is not None and node.parent is not None:
            nodes.append(node)
            node = node.parent
        nodes.reverse()
        return nodes

    def up(self) -> Iterator[Node]:
        """Yield this node and those above it, but for the root."""
        node = self
        while node.parent is not None:
            yield node
            node = node.parent

    def leading(self, replica: int) -> int:
        """Return how many blocks of this edge, from its first on, a replica holds or is about to compute."""
        if replica in self.open:
            return self.blocks
        held = self.held.get(replica, 0)
        return min(self.blocks, (~held & (held + 1)).bit_length() - 1)

    def replicas(self) -> set[int]:
        """Return the replicas that hold the first block of this edge, or are about to compute it."""
        found = set(self.open)
        found.update(replica for replica, held in self.held.items() if held & 1)
        return found

    @property
    def used(self) -> bool:
        """Tell whether somebody holds some of it, or went through it lately."""
        return bool(self.held or self.recent or self.open)

    @property
    def unused(self) -> bool:
        """Tell whether nobody holds it, went through it lately, or has anything below it."""
        return not (self.children or self.used)


class PrefixTree:
    """Prompts by their tokens, a tree for each salt: others share nothing with them. One thread at a time."""

    def __init__(self, block_tokens: int) -> None:
        if block_tokens < 1:
            raise ValueError("block_tokens: at least 1")
        self.block_tokens = block_tokens
        self._block_bytes = block_tokens * TOKEN_BYTES
        self._roots: dict[bytes, Node] = {}
        self.nodes = 0
        """Edges in all trees."""

    def insert(self, tokens: bytes, salt: bytes = b"") -> Node:
        """Return the node at which the whole blocks of some tokens end, made where there is none; the root for none."""
        return self.extend(self.root(salt), 0, tokens)

    def root(self, salt: bytes = b"") -> Node:
        """Return the root of a salt's tree."""
        node = self._roots.get(salt)
        if node is None:
            node = self._roots[salt] = Node(None, salt, 0, 0)
        return node

    def extend(self, node: Node, within: int, tokens: bytes) -> Node:
        """Return the node at which the whole blocks of some tokens end that follow the first `within` of a node's edge.

        Nodes are made and split as needed.
        """
        size = self._block_bytes
        offset, end = 0, self._whole(tokens)
        if within < node.blocks and offset < end:
            shared = self._shared(node.tokens[within * size :], tokens)
            if within + shared < node.blocks:
                if within + shared:
                    node = self._split(node, within + shared)
                elif node.parent is not None:
                    node = node.parent
            offset = shared * size
        while offset < end:
            child = node.children.get(tokens[offset : offset + size])
            if child is None:
                return self._grow(node, tokens[offset:end])
            if tokens.startswith(child.tokens, offset):
                node = child
                offset += len(child.tokens)
                continue
            shared = self._shared(child.tokens, tokens[offset:end])
            node = self._split(child, shared)
            offset += shared * size
        return node

    def cached_blocks(self, node: Node, replica: int) -> int:
        """Return how many blocks from the root to the end of a node a replica holds without a gap."""
        count = 0
        for part in node.path():
            leading = part.leading(replica)
            count += leading
            if leading < part.blocks:
                break
        return count

    def walk(self) -> list[Node]:
        """Return all nodes, each after those above it."""
        found: list[Node] = []
        nodes = list(self._roots.values())
        while nodes:
            node = nodes.pop()
            found += node.children.values()
            nodes += node.children.values()
        return found

    def prune(self, node: Node) -> None:
        """Remove a node if nobody uses it or what is below it, and those above it that nobody uses any more.

        Whoever kept one of them finds it without use, and without children.
        """
        while node.parent is not None and (dead := self._dead(node)):
            parent = node.parent
            first = node.tokens[: self._block_bytes]
            if parent.children.get(first) is not node:
                return  # removed before
            del parent.children[first]
            for one in dead:
                one.children.clear()
            self.nodes -= len(dead)
            node = parent
        if node.parent is None and not node.children:
            self._roots.pop(node.tokens, None)

    def _dead(self, top: Node) -> list[Node]:
        """Return a node and those below, if nobody uses any: a split may leave some of which nothing is held."""
        if top.used:
            return []
        found = [top]
        for node in found:
            for child in node.children.values():
                if child.used:
                    return []
                found.append(child)
        return found

    def _whole(self, tokens: bytes) -> int:
        """Return the bytes of the whole blocks of some tokens."""
        return len(tokens) - len(tokens) % self._block_bytes

    def _shared(self, one: bytes, other: bytes) -> int:
        """Return how many whole blocks two texts begin with in common."""
        length = min(len(one), len(other))
        differing = int.from_bytes(one[:length], "little") ^ int.from_bytes(other[:length], "little")
        if differing:
            length = ((differing & -differing).bit_length() - 1) // 8
        return length // self._block_bytes

    def _grow(self, parent: Node, tokens: bytes) -> Node:
        node = Node(parent, tokens, parent.end, len(tokens) // self._block_bytes)
        parent.children[tokens[: self._block_bytes]] = node
        self.nodes += 1
        return node

    def _split(self, node: Node, blocks: int) -> Node:
        """Cut an edge after some blocks and return the new node above: what went through one went through both."""
        cut = blocks * self._block_bytes
        upper = Node(node.parent, node.tokens[:cut], node.start, blocks)
        if node.parent is None:
            raise ValueError("the root has no edge")
        node.parent.children[upper.tokens[: self._block_bytes]] = upper
        upper.children[node.tokens[cut : cut + self._block_bytes]] = node
        mask = (1 << blocks) - 1
        upper.held = {replica: held & mask for replica, held in node.held.items() if held & mask}
        node.held = {replica: held >> blocks for replica, held in node.held.items() if held >> blocks}
        upper.recent, upper.open = dict(node.recent), dict(node.open)
        node.parent, node.tokens = upper, node.tokens[cut:]
        node.start, node.blocks = node.start + blocks, node.blocks - blocks
        self.nodes += 1
        return upper
