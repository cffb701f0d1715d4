"""Compute the probabilities of a choice's options from the log probabilities of an answer's tokens.

No value of a response body is trusted. An example with the options `Yes` and `No` and the answer `Yes`: the first token
is `Yes` with 0.5, ` yes` 0.1, `Y` 0.1, `No` 0.2 and `Well` 0.1. Then `Yes` has the probability 0.6 / 0.8.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

TOP = 20
"""The number of log probabilities to request for each token: the maximum of OpenAI, and vLLM's default maximum."""
_LEAD = b" \t\r\n\"'`*_:"
"""Characters that can precede an answer in the same token."""
_MOST_UNKNOWN = 0.01
"""The bound on the share of options without a listed token; above this share, the probability is unknown."""
_NEARNESS = 4
"""The power of the distance by which numbers divide a common probability."""
_LEAST_LOGPROB = 10_000
"""The bound on the size of a log probability; vLLM writes -9999 for an impossible token."""
_SPECIAL = re.compile(rb"<[^<>]*>")


@dataclass(frozen=True, slots=True)
class TokenStep:
    """One token of an answer, and the most probable tokens at this position with natural log probabilities."""

    token: bytes
    top: tuple[tuple[bytes, float], ...]


def read_probabilities(logprobs: object, text: str | None, options: Sequence[str]) -> tuple[float, ...] | None:
    """Return the probability of each option, from a choice's `logprobs` in an endpoint's body.

    `text` is the option that the answer chose. The probabilities are in the order of `options`. Their sum is 1, unless
    some are NaN, which stands for unknown. The body has the format of OpenAI's chats or completions. Return None if it
    does not have enough log probabilities.
    """
    if text is None or not options or not isinstance(logprobs, Mapping):
        return None
    steps = _read_chat(logprobs) if "content" in logprobs else _read_completion(logprobs)
    return option_probabilities(steps, text, options)


def option_probabilities(steps: Sequence[TokenStep], text: str, options: Sequence[str]) -> tuple[float, ...] | None:
    """Return the probability of each option after an answer that chose `text`; None if the steps do not tell it."""
    names = [option.strip().encode() for option in options]
    folding = len({name.lower() for name in names}) == len(names)
    if folding:
        names = [name.lower() for name in names]
    wanted = text.strip().encode()
    wanted = (wanted.lower() if folding else wanted).strip(_LEAD + b".!")
    if wanted not in names:
        return None
    walk = _Walk(names, names.index(wanted))
    spoken = [_folded(step) if folding else step for step in steps]
    start = _start(spoken, wanted)
    return None if start is None else walk.probabilities(_steps_from(spoken, start))


def constrained_probabilities(
    steps: Sequence[TokenStep], text: str, options: Sequence[str]
) -> tuple[float, ...] | None:
    """Return the probability of each option, where a grammar allowed only the options, letter by letter.

    Options can begin with different spaces, such as ` Yes` and `No`. A first token that is a space then tells the
    options apart. `option_probabilities` skips this token, because it looks for the words. Return None if the steps do
    not determine the probabilities.
    """
    leads = {option[: len(option) - len(option.lstrip())] for option in options}
    if len(leads) <= 1:
        return option_probabilities(steps, text, options)
    if text not in options:
        return None
    walk = _Walk([option.encode() for option in options], options.index(text), lead=b"")
    return walk.probabilities(iter(steps))


def first_token_probabilities(
    listed: Sequence[tuple[bytes, float]], text: str, options: Sequence[str]
) -> tuple[float, ...] | None:
    """Return the probability of each option, from the tokens that can begin an option, as `listed`.

    A token that can begin several options does not count for the chosen option `text`. As in `option_probabilities`,
    only the most probable spelling of an option counts. None: all tokens are impossible.
    """
    ways: dict[frozenset[int], dict[bytes, float]] = {}
    for piece, logprob in listed:
        way = frozenset(place for place, option in enumerate(options) if option.encode().startswith(piece))
        spellings = ways.setdefault(way, {})
        spellings[piece] = spellings.get(piece, 0.0) + math.exp(logprob)
    likely = {way: max(spellings.values()) for way, spellings in ways.items()}
    if text not in options or not sum(likely.values()):
        return None
    total = sum(likely.values())
    shares = _Shares(options, options.index(text))
    shares.add({way: probability / total for way, probability in likely.items()})
    return shares.all() if shares.known[shares.chosen] else None


