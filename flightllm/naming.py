"""What the names of models and prompts in calls mean, and who may use them."""

from collections.abc import Callable
from typing import Literal

from flightllm.errors import AICallError, NotFoundError
from flightllm.objects import Objects, is_reference, suggestion

ObjectKind = Literal["model", "prompt"]


def check_use(kind: ObjectKind, name: str) -> None:
    """Check that whoever asks may use a model or a prompt, by its name without a version; any may until grants say so.

    The one place where this is asked: once for each model and prompt that an SQL text's calls use, those in views it
    reads too, while they are bound and so before anything is planned, described or explained. The server's own model
    is asked about as well, by the name it has in the configuration.

    Raises:
        PermissionDeniedError: they may not.
    """
    del kind, name


class CallNames:
    """The meaning of names within one SQL text: each is looked up once, so that it means the same all through it."""

    def __init__(self, objects: Objects, own: str, check: Callable[[ObjectKind, str], None] = check_use) -> None:
        self._objects = objects
        self._own = own
        """The server's own model."""
        self._check = check
        self._models: dict[str | None, str | None] = {}
        self._prompts: dict[str, str] = {}

    def model(self, name: str | None) -> str | None:
        """Return the model that a call names, None where that is the server's own.

        Raises:
            AICallError: there is no such model.
            PermissionDeniedError: it is not for whoever asks.
        """
        if name not in self._models:
            created = None if name is None else self._objects.model(name)
            if name is not None and created is None and name != self._own:
                known = [self._own, *(model.name for model in self._objects.models())]
                raise AICallError(f"there is no model {name!r}; {suggestion(name, known)}")
            self._check("model", name or self._own)
            self._models[name] = None if created is None else name
        return self._models[name]

    def prompt(self, reference: str) -> str | None:
        """Return the text of the prompt that `name` or `name@version` means, None where the text is no name.

        Raises:
            AICallError: there is no such prompt.
            PermissionDeniedError: it is not for whoever asks.
        """
        if not is_reference(reference):
            return None
        if reference not in self._prompts:
            try:
                prompt = self._objects.prompt(reference)
            except NotFoundError as error:
                stop = "" if str(error).endswith("?") else "."
                raise AICallError(
                    f"{error}{stop} After prompt => one word is a prompt's name: a text goes first, without prompt =>"
                ) from error
            self._check("prompt", prompt.name)
            self._prompts[reference] = prompt.text
        return self._prompts[reference]
