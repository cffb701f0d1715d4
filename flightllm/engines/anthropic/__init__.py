"""The `anthropic` engine: Claude through the Messages API, with its own breakpoints for cached prompts."""
