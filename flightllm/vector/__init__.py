"""Indexes over text and vector columns: nearest neighbors (faiss), words (tantivy), or both fused.

Imports: common, engines, errors, storage.
"""
