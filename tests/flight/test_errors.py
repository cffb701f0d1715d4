"""Our errors become Flight statuses in one place, and nothing else gets out."""

import pytest
from pyarrow import flight

from flightllm import errors
from flightllm.client import Client
from flightllm.flight.errors import InvalidArgument, NotFound, Unimplemented, to_status


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.AICallError("x"), InvalidArgument),
        (errors.LimitExceededError("x"), InvalidArgument),
        (errors.NotFoundError("x"), NotFound),
        (errors.UnsupportedError("x"), Unimplemented),
        (errors.MissingExtraError("vLLM", "gpu"), Unimplemented),
        (errors.UnauthenticatedError("x"), flight.FlightUnauthenticatedError),
        (errors.PermissionDeniedError("x"), flight.FlightUnauthorizedError),
        (errors.CancelledError("x"), flight.FlightCancelledError),
        (errors.EngineUnavailableError("x"), flight.FlightUnavailableError),
        (errors.EngineError("x"), flight.FlightServerError),
    ],
)
def test_each_kind_has_its_status(error: errors.FlightLLMError, status: type[Exception]) -> None:
    """The most particular class of the tree decides."""
    text = str(error)
    assert type(to_status(error)) is status
    assert str(to_status(error)).startswith(text)


def test_every_class_of_the_tree_has_a_status() -> None:
    """A class added to the tree cannot fall through to an internal error unnoticed."""
    classes: list[type[errors.FlightLLMError]] = [errors.FlightLLMError]
    for kind in classes:
        classes.extend(one for one in kind.__subclasses__() if one.__module__ == errors.__name__)
    for kind in set(classes[1:]):
        assert "query_id" not in str(to_status(kind.__new__(kind, "the message"))), kind


def test_bad_sql_says_what_is_wrong(client: Client) -> None:
    """The message arrives once, without paths or traceback."""
    with pytest.raises(errors.InvalidInputError, match="nope") as caught:
        client.query("SELECT nope")
    assert str(caught.value).count("nope") == 1
    assert "Traceback" not in str(caught.value.__cause__)
    assert ".py" not in str(caught.value.__cause__)


def test_a_defect_shows_only_the_query_id(client: Client) -> None:
    """An unexpected exception reaches the client as an id; the log has the rest."""
    batches = client.query("SELECT 'broken' AS a")[1]
    with pytest.raises(errors.FlightLLMError, match=f"internal error, query_id={client.query_id}") as caught:
        list(batches)
    assert "secret" not in str(caught.value.__cause__)
