"""The exceptions of coscan. Each has the engine's text, which names the file, row group or setting and what to do.

They follow the DB-API (PEP 249). Catch `Error` for all of them.
"""

from __future__ import annotations


class Warning(Exception):  # noqa: A001, N818 (the DB-API has this name)
    """Never raised. The DB-API asks for it."""


class Error(Exception):
    """An error of coscan."""


class InterfaceError(Error):
    """The package was used in a wrong way, for example after a connection was closed."""


class ForkedError(InterfaceError):
    """The connection was opened before this process was forked. See "Several processes" in the README."""


class DatabaseError(Error):
    """A statement failed."""


class ProgrammingError(DatabaseError):
    """The statement is wrong: an unknown table or column, types that do not fit, a wrong parameter."""


class ParseError(ProgrammingError):
    """The text is not SQL."""


class SettingError(ProgrammingError, ValueError):
    """A setting does not exist, or cannot have this value."""


class DataError(DatabaseError):
    """Values do not fit: an overflow, a division by zero, a text that is no number."""


class OperationalError(DatabaseError):
    """Files, memory or the machine are not as the statement needs them."""


class FileError(OperationalError, OSError):
    """A file or an object cannot be listed or read."""


class CorruptFileError(FileError):
    """The bytes of a file contradict its metadata."""


class FileReplacedError(FileError):
    """A file was replaced while the statement read it. Run the statement again."""


class MemoryLimitError(OperationalError, MemoryError):
    """The statement needs more memory than the limit, or a part is larger than the buffer."""


class IntegrityError(DatabaseError):
    """Never raised, because tables have no constraints. The DB-API asks for it."""


class InternalError(DatabaseError):
    """A bug of coscan. Please report it."""


class NotSupportedError(DatabaseError):
    """coscan does not have this feature."""
