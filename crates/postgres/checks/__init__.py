"""Tests, measurements and the demonstration of the PostgreSQL extension. Standard library and psql only."""
