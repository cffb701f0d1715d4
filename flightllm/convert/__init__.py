"""Files that DataFusion does not read rightly by itself: CSV files and spreadsheets become Parquet files.

A query reads the Parquet file; the catalog makes it anew once the source has changed.

Imports: common, errors, storage.
"""
