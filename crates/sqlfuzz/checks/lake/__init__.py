"""Compares answers over lake tables that other writers have drawn step by step with what their own readers and DuckDB say."""
