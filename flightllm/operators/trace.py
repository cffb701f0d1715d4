"""Log prompts and answers at debug level, and at no other level."""

import logging
from typing import Any

import structlog

from flightllm.llm.engine import Completion, Request


class Trace:
    """One log event per prompt sent and answer received; falsy if no events are logged.

    `prompt_id` pairs an answer with its prompt within one call of the engine.
    """

    def __init__(self) -> None:
        log: Any = structlog.get_logger(__name__).bind()
        wanted = structlog.is_configured() and log.is_enabled_for(logging.DEBUG)  # without configuration it prints all
        self._log = log if wanted else None

    def __bool__(self) -> bool:
        """Return whether events are logged."""
        return self._log is not None

    def sent(self, request: Request) -> None:
        """Log a prompt."""
        if self._log is not None:
            self._log.debug("prompt sent", prompt_id=request.id, function=request.function, prompt=request.prompt)

    def received(self, completion: Completion) -> None:
        """Log an answer."""
        if self._log is not None:
            tokens = {"prompt_tokens": completion.prompt_tokens, "completion_tokens": completion.completion_tokens}
            answer = {"answer": completion.text, "error": completion.error}
            self._log.debug("answer received", prompt_id=completion.id, **answer, **tokens)
