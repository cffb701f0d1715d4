"""`adaptive`: what fits is taken, the best of it, and nothing that is later than text."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from flightllm.kvcache.chunks import Chunk
from flightllm.kvcache.stream.adapt import Adaptive
from flightllm.kvcache.stream.base import TEXT, TEXT_CHUNK, ChunkCosts, HeldChunk, Ladder, Situation
from flightllm.kvcache.stream.prefill import Prefill
from flightllm.llm.cost import Rates

LADDER = Ladder(("raw", "int8", "good", "medium", "small"), "medium")
SHARES = {"raw": 16.0, "int8": 8.0, "good": 4.0, "medium": 2.0, "small": 1.0}
PREFILL = Prefill(Rates(call=0.01, computed=1e-3, cached=0.0), attention=1e-4)


def held(tokens: Sequence[int], codecs: Sequence[str] = LADDER.codecs) -> list[HeldChunk]:
    """Return chunks of so many tokens, a thousand bytes for each in the smallest codec."""
    chunks, start = [], 0
    for count in tokens:
        sizes = {codec: int(1_000 * SHARES[codec] * count) for codec in codecs}
        chunks.append(HeldChunk(Chunk(str(start), start, start + count), sizes))
        start += count
    return chunks


def situation(tokens: Sequence[int] = (1_000, 1_000), **known: object) -> Situation:
    """Return a situation with these chunks left."""
    return replace(Situation(held(tokens), ChunkCosts(PREFILL)), **known)  # type: ignore[arg-type]


def test_text_where_it_fits() -> None:
    """Within the SLO nothing is as good as text, though fetching would be sooner."""
    assert Adaptive(LADDER).choose(situation(throughput=1e9, slo=10.0)) == TEXT


@pytest.mark.parametrize(("rate", "codec"), [(1e9, "raw"), (2e7, "int8"), (9e6, "good"), (4.5e6, "medium")])
def test_best_that_fits(rate: float, codec: str) -> None:
    """The best codec is taken of which all that is left comes in time, and would on a link a third as fast."""
    assert Adaptive(LADDER, headroom=1.0).choose(situation(throughput=rate, slo=1.0)) == codec
    assert Adaptive(LADDER).choose(situation(throughput=3 * rate, slo=1.0)) == codec


def test_soonest_where_it_is_close() -> None:
    """What would be in time only while the link stays as fast as it is, is not risked where something is sooner."""
    assert Adaptive(LADDER).choose(situation(throughput=3.5e6, slo=1.0)) == "small"


def test_soonest_where_nothing_fits() -> None:
    """Where all is late, what ends first is taken: the smallest, or text on a link slower still."""
    assert Adaptive(LADDER).choose(situation(throughput=1.5e6, slo=1.0)) == "small"
    assert Adaptive(LADDER).choose(situation(throughput=1e5, slo=1.0)) == TEXT


def test_unknown_link() -> None:
    """An unknown link counts as one of 1 Gbit/s, of which a third must suffice for an SLO."""
    assert Adaptive(LADDER).choose(situation(slo=0.5)) == "int8"
    assert Adaptive(LADDER).choose(situation()) == "medium"


def test_returns_to_loading() -> None:
    """An engine that can return computes one chunk of which the link is too slow, and then chooses again.

    Together, computing and the link are in time where each alone is late. An engine that cannot return takes the
    soonest codec.
    """
    now = situation((1_000, 1_000), throughput=0.95e6, slo=1.9)
    assert not now.fits(now.text_seconds())
    assert not now.fits(now.fetch_seconds("small", LADDER))
    assert Adaptive(LADDER).choose(now) == "small"
    now = replace(now, returns=True)
    assert now.fits(now.fetch_seconds(TEXT_CHUNK, LADDER, then="small"))
    assert Adaptive(LADDER).choose(now) == TEXT_CHUNK
    dead = replace(now, throughput=1e3)
    assert Adaptive(LADDER).choose(dead) == TEXT_CHUNK
    assert Adaptive(LADDER).choose(replace(dead, returns=False)) == TEXT
    assert Adaptive(LADDER).choose(replace(dead, left=now.left[1:], have=1_000, slo=0.5)) == TEXT


def test_transfer_beside_computing() -> None:
    """While the engine computes another chunk, a slow transfer continues; once the engine waits, text is sooner."""
    now = situation((1_000, 1_000), throughput=1e4, slo=None, returns=True)
    assert Adaptive(LADDER).keeps(replace(now, busy=1.0), "medium", 2_000_000)
    assert not Adaptive(LADDER).keeps(now, "medium", 2_000_000)
    late = replace(now, slo=1.5)
    assert Adaptive(LADDER).keeps(replace(late, busy=1.0), "small", 2_000_000)
    assert not Adaptive(LADDER).keeps(late, "small", 2_000_000)


def test_a_dead_link_is_tried_beside_computing() -> None:
    """While the engine computes, a chunk is asked for over a dead link; not where others use the link."""
    dead = situation((1_000, 1_000), throughput=1e3, returns=True)
    assert Adaptive(LADDER).choose(dead) == TEXT_CHUNK
    assert Adaptive(LADDER).choose(replace(dead, slo=1.0)) == TEXT_CHUNK
    for slo in (None, 1.0):
        assert Adaptive(LADDER).choose(replace(dead, slo=slo, busy=1.0)) in LADDER.codecs
        assert Adaptive(LADDER).choose(replace(dead, slo=slo, busy=1.0, transfers=2)) == TEXT_CHUNK
        assert Adaptive(LADDER).choose(replace(dead, slo=slo, busy=1.0, returns=False)) == TEXT


def test_without_slo() -> None:
    """Without an SLO the default is taken, or text where it is sooner: on slow links, and for short prompts."""
    assert Adaptive(LADDER).choose(situation(throughput=1e7)) == "medium"
    assert Adaptive(LADDER).choose(situation(throughput=1e6)) == TEXT
    assert Adaptive(LADDER).choose(situation((40,), throughput=1e7, round_trip=0.1)) == TEXT
    assert Adaptive(LADDER).choose(situation((40,), round_trip=0.1)) == TEXT


def test_better_codec_on_a_fast_link() -> None:
    """Without an SLO a better codec is taken where the link is so fast that its bytes take less than more decoding."""
    costs = ChunkCosts(PREFILL, lambda codec, tokens: {"raw": 1e-7, "int8": 1e-6}.get(codec, 1e-4) * tokens)
    for throughput, codec in ((1e7, "medium"), (1e9, "int8"), (1e13, "raw")):
        assert Adaptive(LADDER).choose(replace(situation(throughput=throughput), costs=costs)) == codec


def test_shared_link() -> None:
    """Of a link that others use as well a transfer may expect its part."""
    assert Adaptive(LADDER).choose(situation(throughput=6e7, slo=1.0, transfers=2)) == "good"


def test_later_tokens_cost_more() -> None:
    """Text that is dear because much is before it is fetched where the same number of first tokens is computed."""
    late = replace(situation((100_000, 1_000), throughput=1.9e6), left=held((100_000, 1_000))[1:])
    assert Adaptive(LADDER).choose(late) == "medium"
    assert Adaptive(LADDER).choose(situation((1_000,), throughput=1.9e6)) == "medium"
    assert Adaptive(LADDER).choose(situation((1_000,), throughput=1e6)) == TEXT


def test_what_is_not_held() -> None:
    """Where the default is not held the next smaller is taken, else a better one; where nothing is, text."""
    for codecs, codec in ((("int8", "small"), "small"), (("raw", "int8"), "int8"), ((), TEXT)):
        assert Adaptive(LADDER).choose(replace(situation(throughput=1e9), left=held((1_000,), codecs))) == codec


def test_later_chunks_that_are_not_held() -> None:
    """Chunks of which nothing is held count as text: fetching those before must be worth it."""
    left = [*held((1_000,)), *held((1_000, 50_000), ())[1:]]
    fetched = replace(situation(throughput=1e7), left=left)
    assert fetched.fetch_seconds("medium", LADDER) == pytest.approx(0.2 + PREFILL(1_000, 51_000))
    assert Adaptive(LADDER).choose(fetched) == "medium"


def test_gives_up_what_comes_too_late() -> None:
    """With an SLO a transfer is given up once its rest is too late and another codec is sooner, not before."""
    policy, now = Adaptive(LADDER), situation((1_000, 1_000), throughput=4e6, slo=1.0)
    assert not policy.keeps(now, "raw", 10_000_000)
    assert policy.keeps(now, "raw", 1_000_000)
    assert policy.keeps(replace(now, slo=5.0), "raw", 10_000_000)
    assert policy.keeps(replace(now, slo=0.1), "small", 1_000_000)  # nothing is in time, unless the link recovers
    assert not policy.keeps(replace(now, slo=0.1), "raw", 16_000_000)
    assert Adaptive(LADDER, fallback=False).keeps(now, "raw", 10_000_000)


def test_gives_up_for_text() -> None:
    """Without an SLO a transfer is given up once text is sooner than its rest."""
    policy, now = Adaptive(LADDER), situation((1_000,), throughput=1e6)
    assert policy.keeps(now, "medium", 1_000_000)
    assert not policy.keeps(now, "medium", 2_000_000)
    assert not policy.keeps(replace(now, throughput=0.0), "medium", 1)
    assert policy.keeps(replace(now, throughput=None), "medium", 2_000_000)


situations = st.builds(
    lambda tokens, throughput, slo, elapsed, trip, decode: Situation(
        held(tokens),
        ChunkCosts(PREFILL, lambda _, count: decode * count),
        throughput=throughput,
        slo=slo,
        elapsed=elapsed,
        round_trip=trip,
    ),
    st.lists(st.integers(1, 3_000), min_size=1, max_size=6),
    st.floats(1e4, 1e10),
    st.none() | st.floats(0.01, 20.0),
    st.floats(0.0, 1.0),
    st.floats(0.0, 0.1),
    st.floats(0.0, 1e-3),
)


def seconds(now: Situation, choice: str) -> float:
    """Return how long a choice takes by the situation's own estimate."""
    if choice == TEXT:
        return now.text_seconds()
    return min(now.fetch_seconds(choice, LADDER), now.fetch_seconds(choice, LADDER, then=TEXT))


