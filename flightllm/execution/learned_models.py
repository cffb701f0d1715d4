"""The models that a learned filter was fitted with, which must be the same when it decides."""

from flightllm.errors import InvalidInputError
from flightllm.execution.context import Services
from flightllm.learning.learned import Learned


def embedding_of(services: Services) -> str:
    """Return a text that tells the configured embedding model apart from others."""
    config = services.config.embedding
    return f"{config.kind} {config.model}"


def engine_of(model: str | None, services: Services) -> str:
    """Return a text that tells the engine behind a model's name apart from others."""
    config = services.engines.own_config if not model else services.objects.engine(model)
    return "" if config is None else f"{config.kind} {config.model}"


def check_made_with(learned: Learned, services: Services, question: str = "", layout: str = "") -> None:
    """Check that the models by which a filter was fitted are still the same.

    Check the same of the question, and of the layout of prompts, unless they are empty.

    Raises:
        InvalidInputError: another model or prompt would give other features, or the labels answer another question.
    """
    if learned.question and question and learned.question != question:
        raise InvalidInputError(
            "the filter was learned for another question, because its stored prompt has a new version since then: fit"
            " it again by ALTER FILTER … REFIT"
        )
    if learned.layout and layout and learned.layout != layout:
        raise InvalidInputError(
            f"the filter was learned with the setting flightllm.layout = '{learned.layout}', which is '{layout}' now:"
            f" write SET flightllm.layout = '{learned.layout}', or fit it again by ALTER FILTER … REFIT"
        )
    for now, then, what in (
        (embedding_of(services), learned.embedding, "embedding model"),
        (engine_of(learned.model, services), learned.engine, "model"),
    ):
        if then and now != then:
            raise InvalidInputError(
                f"the filter was learned with the {what} {then!r}, which is {now!r} now: fit it again by ALTER FILTER …"
                " REFIT"
            )
