"""Resolves the names of models and prompts in calls, and checks the rights to use them."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from flightllm.access.rights import Rights
from flightllm.access.store import DEFAULT_MODEL
from flightllm.catalog.model_advice import creation_advice
from flightllm.catalog.models import Objects, is_reference, suggestion
from flightllm.config import EngineConfig
from flightllm.errors import AICallError, NotFoundError
from flightllm.functions.bind import BoundCall
from flightllm.functions.call import EMBEDDING, AICall, binding_of
from flightllm.functions.stored import LearnedUse, StoredFunction
from flightllm.learning.learned import LateFit, Learned

AUTO = "auto"
"""The value of `proxy` that lets a pilot choose among the proxies of the model."""


class CallNames:
    """The names within one SQL text: each is looked up once, so that it means the same throughout the text.

    All rights to models and prompts are checked here, and only here. The checks run while calls are bound, before a
    text is planned, described or explained. They include the calls in views that the text reads. `DEFAULT_MODEL` is
    the server's own model, under any configured name.
    """

    def __init__(
        self,
        objects: Objects,
        own: EngineConfig,
        rights: Rights,
        on_error: str,
        learner: Callable[[StoredFunction, str, AICall], LearnedUse],
        embeds: Callable[[], bool] = lambda: False,
        aliases: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Take created models and prompts, the server's own model, and the user's rights.

        `on_error` is the value of this option in calls without it. `learner` fits a call to the labels in a table.
        `embeds` tells whether the embedding model can be a proxy; it then is a proxy of every model. `aliases` are
        further names of models.
        """
        self.on_error = on_error
        self.held: list[tuple[Learned | LateFit, BoundCall]] = []
        """The fits by which learned filters in the text decide, and their calls."""
        self._learner = learner
        self._objects = objects
        self._own = (DEFAULT_MODEL, own.model)
        self._own_config = own
        self._embeds = embeds
        self._aliases = aliases
        self._rights = rights
        self._models: dict[str | None, str | None] = {}
        self._prompts: dict[str, str] = {}

    def model(self, name: str | None) -> str | None:
        """Return the model that a call names, or None for the server's own model.

        Raises:
            AICallError: there is no such model.
            PermissionDeniedError: the user has no right to the model.
        """
        if name not in self._models:
            self._models[name] = self._checked_model(name)
        return self._models[name]

    def _checked_model(self, name: str | None) -> str | None:
        created = None if name is None else self._objects.model(name)
        if created is None and name is not None and name not in self._own and name in self._aliases:
            name = self._aliases[name]
            created = self._objects.model(name)
        if created is not None:
            self._rights.check_usage("MODEL", created.name, created.owner)
            return created.name
        if name is not None and name not in self._own:
            self._rights.check_usage("MODEL", name)  # same message as for a model that the user cannot see
            models = self._objects.models()
            usable = [model.name for model in models if self._rights.may_use("MODEL", model.name, model.owner)]
            known = suggestion(name, [*self._own, *usable])
            end = "" if known.endswith("?") else "."
            raise AICallError(f"there is no model {name!r}; {known}{end} {creation_advice(name)}")
        self._rights.check_usage("MODEL", DEFAULT_MODEL)
        return None

    def proxies(self, name: str | None, model: str | None) -> tuple[str, ...]:
        """Return the bindings of the proxies in `name`, or of all proxies of `model` if the name is 'auto' or None.

        The name can list several proxies, such as 'small, embedding'. 'auto' means the models whose `proxy_for` names
        the model and that the user can use, by their names, and then the embedding model.

        Raises:
            AICallError: there is no such proxy, it is the model itself, or the model has no proxy.
            PermissionDeniedError: the user must not use the proxy.
        """
        parts = [part.strip() for part in (name or AUTO).split(",") if part.strip()] or [AUTO]
        return tuple(dict.fromkeys(binding for part in parts for binding in self._proxy(part, model)))

    def _proxy(self, name: str, model: str | None) -> tuple[str, ...]:
        if name.lower() == AUTO:
            if found := self._all_proxies(model):
                return found
            own = model or DEFAULT_MODEL
            raise AICallError(
                f"the model {own!r} has no proxy: write proxy => 'name of a cheaper model', or let an admin write"
                f" CREATE MODEL small OPTIONS (…, proxy_for {own!r})"
            )
        if name.lower() == EMBEDDING:
            return (EMBEDDING,)
        proxy = self.model(name)
        if proxy == model:
            raise AICallError(f"proxy => {name!r} is the model of the call itself: name a cheaper model")
        return (binding_of(proxy),)

    def _all_proxies(self, model: str | None) -> tuple[str, ...]:
        names = self._own if model is None else (model,)
        created = [
            one.name
            for one in self._objects.models()
            if one.name != model
            and any(name in one.config.proxy_for for name in names)
            and self._rights.may_use("MODEL", one.name, one.owner)
        ]
        is_proxy = model is not None and model in self._own_config.proxy_for
        own = [None] if is_proxy and self._rights.may_use("MODEL", DEFAULT_MODEL) else []
        return (*map(binding_of, (*own, *created)), *([EMBEDDING] if self._embeds() else []))

    def prompt(self, reference: str) -> str | None:
        """Return the text of the prompt that `reference` (`name` or `name@version`) means; None if it is not a name.

        Raises:
            AICallError: there is no such prompt.
            PermissionDeniedError: the user has no right to the prompt.
        """
        if not is_reference(reference):
            return None
        if reference not in self._prompts:
            self._prompts[reference] = self._checked_prompt(reference, reference.partition("@")[0])
        return self._prompts[reference]

    def function(self, name: str, owner: str) -> None:
        """Check the right to a function that SQL created.

        Raises:
            PermissionDeniedError: the user has no right to the function.
        """
        self._rights.check_usage("FUNCTION", name, owner)

    def learned(self, function: StoredFunction, table: str, call: AICall) -> LearnedUse:
        """Return a fit to the labels in a table.

        Raises:
            FlightLLMError: there is no such table, or its labels teach no filter.
        """
        return self._learner(function, table, call)

    def hold(self, fit: Learned | LateFit, bound: BoundCall) -> None:
        """Keep a fit as long as these names."""
        self.held.append((fit, bound))

    def _checked_prompt(self, reference: str, name: str) -> str:
        owner = self._objects.owner_of_prompt(name)
        if owner is None:
            self._rights.check_usage("PROMPT", name)  # same message as for a prompt that the user cannot see
            prompts = {prompt.name: prompt.owner for prompt in self._objects.prompts()}
            instead = suggestion(name, [one for one in prompts if self._rights.may_use("PROMPT", one, prompts[one])])
            stop = "" if instead.endswith("?") else "."
            raise AICallError(
                f"there is no prompt {name!r}; {instead}{stop} A single word after prompt => is read as a prompt's"
                " name: to give a text instead, write it as the first argument, without prompt =>"
            )
        self._rights.check_usage("PROMPT", name, owner)
        try:
            return self._objects.prompt(reference).text
        except NotFoundError as error:
            raise AICallError(str(error)) from error
