"""The radix tree: what is inserted is found, edges are whole blocks, splits lose nothing of who holds what."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flightllm.router.tree import Node, PrefixTree, pack

TOKENS = st.lists(st.integers(0, 1), max_size=12)
"""Short ones of two tokens, so that many share a beginning."""


def text(node: Node) -> bytes:
    """Return the tokens from the root to the end of a node."""
    return b"".join(part.tokens for part in node.path())


def shared(one: Sequence[int], other: Sequence[int]) -> int:
    """Return how many tokens two lists begin with in common."""
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count


@given(st.lists(TOKENS), st.integers(1, 3))
def test_tokens_are_found_again(prompts: list[list[int]], size: int) -> None:
    """The way to each prompt's node has its whole blocks, then and after all others were inserted."""
    tree = PrefixTree(size)
    leaves = [tree.insert(pack(tokens)) for tokens in prompts]
    for tokens, leaf in zip(prompts, leaves, strict=True):
        assert text(leaf) == pack(tokens[: len(tokens) - len(tokens) % size])
        assert tree.insert(pack(tokens)) is leaf


@given(st.lists(TOKENS), st.integers(1, 3))
def test_edges_fit_together(prompts: list[list[int]], size: int) -> None:
    """Each edge begins where the one above it ends, siblings differ in their first block, and all are counted."""
    tree = PrefixTree(size)
    for tokens in prompts:
        tree.insert(pack(tokens))
    nodes = tree.walk()
    assert tree.nodes == len(nodes)
    for node in nodes:
        assert node.parent is not None
        assert node.start == node.parent.end
        assert node.blocks == len(node.tokens) // (4 * size) > 0
        assert node.parent.children[node.tokens[: 4 * size]] is node


@pytest.mark.slow
@given(st.lists(st.tuples(TOKENS, st.integers(0, 2)), max_size=8), TOKENS, st.integers(1, 3))
def test_what_is_held_survives_splits(given: list[tuple[list[int], int]], asked: list[int], size: int) -> None:
    """A replica holds of a prompt what it shares with those it was given, however edges were split since."""
    tree = PrefixTree(size)
    for tokens, replica in given:
        for node in tree.insert(pack(tokens)).up():
            node.held[replica] = (1 << node.blocks) - 1
    leaf = tree.insert(pack(asked))
    for replica in range(3):
        most = max((shared(asked, tokens) // size for tokens, other in given if other == replica), default=0)
        assert tree.cached_blocks(leaf, replica) == most
        assert tree.cached_by_replica(leaf).get(replica, 0) == most


def test_a_gap_ends_what_is_cached() -> None:
    """Blocks after one that is missing are not counted, and neither is an edge below such a one."""
    tree = PrefixTree(1)
    upper, lower = tree.insert(pack([1, 2, 3])), tree.insert(pack([1, 2, 3, 4]))
    upper.held[0], lower.held[0] = 0b101, 1
    assert tree.cached_blocks(lower, 0) == tree.cached_by_replica(lower)[0] == 1
    assert (upper.replicas(), lower.replicas()) == ({0}, {0})
    upper.held[0] = 0b110
    assert tree.cached_blocks(lower, 0) == 0
    assert tree.cached_by_replica(lower) == {}
    assert upper.replicas() == set()


def test_requests_under_way_count_as_held() -> None:
    """What a replica is about to compute need not be computed again there; it is not cached yet."""
    tree = PrefixTree(1)
    leaf = tree.insert(pack([1, 2]))
    leaf.open[3] = leaf.held[3] = 1
    assert [tree.cached_blocks(leaf, 3, expected=expected) for expected in (True, False)] == [2, 1]
    assert tree.cached_by_replica(leaf) == {3: 2}
    assert leaf.replicas() == {3}


def test_salts_share_nothing() -> None:
    """The same tokens under different salts are different prompts."""
    tree = PrefixTree(1)
    one, other = tree.insert(pack([1]), b"a"), tree.insert(pack([1]), b"b")
    assert one is not other
    assert len(tree.walk()) == 2


def test_unused_nodes_go() -> None:
    """A node that nobody needs goes, with those above it that were there for it alone; one in use stays."""
    tree = PrefixTree(1)
    kept, gone = tree.insert(pack([1, 2])), tree.insert(pack([1, 3]))
    kept.held[0] = 1
    tree.prune(gone)
    assert tree.walk() == [*kept.path()]
    del kept.held[0]
    tree.prune(kept)
    tree.prune(kept)
    assert (tree.walk(), tree.nodes) == ([], 0)


def test_blocks_have_a_token_at_least() -> None:
    """A tree of empty blocks makes no sense."""
    with pytest.raises(ValueError, match="block_tokens"):
        PrefixTree(0)


def test_large_token_ids_are_cut() -> None:
    """Ids that do not fit in four bytes are made to."""
    assert pack([1 << 40 | 7]) == pack([7])
