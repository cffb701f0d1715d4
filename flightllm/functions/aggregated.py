"""The questions of an aggregate over a model: extract notes from texts, combine notes, and write the result."""

from dataclasses import replace
from typing import Final

import pyarrow as pa

from flightllm.errors import AICallError
from flightllm.functions.answers import text_answer
from flightllm.functions.base import Answer, Arguments, Option, SetAnswer, SetQuestion
from flightllm.functions.call import Usual

METHOD: Final = "agg"
EXTRACT, COMBINE, WRITE, ONE = "extract", "combine", "write", "one"
"""The questions: about some texts, about some notes, about the last notes, and about all texts of a group."""
TEXTS, NOTES = "texts", "notes"
"""The names of the field in their prompts."""
LEAST_CONTEXT: Final = 256
"""The fewest tokens of a context that a call can name."""
NOTE_TOKENS: Final = 512
"""The most tokens of notes, unless the call or the model's context sets fewer."""
CITED: Final = pa.struct([("value", pa.string()), ("citations", pa.list_(pa.string()))])
"""The type of a result with citations."""
AGGREGATE_OPTIONS: Final = (
    Option("citations", bool, default=False),
    Option("context_tokens", int, low=LEAST_CONTEXT, high=100_000_000),
)
"""The options of aggregates over a model.

`citations` gives each sentence the numbers of the rows that support it. `context_tokens` is how many tokens a prompt
can have together with its answer; it defaults to what the engine knows about its model.
"""

_NOTE_WORDS: Final = 150
_USUAL: Final = Usual(120)
_LINES: Final = "Between two of them is a line ---. (3 times) before a text says how often it occurs."
_CITE: Final = (
    "After each sentence, write the numbers of the texts that support it in brackets, such as [2] or [1, 3]."
    " Use only numbers that you see."
)
_KEEP: Final = (
    "After each sentence, keep the numbers in brackets that support it, such as [2] or [1, 3]."
    " Use only numbers that you see."
)


def aggregated(call: Arguments, task: str, result: Answer) -> Answer:
    """Return the answer of an aggregate that does `task` with all texts of a group; `result` is its last answer.

    Raises:
        AICallError: the result is not a text, and the call wants citations.
    """
    citing = call.flag("citations")
    if citing and result.output != pa.string():
        raise AICallError("citations => true works for a text only: leave out citations or response_format")
    notes = text_answer("", max_tokens=NOTE_TOKENS, usual=_USUAL)
    cite, keep = (f" {_CITE}", f" {_KEEP}") if citing else ("", "")
    words = f"Write at most {_NOTE_WORDS} words."
    questions = {
        EXTRACT: _asked(
            notes,
            f"This is the task: {task}\nBelow are some of the texts of a larger group. {_LINES} Note what matters in"
            f" them for the task, with numbers and names. Another step does the task with all notes. {words}{cite}",
            "Answer with the notes alone.",
            cite,
        ),
        COMBINE: _asked(
            notes,
            f"This is the task: {task}\nBelow are notes about some of the texts of a larger group. Between two of them"
            f" is a line ---. Merge them into notes that keep what matters for the task. {words}{keep}",
            "Answer with the notes alone.",
            keep,
        ),
        WRITE: _asked(
            result,
            f"{task}\nBelow are notes about all texts of a group, which together stand for the texts. Between two of"
            f" them is a line ---.{keep}",
            "Answer with the result alone.",
            keep,
        ),
        ONE: _asked(
            result,
            f"{task}\nBelow are all texts of a group. {_LINES} Answer for all of them together.{cite}",
            "Answer with the result alone.",
            cite,
        ),
    }
    fields = {EXTRACT: TEXTS, ONE: TEXTS, COMBINE: NOTES, WRITE: NOTES}
    given = call.values.get("context_tokens"), call.values.get("max_tokens")
    options = (("citing", citing), ("context_tokens", given[0]), ("max_tokens", given[1]))
    over = SetAnswer(
        METHOD, {name: SetQuestion(one, (fields[name],)) for name, one in questions.items()}, options, whole=False
    )
    return replace(result, output=CITED if citing else result.output, over=over)


def _asked(answer: Answer, instruction: str, reply: str, cite: str) -> Answer:
    known = answer.asked.reply if answer.asked is not None and answer.asked.reply else reply
    told = f"{instruction}\n{known}"
    # Small models forget a rule that comes before long texts, so the prompt repeats it after the texts.
    again = f"{known} Write whole sentences. {cite.strip()}" if cite else None
    return replace(answer, instruction=told).in_parts(instruction, reply=known, again=again)
