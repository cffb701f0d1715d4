"""Run a plan's stages: DataFusion for the relational ones, AI operators between them.

Here are also the answer cache, prompts in flight, budgets, and the reading of answers.

Imports: access, common, config, datafusion, engines, errors, functions, learning, llm, observe, plan, prompt_order,
quality.
"""
