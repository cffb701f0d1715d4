"""The least number of tokens that an engine must compute for a set of prompts: the sizes of their prefix tries.

Three bounds, each for one query that begins with an empty prefix cache. No cache, however large, computes less.

- `least(prompts)`: the prompts keep their texts and are sent in any order. The bound is the number of nodes of the
  prompts' token trie: each distinct start of a prompt is computed once. It counts single tokens.
- `least(prompts, block)`: the same, for a cache that keeps whole blocks of `block` tokens. The bound is `block` tokens
  for each distinct start of whole blocks, plus the tokens of each prompt behind its last whole block.
- `least_of_any_field_order(prompts)`: each prompt can also have its fields in any order. The texts before and
  after the fields stay. The bound counts nodes that every such trie has, whichever orders are chosen.

Even a cache that evicts nothing can compute more than the bound of `least`. vLLM computes the last block of a prompt
again, also if an equal prompt came before. Prompts that share a start and run at once can each compute this start. No
order needs to reach the bound of `least_of_any_field_order`.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from flightllm.common.text import shared_start

_JOINED: Final = 3
"""The most tokens, such as those of an empty line, between the steady start of a prompt and its first field."""


@dataclass(frozen=True, slots=True)
class Line:
    """The line of a field. `tokens` do not depend on what follows; at most `more` tokens behind them can do so."""

    tokens: tuple[int, ...]
    more: int


@dataclass(frozen=True, slots=True)
class Parts:
    """The tokens of one prompt: before its fields, of each field's line, and behind the fields."""

    head: tuple[int, ...]
    lines: tuple[tuple[int, ...], ...]
    tail: tuple[int, ...]


def nodes(sequences: Iterable[Sequence[int]]) -> int:
    """Return the number of nodes of the sequences' trie, without its root: the distinct starts of at least one item."""
    ordered = sorted({tuple(one) for one in sequences})
    return sum(map(len, ordered)) - sum(shared_start(left, right) for left, right in pairwise(ordered))


def least(prompts: Iterable[Sequence[int]], block: int = 1) -> int:
    """Return the least number of tokens to compute for prompts that are sent in any order.

    `prompts` has the tokens of each prompt. Equal prompts count once.

    Raises:
        ValueError: `block` is less than 1.
    """
    if block < 1:
        raise ValueError(f"block: expected at least 1 token, got {block}")
    distinct = {tuple(one) for one in prompts}
    if block == 1:
        return nodes(distinct)
    numbers: dict[tuple[int, ...], int] = {}
    cut = [
        [
            numbers.setdefault(one[start : start + block], len(numbers))
            for start in range(0, len(one) - block + 1, block)
        ]
        for one in distinct
    ]
    return block * nodes(cut) + sum(len(one) % block for one in distinct)


def least_of_any_field_order(prompts: Iterable[Parts]) -> int:
    """Return a number of tokens that must be computed, whichever orders the prompts and their fields have.

    A trie has nodes before, in and after the fields:

    - before the fields: each distinct start of a head
    - in the fields: each distinct start of a line, once for each head; other lines can precede it
    - after the fields: the tails of each distinct set of lines, because prompts with different lines part before

    The bound holds if no line of a value reads like a field. `field_line` indents a value's further lines.
    """
    groups: dict[tuple[int, ...], set[tuple[int, ...]]] = {}
    tails: dict[Hashable, set[tuple[int, ...]]] = {}
    for one in prompts:
        groups.setdefault(one.head, set()).update(one.lines)
        tails.setdefault((one.head, tuple(sorted(one.lines))), set()).add(one.tail)
    return nodes(groups) + sum(map(nodes, groups.values())) + sum(map(nodes, tails.values()))


def line(text: str, encode: Callable[[str], Sequence[int]]) -> Line:
    """Return the tokens of a field's line. `encode` returns the tokens of a text.

    The text is encoded as the last one, before another line, and before an empty line.
    """
    bare = text.removesuffix("\n")
    encoded = [list(encode(bare + end)) for end in ("", "\n", "\n\n")]
    steady = min(shared_start(encoded[0], other) for other in encoded)
    return Line(tuple(encoded[0][:steady]), max(map(len, encoded)) - steady)


def parts(tokens: Sequence[int], lines: Sequence[Line], begin: int) -> Parts | None:
    """Divide the tokens of a prompt at its lines, which follow one another in the order of the prompt.

    The first line is at `begin`, or a few tokens behind it: other texts of the prompt can have a line of a field too.

    Return None if the lines are not there, because the tokenizer joined texts across a line's end. Without such prompts
    a bound is lower, and still holds.
    """
    ends, places = [begin], list[int]()
    room = _JOINED
    for one in lines:
        size, end = len(one.tokens), ends[-1]
        found = (place for place in range(end, end + room + 1) if tuple(tokens[place : place + size]) == one.tokens)
        place = next(found, None)
        if place is None:
            return None
        places.append(place)
        ends.append(place + size)
        room = one.more
    if not lines:
        return Parts(tuple(tokens), (), ())
    return Parts(tuple(tokens[: places[0]]), tuple(one.tokens for one in lines), tuple(tokens[ends[-1] + room :]))


def fields_begin(prompt: str, lines: Sequence[str]) -> int | None:
    """Return the place of the fields in a prompt, given their lines in its order.

    Return None if the text of all lines is not there exactly once, as where the instruction quotes the only field.
    """
    if not lines:
        return len(prompt)
    body = "".join(lines).removesuffix("\n")
    place = prompt.find(body)
    return place if place >= 0 and prompt.find(body, place + 1) < 0 else None
