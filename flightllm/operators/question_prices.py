"""The price of questions about one row, in requests of their own and in one request, from a sample of rows."""

from collections.abc import Sequence
from typing import Final

from flightllm.engines.extras import extras_of
from flightllm.engines.random_answers import answerer
from flightllm.llm.cost import Costs, Work
from flightllm.llm.engine import Constraint, Engine, Parameters, Request
from flightllm.llm.packs import codes_of, pack_answer
from flightllm.operators.call_context import CallSite
from flightllm.operators.prompts import Fields
from flightllm.operators.question_packs import pack_parameters, questions_prompt

_TEXT_TOKENS: Final = 16
"""The tokens of a free text whose usual length is unknown."""


class QuestionPrices:
    """The cost of one row on average: its price, or its seconds where the model has no prices.

    Only starts count as cached that surely come again. These are the questions before the fields, and the part `known`
    of the fields. With the fields first, these are the fields of a row after its first prompt.
    """

    def __init__(
        self, sites: Sequence[CallSite], engine: Engine, costs: Costs, rows: Sequence[Fields], known: float
    ) -> None:
        """`rows` are sampled rows, at least one; `known` is the share of their tokens that rows before them have."""
        self._sites = sites
        self._engine = engine
        self._costs = costs
        self._rows = rows
        self._known = known
        self._extras = extras_of(engine)
        self._works: dict[tuple[tuple[int, ...], bool], Work] = {}

    @property
    def unit(self) -> str:
        """Return what `cost` counts, for a text after a number."""
        return "s" if self._costs.prices is None else "by the model's prices"

    def cost(self, calls: tuple[int, ...], *, again: bool) -> float:
        """Return the cost of a request of these calls for one row: its price, or its seconds; see `work`."""
        work = self.work(calls, again=again)
        price = self._costs.price(work)
        return (self._costs.seconds(work) if price is None else price) / len(self._rows)

    def work(self, calls: tuple[int, ...], *, again: bool) -> Work:
        """Return the work of asking these calls about all sampled rows, in one request for each row.

        `again` says that other prompts about the row come before.
        """
        key = calls, again
        if key not in self._works:
            self._works[key] = self._work(calls, again=again)
        return self._works[key]

    def _work(self, calls: tuple[int, ...], *, again: bool) -> Work:
        prompts = cached = answers = written = 0
        site = self._sites[calls[0]]
        first = site.fields_first if len(calls) == 1 else site.joined_fields_first
        for number, fields in enumerate(self._rows):
            request, answer = self._request(calls, fields), self._answer(calls, fields, number)
            tokens, start = self._tokens(request), self._start(request, fields_first=first)
            found = self._found(tokens, start, fields_first=first, again=again)
            prompts, cached, answers = prompts + tokens, cached + found, answers + answer
            if first and not again and start >= self._floor:
                written += max(0, start - found)
        return Work(len(self._rows), prompts, cached, answers, written if self._stores else 0)

    def _request(self, calls: tuple[int, ...], fields: Fields) -> Request:
        sites = [self._sites[call] for call in calls]
        first = sites[0]
        if len(calls) == 1:
            text, parameters, ends = first.prompt(fields), first.ai.parameters, first.ends(fields)
        else:
            codes, form = codes_of(len(calls), ()), questions_prompt(sites)
            text, ends = form.render(codes, fields), form.ends(codes, fields)
            parameters = pack_parameters([site.ai.parameters for site in sites], codes)
        return Request(0, text, parameters, first.ai.function, first.ai.instruction, tuple(fields), ends=ends)

    def _tokens(self, request: Request) -> int:
        """Return the tokens that the endpoint counts for a prompt."""
        count = self._engine.count_tokens(self._extras.parts_of(request).text) + self._extras.added_tokens(request)
        return round(count * self._extras.tokens_per_estimate(request))

    def _start(self, request: Request, *, fields_first: bool) -> int:
        """Return the tokens up to the end of the questions, or of the fields where these come first."""
        parts = self._extras.parts_of(request)
        if not parts.ends:
            return 0
        end = parts.ends[-1] if fields_first else parts.ends[0]
        return round(self._engine.count_tokens(parts.text[:end]) * self._extras.tokens_per_estimate(request))

    def _found(self, tokens: int, start: int, *, fields_first: bool, again: bool) -> int:
        """Return the tokens of a prompt that the prefix cache serves."""
        cache = self._engine.prefix_cache
        if cache is None or not cache.earns:
            return 0
        apart = start + self._known * (tokens - start)
        shared = (start if again else self._known * start) if fields_first else apart
        if shared < max(1, cache.floor_tokens):
            return 0
        return int(cache.share * (shared - shared % cache.block_tokens))

    @property
    def _floor(self) -> int:
        cache = self._engine.prefix_cache
        return 0 if cache is None else cache.floor_tokens

    @property
    def _stores(self) -> bool:
        """Return whether the provider charges for storing a start."""
        cache = self._engine.prefix_cache
        return cache is not None and cache.earns and cache.write > 1

    def _answer(self, calls: tuple[int, ...], fields: Fields, number: int) -> int:
        """Return the tokens of a likely answer, with all that the endpoint writes around it."""
        texts: list[tuple[str, int, Parameters]] = []
        for call in calls:
            ai = self._sites[call].ai
            constraint = ai.parameters.constraint
            if constraint is None:
                usual = ai.usual.of(fields) if ai.usual is not None else _TEXT_TOKENS
                texts.append(("", min(usual, ai.parameters.max_tokens), ai.parameters))
            else:
                texts.append((answerer(constraint)(number), 0, ai.parameters))
        if len(calls) == 1:
            [(text, more, parameters)] = texts
            return more + self._counted(text, parameters.constraint)
        codes = codes_of(len(calls), ())
        answers = [(code, text, own.constraint) for code, (text, _, own) in zip(codes, texts, strict=True)]
        whole = pack_parameters([own for _, _, own in texts], codes).constraint
        return sum(more for _, more, _ in texts) + self._counted(pack_answer(answers), whole)

    def _counted(self, text: str, constraint: Constraint) -> int:
        told = self._extras.answer_tokens(text, constraint)
        return self._engine.count_tokens(text) + 1 if told is None else told
