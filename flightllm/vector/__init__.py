"""Indexes over text and vector columns: nearest neighbours (faiss), words (tantivy), both fused.

Imports: common, errors, llm, storage.
"""