@given(situations)
def test_never_later_than_text(now: Situation) -> None:
    """Without an SLO no choice is later than text; with one it is in time, or the soonest codec unless far later."""
    choice = Adaptive(LADDER).choose(now)
    taken, text = seconds(now, choice), now.text_seconds()
    if now.slo is None:
        assert taken <= text
    elif not now.fits(taken) and now.fits(0.0):
        codecs = [now.fetch_seconds(codec, LADDER) for codec in LADDER.codecs]
        assert choice == TEXT or now.fetch_seconds(choice, LADDER) == min(codecs)
        assert choice != TEXT or 8 * text <= min(codecs)
        assert taken <= 8 * text


@given(situations, st.sampled_from([1.0, 2.0]))
def test_slo_met_where_it_can_be(now: Situation, headroom: float) -> None:
    """On a steady link that is known, choosing chunk by chunk is in time whenever any one choice for all is."""
    assume(now.slo is not None)
    policy = Adaptive(LADDER, headroom=headroom)
    could = any(now.fits(seconds(now, choice) * 1.000001) for choice in (TEXT, *LADDER.codecs))
    while now.left:
        choice = policy.choose(now)
        if choice == TEXT:
            now = replace(now, left=[], elapsed=now.elapsed + now.text_seconds(), busy=0.0)
            continue
        first = replace(now, left=now.left[:1])
        decoding = now.costs.decode(choice, now.left[0].chunk.tokens)
        taken = first.fetch_seconds(choice, LADDER) - decoding
        now = replace(now, left=now.left[1:], elapsed=now.elapsed + taken, busy=decoding)
    assert not could or now.elapsed + now.busy <= (now.slo or 0.0) * 1.000001


