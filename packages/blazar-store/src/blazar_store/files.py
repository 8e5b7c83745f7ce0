"""Files written whole or not at all, and the operating system's refusals as typed errors."""

import contextlib
import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from blazar_store.errors import DiskFull, NotWritable, StorageFailed, StoreError

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NO_RIGHT = {errno.EACCES, errno.EPERM, errno.EROFS}


def from_os_error(error: OSError, path: Path) -> StoreError:
    """Return the store's word for what the operating system said about ``path``."""
    if error.errno in _NO_ROOM:
        return DiskFull(path=path)
    reason = os.strerror(error.errno) if error.errno is not None else str(error)
    if error.errno in _NO_RIGHT:
        return NotWritable(path=path, reason=reason)
    return StorageFailed(path=path, reason=reason)


@contextlib.contextmanager
def typed_os_errors(path: Path) -> Iterator[None]:
    """Turn an ``OSError`` of the block into the :class:`StoreError` that tells what to do.

    Raises:
        DiskFull: No room.
        NotWritable: No permission, or a read-only file system.
        StorageFailed: Anything else.
    """
    try:
        yield
    except OSError as error:
        raise from_os_error(error, path) from error


def make_directory(path: Path, *, mode: int = 0o777) -> None:
    """Create ``path`` and what is missing above it; an existing directory is left as it is.

    Args:
        path: The directory.
        mode: Permissions of the last directory if it is created (the umask applies).
    """
    with typed_os_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=mode, exist_ok=True)


def read_plain_file(path: Path) -> bytes:
    """Return the content of a regular file, without ever waiting for one: a pipe has no end that must come.

    The null device counts as an empty file.

    Raises:
        OSError: It cannot be read, or is a directory, a pipe, a socket or another device.
    """
    # Not blocking, so that a pipe without a writer opens at once and can be told from a file.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        found = os.fstat(handle)
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(found.st_mode):
            if os.path.samestat(found, Path(os.devnull).stat()):
                return b""
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        with os.fdopen(handle, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(handle)


def write_whole(path: Path, content: bytes, *, mode: int | None = None) -> None:
    """Replace ``path`` by ``content`` so that a reader, or a crash at any moment, meets the old or the new file.

    The bytes go to a temporary file in the same directory, reach the disk, and are renamed into place; then the
    directory reaches the disk. On any failure the old file stands and the temporary one is gone.

    Args:
        path: The file; its directory exists.
        content: All of it.
        mode: Permissions; those of the existing file when ``None``, or 0600 if there is none.
    """
    with typed_os_errors(path):
        if mode is None:
            mode = _mode_of(path)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
        temporary = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                temporary.chmod(mode)
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync_directory(path.parent)


def _mode_of(path: Path) -> int:
    try:
        return path.stat().st_mode & 0o777
    except FileNotFoundError:
        return 0o600


def sync_directory(path: Path) -> None:
    """Make renames in the directory ``path`` survive a power cut, where the system has a way to say so."""
    if os.name == "nt":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
