"""Find out whether an endpoint whose model does not chat answers decisions."""

from __future__ import annotations

from typing import Any, Final

from flightllm.engines.openai.decision_answers import read_decisions
from flightllm.engines.openai.decision_questions import body_of, content_of, dialect_of, question_of
from flightllm.engines.openai.options import OpenAIOptions
from flightllm.engines.trial import QUESTION

_APIS: Final = ("decisions", "systemone")
RAW: Final = {"headers": {"X-Stainless-Raw-Response": "true"}}
"""Options of a request whose response is not parsed by the package."""


async def other_api(client: Any, model: str, options: OpenAIOptions, address: str) -> str:
    """Return the value of `api` with which the endpoint answers a short question; empty if no API answers it.

    `client` is Any, because the package has no type for paths of other providers. Each try asks one question.
    """
    for api in _APIS:
        dialect = dialect_of(api, options.known_provider.name, address)
        question = question_of(QUESTION, dialect)
        body = body_of(model, content_of(QUESTION), [question], dialect.shape)
        try:
            raw = await client.post(dialect.path, cast_to=object, body=body, options=RAW)
            [answer], _ = read_decisions(raw.http_response.content, [question])
        except Exception:  # noqa: BLE001, S112 - whatever the endpoint answers, it is no decision
            continue
        if answer.text is not None:
            return api
    return ""
