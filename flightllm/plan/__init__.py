"""The logical plan: nodes, translation from and to Substrait, AI operators, and the stages between them.

Imports: access, common, config, datafusion, errors, functions, llm.
"""
