"""Devices of which the truth is known, measured by `coscan device probe`, and queries with and without the profile."""
