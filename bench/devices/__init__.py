"""Devices with known properties, measured by `coscan device probe`, and queries with and without the profile."""
