"""What the scheduler's side of the connector has the worker's side do in a step."""

from dataclasses import dataclass

from flightllm.kvcache.chunks import Chunk


@dataclass(frozen=True, slots=True)
class Load:
    """Put the tokens `start` to `stop` of a request, which `chunks` hold, into its `blocks`."""

    request: str
    chunks: tuple[Chunk, ...]
    start: int
    stop: int
    blocks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Save:
    """Keep a chunk of a request, computed by the end of the step in its `blocks`."""

    request: str
    chunk: Chunk
    blocks: tuple[int, ...]
