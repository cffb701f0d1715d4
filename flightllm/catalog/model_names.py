"""Resolves the names of models and prompts in calls, and checks the rights to use them."""

from flightllm.access.rights import Rights
from flightllm.access.store import DEFAULT_MODEL
from flightllm.catalog.models import Objects, is_reference, suggestion
from flightllm.errors import AICallError, NotFoundError


class CallNames:
    """The names within one SQL text: each is looked up once, so that it means the same throughout the text.

    All rights to models and prompts are checked here, and only here. The checks run while calls are bound, before a
    text is planned, described or explained. They include the calls in views that the text reads. `DEFAULT_MODEL` is
    the server's own model, under any configured name.
    """

    def __init__(self, objects: Objects, configured: str, rights: Rights, on_error: str) -> None:
        """Take created models and prompts, the configured name of the server's model, and the user's rights.

        `on_error` is the value of this option in calls without it.
        """
        self.on_error = on_error
        self._objects = objects
        self._own = (DEFAULT_MODEL, configured)
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
        if created is not None:
            self._rights.check_usage("MODEL", created.name, created.owner)
            return created.name
        if name is not None and name not in self._own:
            self._rights.check_usage("MODEL", name)  # same message as for a model that the user cannot see
            models = self._objects.models()
            usable = [model.name for model in models if self._rights.may_use("MODEL", model.name, model.owner)]
            raise AICallError(f"there is no model {name!r}; {suggestion(name, [*self._own, *usable])}")
        self._rights.check_usage("MODEL", DEFAULT_MODEL)
        return None

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
