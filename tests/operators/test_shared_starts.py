"""The starts that prompts of a pass share."""

from flightllm.operators.shared_starts import SharedStarts

ENDS = (2, 4)


def test_shared() -> None:
    """A start counts from the second prompt that has it; a prompt alone shares nothing."""
    starts = SharedStarts(2)
    starts.add("I a x", ENDS)
    assert starts.shared("I a x", ENDS) == 0
    starts.add("I b x", ENDS)
    assert starts.shared("I a x", ENDS) == 2
    starts.add("I a y", ENDS)
    assert [starts.shared(text, ENDS) for text in ("I a x", "I b x")] == [4, 2]


def test_a_dear_write() -> None:
    """Where storing costs more, more readers must pay for it."""
    starts = SharedStarts(3)
    for text in ("I a x", "I a y", "I b z"):
        starts.add(text, ENDS)
    assert starts.shared("I a x", ENDS) == 2


def test_an_expected_prompt_counts_once() -> None:
    """A prompt that was expected is not counted again when it comes."""
    starts = SharedStarts(2)
    for _ in range(2):
        starts.expect("I a x", ENDS)
    starts.add("I a x", ENDS)
    assert starts.shared("I a x", ENDS) == 0
    starts.add("I a y", ENDS)
    assert starts.shared("I a x", ENDS) == 4


def test_sent_alone() -> None:
    """A prompt that left before the others came has stored nothing, and one that shared has."""
    starts = SharedStarts(2)
    starts.add("I a x", ENDS)
    starts.sent("I a x", ENDS)
    starts.add("I a y", ENDS)
    assert starts.shared("I a y", ENDS) == 0
    starts.add("I a z", ENDS)
    for text in ("I a y", "I a z"):
        assert starts.shared(text, ENDS) == 4
        starts.sent(text, ENDS)
    starts.add("I a w", ENDS)
    assert starts.shared("I a w", ENDS) == 4


def test_kinds() -> None:
    """Prompts after different schemas share nothing."""
    starts = SharedStarts(2)
    starts.add("I a x", ENDS, "yes or no")
    starts.add("I a y", ENDS, "a number")
    assert starts.shared("I a x", ENDS, "yes or no") == 0


def test_packs() -> None:
    """Packs share their question if enough packs come; values that the next pack has; and what a pack has stored."""
    starts = SharedStarts(2)
    assert starts.shared_by_packs("I a x", ENDS, 1, None) == 0
    assert starts.shared_by_packs("I a x", ENDS, 2, None) == 2
    assert starts.shared_by_packs("I a x", ENDS, 2, "I a y") == 4
    assert SharedStarts(3).shared_by_packs("I a x", ENDS, 3, "I a y") == 2
    starts.store("I a x", ENDS)
    assert starts.shared_by_packs("I a y", ENDS, 1, None) == 4
    assert starts.shared_by_packs("I a y", ENDS, 1, None, "another schema") == 0


def test_a_packed_prompt_stores_nothing() -> None:
    """A prompt that leaves in a pack does not store its start, and no longer waits."""
    starts = SharedStarts(2)
    for text in ("I a x", "I b y"):
        starts.add(text, ENDS)
    assert starts.waiting("I a x", 2) == 2
    for text in ("I a x", "I b y"):
        starts.sent(text, ENDS, packed=True)
    assert starts.waiting("I a x", 2) == 0
    assert starts.shared("I a x", ENDS) == 0
