"""Groups of texts that pairs connect, and the pairs on which a group hangs."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def components(count: int, left: Ints, right: Ints) -> Ints:
    """Return the group of each of `count` nodes: the lowest node that edges connect it with."""
    parent = list(range(count))

    def root(node: int) -> int:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for one, other in zip(left.tolist(), right.tolist(), strict=True):
        a, b = root(one), root(other)
        if a != b:
            parent[max(a, b)] = min(a, b)
    return np.array([root(node) for node in range(count)], np.int64)


def bridges(count: int, left: Ints, right: Ints) -> NDArray[np.bool_]:
    """Return which edges are bridges: without a bridge, its group falls into two parts.

    The edges are distinct. Depth-first search without recursion, linear in nodes and edges (Tarjan 1974).
    """
    around: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    for edge, (one, other) in enumerate(zip(left.tolist(), right.tolist(), strict=True)):
        around[one].append((other, edge))
        around[other].append((one, edge))
    found = np.zeros(len(left), bool)
    entered, lowest = [-1] * count, [0] * count
    clock = 0
    for start in range(count):
        if entered[start] >= 0 or not around[start]:
            continue
        entered[start] = lowest[start] = clock
        clock += 1
        path: list[tuple[int, int, int]] = [(start, -1, 0)]
        while path:
            node, by, place = path.pop()
            if place < len(around[node]):
                path.append((node, by, place + 1))
                to, edge = around[node][place]
                if edge == by:
                    continue
                if entered[to] < 0:
                    entered[to] = lowest[to] = clock
                    clock += 1
                    path.append((to, edge, 0))
                else:
                    lowest[node] = min(lowest[node], entered[to])
            elif path:
                above = path[-1][0]
                lowest[above] = min(lowest[above], lowest[node])
                if lowest[node] > entered[above]:
                    found[by] = True
    return found


def kept_of(groups: Ints, texts: Sequence[str], weights: Ints) -> list[str]:
    """Return for each text the text that its group keeps: with the most rows, then the longest, then the first."""
    best: dict[int, tuple[int, int, str]] = {}
    for group, text, weight in zip(groups.tolist(), texts, weights.tolist(), strict=True):
        rank = (-weight, -len(text), text)
        if group not in best or rank < best[group]:
            best[group] = rank
    return [best[group][2] for group in groups.tolist()]
