"""The statements of the page's SQL box."""

from typing import Any

from flightllm.sql.splitting import pieces


def split(sql: str) -> list[dict[str, Any]]:
    """Return where each statement begins and ends, in UTF-16 units as browsers count, and the line of its first token.

    A statement begins with its first token, after the comments before it.
    """
    units, at, line, found = 0, 0, 1, []

    def units_to(place: int) -> int:
        nonlocal units, at, line
        passed = sql[at:place]
        units += len(passed) + sum(letter > "\uffff" for letter in passed)
        line += passed.count("\n")
        at = place
        return units

    for piece in pieces(sql):
        begin, begun = units_to(piece.first), line
        end = piece.first + len(sql[piece.first : piece.end].rstrip())
        found.append({"begin": begin, "end": units_to(end), "line": begun})
    return found
