"""Several questions about one row in one request: which calls can share requests, and the requests that they share."""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from flightllm.engines.extras import extras_of
from flightllm.functions.call import MOST_ROOM, AICall
from flightllm.llm.engine import Choice, Engine, PackItem, Parameters
from flightllm.llm.packs import ENTRY_TOKENS, answers_constraint, codes_of
from flightllm.llm.question_prompts import Asked, QuestionsPrompt
from flightllm.operators.call_context import CallSite
from flightllm.operators.prompts import Fields, PendingPrompt
from flightllm.operators.row_packs import EDGES_TOKENS, Pack, why_alone

_FEWEST_PACKS: Final = 3
_LEAST_USABLE: Final = 0.5
"""After `_FEWEST_PACKS` requests, questions of which a smaller share has a usable answer are asked apart."""

GAVE_UP: Final = "each in a request of its own: the model left out too many questions of the first requests"
FAILED: Final = "each in a request of its own: the first requests with several questions failed"


def why_apart(call: AICall, *, together: int, probable: bool, sampled: bool) -> str:
    """Return why a call shares no request with other calls over the same row; empty if it can.

    `together` is the number of rows that share a request of the call. `probable` says whether the engine gives
    probabilities, and `sampled` whether sampled rows must show that answers agree.
    """
    if together != 1:
        return "several rows share a request"
    if sampled and call.parameters.constraint is None:
        return "auto cannot compare free texts: write a number of questions"
    if call.parameters.probability and not probable and not pa.types.is_struct(call.output):
        call = replace(call, parameters=replace(call.parameters, probability=False))  # it does without them in any case
    return why_alone(call, fields_first=False)


def kind_of(call: AICall) -> Hashable:
    """Return what calls must have in common to share a request: all parameters but those of the answer's form."""
    return replace(call.parameters, constraint=None, max_tokens=0, probability=False)


def questions_prompt(sites: Sequence[CallSite]) -> QuestionsPrompt:
    """Return the prompts of several calls for one row."""
    asked = tuple(Asked(site.ai.instruction, site.ai.asked) for site in sites)
    return QuestionsPrompt(asked, sites[0].prompt_format, sites[0].joined_fields_first)


class QuestionPacker:
    """Write the requests of several questions, and learn whether the model answers them. One thread uses it."""

    def __init__(self, sites: Sequence[CallSite], engine: Engine) -> None:
        self._sites = sites
        self._engine = engine
        context = extras_of(engine).context_tokens
        self._context = context
        self._room = MOST_ROOM if context is None else min(MOST_ROOM, context // 2)
        """The most tokens that the answers to one request can have together."""
        self._longest: dict[int, int] = {}
        """The longest option of a call in tokens, by call."""
        self._tried: dict[frozenset[int], tuple[int, int, int, int]] = {}
        """By calls: requests that failed in a row, requests answered, their questions, and the usable answers."""

    def gave_up(self, calls: frozenset[int]) -> str:
        """Return why these calls share no more requests, for EXPLAIN; empty while they do."""
        failed, packs, questions, usable = self._tried.get(calls, (0, 0, 0, 0))
        if failed >= _FEWEST_PACKS and not packs:
            return FAILED
        return GAVE_UP if packs >= _FEWEST_PACKS and usable < _LEAST_USABLE * questions else ""

    def came(self, prompts: Sequence[PendingPrompt], usable: int, *, failed: bool) -> str:
        """Note how many answers to a request are usable; return why the calls give up by this, or an empty text."""
        calls = frozenset(prompt.call for prompt in prompts)
        before = self.gave_up(calls)
        in_a_row, packs, questions, all_usable = self._tried.get(calls, (0, 0, 0, 0))
        if failed:
            self._tried[calls] = in_a_row + 1, packs, questions, all_usable
        else:
            self._tried[calls] = 0, packs + 1, questions + len(prompts), all_usable + usable
        return "" if before else self.gave_up(calls)

    def fits(self, group: Sequence[tuple[int, Fields]]) -> bool:
        """Return whether the answers to questions, given as call and fields, and the prompt have room in a request."""
        answers = EDGES_TOKENS + sum(self._tokens(call, fields) for call, fields in group)
        if answers > self._room:
            return False
        if self._context is None:
            return True
        text = questions_prompt([self._sites[call] for call, _ in group]).render([""] * len(group), group[0][1])
        # a code has three letters, and each of them can be a token
        return self._engine.count_tokens(text) + 4 * len(group) + answers <= self._context

    def pack(self, group: Sequence[PendingPrompt]) -> Pack:
        """Return the request of two questions or more about the same fields."""
        sites = [self._sites[prompt.call] for prompt in group]
        fields = group[0].fields
        texts = [text for site in sites for text in (site.ai.instruction, repr(site.ai.asked))]
        codes = codes_of(len(group), [*texts, *(text for pair in fields for text in pair)])
        items = tuple(
            PackItem(code, site.ai.function, site.ai.instruction, site.ai.parameters, tuple(fields))
            for code, site in zip(codes, sites, strict=True)
        )
        most = EDGES_TOKENS + sum(self._tokens(prompt.call, fields) for prompt in group)
        form = questions_prompt(sites)
        parameters = pack_parameters([site.ai.parameters for site in sites], codes)
        return Pack(
            group, form.render(codes, fields), parameters, most, items, form.ends(codes, fields), about_one=True
        )

    def _tokens(self, call: int, fields: Fields) -> int:
        """Return the most tokens of a call's part of an answer."""
        ai = self._sites[call].ai
        constraint = ai.parameters.constraint
        if isinstance(constraint, Choice):
            if call not in self._longest:
                self._longest[call] = max(map(self._engine.count_tokens, constraint.options))
            return max(1, self._longest[call]) + ENTRY_TOKENS
        return (ai.max_tokens(fields) or ai.parameters.max_tokens) + ENTRY_TOKENS


def pack_parameters(parameters: Sequence[Parameters], codes: tuple[str, ...]) -> Parameters:
    """Return the parameters of a request of questions with these parameters."""
    return replace(
        parameters[0],
        constraint=answers_constraint(tuple(one.constraint for one in parameters), codes),
        max_tokens=sum(one.max_tokens for one in parameters),
        probability=False,
    )
