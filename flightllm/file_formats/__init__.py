"""Converts files that DataFusion cannot read correctly, CSV files and spreadsheets, to Parquet files.

A query reads the Parquet file; the catalog converts a changed source again.

Imports: common, errors.
"""
