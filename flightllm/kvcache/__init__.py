"""KV caches outside an engine: coded as bitstreams, kept in a store, streamed to whichever engine needs them.

Imports: common, config, errors, log, model, storage.
"""
