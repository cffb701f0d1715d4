"""A radix tree of prompts' tokens, with the blocks that each replica's prefix cache holds.

Edges carry tokens in whole blocks, the unit in which engines cache. With blocks of one token, it is a plain radix tree
of tokens. The blocks of an edge that a replica holds are the bits of a number. So the tree can follow the KV events of
an engine block by block.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Final

TOKEN_BYTES: Final = 4
_TOKEN_MASK: Final = 0xFFFF_FFFF


def pack(token_ids: Sequence[int]) -> bytes:
    """Return token ids in the tree's format, four bytes each."""
    try:
        return array("I", token_ids).tobytes()
    except OverflowError:  # ids above 32 bits, which engines without a tokenizer make up
        return array("I", [token & _TOKEN_MASK for token in token_ids]).tobytes()


class Node:
    """A node and the edge above it: the edge's tokens, and the replicas that hold or use them. One thread at a time.

    When an edge is split, its node keeps the lower part, and `parent` becomes a new node with the upper part.
    """

    __slots__ = ("blocks", "children", "held", "open", "parent", "recent", "start", "tokens")

    def __init__(self, parent: Node | None, tokens: bytes, start: int, blocks: int) -> None:
        self.parent = parent
        self.tokens = tokens  # of a root, its salt
        self.start = start
        """The number of blocks from the root to the start of this edge."""
        self.blocks = blocks
        """The number of blocks on this edge."""
        self.children: dict[bytes, Node] = {}
        """By the tokens of their first block."""
        self.held: dict[int, int] = {}
        """The blocks of this edge that a replica holds, by replica: bit 0 is the first block."""
        self.recent: dict[int, int] = {}
        """The number of recent requests whose prompts contain this edge, by replica."""
        self.open: dict[int, int] = {}
        """The number of unanswered prompts that contain this edge, by replica."""

    @property
    def end(self) -> int:
        """Return the number of blocks from the root to the end of this edge."""
        return self.start + self.blocks

    def path(self) -> list[Node]:
        """Return the nodes from the root, which is excluded, to this node."""
        nodes = []
        node: Node | None = self
        while node is not None and node.parent is not None:
            nodes.append(node)
            node = node.parent
        nodes.reverse()
        return nodes

    def up(self) -> Iterator[Node]:
        """Yield this node and the nodes above it, except the root."""
        node = self
        while node.parent is not None:
            yield node
            node = node.parent

    def leading(self, replica: int, *, expected: bool = True) -> int:
        """Return how many blocks at the start of this edge a replica holds.

        With `expected`, blocks that it is about to compute count too.
        """
        if expected and replica in self.open:
            return self.blocks
        held = self.held.get(replica, 0)
        return min(self.blocks, (~held & (held + 1)).bit_length() - 1)

    def replicas(self) -> set[int]:
        """Return the replicas that hold the first block of this edge, or are about to compute the block."""
        found = set(self.open)
        found.update(replica for replica, held in self.held.items() if held & 1)
        return found

    @property
    def used(self) -> bool:
        """Return whether a replica holds a block of this edge, or had a recent request with this edge."""
        return bool(self.held or self.recent or self.open)

    @property
    def unused(self) -> bool:
        """Return whether this node is not used and has no children."""
        return not (self.children or self.used)


class PrefixTree:
    """Prompts by their tokens, in one tree for each salt: different salts share no blocks. One thread at a time."""

    def __init__(self, block_tokens: int) -> None:
        if block_tokens < 1:
            raise ValueError(f"block_tokens: expected at least 1, got {block_tokens}")
        self.block_tokens = block_tokens
        self._block_bytes = block_tokens * TOKEN_BYTES
        self._roots: dict[bytes, Node] = {}
        self.nodes = 0
        """The number of edges in all trees."""

    def insert(self, tokens: bytes, salt: bytes = b"") -> Node:
        """Return the node at which the whole blocks of some tokens end; make missing nodes.

        Without a whole block, the node is the root.
        """
        return self.extend(self.root(salt), 0, tokens)

    def root(self, salt: bytes = b"") -> Node:
        """Return the root of a salt's tree."""
        node = self._roots.get(salt)
        if node is None:
            node = self._roots[salt] = Node(None, salt, 0, 0)
        return node

    def extend(self, node: Node, within: int, tokens: bytes) -> Node:
        """Return the node at which the whole blocks of `tokens` end.

        The tokens follow the first `within` blocks of the node's edge. Nodes are made and split as needed.
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

    def cached_blocks(self, node: Node, replica: int, *, expected: bool = True) -> int:
        """Return how many blocks a replica holds without a gap, from the root to the end of a node.

        With `expected`, blocks that it is about to compute count too.
        """
        count = 0
        for part in node.path():
            leading = part.leading(replica, expected=expected)
            count += leading
            if leading < part.blocks:
                break
        return count

    def cached_by_replica(self, node: Node) -> dict[int, int]:
        """Return how many blocks each replica holds without a gap, down to the end of a node; at least one block."""
        found: dict[int, int] = {}
        whole: set[int] | None = None
        for part in node.path():
            all_held = (1 << part.blocks) - 1
            complete = {replica for replica in part.open if whole is None or replica in whole}
            for replica, held in part.held.items():
                if whole is not None and replica not in whole:
                    continue
                if held == all_held:
                    complete.add(replica)
                elif held & 1 and replica not in complete:
                    found[replica] = part.start + part.leading(replica)
            if not complete:
                break
            found.update(dict.fromkeys(complete, part.end))
            whole = complete
        return found

    def walk(self) -> list[Node]:
        """Return all nodes, each one after its parent."""
        found: list[Node] = []
        nodes = list(self._roots.values())
        while nodes:
            node = nodes.pop()
            found += node.children.values()
            nodes += node.children.values()
        return found

    def prune(self, node: Node) -> None:
        """Remove a node if no node below it is used either; then remove nodes above it that became unused.

        A caller that still has a removed node sees it unused and without children.
        """
        while node.parent is not None and (dead := self._dead(node)):
            parent = node.parent
            first = node.tokens[: self._block_bytes]
            if parent.children.get(first) is not node:
                return  # the node was removed before
            del parent.children[first]
            for one in dead:
                one.children.clear()
            self.nodes -= len(dead)
            node = parent
        if node.parent is None and not node.children:
            self._roots.pop(node.tokens, None)

    def _dead(self, top: Node) -> list[Node]:
        """Return a node and all below it if no node of them is used: a split can leave unused nodes below."""
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
        """Return the number of bytes of the whole blocks of some tokens."""
        return len(tokens) - len(tokens) % self._block_bytes

    def _shared(self, one: bytes, other: bytes) -> int:
        """Return how many whole blocks two packed token lists share at their start."""
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
        """Cut an edge after some blocks and return the new upper node; both parts have the requests of the edge."""
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
