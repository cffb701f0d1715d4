"""Refuse a text that computes a random value twice: the two values would differ."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from flightllm.dialect.generator.calls import is_random
from flightllm.dialect.generator.reading import written_name
from flightllm.errors import UnsupportedError

if TYPE_CHECKING:
    from sqlglot import exp


def random_calls(part: "exp.Expr") -> Iterator[Any]:
    """Yield the random calls in a part of a text, also those in a query in it; one inside another is left out."""
    yield from (one for one in part.walk(prune=is_random) if is_random(one))


def checked_once(generator: Any, part: "exp.Expr | str | None", text: str) -> str:
    """Return the text of a part; it has each random call only as often as the part has it.

    A text can repeat an AI call, because equal calls of a query ask once.

    Raises:
        UnsupportedError: the text repeats a random call.
    """
    from sqlglot import exp

    if not isinstance(part, exp.Condition):
        return text
    if is_random(part):
        generator.random_texts[id(part)] = part, text  # the part stays alive, so no other one has its identity
        return text
    calls = [_text(generator, one) for one in random_calls(part)]
    shown = _without_literals(text)
    for call in map(_without_literals, set(calls)):
        if shown.count(call) > sum(_without_literals(one).count(call) for one in calls):
            raise UnsupportedError(
                f"{written_name(part)} of {generator.read_from} would compute a random argument twice, with two values:"
                " write the random value as a column x of a subquery, as in FROM (SELECT *, … AS x FROM t)"
            )
    return text


def _without_literals(text: str) -> str:
    """Return a text with empty literals: a literal can have the name of a random function."""
    return re.sub(r"'(?:[^']|'')*'", "''", text)


def _text(generator: Any, call: Any) -> str:
    """Return the text of a random call, which is written once, also for the parts around it."""
    known = generator.random_texts.get(id(call))
    return str(generator.sql(call) if known is None else known[1])
