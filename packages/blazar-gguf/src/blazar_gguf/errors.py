"""What can be wrong with a GGUF file, as a tree of exceptions.

::

    GgufError(Exception)             code "gguf-error"
    ├── GgufFileUnreadable           the path is missing, a directory, a pipe, or may not be read
    ├── NotGguf                      the first four bytes are not the magic
    ├── UnsupportedVersion           a version number this format never had
    ├── GgufTruncated                the file ends inside the header
    ├── GgufMalformed                the header contradicts itself
    │   └── GgufTooLarge             a count or length that the file could never hold
    ├── GgufChanged                  the file was replaced between reading the header and a later read
    ├── ShardMissing                 a part of a split set is not there
    ├── ShardMismatch                a part is there and belongs to another set
    ├── GgufWriteError               what was asked cannot be written as GGUF
    └── RemoteError                  a URL could not be read (see :mod:`blazar_gguf.remote`)

Each class has a stable kebab-case ``code``; ``str(error)`` says what happened, why, and what to do next.
"""

from typing import ClassVar


class GgufError(Exception):
    """Base of every error this package raises about a file's content.

    Attributes:
        code: stable kebab-case name of the situation.
        path: file or URL the error is about, where known; it is filled in by the function that knows it.
        offset: byte position in the file where the reader stopped, where known.
    """

    code: ClassVar[str] = "gguf-error"

    def __init__(self, text: str, *, path: str | None = None, offset: int | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.path = path
        self.offset = offset

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path else ""
        at = f" (at byte {self.offset:,})" if self.offset is not None else ""
        return f"{where}{self.text}{at}"


class GgufFileUnreadable(GgufError):
    """The path cannot be opened as a regular file."""

    code = "gguf-file-unreadable"


class NotGguf(GgufError):
    """The file does not start with the GGUF magic."""

    code = "not-gguf"


class UnsupportedVersion(GgufError):
    """The version field holds a number that is no known version, in either byte order."""

    code = "gguf-version-unsupported"

    def __init__(self, text: str, *, version: int, path: str | None = None, offset: int | None = None) -> None:
        super().__init__(text, path=path, offset=offset)
        self.version = version


class GgufTruncated(GgufError):
    """The bytes end before the header does."""

    code = "gguf-truncated"


class GgufMalformed(GgufError):
    """The header is self-contradictory: bad types, duplicate names, impossible shapes."""

    code = "gguf-malformed"


class GgufTooLarge(GgufMalformed):
    """A declared count or length exceeds what the remaining bytes could hold."""

    code = "gguf-too-large"


class GgufChanged(GgufError):
    """The file behind a lazy value is not the file whose header was read."""

    code = "gguf-changed"


class ShardMissing(GgufError):
    """A part of a split set is absent."""

    code = "gguf-shard-missing"


class ShardMismatch(GgufError):
    """A part of a split set contradicts the others."""

    code = "gguf-shard-mismatch"


class GgufWriteError(GgufError):
    """The value, key or tensor cannot be represented in a GGUF file."""

    code = "gguf-write-error"


class RemoteError(GgufError):
    """A remote file could not be read."""

    code = "gguf-remote-error"
