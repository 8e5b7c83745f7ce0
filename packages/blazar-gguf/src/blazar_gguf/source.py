"""Where bytes come from: a buffer in memory, a file, or (in :mod:`blazar_gguf.remote`) a URL.

A source is asked for ranges and remembers nothing, so a parsed header can outlive the open file: lazy values open
it again, and notice when it is no longer the same file.
"""

import os
import stat
from pathlib import Path
from typing import Final, Protocol

from blazar_gguf.errors import GgufChanged, GgufFileUnreadable

# A pipe that took the file's place must not block the open; Windows must not translate line ends.
_OPEN_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


class Source(Protocol):
    """Random access to the bytes of one GGUF file."""

    @property
    def size(self) -> int:
        """Length in bytes of the whole file."""
        ...

    @property
    def name(self) -> str:
        """Path or URL for messages; empty for a buffer."""
        ...

    def read_at(self, offset: int, length: int) -> bytes:
        """Return ``length`` bytes from ``offset``; fewer only where the file ends."""
        ...

    def read_ahead(self, offset: int, least: int, most: int) -> bytes:
        """Return from ``least`` to ``most`` bytes from ``offset``, as many as come cheaply."""
        ...

    def first_block(self) -> int:
        """Bytes worth reading in the first go; later blocks may be larger."""
        ...


class BufferSource:
    """A file that is in memory already. The buffer is kept, not copied."""

    def __init__(self, buffer: bytes | bytearray | memoryview) -> None:
        self._view = memoryview(buffer).cast("B")

    @property
    def size(self) -> int:
        """Length of the buffer in bytes."""
        return len(self._view)

    @property
    def name(self) -> str:
        """Nothing: a buffer has no name."""
        return ""

    def read_at(self, offset: int, length: int) -> bytes:
        """Copy a range out of the buffer."""
        return bytes(self._view[offset : offset + length])

    def read_ahead(self, offset: int, least: int, most: int) -> bytes:  # noqa: ARG002 (a copy costs the same)
        """Copy the longer range."""
        return self.read_at(offset, most)

    def first_block(self) -> int:
        """A header without a large vocabulary fits."""
        return 1 << 16


class FileSource:
    """A regular file on disk, opened anew for each range.

    Mapping the file into memory would be simpler, but a mapped file that somebody truncates kills the reading
    process with SIGBUS; a daemon that reads files while they are downloaded cannot afford that.

    Raises:
        GgufFileUnreadable: the path is absent, is no regular file (a directory, a pipe that would block for ever),
            or may not be read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        try:
            found = self._path.stat()
        except (OSError, ValueError) as error:
            raise self._unreadable(error) from error
        if not stat.S_ISREG(found.st_mode):
            raise GgufFileUnreadable(f"this is {_kind(found.st_mode)}. Give the path of one .gguf file", path=str(path))
        self._identity = self._identity_of(found)
        self._size = found.st_size

    @staticmethod
    def _identity_of(found: os.stat_result) -> tuple[int, int, int, int]:
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns

    def _unreadable(self, error: OSError | ValueError) -> GgufFileUnreadable:
        why = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        return GgufFileUnreadable(
            f"cannot read this file: {why}. Check the path and its permissions", path=str(self._path)
        )

    @property
    def size(self) -> int:
        """Length in bytes when the source was made."""
        return self._size

    @property
    def name(self) -> str:
        """The path as given."""
        return str(self._path)

    def read_at(self, offset: int, length: int) -> bytes:
        """Read a range.

        Raises:
            GgufChanged: the file was replaced or written to since the source was made.
            GgufFileUnreadable: it cannot be opened or read any more.
        """
        try:
            descriptor = os.open(self._path, _OPEN_FLAGS)
            try:
                if self._identity_of(os.fstat(descriptor)) != self._identity:
                    raise GgufChanged(
                        "the file changed after its header was read. Read its metadata again", path=self.name
                    )
                return _read_range(descriptor, offset, min(length, max(0, self._size - offset)))
            finally:
                os.close(descriptor)
        except OSError as error:
            raise self._unreadable(error) from error

    def read_ahead(self, offset: int, least: int, most: int) -> bytes:  # noqa: ARG002 (one read costs the same)
        """Read the longer range."""
        return self.read_at(offset, most)

    def first_block(self) -> int:
        """A header without a large vocabulary fits."""
        return 1 << 16


def _read_range(descriptor: int, offset: int, length: int) -> bytes:
    os.lseek(descriptor, offset, os.SEEK_SET)
    parts = []
    while length > 0:
        part = os.read(descriptor, length)
        if not part:
            break
        parts.append(part)
        length -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _kind(mode: int) -> str:
    """Return what a path is that is no regular file."""
    if stat.S_ISDIR(mode):
        return "a directory"
    special = ((stat.S_ISFIFO, "pipe"), (stat.S_ISSOCK, "socket"))
    name = next((name for is_one, name in special if is_one(mode)), "device")
    return f"a {name}, no regular file"
