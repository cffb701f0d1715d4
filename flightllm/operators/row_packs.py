"""Several rows in one request: which calls can share requests, and which of the ready prompts go together."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from flightllm.engines.extras import extras_of
from flightllm.functions.call import MODEL, MOST_ROOM, AICall
from flightllm.llm.engine import Choice, Completion, Engine, PackItem, Parameters
from flightllm.llm.pack_answers import PackReading, read_pack
from flightllm.llm.pack_prompts import RowsPrompt, shared_fields
from flightllm.llm.packs import ENTRY_TOKENS, codes_of, pack_parameters
from flightllm.operators.call_context import CallSite
from flightllm.operators.prompts import Fields, PendingPrompt

_MOST_CHARACTERS: Final = 24_000
"""The most characters of the rows of a pack. Beyond this, sharing the question saves little, and endpoints with a small
context cut the prompt."""
EDGES_TOKENS: Final = 32
"""The most tokens of a pack's answer around its entries."""
_LONGEST_OF_USUAL: Final = 4
"""A free text hardly has more than this many times its usual tokens."""
_SCANNED: Final = 4
"""For a pack of n prompts, this many times n ready prompts are looked through."""
_FEWEST_PACKS: Final = 3
_LEAST_USABLE: Final = 0.5
"""After `_FEWEST_PACKS` packs, a call whose packs answer a smaller share of their rows asks each row by itself."""

GAVE_UP: Final = "each row by itself: the model left out too many rows of the first requests"
FAILED: Final = "each row by itself: the first requests with several rows failed"


def why_alone(call: AICall, *, fields_first: bool) -> str:
    """Return why each row of a call must be asked by itself; empty if rows can share requests."""
    if call.backend != MODEL or not call.fields:
        return "the call asks no language model about rows"
    reasons = (
        (fields_first, "the layout puts the fields first"),
        (call.fresh, "fresh => true asks about each row by itself"),
        (call.parameters.probability, "a pack has no probabilities of its answers"),
        (call.promise is not None, "a promise counts the answers of single rows"),
        (call.labelled is not None or call.by_rows, "a calibration needs the probabilities of single rows"),
        (bool(call.learned_by), "a learned filter needs the probabilities of single rows"),
    )
    return next((reason for holds, reason in reasons if holds), "")


@dataclass(frozen=True, slots=True)
class Pack:
    """Prompts that share a request: its text, its parameters and its questions."""

    prompts: Sequence[PendingPrompt]
    text: str
    parameters: Parameters
    max_tokens: int
    """The most tokens of the answer."""
    items: tuple[PackItem, ...]
    ends: tuple[int, ...]
    """The ends of the parts of the text that other packs can share, see `RowsPrompt.ends`."""
    about_one: bool = False
    """Whether the questions are those of several calls about one row, and not of one call about several rows."""

    def read(self, completion: Completion) -> PackReading:
        """Return the answers to the prompts; none of a request that failed, or whose answer was refused or filtered."""
        text = completion.text
        filtered = completion.finish_reason == "content_filter"
        if text is None or completion.error is not None or completion.refusal or filtered:
            return PackReading({}, whole=False)
        constraints = [item.parameters.constraint for item in self.items]
        reading = read_pack(text, [item.code for item in self.items], constraints)
        return replace(reading, whole=reading.whole and not completion.partial)


