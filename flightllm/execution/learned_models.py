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


def check_made_with(learned: Learned, services: Services) -> None:
    """Check that the models by which a filter was fitted are still the same.

    Raises:
        InvalidInputError: another model would give other features.
    """
    for now, then, what in (
        (embedding_of(services), learned.embedding, "embedding model"),
        (engine_of(learned.model, services), learned.engine, "model"),
    ):
        if then and now != then:
            raise InvalidInputError(
                f"the filter was learned with the {what} {then!r}, which is {now!r} now: fit it again by ALTER FILTER …"
                " REFIT"
            )
