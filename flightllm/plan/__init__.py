"""The logical plan: our nodes, the way into and out of Substrait, AI operators and the stages they cut a query into.

Imports: common, config, datafusion, errors, functions, model.
"""