class Packer:
    """Choose the prompts of the next request, and write the prompts of packs. One thread uses it.

    A pack whose request failed is halved, down to single prompts. Rows that a pack leaves out are asked by itself.
    """

    def __init__(self, sites: Sequence[CallSite], engine: Engine) -> None:
        self._sites = sites
        self._engine = engine
        self._context = extras_of(engine).context_tokens
        self._again: deque[list[PendingPrompt]] = deque()
        """The prompts of failed packs, in groups that must not grow."""
        self._tried: dict[int, tuple[int, int, int]] = {}
        """By call: packs answered, their rows, and the rows with a usable answer."""
        self._failed: dict[int, int] = {}
        """By call: the packs that failed before any pack was answered."""
        self._longest: dict[int, int] = {}
        """The longest option of a call in tokens, by call."""
        self._parameters: dict[tuple[int, tuple[str, ...]], Parameters] = {}
        """The parameters of packs, by call and codes."""
        self._questions: dict[int, tuple[int, int]] = {}
        """The characters and tokens of a call's prompt without rows, by call."""

    @property
    def has_ready(self) -> bool:
        """Return whether the prompts of a failed pack wait to be sent again."""
        return bool(self._again)

    def group(self, ready: deque[PendingPrompt], *, grows: bool) -> list[PendingPrompt]:
        """Return the prompts of the next request; empty if no prompt is ready, or if more can come before it leaves.

        `grows` says that further prompts can become ready without an answer. The prompts stay where they are until
        `take`.
        """
        while self._again:
            first = self._again[0]
            if len(first) > 1 and self.most(first[0].call) < 2:
                self.alone(self._again.popleft())
                continue
            return first
        if not ready:
            return []
        front = ready[0]
        most = self.most(front.call)
        if most < 2 or front.alone or front.repair is not None:
            return [front]
        size = Size(self._room, self._fixed(front.call), self._context)
        group: list[PendingPrompt] = []
        full = False
        for prompt in islice(ready, _SCANNED * most):
            if prompt.call != front.call or prompt.step != front.step or prompt.alone or prompt.repair is not None:
                continue
            full = not size.takes(prompt, self._likely_tokens(prompt), self._engine)
            if full and group:
                break
            group.append(prompt)
            full = full or len(group) == most
            if full:
                break
        return group if full or not grows else []

    def following(self, group: Sequence[PendingPrompt], ready: deque[PendingPrompt]) -> str | None:
        """Return a prompt that begins as that of the next pack of the same call does; None if it is unknown."""
        first = group[0]
        own = {id(prompt) for prompt in group}
        after = next((p for p in islice(ready, len(group) + 1) if p.call == first.call and id(p) not in own), None)
        if after is None:
            return None
        shared = shared_fields([first.fields, after.fields])
        codes = codes_of(2, ())
        return rows_prompt(self._sites[first.call]).render(codes, [after.fields, after.fields[:shared]])

    def take(self, group: Sequence[PendingPrompt], ready: deque[PendingPrompt]) -> None:
        """Remove the prompts of the next request from those that wait."""
        if self._again and self._again[0][0] is group[0]:
            self._again.popleft()
            return
        held: list[PendingPrompt] = []
        wanted = {id(prompt) for prompt in group}
        while wanted:
            prompt = ready.popleft()
            if id(prompt) in wanted:
                wanted.discard(id(prompt))
            else:
                held.append(prompt)
        ready.extendleft(reversed(held))

    def most(self, call: int) -> int:
        """Return how many prompts of a call can share a request."""
        return 1 if self._gave_up(call) else self._sites[call].together

    def came(self, call: int, rows: int, usable: int, *, failed: bool) -> str:
        """Note how many rows of a pack are usable, and whether its request failed.

        Return why the call gives packs up by this; an empty text if it does not.
        """
        before = self._gave_up(call)
        packs, all_rows, all_usable = self._tried.get(call, (0, 0, 0))
        if not failed:
            self._tried[call] = packs + 1, all_rows + rows, all_usable + usable
        elif not packs:
            self._failed[call] = self._failed.get(call, 0) + 1
        return "" if before else self._gave_up(call)

    def _gave_up(self, call: int) -> str:
        packs, rows, usable = self._tried.get(call, (0, 0, 0))
        if packs >= _FEWEST_PACKS and usable < _LEAST_USABLE * rows:
            return GAVE_UP
        return FAILED if not packs and self._failed.get(call, 0) >= _FEWEST_PACKS else ""

    def halve(self, prompts: Sequence[PendingPrompt]) -> None:
        """Ask prompts again in two groups; a single one is asked by itself."""
        half = (len(prompts) + 1) // 2
        self._again.extendleft(reversed([list(part) for part in (prompts[:half], prompts[half:]) if part]))

    def alone(self, prompts: Sequence[PendingPrompt]) -> None:
        """Ask each of some prompts by itself."""
        for prompt in prompts:
            prompt.alone = True
        self._again.extendleft([prompt] for prompt in reversed(prompts))

    def pack(self, group: Sequence[PendingPrompt]) -> Pack:
        """Return the pack of a group of two prompts or more."""
        first = group[0]
        site = self._sites[first.call]
        ai = site.ai
        rows: list[Fields] = [prompt.fields for prompt in group]
        texts = [ai.instruction, *(text for row in rows for pair in row for text in pair)]
        codes = codes_of(len(group), texts)
        most = min(self._room, EDGES_TOKENS + sum(map(self._tokens, group)))
        items = tuple(
            PackItem(code, ai.function, ai.instruction, ai.parameters, tuple(row))
            for code, row in zip(codes, rows, strict=True)
        )
        form = rows_prompt(site)
        if (first.call, codes) not in self._parameters:
            self._parameters[first.call, codes] = pack_parameters(ai.parameters, codes)
        parameters = self._parameters[first.call, codes]
        return Pack(group, form.render(codes, rows), parameters, most, items, form.ends(rows))

    @property
    def _room(self) -> int:
        """Return the most tokens that the entries of a pack can have together."""
        return MOST_ROOM if self._context is None else min(MOST_ROOM, self._context // 2)

    def _fixed(self, call: int) -> tuple[int, int]:
        if call not in self._questions:
            text = rows_prompt(self._sites[call]).render((), ())
            self._questions[call] = len(text), self._engine.count_tokens(text)
        return self._questions[call]

    def _likely_tokens(self, prompt: PendingPrompt) -> int:
        """Return the tokens that an entry hardly exceeds. An answer that is cut has the rows before the cut."""
        usual = self._sites[prompt.call].ai.usual
        most = self._tokens(prompt)
        return most if usual is None else min(most, _LONGEST_OF_USUAL * usual.of(prompt.fields) + ENTRY_TOKENS)

    def _tokens(self, prompt: PendingPrompt) -> int:
        """Return the most tokens of an entry with a prompt's answer."""
        ai = self._sites[prompt.call].ai
        constraint = ai.parameters.constraint
        most = ai.max_tokens(prompt.fields) or ai.parameters.max_tokens
        if isinstance(constraint, Choice):
            if prompt.call not in self._longest:
                self._longest[prompt.call] = max(map(self._engine.count_tokens, constraint.options))
            most = max(1, self._longest[prompt.call])
        return most + ENTRY_TOKENS


def rows_prompt(site: CallSite) -> RowsPrompt:
    """Return the prompts of a call for several rows."""
    return RowsPrompt(site.ai.instruction, site.ai.asked, site.prompt_format)


class Size:
    """The size of a growing pack."""

    def __init__(self, room: int, fixed: tuple[int, int], context: int | None) -> None:
        """`room` is the most tokens of entries; `fixed` are the characters and tokens of the prompt without rows."""
        self._room = room
        self._question, self._fixed_tokens = fixed
        self._context = context
        self._rows: list[Fields] = []
        self._entries = 0
        self._characters = 0
        self._prompt_tokens = 0
        self._shared = 0
        """The number of leading fields that all rows so far share."""

    def takes(self, prompt: PendingPrompt, entry: int, engine: Engine) -> bool:
        """Add a prompt whose entry has at most `entry` tokens, and return whether it fits well into the pack."""
        fields = prompt.fields
        characters = _characters(fields)
        shared = self._shared
        if self._rows:
            pair = shared_fields([self._rows[0], fields])
            shared = pair if len(self._rows) == 1 else min(pair, self._shared)
            lost = _characters(self._rows[0][shared : self._shared]) if len(self._rows) > 1 else 0
            # a row that ends what the others share would make each of them repeat it
            if lost * len(self._rows) > self._question + characters:
                return False
            characters -= _characters(fields[:shared])
        entries, all_characters = self._entries + entry, self._characters + characters
        if entries > self._room or all_characters > _MOST_CHARACTERS:
            return False
        tokens = self._prompt_tokens
        if self._context is not None:
            tokens += engine.count_tokens("".join(value for _, value in fields)) + 8 * (1 + len(fields))
            if self._fixed_tokens + tokens + entries + EDGES_TOKENS > self._context:
                return False
        self._rows.append(fields)
        self._entries, self._characters, self._prompt_tokens, self._shared = entries, all_characters, tokens, shared
        return True


def _characters(fields: Sequence[tuple[str, str]]) -> int:
    return sum(len(name) + len(value) + 3 for name, value in fields)
