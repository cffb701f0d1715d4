"""Route prompts to several engines: prompts that share a prefix go to one engine, as long as it is not overloaded.

Imports: config, engines, errors, flightllm, llm.
"""
