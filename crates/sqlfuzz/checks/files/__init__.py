"""Answers over Parquet files of other writers, and over files whose footers are rewritten, against other readers'."""
