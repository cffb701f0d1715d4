"""The parts of a model that other folders use: the `Engine` protocol, files, tokenizer, prompt formats, configured prices.

Imports: common, config, errors.
"""
