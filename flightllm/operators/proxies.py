"""Make the proxy of a call with a promise: a cheaper model, the embedding model, or a choice among several."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from flightllm.access.store import DEFAULT_MODEL
from flightllm.functions.call import EMBEDDING, model_of
from flightllm.functions.scoring import scoring
from flightllm.llm.cost import Work
from flightllm.operators.call_context import CallSite, ModelBinding
from flightllm.operators.cascade import expected_share, seed_of
from flightllm.operators.embedding_proxy import EmbeddingProxy, UnitVectors, embedding_call
from flightllm.operators.oracle import Oracle, alone
from flightllm.operators.prompts import PromptLister
from flightllm.operators.proxy import ModelProxy, Proxy
from flightllm.operators.proxy_choice import Candidate, ChosenProxy, Priced, Tried
from flightllm.operators.runtime import Runtime
from flightllm.operators.vector_table import VectorTable

_MODEL_PRICE: Final = 0.1
_EMBEDDING_PRICE: Final = 0.01
"""The prices of a score by a model without a price, where an answer of the call's own model costs 1. Such a model runs
on a machine of the user, and its price stands for the time of a score."""
_MEASURED: Final = 16
"""So many prompts tell what a prompt costs."""
_ANSWER_TOKENS: Final = 1


@dataclass(frozen=True, slots=True)
class ProxyMaker:
    """Makes the proxies of one call."""

    site: CallSite
    """The site of the call itself."""
    binding: ModelBinding
    """The call's own model."""
    oracle: Oracle
    runtime: Runtime
    operator: str
    """The name of the operator in the plan."""

    def proxy(self) -> Proxy:
        """Return the only proxy that the call names, or a choice among several.

        The embedding proxy asks for labels in any case. So a call that does not name it chooses between it and none.
        """
        names, promise = self._names, self.site.ai.promise
        if len(names) == 1 and names[0] != EMBEDDING:
            return self._model(names[0])
        if len(names) == 1 and promise is not None and promise.named:
            return self._embedding()
        predict = partial(expected_share, self.site.ai, len(self.oracle.values))
        candidates = [self._priced(name) for name in names]
        return ChosenProxy(candidates, self.oracle, predict, seed_of(self.site.ai), self._label_budget)

    def likely(self) -> ModelProxy | None:
        """Return the first language model among the proxies, whose calls a dry run counts; None if all embed."""
        return next((self._model(name) for name in self._names if name != EMBEDDING), None)

    def likely_price(self) -> float:
        """Return the price of a score of `likely`, where an answer of the call's own model costs 1."""
        name = next(name for name in self._names if name != EMBEDDING)
        price = self._price(name)
        return _MODEL_PRICE if price is None else price

    @property
    def _names(self) -> tuple[str, ...]:
        promise = self.site.ai.promise
        return () if promise is None else promise.proxies

    @property
    def _label_budget(self) -> int | None:
        promise = self.site.ai.promise
        return None if promise is None else promise.label_budget

    def _priced(self, name: str) -> Priced:
        proxy: Candidate = self._embedding() if name == EMBEDDING else Tried(self._model(name))
        return Priced(proxy, self._price(name))

    def _model(self, name: str) -> ModelProxy:
        binding, asked = self.runtime.bindings[name], scoring(self.site.ai, model_of(name))
        counters = partial(self.runtime.proxy_counters, self.operator, asked, name)
        keys = binding.keys(asked, fields_first=self.site.fields_first)
        own = replace(alone(self.site), ai=asked, keys=keys, prompt_format=binding.prompt_format)
        return ModelProxy(
            asked.model or DEFAULT_MODEL, own, binding, self.oracle.population, self.runtime.cancelled, counters
        )

    def _embedding(self) -> EmbeddingProxy:
        runtime, population, call = self.runtime, self.oracle.population, self.site.ai
        counters = partial(runtime.proxy_counters, self.operator, embedding_call(call), EMBEDDING)
        table = VectorTable(len(population), runtime.folder, runtime.room)
        binding = runtime.bindings[EMBEDDING]
        vectors = UnitVectors(alone(self.site), binding, population, table, counters, runtime.cancelled)
        predict = partial(expected_share, call, len(self.oracle.values))
        return EmbeddingProxy(EMBEDDING, vectors, self.oracle, predict, seed_of(call), self._label_budget)

    def _price(self, name: str) -> float | None:
        """Return the price of a proxy's score, where an answer of the call's own model costs 1.

        Return None if the own model has no price: then the seconds of both decide.
        """
        own, other = self._paid(self.binding), self._paid(self.runtime.bindings[name])
        if own is None or own <= 0:
            return None
        if other is None:
            return _EMBEDDING_PRICE if name == EMBEDDING else _MODEL_PRICE
        return other / own

    def _paid(self, binding: ModelBinding) -> float | None:
        """Return the price of one prompt to a model; None if the model has no prices."""
        if binding.costs.prices is None:
            return None
        site = replace(alone(self.site), prompt_format=binding.prompt_format)
        lister, tokens, prompts = PromptLister([site]), 0, 0
        for _, batch in self.oracle.population.prompts(np.arange(min(_MEASURED, len(self.oracle.population)))):
            for _, fields, _ in lister.listed(batch, 0):
                tokens += binding.engine.count_tokens(site.prompt(fields))
                prompts += 1
        return binding.costs.price(Work(prompts, tokens, 0, _ANSWER_TOKENS * prompts)) if prompts else None
