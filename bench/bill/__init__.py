"""The bills of queries at hosted models: a local server bills by each provider's published rules.

`providers` has the rules, one provider in each file. They share no code with the product, which has its own.
"""
