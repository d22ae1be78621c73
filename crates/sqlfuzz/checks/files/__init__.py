"""Compares answers over Parquet files of other writers, and over files with rewritten footers, with those of other readers."""
