"""Thoughts are taken from answers, for each family of marks, and nothing else is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flightllm.llm.reasoning import Split, marks_reasoning, opens_reasoning, split_reasoning

_MARKS = (
    ("<think>", "</think>"),
    ("<think:opaque>", "</think:opaque>"),
    ("<thinking>", "</thinking>"),
    ("<reasoning>", "</reasoning>"),
    ("<thought>", "</thought>"),
    ("<seed:think>", "</seed:think>"),
    ("<mm:think>", "</mm:think>"),
    ("<ifm|think_fast>", "</ifm|think_fast>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|thinking|>", "<|/thinking|>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|inner_prefix|>", "<|inner_suffix|>"),
    ("<|plamo:begin_think:plamo|>", "<|plamo:end_think:plamo|>"),
    ("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
    ("<|message_model|><|content_thinking|>", "<|end_message|>"),
    ("<|channel>thought\n", "<channel|>"),
    ("to=self<|message|>", "<|eom|>"),
    ("Here is my thought process:", "Here is my response:"),
    ("Here's my thought process:", "Here's my response:"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
)
_PLAIN = st.text(st.characters(exclude_characters="<[◁|>"), max_size=40).filter(
    lambda text: not text.lstrip().startswith(("Here", "analysis", "to=self"))
)


@pytest.mark.parametrize(("opening", "closing"), _MARKS)
def test_a_thought_at_the_start_goes(opening: str, closing: str) -> None:
    """What is left of a text with a thought is its answer, whatever marks the thought."""
    split = split_reasoning(f"\n{opening}\nIs it a cat? Yes.\n{closing}\n\nYes")
    assert split == Split("Yes", "Is it a cat? Yes.", closed=True)


@pytest.mark.parametrize(("opening", "closing"), _MARKS)
def test_a_thought_that_never_ends_has_no_answer(opening: str, closing: str) -> None:
    """A text that stops within its thought has an empty answer, never the thought."""
    del closing
    assert split_reasoning(f"{opening}\nIs it a cat") == Split("", "Is it a cat", closed=False)


@pytest.mark.parametrize(("opening", "closing"), _MARKS[:-3])
def test_the_prompt_opened_the_thought(opening: str, closing: str) -> None:
    """The closing mark alone ends a thought whose opening mark is in the prompt."""
    del opening
    assert split_reasoning(f"Is it?\n{closing}\nYes", opened=True) == Split("Yes", "Is it?", closed=True)
    assert split_reasoning(f"Is it?\n{closing}\nYes") == Split("Yes", "Is it?", closed=True)


def test_an_open_thought_without_an_end_has_no_answer() -> None:
    """Where the prompt opened a thought and the text never ends it, all of the text is thought."""
    assert split_reasoning("Is it a cat", opened=True) == Split("", "Is it a cat", closed=False)


def test_an_open_analysis_channel() -> None:
    """A text that begins within gpt-oss's analysis channel ends it by the final channel."""
    text = "Is it?<|end|><|start|>assistant<|channel|>final<|message|>Yes<|return|>"
    assert split_reasoning(text, opened=True) == Split("Yes", "Is it?", closed=True)


@pytest.mark.parametrize(
    "text",
    [
        "The page says <think>be quiet</think> in bold.",
        "Yes <think>",
        '{"xml": "<a><reasoning>r</reasoning></a>"}',
        "analysis of the text",
        "analysisId",
        "An analysis. The assistantfinal is here.",
        "Here is my response: yes",
        "[1, 2]",
        " Yes\n",
        "",
    ],
)
def test_a_text_that_only_quotes_marks_stays(text: str) -> None:
    """Marks that are not at the start belong to the answer."""
    assert split_reasoning(text) == Split(text, "", closed=True)


