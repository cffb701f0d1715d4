"""The public API for AI functions: everything that a file in `udfs/`, or in your own folder, imports.

Imports: common, engines, errors, learning, llm, quality, vector.
"""

from flightllm.engines.embed.engine import vector_of
from flightllm.errors import AICallError
from flightllm.functions.answers import choice_answer, json_answer, number_answer, text_answer
from flightllm.functions.approximate import approximate
from flightllm.functions.approximate import function as approximate_function
from flightllm.functions.base import (
    CALIBRATE,
    CONFIDENCE,
    JOINING,
    LABELS_OPTION,
    QUALITY,
    AIFunction,
    Answer,
    Arguments,
    Entries,
    Kind,
    Option,
    Parameter,
    ScalarFunction,
    SetAnswer,
    SetQuestion,
)
from flightllm.functions.call import Room, Usual
from flightllm.functions.confidence import expected_number
from flightllm.functions.judged import rating_answer, yes_or_no_answer
from flightllm.functions.labels import described
from flightllm.functions.registry import FunctionRegistry
from flightllm.functions.search import search_answer
from flightllm.llm.engine import Choice, Engine, JsonSchema, Regex

__all__ = [
    "CALIBRATE",
    "CONFIDENCE",
    "JOINING",
    "LABELS_OPTION",
    "QUALITY",
    "AICallError",
    "AIFunction",
    "Answer",
    "Arguments",
    "Choice",
    "Engine",
    "Entries",
    "FunctionRegistry",
    "JsonSchema",
    "Kind",
    "Option",
    "Parameter",
    "Regex",
    "Room",
    "ScalarFunction",
    "SetAnswer",
    "SetQuestion",
    "Usual",
    "approximate",
    "approximate_function",
    "choice_answer",
    "described",
    "expected_number",
    "json_answer",
    "number_answer",
    "rating_answer",
    "search_answer",
    "text_answer",
    "vector_of",
    "yes_or_no_answer",
]
