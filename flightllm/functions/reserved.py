"""Options of other engines; a literal with such a name is refused as a field, because the model would read it."""

from collections.abc import Collection
from difflib import get_close_matches

_ELSEWHERE = {
    "length": "max_length max_new_tokens max_completion_tokens max_output_tokens min_tokens min_length"
    " max_retries max_words",
    "sampling": "random_seed top_k min_p typical_p top_a epsilon_cutoff eta_cutoff tfs n best_of num_beams"
    " beam_width beam_size use_beam_search length_penalty frequency_penalty presence_penalty repetition_penalty"
    " repeat_penalty no_repeat_ngram_size mirostat mirostat_tau mirostat_eta do_sample early_stopping ignore_eos"
    " logit_bias bias logprobs top_logprobs prompt_logprobs echo greedy sampling num_return_sequences",
    "prompt": "system system_prompt system_message system_instruction developer_message instruction"
    " system_instructions task_description few_shot few_shot_examples messages chat_template chat_template_kwargs"
    " add_generation_prompt",
    "output": "output_mode stop stop_sequences stop_words stop_token_ids stop_strings eos_token bad_words guided_json"
    " guided_regex guided_choice guided_grammar structured_outputs grammar json_mode json_schema json_object"
    " return_type return_error_details confidence return_confidence calibrate multi anchors expected strict tools"
    " tool_choice function_call parallel_tool_calls response_format",
    "engine": "model_id model_name engine endpoint base_url api_key api_version provider deployment model_parameters"
    " model_params model_options options parameters params extra_body credentials connection_id request_options"
    " user_id service_tier reasoning_effort thinking thinking_budget enable_thinking verbosity"
    " safety_settings guardrails guardrail store metadata_filter num_ctx num_predict num_gpu num_thread keep_alive",
    "running": "timeout timeout_s timeout_ms request_timeout retries retry retry_count batch_size batch concurrency"
    " max_concurrency parallelism cache use_cache no_cache cache_ttl stream streaming fail_on_error failonerror"
    " ignore_errors on_failure error_handling rate_limit budget priority",
}
"""By topic, in the spellings of OpenAI, vLLM, llama.cpp, Ollama, Anthropic, Gemini, Snowflake Cortex, Databricks,
BigQuery and DuckDB's extensions.

All functions share this table; an option of ours with such a name is found first, so it works.
"""
RESERVED_NAMES = frozenset(name for names in _ELSEWHERE.values() for name in names.split())
_MEANT = {
    "max_length": "max_tokens",
    "max_new_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
    "num_predict": "max_tokens",
    "model_id": "model",
    "model_name": "model",
    "engine": "model",
    "random_seed": "seed",
    "return_confidence": "confidence",
    "system": "instructions",
    "system_prompt": "instructions",
    "system_message": "instructions",
    "system_instruction": "instructions",
    "instruction": "instructions",
    "task_description": "instructions",
    "output_mode": "multi",
    "min": "low",
    "minimum": "low",
    "min_score": "low",
    "lowest": "low",
    "max": "high",
    "maximum": "high",
    "max_score": "high",
    "highest": "high",
    "scale": "high",
    "multilabel": "multi",
    "multi_label": "multi",
    "few_shot": "examples",
    "few_shot_examples": "examples",
    "categories": "labels",
    "no_cache": "fresh",
    "skip_cache": "fresh",
    "fail_on_error": "on_error",
    "failonerror": "on_error",
    "return_error_details": "on_error",
    "ignore_errors": "on_error",
    "error_handling": "on_error",
    "on_failure": "on_error",
    "json_schema": "response_format",
    "guided_json": "response_format",
    "json_mode": "response_format",
    "return_type": "response_format",
    "reasoning_effort": "reasoning",
    "thinking": "reasoning",
    "enable_thinking": "reasoning",
    "thinking_budget": "reasoning",
}
"""The option of ours that most likely does the same."""
_CLOSE = 0.75
_COMPARED = 200


def meant_option(name: str, known: Collection[str]) -> str | None:
    """Return the known option that an unknown name most likely means; None if no option is similar."""
    folded = _folded(name)
    for option in known:
        if _folded(option) == folded:
            return option
    meant = _MEANT.get(name.lower())
    if meant in known:
        return meant
    return next(iter(get_close_matches(name[:_COMPARED].lower(), known, n=1, cutoff=_CLOSE)), None)


def is_option(name: str, known: Collection[str]) -> bool:
    """Return whether a literal's name is probably an option: a misspelt option, or an option of another engine."""
    folded = _folded(name)
    if any(_folded(reserved) == folded for reserved in RESERVED_NAMES):
        return True
    return meant_option(name, known) is not None


def _folded(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")
