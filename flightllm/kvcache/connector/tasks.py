"""The tasks of a step, which the scheduler's side of the connector sends to the worker's side."""

from dataclasses import dataclass

from flightllm.kvcache.chunks import Chunk


@dataclass(frozen=True, slots=True)
class LoadTask:
    """Load the tokens `start` to `stop` of a request from `chunks` into its `blocks`."""

    request: str
    chunks: tuple[Chunk, ...]
    start: int
    stop: int
    blocks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Save:
    """Save a chunk of a request; its `blocks` are computed at the end of the step."""

    request: str
    chunk: Chunk
    blocks: tuple[int, ...]
