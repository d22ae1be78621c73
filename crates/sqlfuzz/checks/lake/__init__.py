"""Compares answers over Delta tables that another writer has drawn step by step with what its own reader and DuckDB say."""
