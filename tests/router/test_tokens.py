"""The tokens by which prompts are routed."""

from functools import partial

from flightllm.config import EngineConfig
from flightllm.engines import create_engine
from flightllm.llm.engine import Parameters, Request
from flightllm.router.tokens import packed_tokens, pieces
from flightllm.router.tree import TOKEN_BYTES

request = partial(Request, 0, parameters=Parameters(), function="ai_gen", instruction="", fields=())


def test_pieces_begin_alike() -> None:
    """Texts that begin alike have the same first pieces, also where they hold what no encoding takes."""
    one, other = pieces("what they share: \ud800 é 你好, this"), pieces("what they share: \ud800 é 你好, that")
    shared = len("what they share: \ud800 é 你好, ") // 4
    assert one[:shared] == other[:shared]
    assert one != other
    assert pieces("") == []


def test_the_models_own_tokens() -> None:
    """An engine that knows its tokens gives them; without them four characters are one."""
    fake = create_engine(EngineConfig("fake"))
    [packed] = packed_tokens(fake, [request(prompt="x" * 40)])
    assert len(packed) == 10 * TOKEN_BYTES
    endpoint = create_engine(EngineConfig("openai", options={"base_url": "http://127.0.0.1:9/v1"}))
    long, short = packed_tokens(endpoint, [request(prompt="x" * 40), request(prompt="x" * 20)])
    assert long.startswith(short)
    assert len(short) == 5 * TOKEN_BYTES
    fake.close()
    endpoint.close()
