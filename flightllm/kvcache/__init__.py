"""KV caches outside an engine: coded as bitstreams, kept in a store, streamed to the engines that need them.

Imports: common, config, errors, llm, log, storage.
"""
