"""Run a plan's stages: DataFusion for the relational ones, AI operators between them.

Imports: access, common, config, datafusion, engines, errors, functions, llm, observe, plan, prompt_order.
"""
