"""The HTTP client of endpoints: where requests go, and how long they take, against real servers."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from flightllm.config import EmbeddingConfig, EngineConfig
from flightllm.engines import create_engine
from flightllm.engines.embed import create_embedder
from flightllm.errors import EngineError, FlightLLMError
from flightllm.llm.engine import Parameters, Request
from tests.endpoints import Body, Reply, answer, endpoint_of

pytest.importorskip("openai", reason="the extra 'openai' is not installed")
_SECRET, _PROMPT = "hunter2-hunter2", "a row that stays here"


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-this-test")
    monkeypatch.setenv("HEADER", _SECRET)


def _request(place: int, prompt: str) -> Request:
    return Request(place, prompt, Parameters(max_tokens=4), "test", "", ())


def _asked(url: str, **options: object) -> str:
    """Return the answer or error of one prompt."""
    own = {"base_url": url, "max_retries": 0, "headers": {"X-Team-Key": "env:HEADER"}, **options}
    engine = create_engine(EngineConfig("openai", "m", 8, own))
    try:
        [completion] = engine.generate(iter([_request(1, _PROMPT)]), lambda: False)
    except FlightLLMError as error:
        return str(error)
    else:
        return completion.text or completion.error or ""
    finally:
        engine.close()


def test_nothing_follows_a_redirect_to_another_server() -> None:
    """Neither prompts nor secrets go there, and the error names the new address."""
    statuses = [301, 302, 303, 307, 308]
    with endpoint_of(lambda path, body, _: answer(path, body)) as other:

        def away(path: str, _body: Body, number: int) -> Reply:
            return statuses[number // 3], {}, {"Location": other.url + path.removeprefix("/v1")}

        with endpoint_of(away) as endpoint:
            for _ in statuses:
                said = _asked(endpoint.url)
                embedder = create_embedder(EmbeddingConfig("openai", "m", options={"base_url": endpoint.url}))
                with pytest.raises(EngineError, match="redirects to") as caught:
                    embedder.embed([_PROMPT])
                embedder.close()
                for text in (said, str(caught.value)):
                    assert f"redirects to {other.url.removesuffix('/v1')}" in text
                    assert "base_url" in text
            assert len(endpoint.bodies) == 3 * len(statuses)  # a redirect is not tried again
        assert not other.bodies
        assert not other.got


def test_a_list_of_models_elsewhere_is_not_asked_for() -> None:
    """A redirect of the model list or of the health check gets no key either."""
    with endpoint_of(lambda path, body, _: answer(path, body)) as other:
        reply = f"HTTP/1.1 307 Moved\r\nLocation: {other.url}/models\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        with _raw([reply.encode()]) as url:
            engine = create_engine(EngineConfig("openai", "m", 8, {"base_url": url}))
            for check in (engine.probe, engine.models):  # type: ignore[attr-defined]
                with pytest.raises(EngineError, match="redirects to"):
                    check()
            engine.close()
        assert not other.got


def test_a_redirect_on_the_same_server_is_followed() -> None:
    """An endpoint that adds a slash to a path still works."""

    def slashed(path: str, body: Body, _number: int) -> Reply:
        return (307, {}, {"Location": f"{path}/"}) if not path.endswith("/") else answer(path.rstrip("/"), body)

    with endpoint_of(slashed) as endpoint:
        assert _asked(endpoint.url) == f"text {len(_PROMPT)}"


@contextmanager
def _raw(pieces: list[bytes], *, dripping: threading.Event | None = None) -> Iterator[str]:
    """Run a server that answers each request with some bytes, then with a byte at a time while `dripping` is unset."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answered(connection: socket.socket) -> None:
            with connection:
                try:
                    connection.recv(65_536)
                    for piece in pieces:
                        connection.sendall(piece)
                    while dripping is not None and not dripping.wait(0.02):
                        connection.sendall(b"x")
                except OSError:
                    return

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=answered, args=(connection,), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        finally:
            listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    "begin",
    [b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", b"HTTP/1.1 200 OK\r\nX-Slow: "],
    ids=["body", "headers"],
)
@pytest.mark.timeout(60)
def test_a_dripping_endpoint_ends_at_the_timeout(begin: bytes) -> None:
    """An endpoint that sends a byte at a time does not hold a request, or a search, beyond `timeout`."""
    over = threading.Event()
    with _raw([begin], dripping=over) as url:
        said = _asked(url, timeout=0.3, provider="vllm")
        embedder = create_embedder(
            EmbeddingConfig("openai", "m", options={"base_url": url, "timeout": 0.3, "max_retries": 0})
        )
        with pytest.raises(EngineError):
            embedder.embed([_PROMPT])
        embedder.close()
        over.set()
    assert "did not answer within 0.3 s" in said


def test_choices_with_one_index_are_no_answers_of_other_rows() -> None:
    """An endpoint that numbers every choice 0, in any order, gives each row its own answer, by single prompts."""

    def unnumbered(path: str, body: Body, _number: int) -> Reply:
        status, reply, headers = answer(path, body)
        for choice in reply["choices"]:
            choice["index"] = 0
        return status, reply, headers

    with endpoint_of(unnumbered) as endpoint:
        options = {"base_url": endpoint.url, "prompts_per_request": 4}
        engine = create_engine(EngineConfig("openai", "m", 8, options))
        requests = [_request(place, "x" * (place + 1)) for place in range(8)]
        found = {one.id: one.text for one in engine.generate(iter(requests), lambda: False)}
        engine.close()
    assert found == {place: f"text {place + 1}" for place in range(8)}
