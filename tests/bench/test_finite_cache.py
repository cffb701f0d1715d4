"""The comparison of orders for a small cache: its peers on tables with known answers, its bound, and its figures."""

import json

import numpy as np
import pyarrow as pa
import pytest

from bench import finite_cache
from bench.finite_cache import OURS, PEERS, Prompts, less_than_peers
from bench.finite_cache_bound import least_tokens
from bench.peers.ggr import ggr
from bench.peers.solo import solo, solo_tokens
from flightllm.prompt_order.base import CacheShape, Draft, Encoded
from flightllm.prompt_order.sequence import hit_tokens, measured


def _table(codes: list[list[int]], *weights: list[float]) -> Encoded:
    """Return a table of given codes and tokens of each field's values."""
    texts = tuple(np.array(own) for own in weights)
    return Encoded(np.array(codes, dtype=np.int32), texts, (1,) * len(texts), tuple(np.zeros(len(t)) for t in texts))


def _orders(draft: Draft) -> dict[int, list[int]]:
    return dict(zip(draft.rows.tolist(), draft.fields.tolist(), strict=True))


def test_ggr_gives_each_group_its_best_field() -> None:
    """Rows 0 and 1 share a long film, rows 2 and 3 a long review; squares of lengths beat the short genre of all."""
    encoded = _table([[0, 0, 0], [0, 0, 1], [1, 0, 2], [2, 0, 2]], [50.0] * 3, [5.0], [40.0] * 3)
    draft = ggr(encoded)
    assert draft.rows.tolist() == [0, 1, 2, 3]
    assert _orders(draft) == {0: [0, 1, 2], 1: [0, 1, 2], 2: [2, 1, 0], 3: [2, 1, 0]}


def test_ggr_places_determined_fields_beside_their_field() -> None:
    """A number decides a name. Together they are longer than the rating, alone they are not."""
    encoded = _table([[0, 0, 0], [1, 0, 0], [0, 1, 1], [1, 1, 1]], [8.0, 8.0], [6.0, 6.0], [6.0, 6.0])
    assert {tuple(fields[:2]) for fields in ggr(encoded).fields.tolist()} == {(1, 2)}


def test_ggr_keeps_empty_values_apart() -> None:
    """Rows without a value form no group."""
    assert sorted(ggr(_table([[-1, 0], [-1, 1], [-1, 2]], [9.0], [1.0] * 3)).rows.tolist()) == [0, 1, 2]


def test_solo_counts_nodes_and_solo_tokens_counts_tokens() -> None:
    """The flag has two values and the text three; only the text is long."""
    codes = [[0, 0], [1, 1], [0, 2], [1, 0], [0, 1], [1, 2]]
    encoded = _table(codes, [2.0, 2.0], [90.0] * 3)
    assert {tuple(fields) for fields in solo(encoded).fields.tolist()} == {(0, 1)}
    assert solo(encoded).rows.tolist() == [0, 4, 2, 3, 1, 5]
    assert {tuple(fields) for fields in solo_tokens(encoded).fields.tolist()} == {(1, 0)}


@pytest.mark.parametrize("seed", range(6))
def test_no_order_is_below_the_bound(seed: int) -> None:
    """On random tables, each order computes at least the bound in a cache without limit."""
    random = np.random.default_rng(seed)
    codes = np.unique(np.stack([random.integers(0, 6, 60) for _ in range(4)], axis=1), axis=0)
    encoded = _table(codes.tolist(), *(random.integers(3, 60, 6).astype(float).tolist() for _ in range(4)))
    cache = CacheShape(16, None, 20.0)
    weights = sum(own[encoded.codes[:, c]] for c, own in enumerate(encoded.weights))
    total = float(np.sum(weights + 20.0))
    for peer in PEERS.values():
        shared = hit_tokens(measured(encoded, peer(encoded), cache)) + 16 * (len(codes) - 1)
        assert total - shared >= least_tokens(encoded, 20.0, 16) - len(codes)  # lengths are rounded up


def test_a_prompt_has_all_fields_of_its_row() -> None:
    """The tokens are those of the text, and a value that is missing takes no place."""
    prompts = Prompts(pa.table({"a": ["x" * 100, None], "b": ["y" * 40, "z" * 40]}))
    with_a = len(finite_cache._HEAD) + len("a: ") + 101 + len("b: ") + 41
    assert prompts.sizes[0] == -(-with_a // 4)
    assert prompts.sizes[1] == -(-(with_a - 104) // 4)
    (blocks, tokens), _ = prompts.blocks(np.array([0, 1]), [(0, 1), (0, 1)])
    assert (len(blocks), tokens) == (with_a // 64, prompts.sizes[0])


def test_the_quick_run_has_every_order(capsys: pytest.CaptureFixture[str]) -> None:
    """Our greedy order computes fewer tokens than each peer, on both kinds of engine, in a small cache."""
    finite_cache.main(["--quick", "--json", "--parts", "0.2"])
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert set(told["peers"]) == set(PEERS)
    for sizes in told["tables"]["generated"]["computed"].values():
        for row in sizes.values():
            assert set(row) == {*OURS, *PEERS}
            assert less_than_peers(row, list(PEERS)) > 0