@pytest.mark.parametrize(
    ("text", "answer", "reasoning"),
    [
        ("analysisWe need a label.assistantfinalspam", "spam", "We need a label."),
        (
            (
                "<|start|>assistant<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>commentary<|message|>b"
                "<|end|><|start|>assistant<|channel|>final <|constrain|>json<|message|>{}<|return|>"
            ),
            "{}",
            "a\nb",
        ),
        ("<|channel|>final<|message|>Yes<|return|>", "Yes", ""),
        ("<think>\n\n</think>\n\n<think>so</think>Yes", "Yes", "so"),
        ("<think>so</think>\n<response>\nYes\n</response>\n", "Yes", "so"),
        ("<think>so</think><answer>\nYes", "Yes", "so"),
        ("<|START_THINKING|>so<|END_THINKING|><|START_RESPONSE|>Yes<|END_RESPONSE|>", "Yes", "so"),
        (
            (
                "<|open|>think<|sep|>so<|close|>think<|sep|><|open|>response<|sep|>Yes<|close|>response<|sep|>"
                "<|close|>message<|sep|>"
            ),
            "Yes",
            "so",
        ),
        ("<think>so</think>\n</think>Yes", "Yes", "so"),
        ("Here are my reasoning steps:\nso\n[BEGIN FINAL RESPONSE]\nYes\n[END FINAL RESPONSE]\n", "Yes", "so"),
        ("<think>so</think>He said <think>no</think>.", "He said <think>no</think>.", "so"),
    ],
)
def test_what_models_put_around_an_answer(text: str, answer: str, reasoning: str) -> None:
    """Channels and wrappers go with the thought; quotes behind it stay."""
    assert split_reasoning(text) == Split(answer, reasoning, closed=True)


def test_a_cut_off_analysis_without_its_tokens_has_no_answer() -> None:
    """A thought of gpt-oss that stops before its final channel is unmistakable by its first words."""
    assert split_reasoning("analysisWe need to classify") == Split("", "We need to classify", closed=False)


@given(_PLAIN)
def test_a_text_without_marks_is_unchanged(text: str) -> None:
    """No text without marks is touched."""
    assert split_reasoning(text) == Split(text, "", closed=True)


@given(st.sampled_from(_MARKS), _PLAIN, _PLAIN)
def test_no_answer_has_the_thought(marks: tuple[str, str], thought: str, answer: str) -> None:
    """The answer is what follows the closing mark, whatever the thought says."""
    opening, closing = marks
    found = split_reasoning(f"{opening}{thought}#secret#{closing}{answer}")
    assert found.closed
    assert found.answer.strip() == answer.strip()
    assert "#secret#" in found.reasoning
    cut = split_reasoning(f"{opening}{thought}#secret#")
    assert (cut.answer, cut.closed) == ("", False)


@pytest.mark.parametrize(("opening", "closing"), _MARKS[:16])
def test_prompts_that_open_a_thought(opening: str, closing: str) -> None:
    """A prompt that ends with an opening mark is told from one whose thought is closed."""
    assert opens_reasoning(f"<|im_start|>assistant\n{opening}\n")
    assert not opens_reasoning(f"<|im_start|>assistant\n{opening}\n\n{closing}\n\n")


def test_marks_are_told_from_other_special_tokens() -> None:
    """Special tokens that mark thoughts are kept for the split; those that end a text are not."""
    assert all(map(marks_reasoning, ("[THINK]", "<|channel|>", "<|message|>", "<think>", "<|END_THINKING|>")))
    assert not any(map(marks_reasoning, ("<|im_end|>", "</s>", "<eos>", "<|endoftext|>", "<pad>")))


@pytest.mark.parametrize(
    "text",
    [
        "Write your plan, then </think> to go on. It worked.",
        "<reasoning>a</reasoning>b",
        "Here is my thought process: I liked it.",
    ],
)
def test_careful_with_models_that_do_not_think(text: str) -> None:
    """Of a model that is not known to think, a text that speaks of marks stays whole."""
    split = split_reasoning(text, careful=True)
    assert (split.answer, split.reasoning) == (text, "")


@pytest.mark.parametrize("text", ["<think>\nso\n</think>\n\nYes", "so\n</think>\n\nYes"])
def test_careful_with_thoughts(text: str) -> None:
    """A thought that is plainly one is taken away from any model's answer."""
    split = split_reasoning(text, careful=True)
    assert (split.answer, split.reasoning) == ("Yes", "so")
