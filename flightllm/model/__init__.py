"""A language model as the rest sees it: the `Engine` protocol, its files, tokenizer, prompt formats and prices.

Imports: common, config, errors.
"""
