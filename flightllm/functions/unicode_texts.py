"""The numbers of a text's letters in Unicode, and the normal forms of texts."""

import unicodedata
from typing import Final, Literal, cast

import pyarrow as pa

from flightllm.errors import SqlError
from flightllm.functions.own import OwnFunction
from flightllm.functions.rows import each_row

CODE_POINTS, OF_CODE_POINTS, NORMAL_FORM = "__code_points", "__of_code_points", "__normal_form"
"""The names of the functions in SQL."""
NUMBERS: Final = pa.list_(pa.int64())
_MOST: Final = 0x10FFFF
_Form = Literal["NFC", "NFD", "NFKC", "NFKD"]


def code_points(texts: pa.Array) -> pa.Array:
    """Return the number of each letter."""
    return pa.array([None if text is None else [ord(letter) for letter in text] for text in texts.to_pylist()], NUMBERS)


def of_code_points(lists: pa.Array) -> pa.Array:
    """Return the texts of numbers of letters; a list with a NULL is NULL.

    Raises:
        SqlError: a number does not belong to a letter.
    """
    return pa.array([None if one is None or None in one else _text(one) for one in lists.to_pylist()], pa.string())


def normal_forms(texts: pa.Array, forms: pa.Array) -> pa.Array:
    """Return texts in a normal form: NFC, NFD, NFKC or NFKD, and with `-` after it also in small letters."""
    return each_row(_normal, texts, forms)


def _text(numbers: list[int]) -> str:
    wrong = next((one for one in numbers if not 0 <= one <= _MOST or 0xD800 <= one <= 0xDFFF), None)
    if wrong is not None:
        raise SqlError(f"{wrong} is not the number of a letter: write numbers from 0 to {_MOST}")
    return "".join(map(chr, numbers))


def _normal(text: str, form: str) -> str:
    made = unicodedata.normalize(cast("_Form", form.removesuffix("-")), text)
    return made if not form.endswith("-") else unicodedata.normalize(cast("_Form", form[:-1]), made.casefold())


FUNCTIONS: Final = (
    OwnFunction(code_points, (pa.string(),), NUMBERS, CODE_POINTS),
    OwnFunction(of_code_points, (NUMBERS,), pa.string(), OF_CODE_POINTS),
    OwnFunction(normal_forms, (pa.string(), pa.string()), pa.string(), NORMAL_FORM),
)
