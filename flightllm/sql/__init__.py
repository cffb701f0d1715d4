"""Processing of SQL text before DataFusion sees it: tokens, guards, kinds of statement, AI calls.

Here are also the statements of this server only, such as GRANT and CREATE MODEL.

Imports: common, config, engines, errors, functions, learning.
"""
