"""Route prompts to several engines, so that those that share a prefix meet on one of them without overloading it.

Imports: config, errors, flightllm, llm, model.
"""
