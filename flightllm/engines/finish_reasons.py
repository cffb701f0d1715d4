"""Finish reasons: map the words of many endpoints to a few meanings.

The words are those of OpenAI, Azure, vLLM, SGLang, TGI, Ollama, llama.cpp, Mistral, Gemini, Anthropic, Cohere, Bedrock,
DeepSeek and Zhipu, in upper or lower case.
"""

from __future__ import annotations

STOP, LENGTH, FILTERED, BROKEN = "stop", "length", "content_filter", "error"
"""The model ended its answer; the answer reached a token limit; a filter removed the answer; the endpoint failed."""

_WORDS = {
    STOP: "stop eos eos_token end_turn end_of_turn stop_sequence stop_token stop_string complete completed done",
    LENGTH: "length limit max_tokens max_length max_new_tokens max_output_tokens max_completion_tokens model_length"
    " error_limit token_limit context_length context_length_exceeded model_context_window_exceeded incomplete",
    FILTERED: "content_filter content_filtered content_filter_error filtered blocked safety image_safety recitation"
    " blocklist prohibited_content spii language error_toxic toxicity refusal refused guardrail_intervened guardrail"
    " sensitive model_armor",
    BROKEN: "error abort aborted cancelled canceled timeout network_error insufficient_system_resource unload"
    " malformed_function_call unexpected_tool_call user_cancel other",
}
_MEANING = {word: meaning for meaning, words in _WORDS.items() for word in words.split()}


def read_finish(given: object) -> tuple[str, str]:
    """Return the meaning of a finish reason, and the endpoint's own word.

    The meaning is `stop`, `length`, `content_filter`, `error`, or an unknown word itself. Some endpoints send an object
    with a `type`. A reason that is missing or not a text counts as `stop`.
    """
    if isinstance(given, dict):
        given = given.get("type")
    if not isinstance(given, str) or not given:
        return STOP, STOP
    word = given.lower().removeprefix("finish_reason_").replace("-", "_")
    return _MEANING.get(word, given), given
