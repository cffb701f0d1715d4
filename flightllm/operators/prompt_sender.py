"""Send the prompts of one pass within the budget, receive the answers, and ask again if an answer is unusable."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from flightllm.llm.cost import Work
from flightllm.llm.engine import Completion, Request
from flightllm.operators.call_context import CallSite
from flightllm.operators.model_binding import ModelBinding
from flightllm.operators.pending_prompt import PendingPrompt
from flightllm.operators.ranking import Ranking
from flightllm.operators.repair import repair_prompt, repaired
from flightllm.operators.requests import RequestMaker
from flightllm.operators.rows import Reading, Said, read_answer
from flightllm.operators.trace import Trace


@dataclass(slots=True)
class Answered:
    """A prompt with its answer."""

    prompt: PendingPrompt
    said: Said
    reading: Reading


class PromptSender:
    """Hold the prompts that are ready, and those that the engine has. One thread uses it.

    A prompt goes from ready to sent to answered. It goes back to ready once, if the answer has the wrong form.
    """

    def __init__(self, binding: ModelBinding, sites: Sequence[CallSite], steps: int, ranking: Ranking) -> None:
        self._binding = binding
        self._sites = sites
        self._steps = steps
        self._ranking = ranking
        self._requests = RequestMaker(binding, sites)
        self._ready: deque[PendingPrompt] = deque()
        self._sent: dict[int, PendingPrompt] = {}
        """The prompts that the engine has, by request id."""
        self._trace = Trace()

    @property
    def has_ready(self) -> bool:
        """Return whether a prompt is ready to be sent."""
        return bool(self._ready)

    @property
    def sent(self) -> int:
        """Return the number of prompts that the engine has."""
        return len(self._sent)

    def send_first(self, prompts: Sequence[PendingPrompt]) -> None:
        """Put prompts before all that are ready."""
        self._ready.extendleft(reversed(prompts))

    def send_last(self, prompts: Iterable[PendingPrompt]) -> None:
        """Put prompts after all that are ready."""
        self._ready.extend(prompts)

    def next(self) -> Request | Answered | None:
        """Return the next request, or a prompt that the budget refuses, with the failure.

        Return None if no prompt is ready, or if the budget allows no prompt before an answer comes.

        Raises:
            BudgetExceededError: the budget is spent, and the session wants the query to fail then.
        """
        if not self._ready:
            return None
        prompt, budget = self._ready[0], self._binding.budget
        request = self._request(prompt)
        if budget is not None:
            prompt.reservation = budget.take(request, waits=bool(self._sent))
            if prompt.reservation is None:
                if budget.refusal is None:
                    return None
                self._ready.popleft()
                return self._refused(prompt, Said(None, budget.refusal))
        self._ready.popleft()
        self._sent[request.id] = prompt
        prompt.max_tokens = request.limit
        prompt.dispatch = request.dispatch
        self._binding.precedence.sent()
        self._sites[prompt.call].counters.add(calls=1, repairs=prompt.repair is not None)
        if self._trace:
            self._trace.sent(request)
        return request

    def receive(self, completion: Completion) -> Answered | None:
        """Receive an answer; return None if it is unusable and the prompt is ready to be sent again."""
        if self._trace:
            self._trace.received(completion)
        prompt = self._sent.pop(completion.id)
        self._account(prompt, completion)
        ai = self._sites[prompt.call].ai
        said = Said.of(ai, completion, prompt.max_tokens)
        reading = read_answer(ai, said)
        if prompt.first_answer is not None:
            _, first_reading = prompt.first_answer
            return Answered(prompt, said, repaired(first_reading, reading))
        return None if self._repairs(prompt, said, reading) else Answered(prompt, said, reading)

    def abandon(self) -> None:
        """Release the reservations of prompts that will have no answer. A prompt that was not sent is not counted."""
        for prompt in self._sent.values():
            left = prompt.dispatch is None or not prompt.dispatch.waits
            if not left:
                self._sites[prompt.call].counters.add(calls=-1)
            if self._binding.budget is not None and prompt.reservation is not None:
                self._binding.budget.release(prompt.reservation, sent=left)

    def _request(self, prompt: PendingPrompt) -> Request:
        after = self._ready[1] if len(self._ready) > 1 else None
        following = None if after is None else (after.call, after.fields)
        again = prompt.has_followers(self._steps)
        return self._requests.make((prompt.call, prompt.fields), following, again=again, repair=prompt.repair)

    def _refused(self, prompt: PendingPrompt, refusal: Said) -> Answered:
        """Return a prompt that is not sent. If this was a second attempt, the prompt keeps its first answer."""
        if prompt.first_answer is not None:
            return Answered(prompt, *prompt.first_answer)
        return Answered(prompt, refusal, read_answer(self._sites[prompt.call].ai, refusal))

    def _account(self, prompt: PendingPrompt, completion: Completion) -> None:
        """Count the tokens and the time of an answer."""
        prompt_tokens, cached = completion.prompt_tokens, completion.cached_tokens
        self._sites[prompt.call].counters.add(
            answered=1,
            prompt_tokens=prompt_tokens,
            cached_tokens=cached,
            completion_tokens=completion.completion_tokens,
        )
        self._ranking.paid(prompt.step, Work(1, prompt_tokens, cached, completion.completion_tokens))
        if self._binding.budget is not None and prompt.reservation is not None:
            self._binding.budget.settle(prompt.reservation, completion)

    def _repairs(self, prompt: PendingPrompt, said: Said, reading: Reading) -> bool:
        """Return whether an answer has the wrong form, so that the prompt must be sent again; make it ready then."""
        site = self._sites[prompt.call]
        constraint = site.ai.parameters.constraint
        if constraint is None or reading.fault is None or not self._binding.repair:
            return False
        prompt.first_answer = said, reading
        prompt.repair = repair_prompt(site.prompt(prompt.fields), said, reading.fault, constraint)
        self._ready.appendleft(prompt)
        return True
