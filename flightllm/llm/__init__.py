"""The parts that all engines share: the `Engine` protocol, files, tokenizer, prompt formats, configured prices.

Imports: common, config, errors.
"""
