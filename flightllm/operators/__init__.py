"""Run a plan's stages: DataFusion for the relational ones, AI operators between them.

Imports: access, common, config, datafusion, errors, functions, llm, model, observe, plan, prompt_order.
"""
