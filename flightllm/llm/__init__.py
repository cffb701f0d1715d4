"""The parts that all engines share: the `Engine` protocol, model files, tokenizers, prompt formats and configured prices.

Imports: common, config, errors.
"""