class _Shares:
    """The probabilities of options, of which some are known only together: `1` and `10` can begin with one token.

    Numbers divide a common probability by their distance from the known ones: beside `9` 0.6, `10` gets nearly all of
    it. Other options do so only where it is a trace; else their probabilities are unknown, which NaN says.
    """

    def __init__(self, options: Sequence[str], chosen: int) -> None:
        self.chosen = chosen
        self.known = [0.0] * len(options)
        self._together: list[tuple[frozenset[int], float]] = []
        self._numbers = _numbers(options)

    def add(self, ways: Mapping[frozenset[int], float]) -> None:
        """Add the probability of each way. An option with a way of its own has no part in others.

        The chosen option has its own probability: a way of several options is not its way. With the options 1 and 10,
        the ways {10} 0.1 and {1, 10} 0.3, the option 1 gets 0.3.
        """
        alone = {option for way in ways if len(way) == 1 for option in way}
        for way, probability in ways.items():
            others = way - {self.chosen} if len(way) > 1 else way
            options = others - alone or others
            if len(options) == 1:
                self.known[next(iter(options))] += probability
            else:
                self._together.append((options, probability))

    def all(self) -> tuple[float, ...]:
        """Return the probability of each option."""
        found = list(self.known)
        trace = sum(probability for _, probability in self._together) <= _MOST_UNKNOWN
        for options, probability in self._together:
            weights = {option: 1.0 if self._numbers is None else self._nearness(option) for option in options}
            total = sum(weights.values())
            known = total and (trace or self._numbers is not None)
            for option, weight in weights.items():
                found[option] += probability * weight / total if known else math.nan
        return tuple(found)

    def _nearness(self, option: int) -> float:
        numbers = self._numbers or []
        step = (max(numbers) - min(numbers)) / (len(numbers) - 1)
        return sum(
            probability / (1 + abs(number - numbers[option]) / step) ** _NEARNESS
            for probability, number in zip(self.known, numbers, strict=True)
        )


def _numbers(options: Sequence[str]) -> list[float] | None:
    """Return the options as different numbers, or None for other options."""
    try:
        found = [float(option) for option in options]
    except ValueError:
        return None
    return found if len(set(found)) == len(found) > 1 and all(map(math.isfinite, found)) else None


class _Walk:
    """A walk along an answer's tokens to the chosen option, which multiplies the shares of its branches.

    A way is the set of options that can still follow after a token. With the options `good`, `bad` and `bat` and the
    answer `bad` in the tokens `ba` and `d`:

    | token | ways and probabilities | share of the walk's way |
    |---|---|---|
    | `ba` | {`bad`, `bat`} 0.6, {`good`} 0.2 | 0.6 / 0.8 |
    | `d` | {`bad`} 0.9, {`bat`} 0.1 | 0.9 / 1.0 |
    """

    def __init__(self, names: Sequence[bytes], chosen: int, lead: bytes = _LEAD) -> None:
        self._names = names
        self._chosen = chosen
        self._lead = lead
        """The characters that can precede an option in its first token."""
        self._open = frozenset(range(len(names)))
        """The options that the text so far can become."""
        self._read = b""

    def probabilities(self, steps: Iterator[TokenStep]) -> tuple[float, ...] | None:
        """Return the probability of each option. The walk leaves options behind, each with the share of its branch."""
        probability = 1.0
        others: frozenset[int] = frozenset()
        shares = _Shares([name.decode("utf-8", "replace") for name in self._names], self._chosen)
        for step in steps:
            ways = self._ways(step)
            way = self._leads_to(step.token)
            share = self._share(ways, way, step)
            if self._chosen not in way or share is None:
                return None
            left = {one: probability * part / sum(ways.values()) for one, part in ways.items() if one != way}
            shares.add(left)
            probability *= share
            self._open, self._read = way, self._read + step.token
            if len(way) == 1:
                break
            others = frozenset().union(*(one for one in ways if self._chosen not in one))
        else:
            # The steps have no end token. An option that another token leads to is out, as `10` after the answer `1`.
            if not self._read or self._open - others != {self._chosen}:
                return None
        shares.known[self._chosen] = probability
        return shares.all()

    def _ways(self, step: TokenStep) -> dict[frozenset[int], float]:
        """Return the probability of each set of options that tokens lead to.

        A piece of an option can begin other words too: `b` can become `by` or `but` as well as `bad`. So only the most
        probable spelling counts, not the sum of `b`, `ba` and `bad`.
        """
        ways: dict[frozenset[int], dict[bytes, float]] = {}
        for token, logprob in step.top:
            piece = token if self._read else token.lstrip(self._lead)
            if way := self._leads_to(piece):
                spellings = ways.setdefault(way, {})
                spelling = b"" if self._is_whole(way, piece) else piece
                spellings[spelling] = spellings.get(spelling, 0.0) + math.exp(logprob)
        return {way: max(spellings.values()) for way, spellings in ways.items()}

    def _is_whole(self, way: frozenset[int], piece: bytes) -> bool:
        """Return whether a piece ends the one option that it leads to; punctuation can follow."""
        [option, *others] = way
        return not others and (self._read + piece).startswith(self._names[option])

    def _share(self, ways: Mapping[frozenset[int], float], way: frozenset[int], step: TokenStep) -> float | None:
        """Return the share of a way among all ways; None if options without a listed token can be too probable."""
        total = sum(ways.values())
        if not total:
            return None
        listed = [math.exp(logprob) for _, logprob in step.top]
        unknown = self._open.difference(*ways)
        most = min(len(unknown) * min(listed), max(0.0, 1.0 - sum(listed)))
        return ways.get(way, 0.0) / total if most <= _MOST_UNKNOWN * total else None

    def _leads_to(self, token: bytes) -> frozenset[int]:
        """Return the open options that are still possible after a token; empty if the token fits no option."""
        read = self._read + token
        if not token:
            return frozenset(o for o in self._open if self._read and self._names[o] == read)
        if going := frozenset(o for o in self._open if self._names[o].startswith(read)):
            return going
        ended = [o for o in self._open if read.startswith(self._names[o]) and _ends(read[len(self._names[o]) :])]
        return frozenset([max(ended, key=lambda o: len(self._names[o]))] if ended else [])


