"""COPY … TO STDOUT and COPY … FROM STDIN."""

from collections.abc import Sequence

import pyarrow as pa

from flightllm.postgres.copy_in import copy_in
from flightllm.postgres.copy_options import CopyOptions, read_options
from flightllm.postgres.copy_out import copy_out
from flightllm.postgres.failures import WireError
from flightllm.postgres.results import Result
from flightllm.postgres.talk import Talk
from flightllm.sql.tokens import Token, closing_parenthesis

_USAGE = "write COPY table [(column, …)] FROM STDIN [WITH (…)], or COPY (query) TO STDOUT [WITH (…)]"


def copy(talk: Talk, tokens: Sequence[Token], text: str, values: pa.Table | None) -> Result:
    """Run COPY; the rows are sent or read meanwhile.

    Raises:
        WireError: the statement names a file or a program, or an option is wrong.
    """
    end = _end_of_name(tokens)
    if end + 1 >= len(tokens) or not tokens[end].is_word("to", "from"):
        raise WireError("42601", _USAGE)
    place = "stdout" if tokens[end].is_word("to") else "stdin"
    if not tokens[end + 1].is_word(place, "stdin", "stdout"):
        raise WireError("0A000", "COPY reads and writes no files of the server: " + _USAGE)
    options: CopyOptions = read_options(tokens[end + 2 :], reads=tokens[end].is_word("from"))
    named = text[tokens[1].start : tokens[end - 1].end]
    if tokens[end].is_word("from"):
        return copy_in(talk, tokens[1:end], options)
    if options.match:
        raise WireError("0A000", 'cannot use "match" with HEADER in COPY TO')
    if tokens[1].is_symbol("("):
        return copy_out(talk, text[tokens[1].end : tokens[end - 1].start], values, options)
    listed = next((index for index in range(1, end) if tokens[index].is_symbol("(")), None)
    if listed is None:
        return copy_out(talk, f"SELECT * FROM {named}", values, options)
    columns = text[tokens[listed].end : tokens[end - 1].start]
    return copy_out(talk, f"SELECT {columns} FROM {text[tokens[1].start : tokens[listed - 1].end]}", values, options)


def _end_of_name(tokens: Sequence[Token]) -> int:
    """Return the index after the table with its columns, or after the query."""
    at = 1
    while at < len(tokens) and not tokens[at].is_word("to", "from"):
        at = closing_parenthesis(tokens, at) + 1 if tokens[at].is_symbol("(") else at + 1
    return at
