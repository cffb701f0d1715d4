"""Processing of SQL text before DataFusion sees it: tokens, guards, kinds of statement, AI calls.

Imports: common, config, engines, errors, functions.
"""
