"""Statements on a cluster of `coscan worker` processes: answers, failures of workers, and who may send plans."""
