"""`python -m coscan` is the command `coscan`."""

from .command import main

main()
