"""Free text: one-sentence summaries, and requests that the model declines."""

from training.passages.base import Passage
from training.phrases import Writer
from training.tasks.base import Example
from training.tasks.rows import row_of

_LANGUAGES = (
    "German",
    "French",
    "Spanish",
    "Italian",
    "Japanese",
    "Turkish",
    "de",
    "fr",
    "es",
    "Dutch",
    "Polish",
    "Arabic",
    "Hindi",
)
_SUMMARIES = ("Summarize.", "Summarize it in one sentence.", "Say in one sentence what this is about.", "Sum it up.")
_MAX_WORDS = (10, 12, 15, 20, 25, 30)
_KINDS = ("person", "email", "phone", "address", "company")
_DECLINED = "I cannot {task}: I am only a small demonstration model."


def ask_summary(writer: Writer, passage: Passage) -> Example | None:
    """Return a request for a summary; None if the passage has no summary."""
    if passage.summary is None:
        return None
    if writer.chance(0.3):
        row = row_of(writer, passage, plain=True)
        return Example("summary", "ai_gen", writer.rng.choice(_SUMMARIES), row, passage.summary)
    limits = [words for words in _MAX_WORDS if words >= len(passage.summary.split())]
    options = (("max_words", writer.rng.choice(limits)),) if limits and writer.chance(0.5) else ()
    return Example("summary", "ai_summarize", None, ((passage.column, passage.text),), passage.summary, options)


def ask_in_vain(writer: Writer, passage: Passage) -> Example:
    """Return a request for a task that the model cannot do; its answer says so."""
    row = ((passage.column, passage.text),)
    form = writer.rng.choice(["translate", "translate", "translate", "fix", "mask"])
    if form == "translate":
        return Example(
            "decline", "ai_translate", writer.rng.choice(_LANGUAGES), row, _DECLINED.format(task="translate")
        )
    if form == "fix":
        return Example("decline", "ai_fix_grammar", None, row, _DECLINED.format(task="correct texts"))
    labels = tuple(writer.rng.sample(_KINDS, writer.rng.randint(1, 3)))
    return Example("decline", "ai_mask", labels, row, _DECLINED.format(task="mask texts"))
