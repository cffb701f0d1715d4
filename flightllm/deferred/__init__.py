"""Statements whose prompts go to a provider's batch endpoint: kept on disk, asked in rounds, and run to their end.

`store` keeps them, `collector` lists the prompts of a round, `jobs` sends them, `deferral` drives all of it.

Imports: common, config, datafusion, engines, errors, execution, functions, llm, observe, operators.
"""