def _ends(rest: bytes) -> bool:
    """Return whether a word ends before `rest`."""
    return not rest[:1].isalnum() and rest[:1] < b"\x80"


def _folded(step: TokenStep) -> TokenStep:
    return TokenStep(step.token.lower(), tuple((token.lower(), logprob) for token, logprob in step.top))


def _start(steps: Sequence[TokenStep], name: bytes) -> int | None:
    """Return the last position of an option in the tokens' text: thoughts or JSON can precede the answer."""
    said = list(steps)
    while said and _SPECIAL.fullmatch(said[-1].token):
        said.pop()
    pattern = rb"(?<![0-9A-Za-z])" + re.escape(name) + rb"(?![0-9A-Za-z])"
    found = list(re.finditer(pattern, b"".join(step.token for step in said)))
    return found[-1].start() if found else None


def _steps_from(steps: Sequence[TokenStep], start: int) -> Iterator[TokenStep]:
    """Yield the steps of the text from `start` on; the first token is cut at `start`."""
    end = 0
    for step in steps:
        begin, end = end, end + len(step.token)
        if end > start or begin > start:
            yield TokenStep(step.token[max(0, start - begin) :], step.top)


def _read_chat(logprobs: Mapping[str, Any]) -> list[TokenStep]:
    content = logprobs["content"]
    entries = content if isinstance(content, list) else []
    steps = []
    for entry in entries:
        own = _token(entry)
        if own is None:
            return []
        listed = entry.get("top_logprobs")
        top = [read for one in (listed if isinstance(listed, list) else []) if (read := _token(one)) is not None]
        steps.append(_step(own, top))
    return steps


def _read_completion(logprobs: Mapping[str, Any]) -> list[TokenStep]:
    lists = [logprobs.get(key) for key in ("tokens", "token_logprobs", "top_logprobs")]
    tokens, own, top = (one if isinstance(one, list) else [] for one in lists)
    if not len(tokens) == len(own) == len(top):
        return []
    steps = []
    for token, logprob, listed in zip(tokens, own, top, strict=True):
        read = _token({"token": token, "logprob": logprob})
        if read is None or not isinstance(listed, Mapping):
            return []
        others = (_token({"token": name, "logprob": value}) for name, value in listed.items())
        steps.append(_step(read, [one for one in others if one is not None]))
    return steps


def _step(own: tuple[bytes, float], top: Sequence[tuple[bytes, float]]) -> TokenStep:
    """Return a step; add its token to the listed tokens, if any are listed."""
    listed = any(token == own[0] for token, _ in top)
    return TokenStep(own[0], tuple(top) if listed or not top else (*top, own))


def _token(entry: object) -> tuple[bytes, float] | None:
    """Return a token and its log probability; None if one of them is invalid."""
    if not isinstance(entry, Mapping):
        return None
    text, logprob, raw = entry.get("token"), entry.get("logprob"), entry.get("bytes")
    if type(logprob) is int:
        logprob = max(-_LEAST_LOGPROB, min(0, logprob)) * 1.0
    if not isinstance(text, str) or type(logprob) is not float or math.isnan(logprob):
        return None
    if isinstance(raw, list) and all(type(byte) is int and 0 <= byte < 256 for byte in raw):
        return bytes(raw), min(0.0, logprob)
    return text.encode("utf-8", "surrogatepass"), min(0.0, logprob)