@given(situations, st.floats(1.0, 10.0))
def test_more_room_is_never_worse(now: Situation, factor: float) -> None:
    """A faster link or a longer SLO never makes a codec worse.

    Text is the best choice where it is in time, and only the soonest where it is late: more room can bring a codec.
    """
    assume(now.slo is not None)
    policy, order = Adaptive(LADDER), (TEXT, *LADDER.codecs)
    before = policy.choose(now)
    later = policy.choose(replace(now, slo=(now.slo or 0.0) * factor))
    late_text = before == TEXT and not now.fits(now.text_seconds())
    assert late_text or order.index(later) <= order.index(before)
    faster = policy.choose(replace(now, throughput=(now.throughput or 0.0) * factor))
    assert before == TEXT or order.index(faster) <= order.index(before)


@given(situations, st.sampled_from(LADDER.codecs), st.floats(0.01, 1.0))
def test_given_up_for_something_sooner(now: Situation, codec: str, share: float) -> None:
    """What is chosen after a transfer was given up is expected sooner than the rest of it."""
    policy = Adaptive(LADDER)
    rest = int(share * now.left[0].sizes[codec])
    if not policy.keeps(now, codec, rest):
        later = LADDER.default if now.slo is None else LADDER.codecs[-1]
        taken = seconds(now, policy.choose(now))
        assert taken < now.fetch_seconds(later, LADDER, (codec, rest))


@pytest.mark.parametrize(
    ("codecs", "default"), [(("a", "a"), "a"), (("a", "text"), "a"), (("a",), "b")], ids=["twice", "text", "default"]
)
def test_ladder_that_makes_no_sense(codecs: tuple[str, ...], default: str) -> None:
    """Codecs named twice or `text`, and a default that is none of them, are refused."""
    with pytest.raises(ValueError, match="expected"):
        Ladder(codecs, default)
