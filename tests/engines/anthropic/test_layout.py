"""Prompts as blocks, cut and marked where a cached start ends."""

from flightllm.engines.anthropic.layout import Layout

LAYOUT = Layout('[{"a": 1}]', "the rules", "t: one\nu: two\n\nSay.")
MARK = {"cache_control": {"type": "ephemeral"}}


def test_blocks_are_the_same_text() -> None:
    """The blocks of each message together are its text; a marked end is the end of a block."""
    begin = LAYOUT.user_begin
    assert LAYOUT.text[begin:] == LAYOUT.user
    system, user = LAYOUT.blocks([begin - 1, begin + 6, begin + 13], [begin - 1, begin + 13])
    assert system == [{"type": "text", "text": "the rules", **MARK}]
    assert user == [
        {"type": "text", "text": "t: one"},
        {"type": "text", "text": "\nu: two", **MARK},
        {"type": "text", "text": "\n\nSay."},
    ]


def test_an_end_between_the_messages_is_the_system_message() -> None:
    """Both places beside the line break between the messages mark the system message."""
    for place in (LAYOUT.user_begin - 1, LAYOUT.user_begin):
        system, user = LAYOUT.blocks([place], [place])
        assert "cache_control" in system[-1]
        assert user == [{"type": "text", "text": LAYOUT.user}]


def test_no_block_has_only_spaces() -> None:
    """The API rejects blocks of spaces, so no cut makes one, wherever it lies."""
    text = "a \n\n b\n "
    layout = Layout("", "", text)
    for place in range(len(text) + 2):
        system, user = layout.blocks([place, 3], [place])
        assert not system
        assert "".join(block["text"] for block in user) == text
        assert all(block["text"].strip() for block in user)


def test_equal_starts_have_equal_blocks() -> None:
    """Prompts with a common start are cut alike in it, although the first one is cut further."""
    begin = LAYOUT.user_begin
    _, long = LAYOUT.blocks([begin + 6, begin + 13], [begin + 6, begin + 13])
    _, short = LAYOUT.blocks([begin + 6], [begin + 6])
    assert long[0] == short[0]
    assert len(long) == 3
